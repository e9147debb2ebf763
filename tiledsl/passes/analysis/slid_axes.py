"""Axes along which windows slide: blocks that a tensor is loaded at with several offsets, in turns or one by one.

    for r in range(3): for s in range(3):
        x[n, p + r - 1, q + s - 1, c]            p and q
    a[i - 1, j] + a[i + 1, j]                    i

A thread that has neighbours along these needs most elements of such loads several times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.types import AxisType, TileType


def slid_axes(every: Iterable[Op]) -> frozenset[str]:
    """The extents of these axes, as text; `every` are all ops of a grid's body, nested ones too."""
    offsets: dict[tuple[Value, int, str], set[Value | None]] = {}
    found: set[str] = set()
    for op in every:
        if not isinstance(op, ops.Load) or not op.result.shape:
            continue
        for number, index in enumerate(op.indices):
            if not isinstance(index, Value) or (place := _place(index)) is None:
                continue
            extent, offset = place
            seen = offsets.setdefault((op.tensor, number, extent), set())
            seen.add(offset)
            if len(seen) > 1 or (offset is not None and _moves(offset)):
                found.add(extent)
    return frozenset(found)


def _place(index: Value) -> tuple[str, Value | None] | None:
    """The extent of the block along which a subscript runs, and what tells where: its offset, or the coordinates."""
    if isinstance(index.type, AxisType):
        return str(index.type.extent), index.op.offset if isinstance(index.op, ops.Shift) else None
    blocks = {str(value.type.extent) for value in _blocks(index) if isinstance(value.type, AxisType)}
    return (blocks.pop(), index) if len(blocks) == 1 else None


def _blocks(index: Value) -> Iterator[Value]:
    """The blocks of whose coordinates others are computed; nothing where they depend on what is loaded."""
    found: list[Value] = []
    for value in _sources(index):
        if isinstance(value.op, ops.Coordinates):
            found.append(value.op.axis)
        elif isinstance(value.op, ops.Load):
            return
    yield from found


def _moves(offset: Value) -> bool:
    """Whether an offset is another one in each turn of a loop that goes one by one."""
    for value in _sources(offset):
        loop = value.op_around
        if isinstance(loop, ops.Range) and value is loop.body.arguments[0]:
            return True
    return False


def _sources(value: Value) -> Iterator[Value]:
    """A scalar or a tile, and what it is computed of."""
    seen, work = {value}, [value]
    while work:
        here = work.pop()
        yield here
        for operand in () if here.op is None else here.op.operands:
            if operand not in seen and isinstance(operand.type, (TileType, AxisType)):
                seen.add(operand)
                work.append(operand)
