"""Axes of a grid whose last blocks may begin earlier, so that they are as long as all others.

    1184 rows in blocks of 128        blocks from 0, 128, ... 1024 and 1056, where 1152 would have 32 rows

A row of a box that lies outside of the tensor takes TMA about as long as three rows that it brings from L2, and all
turns of the loop wait for it. A block that begins earlier has none, and makes some elements that its neighbour makes
too: from the same operands in the same order, so they are the same to the last bit.

That is so where what a grid stores at a place depends on nothing but the place: blocks of the axis stand in subscripts
alone, each store has one of them, nothing is folded along the axis, and no tensor is read that is written.
"""

from __future__ import annotations

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.types import AxisType
from tiledsl.passes.analysis.effects import tensors_written
from tiledsl.passes.gpu.layouts.infer_layouts import reshapes_units

_BY_PLACE = (
    ops.Constant, ops.Size, ops.Map, ops.Cast, ops.Broadcast, ops.Transpose, ops.Load, ops.Store, ops.Dot, ops.Range,
    ops.Yield,
)  # fmt: skip
"""What gives the same at a place whichever block it is of."""


def whole_ends(grid: ops.Grid) -> tuple[bool, ...]:
    """For each axis of a grid, whether its last block may begin earlier, and loops load along it."""
    inside = list(grid.body.walk())
    written = tensors_written([grid])
    if not written or not all(map(_is_by_place, inside)):
        return tuple(False for _ in grid.body.arguments)
    if any(isinstance(op, ops.Load) and op.tensor in written for op in inside):
        return tuple(False for _ in grid.body.arguments)
    stores = [op for op in inside if isinstance(op, ops.Store)]
    return tuple(_may_move(axis, stores, inside) for axis in grid.body.arguments)


def _may_move(axis: Value, stores: list[ops.Store], inside: list[Op]) -> bool:
    if not isinstance(axis.type, AxisType) or isinstance(axis.type.extent, int):
        return False
    if not all(isinstance(user, (ops.Load, ops.Store)) for user in axis.users):
        return False
    if not all(any(index is axis for index in store.indices) for store in stores):
        return False
    dots = [op for op in inside if isinstance(op, ops.Dot)]
    if any(axis.type.extent in (dot.a.shape[-1], dot.b.shape[-2]) for dot in dots):
        return False
    return any(
        isinstance(user, ops.Load) and user.parent is not None and isinstance(user.parent.parent, ops.Range)
        for user in axis.users
    )


def _is_by_place(op: Op) -> bool:
    return isinstance(op, _BY_PLACE) or (isinstance(op, ops.Reshape) and reshapes_units(op))
