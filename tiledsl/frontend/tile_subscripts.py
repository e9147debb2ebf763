"""Subscripts of tiles and tuples: new axes, slices, scalar coordinates."""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.frontend.access import expand_subscripts, scalar_index, slice_index
from tiledsl.frontend.lowering import Lowering
from tiledsl.frontend.operands import as_tile, reshape
from tiledsl.frontend.values import AxisBlock, FrontValue, Operand, SliceText, Subscript, Tile, Tuple, static_integer
from tiledsl.ir.core import Index, Value
from tiledsl.ir.dtypes import i64
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.tile_ops import Extract
from tiledsl.ir.types import WHOLE, Whole


def subscript_tile(low: Lowering, operand: Operand, subscripts: Sequence[Subscript]) -> Tile:
    """A part of a tile, with new axes where `None` stands."""
    source = as_tile(low, operand)
    entries = expand_subscripts(subscripts, len(source.value.shape), operand.text, low.location)
    indices: list[Index] = []
    kept: list[bool | None] = []  # for each entry: a new axis (None), an axis that stays, one that a scalar drops
    for entry in entries:
        if entry is None:
            kept.append(None)
            continue
        index = _index(low, operand, source.value.shape[len(indices)], entry)
        indices.append(index)
        kept.append(not isinstance(index, Value))
    value = source.value
    if not all(isinstance(index, Whole) for index in indices):
        value = low.builder.emit(Extract, source=value, indices=indices).result
    rest = iter(value.shape)
    shape: list[Dim] = [1 if keep is None else next(rest) for keep in kept if keep is not False]
    return Tile(reshape(low, value, tuple(shape)), source.weak)


def _index(low: Lowering, operand: Operand, dim: Dim, entry: Subscript) -> Index:
    if isinstance(entry, SliceText):
        return WHOLE if entry.start is None and entry.stop is None else slice_index(low, entry, dim, operand.text)
    match entry.value:
        case AxisBlock():
            low.fail_at(entry, "tile-block-subscript", name=operand.text)
        case Tile(value=value) if value.shape or not value.dtype.is_integer:
            low.fail_at(entry, "tile-gather", name=operand.text)
        case Tile(value=value):
            return low.builder.cast(value, i64)
        case _:
            return scalar_index(low, entry, dim, operand.text)


def subscript_tuple(low: Lowering, operand: Operand, source: Tuple, subscripts: Sequence[Subscript]) -> FrontValue:
    """An element, or a slice, of a tuple."""
    entry = subscripts[0]
    if isinstance(entry, SliceText) and len(subscripts) == 1:
        bounds = [None if bound is None else _position(low, bound) for bound in (entry.start, entry.stop)]
        return Tuple(source.items[bounds[0] : bounds[1]])
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
