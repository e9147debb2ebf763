"""What accesses cost where rows begin anywhere, so that threads go by elements, side by side.

f16, rows of 4095:  a warp reads 64 bytes of a row at a time, of one line or of two (1.48 on average)
a block of 16 columns:  it reads two rows, 32 bytes of each
"""

from __future__ import annotations

import math
from collections.abc import Container

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.symbolic import symbol_name
from tiledsl.passes.analysis.folds import fold_of
from tiledsl.passes.gpu.layouts.infer_layouts import access_order
from tiledsl.passes.nest.loop_nest import Access

ACCESS_INSTRUCTIONS = 20
"""Of a thread, for each access of at most 16 bytes: where it lies, whether it is there, and the access."""
REPEATED_INSTRUCTIONS = 6
"""The same in a loop of a load that gives neighbours one element. Counted in machine code: 4.3."""
ELEMENT_INSTRUCTIONS = 14
"""Of a thread, for each access: where it lies, whether it is there, and the access. Measured with rows of odd lengths,
10 to 16."""
COLUMN_INSTRUCTIONS = 6
"""The same of loads that are folded across rows: a thread has one column of each, so that a row takes an address, the
load, and its place in a word. Counted: 5.5."""
WIDE = 8
"""Bytes from which on an element is an access like any other."""
WARP = 32
LINE_BYTES = 128


def straddled(run: int, element: int) -> float:
    """How many times as many lines a run of so many bytes touches that begins anywhere as one that begins with a
    line."""
    return (1 + (run - element) / LINE_BYTES) / math.ceil(run / LINE_BYTES) if run > element else 1.0


def touched_lines(run: int, element: int) -> float:
    """The lines that a warp touches for each byte that it accesses, in runs of so many bytes that begin anywhere."""
    span = max(element, min(WARP * element, run))  # an axis may have no elements
    return (1 + (span - element) / LINE_BYTES) / span


def lines_of_table(table: float) -> float:
    """The lines that a warp touches for each element that it looks up, anywhere in a table of so many bytes: of few
    lines several threads have the same.

    >>> lines_of_table(64)
    0.03125
    """
    lines = max(1, math.ceil(table / LINE_BYTES))
    return lines * (1 - (1 - 1 / lines) ** WARP) / WARP


def access_instructions(access: Access, width: float, blocks: Container[str]) -> float:
    """Of a thread, for each access of `width` bytes. `blocks`: extents of which a tile has a part."""
    if access.repeats > 1:
        return REPEATED_INSTRUCTIONS if access.loops else ACCESS_INSTRUCTIONS
    if not access.shape or not width <= access.tensor.dtype.bytes < WIDE:
        return ACCESS_INSTRUCTIONS
    return COLUMN_INSTRUCTIONS if goes_down(access, blocks) else ELEMENT_INSTRUCTIONS


def goes_down(access: Access, blocks: Container[str]) -> bool:
    """Whether a load has a block of each row and is folded across rows, so that a thread stays in its column."""
    op = access.op
    if not isinstance(op, ops.Load) or not access.shape:
        return False
    fast = access_order(op)[-1]
    fold = fold_of(op.result)
    return (symbol_name(access.shape[fast]) or "") in blocks and fold is not None and fast not in fold.axes
