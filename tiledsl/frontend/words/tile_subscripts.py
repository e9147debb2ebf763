"""Subscripts of tiles and tuples: new axes, slices, scalar coordinates."""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.frontend.words.access import coordinate, expand_subscripts, slice_index
from tiledsl.frontend.words.elementwise import apply, choose
from tiledsl.frontend.words.lowering import Lowering
from tiledsl.frontend.words.operands import as_tile, operand_like, reshape
from tiledsl.frontend.words.values import (
    AxisBlock,
    FrontValue,
    Operand,
    SliceText,
    Static,
    Subscript,
    Tile,
    Tuple,
    dim_value,
    static_integer,
)
from tiledsl.ir.core import Index, Value
from tiledsl.ir.dtypes import i64
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.symbolic_order import known_at_most, known_inside
from tiledsl.ir.tile_ops import Assert, Extract
from tiledsl.ir.types import Slice, Whole
from tiledsl.support.errors import fail


def subscript_tile(low: Lowering, operand: Operand, subscripts: Sequence[Subscript]) -> Tile:
    """A part of a tile, with new axes where `None` stands. A coordinate outside of its axis gives 0."""
    source = as_tile(low, operand)
    entries = expand_subscripts(subscripts, len(source.value.shape), operand.text, low.location)
    indices: list[Index] = []
    kept: list[bool | None] = []  # for each entry: a new axis (None), an axis that stays, one that a scalar drops
    inside: Operand | None = None
    for entry in entries:
        if entry is None:
            kept.append(None)
            continue
        index, condition = _index(low, operand, source.value.shape[len(indices)], entry)
        indices.append(index)
        kept.append(not isinstance(index, Value))
        if condition is not None:
            inside = condition if inside is None else operand_like(condition, apply(low, "and", inside, condition))
    value = source.value
    if not all(isinstance(index, Whole) for index in indices):
        value = low.builder.emit(Extract, source=value, indices=indices).result
    if inside is not None:
        found, zero = operand_like(operand, Tile(value, source.weak)), operand_like(operand, Static(0))
        value = as_tile(low, operand_like(operand, choose(low, inside, found, zero))).value
    rest = iter(value.shape)
    shape: list[Dim] = [1 if keep is None else next(rest) for keep in kept if keep is not False]
    return Tile(reshape(low, value, tuple(shape)), source.weak)


def _index(low: Lowering, operand: Operand, dim: Dim, entry: Subscript) -> tuple[Index, Operand | None]:
    """The IR subscript for an axis, and the condition that it lies inside, if that is not known."""
    if isinstance(entry, SliceText):
        if entry.step != 1:
            fail("slice-step", entry.location, name=operand.text)
        index = slice_index(low, entry, dim, operand.text)
        if isinstance(index, Slice) and not _may_fit(index, dim):
            fail("slice-range", entry.location, name=operand.text, start=index.start, stop=index.stop, dim=dim)
        if isinstance(index, Slice):
            _require_fit(low, operand, index, dim, entry)
        return index, None
    match entry.value:
        case AxisBlock():
            low.fail_at(entry, "tile-block-subscript", name=operand.text)
        case Tile(value=value) if value.shape or not value.dtype.is_integer:
            low.fail_at(entry, "tile-gather", name=operand.text)
        case Tile(value=value):
            at = operand_like(entry, Tile(low.builder.cast(value, i64), weak=True))
        case _:
            size = coordinate(low, entry, dim, operand.text)
            if known_inside(size, dim, low.blocks):
                return low.integer(size), None
            at = operand_like(entry, dim_value(size))
    zero, end = operand_like(entry, Static(0)), operand_like(entry, dim_value(dim))
    inside = operand_like(
        entry, apply(low, "and", *(operand_like(entry, apply(low, *c)) for c in (("ge", at, zero), ("lt", at, end))))
    )
    return as_tile(low, operand_like(entry, choose(low, inside, at, zero))).value, inside


def _require_fit(low: Lowering, operand: Operand, index: Slice, dim: Dim, entry: SliceText) -> None:
    """Has the kernel fail where a slice goes beyond a tile: unlike a tensor, a tile has nothing there to read."""
    for small, large in ((0, index.start), (index.stop, dim)):
        if not known_at_most(small, large):
            place = [Operand(dim_value(size), operand.text, entry.location) for size in (small, large)]
            text = f"the slice {index} lies within `{operand.text}`, of size {dim}"
            low.builder.emit(
                Assert, condition=as_tile(low, operand_like(operand, apply(low, "le", *place))).value, text=text
            )


def _may_fit(index: Slice, dim: Dim) -> bool:
    """Whether a slice is not known to go beyond an axis: a part of a tile never does."""
    beyond = index.stop - dim
    return not any(isinstance(size, int) and size < 0 for size in (index.start, -beyond))


def subscript_tuple(low: Lowering, operand: Operand, source: Tuple, subscripts: Sequence[Subscript]) -> FrontValue:
    """An element, or a slice, of a tuple."""
    entry = subscripts[0]
    if isinstance(entry, SliceText) and len(subscripts) == 1:
        bounds = [None if bound is None else _position(low, bound) for bound in (entry.start, entry.stop)]
        return Tuple(source.items[bounds[0] : bounds[1] : entry.step])
    if isinstance(entry, SliceText) or len(subscripts) != 1:
        low.fail("tuple-subscript", text=operand.text)
    position = _position(low, entry)
    if not -len(source.items) <= position < len(source.items):
        low.fail_at(entry, "tuple-range", name=operand.text, count=len(source.items), last=len(source.items) - 1)
    return source.items[position]


def _position(low: Lowering, operand: Operand) -> int:
    position = static_integer(operand.value)
    if position is None:
        low.fail_at(operand, "tuple-position")
    return position
