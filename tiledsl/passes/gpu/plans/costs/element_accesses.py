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

WARP = 32
LINE_BYTES = 128


def straddled(run: int, element: int) -> float:
    """How many times as many lines a run of so many bytes touches that begins anywhere as one that begins with a
    line."""
    return (1 + (run - element) / LINE_BYTES) / math.ceil(run / LINE_BYTES) if run > element else 1.0


def touched_lines(run: int, element: int) -> float:
    """The lines that a warp touches for each byte that it accesses, in runs of so many bytes that begin anywhere."""
    span = min(WARP * element, run)
    return (1 + (span - element) / LINE_BYTES) / span


def goes_down(access: Access, blocks: Container[str]) -> bool:
    """Whether a load has a block of each row (`blocks`: the extents of these) and is folded across rows, so that a
    thread stays in its column."""
    op = access.op
    if not isinstance(op, ops.Load) or not access.shape:
        return False
    fast = access_order(op)[-1]
    fold = fold_of(op.result)
    return (symbol_name(access.shape[fast]) or "") in blocks and fold is not None and fast not in fold.axes
