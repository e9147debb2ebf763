"""Algebra of shapes, folds, subscripts and blocks: what only moves or repeats elements."""

from __future__ import annotations

from tiledsl.ir.core import Op, Value
from tiledsl.ir.dtypes import i64
from tiledsl.ir.rewrite import Rewriter, Rules
from tiledsl.ir.tile_ops import (
    Broadcast,
    Constant,
    Coordinates,
    Extent,
    Extract,
    Load,
    Reduce,
    Reshape,
    Shift,
    Size,
    Start,
    Transpose,
)
from tiledsl.ir.types import AxisType, Shape, Slice, Whole
from tiledsl.passes.analysis.sizes import constant_of, is_scalar
from tiledsl.passes.tile.map_rules import number_of

SHAPE_RULES = Rules()
"""For ops that move elements, folds over one element, blocks and sizes."""


def _become(op: Op, rewriter: Rewriter, value: Value) -> bool:
    """Replaces the op's only result; declines where that would take a tile out of the level that it was given."""
    new = value.op in rewriter.emitted
    if not new and not is_scalar(value) and op.results[0].tile.level not in (None, "register", value.tile.level):
        return False
    rewriter.replace(op, value)
    return True


# Shapes


@SHAPE_RULES.on(Broadcast, Reshape)
def same_shape(op: Broadcast | Reshape, rewriter: Rewriter) -> bool:
    # reshape(x: [m, n], [m, n]) => x
    return op.source.shape == op.result.shape and _become(op, rewriter, op.source)


@SHAPE_RULES.on(Broadcast)
def broadcast_of_broadcast(op: Broadcast, rewriter: Rewriter) -> bool:
    # broadcast(broadcast(x, [m, 1]), [m, n]) => broadcast(x, [m, n])
    inner = op.source.op
    return isinstance(inner, Broadcast) and _become(op, rewriter, rewriter.broadcast(inner.source, op.shape))


@SHAPE_RULES.on(Broadcast)
def broadcast_of_new_leading_axes(op: Broadcast, rewriter: Rewriter) -> bool:
    # broadcast(reshape(x: [n], [1, n]), [m, n]) => broadcast(x, [m, n])
    inner = op.source.op
    if not isinstance(inner, Reshape) or _without_leading_ones(inner.shape) != _without_leading_ones(
        inner.source.shape
    ):
        return False
    if len(inner.source.shape) > len(op.shape):
        return False
    return _become(op, rewriter, rewriter.broadcast(inner.source, op.shape))


def _without_leading_ones(shape: Shape) -> Shape:
    while shape and shape[0] == 1:
        shape = shape[1:]
    return shape


@SHAPE_RULES.on(Reshape)
def reshape_of_reshape(op: Reshape, rewriter: Rewriter) -> bool:
    # reshape(reshape(x, [a]), [b]) => reshape(x, [b])
    inner = op.source.op
    if not isinstance(inner, Reshape):
        return False
    return _become(op, rewriter, rewriter.emit(Reshape, source=inner.source, shape=op.shape).result)


@SHAPE_RULES.on(Reshape, Transpose)
def of_a_broadcast_scalar(op: Reshape | Transpose, rewriter: Rewriter) -> bool:
    # transpose(broadcast(s, [m, n])) => broadcast(s, [n, m])
    inner = op.source.op
    if not isinstance(inner, Broadcast) or not is_scalar(inner.source):
        return False
    return _become(op, rewriter, rewriter.broadcast(inner.source, op.result.shape))


@SHAPE_RULES.on(Transpose)
def transpose_in_place(op: Transpose, rewriter: Rewriter) -> bool:
    # transpose(x, [0, 1]) => x
    return op.permutation == tuple(range(len(op.permutation))) and _become(op, rewriter, op.source)


@SHAPE_RULES.on(Transpose)
def transpose_of_transpose(op: Transpose, rewriter: Rewriter) -> bool:
    # transpose(transpose(x, p), q) => transpose(x, p[q])
    inner = op.source.op
    if not isinstance(inner, Transpose):
        return False
    permutation = tuple(inner.permutation[axis] for axis in op.permutation)
    return _become(op, rewriter, rewriter.emit(Transpose, source=inner.source, permutation=permutation).result)


