"""Tile programs that copy tensors to places in a new one.

func @concat(%x0: tensor<f32, [3, 8]>, %x1: tensor<f32, [5, 8]>) {
  %out = tile.empty() {shape = [8, 8], dtype = f32}
  ...grid over a, b of %x0: tile.store(%out, [%a, %b], tile.load(%x0, [%a, %b]))
  ...grid over a, b of %x1: tile.store(%out, [shift(%a, 3), %b], tile.load(%x1, [%a, %b]))
  tile.return([%out])
}
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Function, Index, Value
from tiledsl.ir.dtypes import DType, i64
from tiledsl.ir.symbolic import symbol
from tiledsl.ir.types import AxisType, BlockSize, TensorType, scalar
from tiledsl.passes.graph.analysis.views import View
from tiledsl.support.location import Location


@dataclass(frozen=True)
class Place:
    """A source of that shape, the axis of it whose elements lie side by side, and where its first element goes."""

    shape: tuple[int, ...]
    unit: int | None
    start: tuple[int, ...]

    @staticmethod
    def of(view: View | None, shape: tuple[int, ...], start: tuple[int, ...]) -> Place:
        """The place of a source that is a view of memory."""
        assert view is not None, "a copy of what is not in memory"
        return Place(shape, view.place.unit, start)


def placed_copies(
    name: str, dtype: DType, places: Sequence[Place], shape: tuple[int, ...], fill: float | None, location: Location
) -> Function:
    """A function of a tensor for each place that gives a tensor of `shape`, `fill` where no source goes."""
    body = Block()
    builder = Builder(body, location)
    sources = [body.add_argument(TensorType(dtype, p.shape, p.unit), f"x{i}") for i, p in enumerate(places)]
    value = None if fill is None else builder.constant(fill, dtype)
    out = builder.emit(ops.Empty, fill=value, shape=shape, dtype=dtype, result_names=["out"]).result
    for number, (source, place) in enumerate(zip(sources, places)):
        _copy(builder, source, place, out, number)
    builder.emit(ops.Return, values=[out])
    return Function(name, body, (), location)


def _copy(builder: Builder, source: Value, place: Place, out: Value, number: int) -> None:
    axes = [axis for axis, size in enumerate(place.shape) if size != 1] or [0]
    blocked = axes[-2:]
    stops = [builder.constant(place.shape[axis], i64) for axis in axes]
    inner = Block()
    blocks: dict[int, Value] = {}
    for axis in axes:
        name = f"n{number}_{axis}"
        type_ = AxisType(symbol(name)) if axis in blocked else scalar(i64)
        blocks[axis] = inner.add_argument(type_, name)
    with builder.inside(inner):
        zero = builder.constant(0, i64)
        read: list[Index] = [blocks.get(axis, zero) for axis in range(len(place.shape))]
        write: list[Index] = []
        for axis, start in enumerate(place.start):
            block = blocks.get(axis)
            offset = builder.constant(start, i64)
            if block is None:
                write.append(offset)
            elif start == 0:
                write.append(block)
            elif axis in blocked:
                write.append(builder.emit(ops.Shift, axis=block, offset=offset).result)
            else:
                write.append(builder.map("add", block, offset))
        tile = builder.emit(ops.Load, tensor=source, indices=read).result
        builder.emit(ops.Store, tensor=out, indices=write, value=tile)
    sizes = tuple(BlockSize.auto() if axis in blocked else BlockSize.fixed(1) for axis in axes)
    builder.emit(ops.Grid, stops=stops, blocks=sizes, body=inner)
