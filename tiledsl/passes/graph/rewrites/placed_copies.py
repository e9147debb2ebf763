"""Tile programs that copy tensors to places in a new one.

func @concat(%x0: tensor<f32, [3, 8]>, %x1: tensor<f32, [5, 8]>) {
  %out = tile.empty() {shape = [8, 8], dtype = f32}
  ...grid over a, b of %x0: tile.store(%out, [%a, %b], tile.load(%x0, [%a, %b]))
  ...grid over a, b of %x1: tile.store(%out, [shift(%a, 3), %b], tile.load(%x1, [%a, %b]))
  tile.return([%out])
}
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Function, Index, Value
from tiledsl.ir.dtypes import DType, i64
from tiledsl.ir.graph_ops import Pad
from tiledsl.ir.strided_views import numbers
from tiledsl.ir.symbolic import symbol
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.types import AxisType, BlockSize, TensorType, scalar
from tiledsl.passes.graph.analysis.shapes import sizes_of
from tiledsl.passes.graph.analysis.views import View
from tiledsl.support.location import Location

ENOUGH = 1024
"""Elements of a program: axes go by blocks until it may have as many."""
MOST_BLOCKED = 3


@dataclass(frozen=True)
class Place:
    """A source of that shape, the axis of it whose elements lie side by side, where its first element goes, and how
    far apart those along each axis (side by side if nothing is said)."""

    shape: tuple[int, ...]
    unit: int | None
    start: tuple[int, ...]
    steps: tuple[int, ...] = ()
    pad: Pad | None = None
    """What pads the source as it is written: `start` is then where the padding begins."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of what is written."""
        return self.shape if self.pad is None else sizes_of(self.pad.result)

    def padded(self, pad: Pad | None) -> Place:
        return replace(self, pad=pad)

    @staticmethod
    def of(
        view: View | None, shape: tuple[int, ...], start: tuple[int, ...], steps: tuple[int, ...] = ()
    ) -> Place:  # fmt: skip
        """The place of a source that is a view of memory."""
        assert view is not None, "a copy of what is not in memory"
        return Place(shape, view.place.unit, start, steps)


def placed_copies(
    name: str, dtype: DType, places: Sequence[Place], shape: tuple[int, ...], fill: float | None, location: Location,
    most_blocked: int = MOST_BLOCKED,
) -> Function:  # fmt: skip
    """A function of a tensor for each place that gives a tensor of `shape`, `fill` where no source goes. At most
    `most_blocked` axes go by blocks."""
    body = Block()
    builder = Builder(body, location)
    sources = [body.add_argument(TensorType(dtype, p.shape, p.unit), f"x{i}") for i, p in enumerate(places)]
    value = None if fill is None else builder.constant(fill, dtype)
    out = builder.emit(ops.Empty, fill=value, shape=shape, dtype=dtype, result_names=["out"]).result
    for number, (source, place) in enumerate(zip(sources, places)):
        _copy(builder, source, place, out, number, most_blocked)
    builder.emit(ops.Return, values=[out])
    return Function(name, body, (), location)


def is_copy(function: Function) -> bool:
    """Whether all that a tile program does is to copy its only tensor to a new one, as it is."""
    body = [op for op in function.body.ops if not isinstance(op, ops.Constant)]
    kinds = [type(op) for op in body]
    if kinds != [ops.Empty, ops.Grid, ops.Return] or len(function.parameters) != 1:
        return False
    grid = body[1]
    assert isinstance(grid, ops.Grid)
    done = [op for op in grid.body.ops if not isinstance(op, ops.Constant)]
    if [type(op) for op in done] != [ops.Load, ops.Store]:
        return False
    load, store = done
    assert isinstance(load, ops.Load)
    assert isinstance(store, ops.Store)
    return (
        load.tensor is function.parameters[0]
        and store.value is load.result
        and all(a is b or _zeros(a, b) for a, b in zip(load.indices, store.indices))
    )


def _zeros(a: Index, b: Index) -> bool:
    constants = [value.op for value in (a, b) if isinstance(value, Value)]
    return len(constants) == 2 and all(isinstance(op, ops.Constant) and op.value == 0 for op in constants)


def _copy(builder: Builder, source: Value, place: Place, out: Value, number: int, most_blocked: int) -> None:
    axes = [axis for axis, size in enumerate(place.sizes) if size != 1] or [0]
    blocked = blocked_axes(place.sizes, place.unit, axes, most_blocked)
    stops = [builder.constant(place.sizes[axis], i64) for axis in axes]
    inner = Block()
    blocks: dict[int, Value] = {}
    for axis in axes:
        name = f"n{number}_{axis}"
        type_ = AxisType(symbol(name)) if axis in blocked else scalar(i64)
        blocks[axis] = inner.add_argument(type_, name)
    with builder.inside(inner):
        zero = builder.constant(0, i64)
        read: list[Index] = [blocks.get(axis, zero) for axis in range(len(place.shape))]
        for axis, low in enumerate(numbers(place.pad.low) if place.pad is not None else ()):
            if low:
                read[axis] = moved(builder, blocks[axis], -low, axis in blocked)
        steps = place.steps or (1,) * len(place.shape)
        write = [
            _written(builder, blocks.get(axis), start, step, axis in blocked)
            for axis, (start, step) in enumerate(zip(place.start, steps))
        ]
        fill = None if place.pad is None else builder.constant(place.pad.value, tensor_type(source).dtype)
        tile = builder.emit(ops.Load, tensor=source, indices=read, other=fill).result
        builder.emit(ops.Store, tensor=out, indices=write, value=tile)
    sizes = tuple(BlockSize.auto() if axis in blocked else BlockSize.fixed(1) for axis in axes)
    builder.emit(ops.Grid, stops=stops, blocks=sizes, body=inner)


def blocked_axes(shape: Sequence[int], unit: int | None, axes: list[int], most: int) -> set[int]:
    """The axes that go by blocks: the last one, and the one whose elements lie side by side in the source; else those
    before it, until a program may have enough elements."""
    found = axes[-1:] if unit in (None, axes[-1]) or unit not in axes else [axes[-1], unit]
    for axis in reversed(axes):
        if len(found) > 1 and (len(found) >= most or math.prod(shape[a] for a in found) >= ENOUGH):
            break
        if axis not in found:
            found.append(axis)
    return set(found)


def _written(builder: Builder, block: Value | None, start: int, step: int, by_blocks: bool) -> Index:
    """Where along an axis the elements go that are read at a block of coordinates, or at one."""
    if block is not None and step != 1:
        offset = builder.constant(start, i64)
        places = builder.emit(ops.Coordinates, axis=block).result if by_blocks else block
        return builder.map("add", builder.map("mul", places, builder.constant(step, i64)), offset)
    return moved(builder, block, start, by_blocks)


def moved(builder: Builder, block: Value | None, start: int, by_blocks: bool) -> Index:
    """A block of coordinates, or one, so many elements further; without one, that place."""
    offset = builder.constant(start, i64)
    if block is None:
        return offset
    if start == 0:
        return block
    return builder.emit(ops.Shift, axis=block, offset=offset).result if by_blocks else builder.map("add", block, offset)
