"""Bounds of medians."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiledsl.autotune.racing.intervals import bound_rank, ratio_of


@pytest.mark.parametrize(
    ("count", "confidence", "rank"),
    [(1, 0.99, 0), (7, 0.99, 0), (8, 0.99, 1), (20, 0.99, 4), (24, 0.99, 6), (200, 0.99, 82), (200, 0.95, 86)],
)
def test_ranks_are_those_of_the_binomial_distribution(count: int, confidence: float, rank: int) -> None:
    assert bound_rank(count, confidence) == rank
    outside = sum(math.comb(count, k) for k in range(rank)) / 2**count
    assert 2 * outside <= 1 - confidence + 1e-12


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=300))
def test_bounds_hold_the_median(samples: list[float]) -> None:
    ratio = ratio_of(samples)
    assert ratio.low <= ratio.median <= ratio.high
    assert ratio.pairs == len(samples)


def test_few_samples_say_nothing() -> None:
    ratio = ratio_of([0.5] * 7)
    assert (ratio.low, ratio.median, ratio.high) == (0.0, 0.5, math.inf)


def test_the_true_median_is_hardly_ever_outside() -> None:
    source = random.Random(1)
    outside = 0
    for _ in range(400):
        ratio = ratio_of([math.exp(source.gauss(0, 1)) for _ in range(40)])  # the median is 1; the mean is not
        outside += not ratio.low <= 1 <= ratio.high
    assert outside <= 10
