"""Tile programs that copy: for a view that has to be memory of its own.

func @copy(%x: tensor<f32, [A, B], unit=0>) {
  %y = tile.empty() {shape = [A, B], dtype = f32}
  ...grid over a, b: tile.store(%y, [%a, %b], tile.load(%x, [%a, %b]))
  tile.return([%y])
}
"""

from __future__ import annotations

from functools import cache

from tiledsl.ir import tile_ops
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Function, Value
from tiledsl.ir.dtypes import DType
from tiledsl.ir.strided_views import StridedView
from tiledsl.ir.symbolic import symbol
from tiledsl.ir.types import AxisType, BlockSize, TensorType
from tiledsl.support.location import BUILTIN


def copy_function(source: StridedView, dtype: DType) -> Function:
    """A function that gives a row-major copy of views like this one, which has an axis at least."""
    unit = next((axis for axis in reversed(range(len(source.shape))) if source.strides[axis] == 1), None)
    return _copy_function(dtype, len(source.shape), unit)


@cache
def _copy_function(dtype: DType, rank: int, unit: int | None) -> Function:
    body = Block()
    shape = tuple(symbol(f"N{axis}") for axis in range(rank))
    source = body.add_argument(TensorType(dtype, shape, unit), "x")
    builder = Builder(body, BUILTIN)
    made = builder.emit(tile_ops.Empty, shape=shape, dtype=dtype, result_names=["y"]).result
    sizes = [builder.size(size) for size in shape]
    inner = Block()
    axes: list[Value] = [inner.add_argument(AxisType(symbol(f"n{axis}")), f"n{axis}") for axis in range(rank)]
    with builder.inside(inner):
        tile = builder.emit(tile_ops.Load, tensor=source, indices=axes).result
        builder.emit(tile_ops.Store, tensor=made, indices=axes, value=tile)
    builder.emit(tile_ops.Grid, stops=sizes, blocks=tuple(BlockSize.auto() for _ in shape), body=inner)
    builder.emit(tile_ops.Return, values=[made])
    return Function(f"copy_{dtype}", body, (), BUILTIN)
