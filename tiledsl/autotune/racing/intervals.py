"""How sure the median of some samples is, whatever their distribution.

    8 samples:    the median is between the least and the largest one, with 99% confidence
    200 samples:  between the 82nd and the 119th one

Whether a sample lies below the median is a toss of a coin, so the bounds are order statistics, by the binomial
distribution. Times have long tails, for which bounds by means and deviations are wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

from tiledsl.autotune.records.record import Ratio

CONFIDENCE = 0.99


def ratio_of(samples: Sequence[float], confidence: float = CONFIDENCE) -> Ratio:
    """The median of at least one ratio, with its bounds; 0 and infinity where there are too few to tell."""
    ordered = sorted(samples)
    count = len(ordered)
    middle = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    rank = bound_rank(count, confidence)
    if rank == 0:
        return Ratio(middle, 0.0, math.inf, count)
    return Ratio(middle, ordered[rank - 1], ordered[count - rank], count)


@cache
def bound_rank(count: int, confidence: float) -> int:
    """Which of so many samples, counted from the least, bounds the median from below; 0 where none does."""
    outside = (1 - confidence) / 2
    total = 0
    for rank in range(count // 2 + 1):
        total += math.comb(count, rank)
        if total > outside * 2**count:
            return rank
    return count // 2
