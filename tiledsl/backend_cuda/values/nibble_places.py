"""Which nibble of its word an element is, where pairs of slots have the two of one byte.

    b = read 8 bytes, each for two neighbours along k          slots 0 and 1: byte 0, slots 2 and 3: byte 1, ...
    q = nibble(b, coordinates of k)                            slot s: nibble s % 8 of word s / 8

Coordinates are even in the even slots if each thread's part of them is even, and so is where the block begins. Then a
conversion of `q` to floats takes nibbles out of their words by itself, and neither `q` nor coordinates are needed.
"""

from __future__ import annotations

from tiledsl.backend_cuda.frame.multiples import Multiples
from tiledsl.backend_cuda.functions.storage import Registers, Storage, View
from tiledsl.ir.core import Value
from tiledsl.ir.gpu.gpu_ops import Arange
from tiledsl.ir.tile_ops import Broadcast, Cast, Map, Reshape, Transpose


def nibbles_of(value: Value) -> Map | None:
    """The op that gives a tile of nibbles of packed bytes; None for other values."""
    op = value.op
    if not isinstance(op, Map) or op.fn != "nibble" or not value.shape or value.dtype.name not in ("i8", "u8"):
        return None
    return op


def bytes_of(op: Map) -> Value:
    """The tile of bytes that nibbles are taken of, whatever their sign."""
    value = op.inputs[0]
    while isinstance(value.op, Cast) and value.op.source.dtype.name in ("i8", "u8"):
        value = value.op.source
    return value


def nibble_places(op: Map, storage: Storage, multiples: Multiples) -> tuple[str, tuple[int, ...]] | None:
    """The array of words, and for each slot the number of its nibble there; None where that is not known.
    `storage`: of the bytes."""
    source = storage.source if isinstance(storage, View) else storage
    if not isinstance(source, Registers) or source.per_word != 4:
        return None
    odd = odd_slots(op, multiples)
    if odd is None:
        return None
    bytes_ = storage.table if isinstance(storage, View) else range(source.slots)
    return source.name, tuple(2 * byte + is_odd for byte, is_odd in zip(bytes_, odd))


def odd_slots(op: Map, multiples: Multiples) -> tuple[bool, ...] | None:
    """For each slot whether its second nibble is asked for; None where that is not known."""
    axis, layout = _even_axis(op.inputs[1], multiples), op.result.layout
    if axis is None or any(digit.axis == axis and digit.stride % 2 for digit in layout.thread_digits):
        return None
    return tuple(int(layout.slot_coordinates(slot)[axis]) % 2 == 1 for slot in range(layout.slots))


def _even_axis(value: Value, multiples: Multiples) -> int | None:
    """The axis of a tile along which its elements count from an even number on; None for other tiles."""
    match value.op:
        case Arange():
            return 0
        case Cast() as op if op.source.dtype.is_integer and op.dtype.is_integer:
            return _even_axis(op.source, multiples)
        case Broadcast() as op if op.source.shape:
            axis, more = _even_axis(op.source, multiples), len(value.shape) - len(op.source.shape)
            alike = axis is not None and op.source.shape[axis] == value.shape[axis + more]
            return axis + more if axis is not None and alike else None
        case Transpose() as op:
            axis = _even_axis(op.source, multiples)
            return None if axis is None else op.permutation.index(axis)
        case Reshape() as op:
            before, after = ([i for i, n in enumerate(v.shape) if n != 1] for v in (op.source, value))
            axis = _even_axis(op.source, multiples)
            return after[before.index(axis)] if axis in before and len(before) == len(after) else None
        case Map(fn="add") as op:
            (one, other) = op.inputs
            tile, scalar = (one, other) if one.shape else (other, one)
            return _even_axis(tile, multiples) if not scalar.shape and multiples.of(scalar) % 2 == 0 else None
        case _:
            return None