@SHAPE_RULES.on(Extract)
def extract_all(op: Extract, rewriter: Rewriter) -> bool:
    # x[:, 0:n] => x, for x of shape [m, n]
    whole = all(
        isinstance(index, Whole) or (isinstance(index, Slice) and index.start == 0 and index.stop == size)
        for index, size in zip(op.indices, op.source.shape)
    )
    return whole and _become(op, rewriter, op.source)


@SHAPE_RULES.on(Reduce)
def fold_of_one(op: Reduce, rewriter: Rewriter) -> bool:
    # sum(x: [m, 1], axis=1) => reshape(x, [m])
    if op.fn in ("argmax", "argmin", "custom") or any(op.sources[0].shape[axis] != 1 for axis in op.axes):
        return False
    source = op.sources[0]
    return _become(op, rewriter, rewriter.emit(Reshape, source=source, shape=op.results[0].shape).result)


# Blocks and sizes


@SHAPE_RULES.on(Size)
def known_size(op: Size, rewriter: Rewriter) -> bool:
    # size(64) => 64
    return isinstance(op.value, int) and _become(op, rewriter, rewriter.constant(op.value, i64))


@SHAPE_RULES.on(Extent)
def known_extent(op: Extent, rewriter: Rewriter) -> bool:
    # extent(%m: axis<64>) => 64
    extent = op.axis.type.extent if isinstance(op.axis.type, AxisType) else None
    return isinstance(extent, int) and _become(op, rewriter, rewriter.constant(extent, i64))


@SHAPE_RULES.on(Extent)
def extent_of_shifted(op: Extent, rewriter: Rewriter) -> bool:
    # extent(shift(a, x)) => extent(a)
    shift = op.axis.op
    return isinstance(shift, Shift) and _become(op, rewriter, rewriter.emit(Extent, axis=shift.axis).result)


@SHAPE_RULES.on(Start)
def start_of_shifted(op: Start, rewriter: Rewriter) -> bool:
    # start(shift(a, x)) => start(a) + x
    shift = op.axis.op
    if not isinstance(shift, Shift):
        return False
    start = rewriter.emit(Start, axis=shift.axis).result
    return _become(op, rewriter, rewriter.map("add", start, rewriter.cast(shift.offset, i64)))


@SHAPE_RULES.on(Shift)
def shift_by_nothing(op: Shift, rewriter: Rewriter) -> bool:
    # shift(a, 0) => a
    if constant_of(op.offset) != 0:
        return False
    rewriter.replace(op, op.axis)
    return True


@SHAPE_RULES.on(Shift)
def shift_of_shift(op: Shift, rewriter: Rewriter) -> bool:
    # shift(shift(a, x), y) => shift(a, x + y)
    inner = op.axis.op
    if not isinstance(inner, Shift):
        return False
    offset = rewriter.map("add", rewriter.cast(inner.offset, i64), rewriter.cast(op.offset, i64))
    rewriter.replace(op, rewriter.emit(Shift, axis=inner.axis, offset=offset).result)
    return True


@SHAPE_RULES.on(Coordinates)
def coordinates_of_shifted(op: Coordinates, rewriter: Rewriter) -> bool:
    # index(shift(a, x)) => index(a) + x
    shift = op.axis.op
    if not isinstance(shift, Shift):
        return False
    coordinates = rewriter.emit(Coordinates, axis=shift.axis).result
    return _become(op, rewriter, rewriter.map("add", coordinates, rewriter.cast(shift.offset, i64)))


@SHAPE_RULES.on(Load)
def zero_outside(op: Load, rewriter: Rewriter) -> bool:
    # load(x, other=0) => load(x)
    number = number_of(op.other) if op.other is not None and isinstance(op.other.op, Constant) else None
    if number is None or number != 0 or str(number).startswith("-"):
        return False
    op.set_field("other", None)
    return True
