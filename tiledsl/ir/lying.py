"""How a tensor lies in memory, as one number that code for GPUs is chosen by.

1, 2, 4, 8, 16     row by row without gaps, from an address that is a multiple of so many bytes
32 * step + phase  neighbours along the last axis are `step` elements apart; all other strides, and the address of
                   the element that is `phase` elements in front of the first one, are multiples of 16 bytes
0                  any other way

x of f16[64, 128]: x is 16, x[:, 3:] 0, x[:, ::2] 64, x[:, 1::2] 65
"""

from __future__ import annotations

from collections.abc import Sequence

WIDEST = 16
"""Bytes of the widest access."""
STEPS = range(2, 5)
"""Elements from neighbour to neighbour, up to which whole vectors are read for the sake of some of their elements."""
_CODE = 32


def lying(shape: Sequence[int], strides: Sequence[int], start: int, item: int) -> int:
    """The number of an array at address `start`; `strides` are in elements, of `item` bytes each."""
    if is_packed(shape, strides):
        return min(WIDEST, start & -start) if start else WIDEST
    step = strides[-1] if shape and shape[-1] > 1 else 0
    phase, off = divmod(start % WIDEST, item)
    others = [stride * item % WIDEST for size, stride in zip(shape[:-1], strides) if size > 1]
    return _CODE * step + phase if step in STEPS and not off and phase < step and not any(others) else 0


def is_packed(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether elements lie one behind the other, row by row. Strides of short axes do not count."""
    apart = 1
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size > 1 and stride != apart:
            return False
        apart *= max(1, size)
    return True


def packed_bytes(number: int) -> int:
    """What the address of a packed tensor is a multiple of; 0 for others."""
    return number if number <= WIDEST else 0


def step_and_phase(number: int) -> tuple[int, int]:
    """How far apart neighbours along the last axis lie, and what is in front of the first; (1, 0) for others."""
    return divmod(number, _CODE) if number > WIDEST else (1, 0)


def stepped(step: int, phase: int) -> int:
    """The number of a tensor with these."""
    return _CODE * step + phase
