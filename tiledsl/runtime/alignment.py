"""How the rows of an array are aligned: code for GPUs is chosen by it."""

from __future__ import annotations

from tiledsl.runtime.program import WIDEST


def stride_bits(shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> int:
    """The strides that are not of one element, in bytes, or-ed together; axes with one element do not count.

    `strides` are in elements, of `item` bytes each.
    """
    bits = 0
    for size, stride in zip(shape, strides):
        if size > 1 and stride != 1:
            bits |= abs(stride) * item
    return bits


def lowest_bit(number: int) -> int:
    """The largest power of two that divides a number, at most 16."""
    return min(WIDEST, number & -number) if number else WIDEST
