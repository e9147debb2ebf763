"""Turns of a loop in which nothing is masked: whole blocks, for which every comparison of coordinates holds.

    for j in tile.range(K):
        s = tile.where(j.index[None, :] <= i.index[:, None] + c, s, other)

With blocks of 128 keys, the comparison is true of all of block number t where 128 t + 127 <= i.start + c: of the first
(i.start + c - 127) // 128 + 1 turns. There `where` gives its second operand, and is left out. A comparison that holds
from some turn on, or never, is made in every turn.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import bool_, i32
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.ir.types import AxisType, TileType
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
                case ops.Map(fn="add" | "sub"):
                    left, right = op.inputs
                    work += [(right, many if op.fn == "add" else -many), (left, many)]
                case _:
                    return False
        return not work


@dataclass(frozen=True)
class Mask:
    """`where` of a comparison that holds in the first turns of a loop: there `difference` <= 0 (`strict`: < 0)."""

    where: ops.Map
    difference: Difference
    strict: bool
    axis: int
    """Of the tile, along which the block of the loop runs."""

    @property
    def other(self) -> float | None:
        """What stands where the comparison does not hold, if that is one number."""
        number = number_of(self.where.inputs[2])
        return None if number is None else float(number)


def masks_of(loop: ops.Range) -> tuple[Mask, ...]:
    """The comparisons of a loop that hold in its first turns, if at all: those of a coordinate that grows, `<=`."""
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
    compared = where.inputs[0].op
    while isinstance(compared, _MOVES):
        compared = compared.source.op
    if not isinstance(compared, ops.Map) or compared.fn not in _SWAPPED or where.inputs[1].shape != where.result.shape:
        return None
    left, right = compared.inputs
    fn = compared.fn
    if fn in ("ge", "gt"):
        left, right, fn = right, left, _SWAPPED[fn]
    difference = Difference()
    if not difference.add(left, 1) or not difference.add(right, -1):
        return None
    if difference.coordinates.get(axis, 0) != 1 or not all(
        isinstance(a.type, AxisType) for a in difference.coordinates
    ):
        return None
    assert isinstance(axis.type, AxisType)
    along = [number for number, dim in enumerate(where.result.shape) if dim == axis.type.extent]
    return Mask(where, difference, fn == "lt", along[0]) if len(along) == 1 else None


MOST_APART = 1 << 24
"""Farther apart than coordinates within blocks can be."""


def masked(state: Lowering, mask: Mask, layout: RegisterLayout) -> Value | None:
    """What `where` gives in a turn that is not clean, where coordinates are compared within their blocks, as i32; None
    if it is not plain along which axis of the tile each block runs."""
    where, difference = mask.where, mask.difference
    shape = where.result.shape
    apart = state.constant(0)
    sides: dict[bool, Value | None] = {True: None, False: None}
    for axis, times in difference.coordinates.items():
        assert isinstance(axis.type, AxisType)
        grows = times > 0
        if shape.count(axis.type.extent) != 1 or abs(times) != 1 or sides[grows] is not None:
            return None
        apart = state.arithmetic("add" if grows else "sub", apart, state.block(axis).start)
        sides[grows] = _within(state, layout, shape.index(axis.type.extent))
    for value, times in difference.scalars:
        scalar = state.coordinate(value)
        apart = state.arithmetic("add", apart, state.arithmetic("mul", scalar, times))
    # grown + apart <= fallen  =>  grown <= fallen - apart
    room = state.arithmetic("sub", state.constant(-1 if mask.strict else 0), apart)
    room = state.builder.map("minimum", room, state.constant(MOST_APART))
    room = state.builder.map("maximum", room, state.constant(-MOST_APART))
    limit = state.builder.cast(room, i32)
    grown, fallen = sides[True], sides[False]
    if grown is None:
        return None
    if fallen is not None:
        limit = state.emit(ops.Map, types=[fallen.tile], fn="add", inputs=(fallen, limit)).result
    last = _last_within(state, mask)
    if last is not None:  # what is beyond the end of the block is left out too
        limit = state.emit(ops.Map, types=[limit.tile], fn="minimum", inputs=(limit, last)).result
    if limit.shape:
        limit = state.filled(limit, layout)
    flags = TileType(bool_, layout.shape, "register", layout)
    holds = state.emit(ops.Map, types=[flags], fn="le", inputs=(state.filled(grown, layout), limit)).result
    either = [state.tile(v, layout) if v.shape else state.scalar(v) for v in where.inputs[1:]]
    type_ = state.type_in(where.result, layout)
    return state.emit(ops.Map, types=[type_], name=where.result.name, fn="where", inputs=(holds, *either)).result


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
