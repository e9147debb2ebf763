"""Distances between coordinates of blocks as floats, which scores are combined with: `(i.index - j.index).to(f32)`.

    i.start - j.start, once for each turn; + number of the row; - number of the column

As integers of 64 bits they would be converted one by one, by the unit that makes exponentials. Sums of floats are exact
up to 2**24; beyond that they may be a unit in the last place away from the integer rounded once.
"""

from __future__ import annotations

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.dtypes import f32, i32
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.ir.types import AxisType, TileType
from tiledsl.passes.gpu.lower.lowering import Lowering
from tiledsl.passes.gpu.roles.block_masks import Difference


def distance(state: Lowering, op: Op, scores: Value) -> Value | None:
    """What a conversion to f32 gives that is such a distance, in the layout of scores of that shape; None for other
    ops."""
    if not isinstance(op, ops.Cast) or op.dtype != f32 or op.result.shape != scores.shape:
        return None
    difference, shape = Difference(), op.result.shape
    if not op.source.dtype.is_integer or op.source.dtype.bits < 32 or not difference.add(op.source, 1):
        return None
    axes: dict[int, tuple[Value, int]] = {}
    for axis, times in difference.coordinates.items():
        if not isinstance(axis.type, AxisType) or shape.count(axis.type.extent) != 1 or abs(times) != 1:
            return None
        axes[shape.index(axis.type.extent)] = axis, times
    if sorted(axes) != [0, 1]:
        return None
    layout = state.layout(scores)
    with state.builder.at(op.location):
        apart = state.constant(0)
        for axis, times in axes.values():
            apart = state.arithmetic("add" if times > 0 else "sub", apart, state.block(axis).start)
        for value, times in difference.scalars:
            apart = state.arithmetic("add", apart, state.arithmetic("mul", state.coordinate(value), times))
        total = state.builder.cast(apart, f32)
        sides = [(_within(state, layout, axis), times) for axis, (_, times) in axes.items()]
        for side, times in sorted(sides, key=lambda one: one[0].layout.slots):
            type_ = TileType(f32, layout.shape, "register", layout) if total.shape else side.tile
            inputs = tuple(state.filled(one, layout) for one in (total, side)) if total.shape else (total, side)
            fn = "add" if times > 0 else "sub"
            total = state.emit(ops.Map, types=[type_], name=op.result.name, fn=fn, inputs=inputs).result
    return total


def _within(state: Lowering, layout: RegisterLayout, axis: int) -> Value:
    """0, 1, ... along an axis of a tile, as f32, with the others of size 1."""
    others = [other for other in range(layout.rank) if other != axis]
    counted = state.emit(gpu.Arange, layout=layout.reduced(others)).result
    for dtype in (i32, f32):
        type_ = TileType(dtype, counted.shape, "register", counted.layout)
        counted = state.emit(ops.Cast, types=[type_], source=counted, dtype=dtype).result
    return state.reshaped(counted, layout.reduced(others, True))
