"""Masks of a loop whose blocks have coordinates, compared as numbers of 32 bits within the blocks.

    for j in tile.range(K):
        s = tile.where(j.index[None, :] <= i.index[:, None] + c, s, other)

With blocks of 128 keys, the comparison is true of all of block number t where 128 t + 127 <= i.start + c: of the first
(i.start + c - 127) // 128 + 1 turns. `transforms/peel_masks.py` leaves it out there. Others hold from some turn on (the
far end of a window); a window has both: `(away >= 0) & (away < w)`, or `abs(away) < w`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.dtypes import bool_, i32, i64
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.ir.types import AxisType, Shape, TileType
from tiledsl.passes.analysis.splats import number_of
from tiledsl.passes.gpu.lower.lowering import Lowering
from tiledsl.passes.gpu.lower.place_blocks import Turns
from tiledsl.passes.gpu.lower.scalar_lowering import BlockPlace

_SWAPPED = {"le": "ge", "lt": "gt", "ge": "le", "gt": "lt"}
_MOVES = (ops.Broadcast, ops.Reshape, ops.Transpose)
_MOST_TERMS = 64
"""Steps by which a difference is taken apart: a sum of a value and itself, again and again, has any number."""


@dataclass
class Difference:
    """Left side less right side of a comparison: coordinates of blocks and scalars, each so many times."""

    coordinates: dict[Value, int] = field(default_factory=dict[Value, int])
    scalars: list[tuple[Value, int]] = field(default_factory=list[tuple[Value, int]])

    def add(self, value: Value, times: int) -> bool:
        """Whether `times * value` is such a sum, of at most `_MOST_TERMS` terms."""
        work = [(value, times)]
        for _ in range(_MOST_TERMS):
            if not work:
                return True
            here, many = work.pop()
            op = here.op
            if not here.shape:
                if not here.dtype.is_integer:
                    return False
                self.scalars.append((here, many))
                continue
            match op:
                case ops.Coordinates():
                    self.coordinates[op.axis] = self.coordinates.get(op.axis, 0) + many
                case ops.Broadcast() | ops.Reshape() | ops.Transpose():
                    work.append((op.source, many))
                case ops.Cast() if op.dtype in (i32, i64) and op.source.dtype in (i32, i64):
                    # coordinates of axes that are multiplied are below 2**31
                    work.append((op.source, many))
                case ops.Map(fn="add" | "sub"):
                    left, right = op.inputs
                    work += [(right, many if op.fn == "add" else -many), (left, many)]
                case _:
                    return False
        return not work


@dataclass(frozen=True)
class Comparison:
    """Holds where `difference` <= 0 (`strict`: < 0)."""

    difference: Difference
    strict: bool
    grows: bool
    """Whether the coordinate of the loop is on the left: it holds in the first turns, if at all; else from some on."""


@dataclass(frozen=True)
class Mask:
    """`where` all of the comparisons hold."""

    where: ops.Map
    comparisons: tuple[Comparison, ...]
    axis: int
    """Of the tile, along which the block of the loop runs."""

    @property
    def other(self) -> float | None:
        """What stands where a comparison does not hold, if that is one number."""
        number = number_of(self.where.inputs[2])
        return None if number is None else float(number)


def masks_of(loop: ops.Range) -> tuple[Mask, ...]:
    """What a loop masks by comparing a coordinate of its own with others, and with scalars."""
    axis = loop.body.arguments[0]
    found: list[Mask] = []
    for op in loop.body.ops:
        if not isinstance(op, ops.Map) or op.fn != "where" or not op.result.shape or not op.inputs[0].shape:
            continue
        mask = _mask(op, axis)
        if mask is not None:
            found.append(mask)
    return tuple(found)


def _mask(where: ops.Map, axis: Value) -> Mask | None:
    if where.inputs[1].shape != where.result.shape:
        return None
    comparisons = _comparisons(where.inputs[0], axis)
    if comparisons is None:
        return None
    assert isinstance(axis.type, AxisType)
    along = [number for number, dim in enumerate(where.result.shape) if dim == axis.type.extent]
    return Mask(where, tuple(comparisons), along[0]) if len(along) == 1 else None


def _comparisons(condition: Value, axis: Value) -> list[Comparison] | None:
    """Those that a condition is true of all of; None if it is made otherwise."""
    op = _made_by(condition)
    if not isinstance(op, ops.Map):
        return None
    if op.fn == "and":
        first, second = (_comparisons(value, axis) for value in op.inputs)
        return None if first is None or second is None else first + second
    if op.fn not in _SWAPPED:
        return None
    left, right = op.inputs
    fn = op.fn
    if fn in ("ge", "gt"):
        left, right, fn = right, left, _SWAPPED[fn]
    apart = _made_by(left)
    is_abs = isinstance(apart, ops.Map) and apart.fn == "abs"  # |x| < w: x < w and -x < w
    sides = [(apart.operands[0], 1), (apart.operands[0], -1)] if apart is not None and is_abs else [(left, 1)]
    found = [_comparison(side, times, right, fn == "lt", axis) for side, times in sides]
    return None if None in found else [one for one in found if one is not None]


def _made_by(value: Value) -> Op | None:
    op = value.op
    while isinstance(op, _MOVES):
        op = op.source.op
    return op


def _comparison(left: Value, times: int, right: Value, strict: bool, axis: Value) -> Comparison | None:
    difference = Difference()
    if not difference.add(left, times) or not difference.add(right, -1):
        return None
    own = difference.coordinates.get(axis, 0)
    if abs(own) != 1 or not all(isinstance(a.type, AxisType) for a in difference.coordinates):
        return None
    return Comparison(difference, strict, own > 0)


MOST_APART = 1 << 24
"""Farther apart than coordinates within blocks can be."""


def masked(state: Lowering, mask: Mask, layout: RegisterLayout) -> Value | None:
    """What `where` gives in a turn that is not clean, where coordinates are compared within their blocks, as i32; None
    if it is not plain along which axis of the tile each block runs."""
    where = mask.where
    last = _last_within(state, mask)  # what is beyond the end of the block is left out too
    holds: list[Value] = []
    for comparison in mask.comparisons:
        made = _compared(state, comparison, where.result.shape, layout, last)
        if made is None:
            return None
        holds.append(made)
        last = None if comparison.grows else last
    if last is not None:
        holds.append(_at_most(state, _within(state, layout, mask.axis), last, layout))
    flags = holds[0].tile
    both = holds[0]
    for one in holds[1:]:
        both = state.emit(ops.Map, types=[flags], fn="and", inputs=(both, one)).result
    either = [state.tile(v, layout) if v.shape else state.scalar(v) for v in where.inputs[1:]]
    type_ = state.type_in(where.result, layout)
    return state.emit(ops.Map, types=[type_], name=where.result.name, fn="where", inputs=(both, *either)).result


def _compared(
    state: Lowering, comparison: Comparison, shape: Shape, layout: RegisterLayout, last: Value | None
) -> Value | None:
    """Where a comparison holds. `last`: the last coordinate of the loop's block, beyond which one of its own that grows
    does not."""
    apart = state.constant(1 if comparison.strict else 0)
    sides: dict[bool, Value | None] = {True: None, False: None}
    for axis, times in comparison.difference.coordinates.items():
        assert isinstance(axis.type, AxisType)
        grows = times > 0
        if shape.count(axis.type.extent) != 1 or abs(times) != 1 or sides[grows] is not None:
            return None
        apart = state.arithmetic("add" if grows else "sub", apart, state.block(axis).start)
        sides[grows] = _within(state, layout, shape.index(axis.type.extent))
    for value, times in comparison.difference.scalars:
        scalar = state.coordinate(value)
        apart = state.arithmetic("add", apart, state.arithmetic("mul", scalar, times))
    grown, fallen = sides[True], sides[False]
    if not comparison.grows:  # grown + apart <= fallen: threads have fewer rows than columns
        assert fallen is not None
        return _at_most(state, _moved(state, grown, _clamped(state, apart)), fallen, layout)
    # grown + apart <= fallen  =>  grown <= fallen - apart
    assert grown is not None
    limit = _moved(state, fallen, _clamped(state, state.arithmetic("sub", state.constant(0), apart)))
    if last is not None:
        limit = state.emit(ops.Map, types=[limit.tile], fn="minimum", inputs=(limit, last)).result
    return _at_most(state, grown, limit, layout)


def _clamped(state: Lowering, distance: Value) -> Value:
    """A distance between blocks as i32."""
    room = state.builder.map("minimum", distance, state.constant(MOST_APART))
    room = state.builder.map("maximum", room, state.constant(-MOST_APART))
    return state.builder.cast(room, i32)


def _moved(state: Lowering, side: Value | None, distance: Value) -> Value:
    if side is None:
        return distance
    return state.emit(ops.Map, types=[side.tile], fn="add", inputs=(side, distance)).result


def _at_most(state: Lowering, left: Value, right: Value, layout: RegisterLayout) -> Value:
    flags = TileType(bool_, layout.shape, "register", layout)
    sides = [state.filled(side, layout) if side.shape else side for side in (left, right)]
    return state.emit(ops.Map, types=[flags], fn="le", inputs=tuple(sides)).result


def _last_within(state: Lowering, mask: Mask) -> Value | None:
    """The last coordinate within the block of the loop, as i32; None if there is no padding behind it, or nothing known
    that could be put there."""
    ((_, extent),) = state.ragged(mask.where.result.shape, [mask.axis]) or [(0, None)]
    if extent is None or mask.other is None:
        return None
    return state.builder.cast(state.arithmetic("sub", extent, 1), i32)


def _within(state: Lowering, layout: RegisterLayout, axis: int) -> Value:
    """0, 1, ... along an axis of a tile, as i32, with the others of size 1."""
    others = [other for other in range(layout.rank) if other != axis]
    counted = state.emit(gpu.Arange, layout=layout.reduced(others)).result
    type_ = TileType(i32, counted.shape, "register", counted.layout)
    narrow = state.emit(ops.Cast, types=[type_], source=counted, dtype=i32).result
    return state.reshaped(narrow, layout.reduced(others, True))


def always_whole(state: Lowering, loop: ops.Range, turns: Turns) -> bool:
    """Whether every turn is known to have as many coordinates as there is room for."""
    return state.divides(turns.size, loop.start) and state.divides(turns.size, loop.stop)


def whole_place(state: Lowering, turns: Turns, number: Value) -> BlockPlace | Value:
    """Where the block of a turn is that has as many coordinates as there is room for, as clean turns do."""
    place = turns.place(state, turns.start_of(state, number))
    if isinstance(place, Value) or place.extent is None:
        return place
    return BlockPlace(place.start, state.constant(turns.size), place.multiple, place.multiple)
