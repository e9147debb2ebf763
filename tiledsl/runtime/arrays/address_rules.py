"""What must hold of the addresses of a call's arrays for code to use them as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tiledsl.runtime.arrays.arrays import byte_span

MOST_ADDRESSES = 256
"""Sets of addresses that are remembered for each launch; past it all are forgotten."""

Addresses: TypeAlias = "tuple[int, ...]"
Go: TypeAlias = Callable[[Sequence[int], Sequence["int | float"], int], None]
"""Launches: the addresses of all tensors and new tensors, the run-time numbers, the stream."""
Placed: TypeAlias = "tuple[tuple[int, ...], tuple[int, ...], int]"
"""How an array lies: its shape, its strides in bytes, the bytes of an element."""


class AddressRules:
    """Of arrays that lie like certain ones, wherever they are."""

    def __init__(self, arrays: Sequence[Placed], written: Sequence[int], alignment: Sequence[int]) -> None:
        """`written`: the numbers of those that must share no memory with any other; `alignment`: what each address has
        to be a multiple of."""
        self._alignment = tuple(alignment)
        self._spans = [byte_span(*array) for array in arrays]
        count = range(len(arrays))
        self._apart = [(w, o) for w in written for o in count if o not in written or o < w]

    def aligned(self, addresses: Sequence[int]) -> bool:
        """Whether all are where code can address their elements. Memory that has no elements may be anywhere."""
        return not any(address % size for address, size in zip(addresses, self._alignment))

    def apart(self, addresses: Sequence[int]) -> bool:
        """Whether those that are written share no byte with any other."""
        return not any(self._meet(addresses, *pair) for pair in self._apart)

    def _meet(self, addresses: Sequence[int], one: int, other: int) -> bool:
        (low, high), (other_low, other_high) = self._spans[one], self._spans[other]
        if low == high or other_low == other_high:
            return False
        a, b = addresses[one], addresses[other]
        return a + low < b + other_high and b + other_low < a + high


def placed(array: Any) -> Placed:
    """How an array of NumPy, or the view of one on a device, lies."""
    return tuple(array.shape), tuple(array.strides), array.itemsize


def remember(accepted: dict[Addresses, Go], addresses: Addresses, go: Go) -> Go:
    """Notes what runs on arrays at these addresses."""
    if len(accepted) >= MOST_ADDRESSES:
        accepted.clear()
    accepted[addresses] = go
    return go
