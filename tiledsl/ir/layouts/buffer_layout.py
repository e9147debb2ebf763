"""Shared layouts: where each element of a buffer lies in shared memory, as a byte, and how banks serve accesses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np

from tiledsl.ir.dtypes import DType
from tiledsl.ir.layouts.layout import Integers, RegisterLayout

BANKS = 32
BANK_BYTES = 4


@dataclass(frozen=True)
class Swizzle:
    """XORs `bits` bits of a byte address, from bit `base` on, with those `shift` above.

    The 128-byte swizzle of TMA is (3, 4, 3).
    """

    bits: int
    base: int
    shift: int

    def apply(self, address: Any) -> Any:
        """The address that an unswizzled one becomes (ints or arrays)."""
        mask = ((1 << self.bits) - 1) << self.base
        return address ^ ((address >> self.shift) & mask)

    def __str__(self) -> str:
        return f"({self.bits}, {self.base}, {self.shift})"


@dataclass(frozen=True)
class SharedLayout:
    """How a buffer of `shape` lies in shared memory. `order`: its axes, the one that counts fastest last.

    `padding`: elements left free after each run of the fastest axis. The swizzle acts on byte offsets from the buffer's
    start, which is aligned to `alignment` bytes.

    `panel`: the two fastest axes are cut into panels of so many elements of the fastest one, which divides its size (0:
    they are not). The panels of one slice lie one after the other: what TMA copies and what tensor cores read is no
    wider than a swizzle. With panels there is no padding.

    Text: `rows(0, 1)`, `rows(0, 1, padding=8)`, `rows(1, 0, swizzle=(3, 4, 3), panel=64)`.
    """

    order: tuple[int, ...]
    padding: int = 0
    swizzle: Swizzle | None = None
    panel: int = 0

    def __post_init__(self) -> None:
        sound = not self.panel or (not self.padding and len(self.order) > 1)
        assert sound, f"{self}: panels are of two axes, and not padded"

    @property
    def is_plain(self) -> bool:
        """Whether elements lie in their order, with nothing between them."""
        return not self.padding and not self.panel and self.swizzle is None

    @property
    def alignment(self) -> int:
        """What the buffer's address must be a multiple of, in bytes: whole lines of all banks for a swizzle.

        Swizzles of TMA act on addresses; those ask for as much as they look at.
        """
        if self.swizzle is None:
            return 16
        of_tma = self.swizzle.base == 4 and self.swizzle.shift == 3
        return 1 << (7 + self.swizzle.bits) if of_tma else BANKS * BANK_BYTES

    @property
    def period(self) -> int:
        """After how many bytes the swizzle begins anew, and at least 16."""
        swizzle = self.swizzle
        return 16 if swizzle is None else max(16, 1 << (swizzle.base + swizzle.bits + swizzle.shift))

    def strides(self, shape: Sequence[int]) -> tuple[int, ...]:
        """In elements, per axis, before the swizzle.

        With panels they hold for coordinates within one panel of the fastest axis; `panel_stride` leads to the next.
        """
        strides = [0] * len(shape)
        step = 1
        for position, axis in enumerate(reversed(self.order)):
            strides[axis] = step
            step *= shape[axis]
            if position == 0:
                step += self.padding
        if self.panel:
            strides[self.order[-2]] = self.panel
        return tuple(strides)

    def panel_stride(self, shape: Sequence[int]) -> int:
        """From one panel to the next, in elements; 0 without panels."""
        return self.panel * shape[self.order[-2]] if self.panel else 0

    def linear(self, shape: Sequence[int], coordinates: Sequence[Any]) -> Any:
        """Where an element is (ints or arrays), in elements, before the swizzle."""
        total: Any = sum(c * s for c, s in zip(coordinates, self.strides(shape)))
        if not self.panel:
            return total
        return total + coordinates[self.order[-1]] // self.panel * (self.panel_stride(shape) - self.panel)

    def offset(self, shape: Sequence[int], dtype: DType, coordinates: Sequence[Any]) -> Any:
        """The byte offset of an element (ints or arrays)."""
        linear = self.linear(shape, coordinates) * dtype.bytes
        return linear if self.swizzle is None else self.swizzle.apply(linear)

    def bytes(self, shape: Sequence[int], dtype: DType) -> int:
        """How much memory a buffer takes, up to the end of the last block that a swizzle works on."""
        if not shape:
            return dtype.bytes
        outer = self.order[0]
        total = prod(shape) if self.panel else self.strides(shape)[outer] * shape[outer]
        if len(shape) == 1:
            total += self.padding
        # a swizzle moves pieces within whole blocks
        block = 1 if self.swizzle is None else 1 << (self.swizzle.base + self.swizzle.bits)
        return -(-total * dtype.bytes // block) * block

    def show(self, shape: Sequence[int], dtype: DType, banks: bool = False, most: int = 32) -> str:
        """A picture: for each element of a buffer its byte offset, or its bank."""
        from tiledsl.ir.layouts.pictures import shared_picture  # as in RegisterLayout.show

        return shared_picture(self, shape, dtype, banks, most)

    def __str__(self) -> str:
        words = [str(axis) for axis in self.order]
        if self.padding:
            words.append(f"padding={self.padding}")
        if self.swizzle is not None:
            words.append(f"swizzle={self.swizzle}")
        if self.panel:
            words.append(f"panel={self.panel}")
        return f"rows({', '.join(words)})"


def wavefronts(addresses: Integers, width: int) -> int:
    """How many wavefronts of shared memory one access of a warp takes: `width` bytes at each lane's byte address.

    Lanes that read the same word share it. Accesses of 8 and 16 bytes go in groups of 16 and 8 lanes.
    """
    lanes = max(1, min(len(addresses), 32 * BANK_BYTES // max(width, BANK_BYTES)))
    total = 0
    for first in range(0, len(addresses), lanes):
        group = addresses[first : first + lanes]
        words = np.unique(np.concatenate([group // BANK_BYTES + i for i in range(max(1, width // BANK_BYTES))]))
        total += int(np.bincount(words % BANKS).max(initial=1))
    return total


def ideal_wavefronts(lanes: int, width: int) -> int:
    """The least that `wavefronts` can be where no two lanes share a word."""
    return max(1, -(-lanes * width // (BANKS * BANK_BYTES)))


Layout: TypeAlias = "RegisterLayout | SharedLayout"
