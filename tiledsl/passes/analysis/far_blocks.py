"""Blocks that are shifted so far that most of them lie wholly outside of a tensor: what comes in at the other end of a
roll.

    x[m, n + 2998] of 2999 columns, by blocks of 1024: the first of three blocks has a column of it

Nothing is loaded for the others, and none of their threads asks for itself whether it is there.
"""

from __future__ import annotations

LEAST = 16
"""By how much a block is shifted at least, so that it is far: neighbours of a stencil are nearer, and mostly there."""


def is_far(offset: int, block: int) -> bool:
    """Whether a block of so many coordinates, shifted by `offset`, is looked at as a whole before it is loaded.

    >>> is_far(2998, 1024), is_far(-1, 1024), is_far(-1, 1)
    (True, False, False)
    """
    return abs(offset) >= max(LEAST, block)


def blocks_inside(offset: int, block: int, total: int, size: int) -> float:
    """The share of the blocks of an axis of `total` coordinates that lie in a tensor's axis of `size` when they are
    shifted, at least in part.

    >>> blocks_inside(2998, 1024, 2999, 2999), blocks_inside(-1, 1024, 2999, 2999)
    (0.3333333333333333, 1.0)
    """
    first, last = max(0, -offset), min(total, size - offset)
    there = -(-last // block) - first // block if first < last else 0
    return there / max(1, -(-total // block))
