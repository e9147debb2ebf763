"""Tile programs that copy a tensor with its axes in another order.

func @turned(%x: tensor<bf16, [384, 384, 128], unit=2>) {                  order = [2, 0, 1]
  %out = tile.empty() {shape = [128, 384, 384], dtype = bf16}
  tile.grid([128, 384, 384]) {blocks = [auto, 1, auto]} body(%n2, %n0, %n1) {
    %tile = tile.load(%x, [%n0, %n1, %n2])
    tile.store(%out, [%n2, %n0, %n1], tile.transpose(%tile))
  }
  tile.return([%out])
}
"""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Function, Index
from tiledsl.ir.dtypes import DType, i64
from tiledsl.ir.symbolic import symbol
from tiledsl.ir.types import AxisType, BlockSize, TensorType, scalar
from tiledsl.passes.graph.rewrites.placed_copies import MOST_BLOCKED, blocked_axes
from tiledsl.support.location import Location


def turned_copy(
    name: str, dtype: DType, shape: Sequence[int], unit: int | None, order: Sequence[int], location: Location
) -> Function:  # fmt: skip
    """A function of a tensor of `shape`, whose elements lie side by side along the axis `unit`, that gives the same
    with axis `order[i]` as axis i, row by row."""
    body = Block()
    builder = Builder(body, location)
    source = body.add_argument(TensorType(dtype, tuple(shape), unit), "x")
    made = tuple(shape[axis] for axis in order)
    out = builder.emit(ops.Empty, shape=made, dtype=dtype, result_names=["out"]).result
    axes = [axis for axis in order if shape[axis] != 1] or [order[-1]]
    # rows of what is written, and of what is read
    places, near = [order.index(axis) for axis in axes], None if unit is None else order.index(unit)
    blocked = {order[place] for place in blocked_axes(made, near, places, MOST_BLOCKED)}
    inner = Block()
    at: dict[int, Index] = {}
    for axis in axes:
        at[axis] = inner.add_argument(AxisType(symbol(f"n{axis}")) if axis in blocked else scalar(i64), f"n{axis}")
    with builder.inside(inner):
        zero = builder.constant(0, i64)
        read = [at.get(axis, zero) for axis in range(len(shape))]
        tile = builder.emit(ops.Load, tensor=source, indices=read).result
        mine = [axis for axis in range(len(shape)) if axis in blocked]
        turned = tuple(mine.index(axis) for axis in order if axis in blocked)
        if list(turned) != sorted(turned):
            tile = builder.emit(ops.Transpose, source=tile, permutation=turned).result
        builder.emit(ops.Store, tensor=out, indices=[at.get(axis, zero) for axis in order], value=tile)
    sizes = tuple(BlockSize.auto() if axis in blocked else BlockSize.fixed(1) for axis in axes)
    builder.emit(ops.Grid, stops=[builder.constant(shape[axis], i64) for axis in axes], blocks=sizes, body=inner)
    builder.emit(ops.Return, values=[out])
    return Function(name, body, (), location)
