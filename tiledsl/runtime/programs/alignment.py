"""How the rows of an array are aligned: code for GPUs is chosen by it."""

from __future__ import annotations

from collections.abc import Mapping

from tiledsl.ir.symbolic import evaluate, symbols_of
from tiledsl.ir.types import TensorType
from tiledsl.runtime.programs.program import WIDEST


def stride_bits(shape: tuple[int, ...], strides: tuple[int, ...], item: int, unit: int | None) -> int:
    """The strides of all axes but `unit`, in bytes, or-ed together; axes with one element do not count.

    `unit`: the axis that code takes to run through memory without gaps. Another one may have a stride of one element
    too: that of a window, or of a column of a matrix with one column. `strides` are in elements, of `item` bytes each.
    """
    bits = 0
    for axis, (size, stride) in enumerate(zip(shape, strides)):
        if size > 1 and axis != unit:
            bits |= abs(stride) * item
    return bits


def default_lying(type_: TensorType) -> int:
    """How an array without gaps lies whose address is a multiple of 16 bytes (`ir/lying.py`)."""
    return WIDEST if type_.unit == len(type_.shape) - 1 else 0


def row_alignment(type_: TensorType, sizes: Mapping[str, int]) -> int:
    """What all strides but unit ones of an array without gaps are multiples of, in bytes; at most 16, which it is where
    sizes are not known. If the axis that counts fastest is not the last one, the others follow it, the last first."""
    if type_.unit is None or any(name not in sizes for dim in type_.shape for name in symbols_of(dim)):
        return WIDEST
    shape = [evaluate(dim, sizes) for dim in type_.shape]
    order = [*(axis for axis in range(len(shape)) if axis != type_.unit), type_.unit]
    strides = [1] * len(shape)
    for axis, inner in zip(order[-2::-1], order[:0:-1]):
        strides[axis] = strides[inner] * max(1, shape[inner])
    return lowest_bit(stride_bits(tuple(shape), tuple(strides), type_.dtype.bytes, type_.unit))


def lowest_bit(number: int) -> int:
    """The largest power of two that divides a number, at most 16."""
    return min(WIDEST, number & -number) if number else WIDEST
