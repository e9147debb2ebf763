"""What results are held against: as `compare` says, for all dtypes; and what is random is not too regular."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiledsl.autotune.measuring.cases import DRAWN, redrawn
from tiledsl.autotune.measuring.wanted import Wanted, same_bits
from tiledsl.runtime.arrays.compare_arrays import Figures, compare

DTYPES: list[Any] = [
    np.float64,
    np.float32,
    np.float16,
    ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3fn,
    np.int32,
    np.bool_,
]


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(DTYPES),
    st.sampled_from([0.0, 1e-7, 1e-3, 0.05, 0.5, 4.0]),
    st.sampled_from([0.0, np.nan, np.inf, -np.inf]),
)
def test_it_agrees_with_the_comparison_of_arrays(seed: int, dtype: Any, off: float, special: float) -> None:
    random = np.random.default_rng(seed)
    exact: Any = random.standard_normal((5, 7)) * 10
    if special:
        exact[2, 3] = special
    with np.errstate(all="ignore"):
        want, got = exact.astype(dtype), (exact + off * random.standard_normal((5, 7))).astype(dtype)
    figures, wanted = compare(got, want), Wanted(want)
    for _ in range(2):  # the second time from what is known
        found = wanted.difference(got)
        if figures.wrong:
            assert isinstance(found, Figures)
            assert str(found) == str(figures)
        else:
            assert isinstance(found, float)
            assert abs(found - figures.relative) <= 1e-5 * figures.relative


def test_results_that_were_good_do_not_make_others_good() -> None:
    want: Any = np.ones(4, np.float32)
    wanted = Wanted(want)
    assert wanted.difference(want) == 0.0
    bad: Any = np.array([1, 1, 1, 2], np.float32)
    assert isinstance(wanted.difference(bad), Figures)
    assert wanted.difference(want) == 0.0


@pytest.mark.parametrize("size", [0, 1, 3, 8, 13])
def test_bits(size: int) -> None:
    one: Any = np.full(size, np.nan, np.float16)
    assert same_bits(one, one.copy())
    assert size == 0 or not same_bits(one, -one)
    windows: Any = np.lib.stride_tricks.as_strided(np.arange(9.0), (4, 3), (8, 8))
    assert same_bits(windows, np.ascontiguousarray(windows))


def test_rows_of_random_arguments_differ() -> None:
    given_: Any = np.full((300, 4096), 3.0, np.float32)
    given_[::2] = 5.0
    drawn: Any = redrawn(given_, np.random.default_rng(0))
    assert (drawn.shape, drawn.dtype) == (given_.shape, given_.dtype)
    assert abs(float(drawn.mean()) - 4.0) < 0.05
    assert abs(float(drawn.std()) - 1.0) < 0.05
    assert len(np.unique(drawn[:, 0])) == 300
    assert given_.size > DRAWN
    indices: Any = np.arange(5)
    assert redrawn(indices, np.random.default_rng(0)) is indices
