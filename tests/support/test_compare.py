"""The comparison itself: what passes, what fails, what it says."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from tests.support.compare import assert_close


def test_small_differences_pass_by_dtype() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_close(np.array([1, 100], np.float32), np.array([1 + 4e-6, 100.0005], np.float32))
        assert_close(np.array([1], np.float16), np.array([1.001], np.float16))
        assert_close(np.array([1, 2]), np.array([1, 2]))
        assert_close(np.array([math.nan, math.inf, -math.inf]), np.array([math.nan, math.inf, -math.inf]))
        assert_close(np.zeros((0, 3)), np.zeros((0, 3)))


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (np.array([1], np.float32), np.array([1.0001], np.float32)),
        (np.array([1.0]), np.array([1 + 1e-9])),
        (np.array([1]), np.array([2])),
        (np.array([True]), np.array([False])),
        (np.array([2**53]), np.array([2**53 + 1])),
        (np.array([math.nan]), np.array([1.0])),
        (np.array([1.0]), np.array([math.nan])),
        (np.array([math.inf]), np.array([-math.inf])),
        (np.array([1e300]), np.array([math.inf])),
    ],
    ids=str,
)
def test_larger_ones_fail(actual: object, expected: object) -> None:
    with pytest.raises(AssertionError, match=r"1 of 1 elements .* differ"):
        assert_close(np.asarray(actual), np.asarray(expected))


def test_the_message_shows_the_worst_element() -> None:
    expected = np.ones((2, 3), np.float32)
    actual = np.ones((2, 3), np.float32)
    actual[0, 1], actual[1, 2] = 2, 4
    with pytest.raises(AssertionError, match=r"2 of 6 elements of float32\[2, 3\] differ; worst at \[1, 2\]: 4\.0"):
        assert_close(actual, expected)


def test_shape_and_dtype_must_agree() -> None:
    with pytest.raises(AssertionError, match="dtype is float64, expected float32"):
        assert_close(np.zeros(2), np.zeros(2, np.float32))
    with pytest.raises(AssertionError, match=r"shape is \(2,\), expected \(1, 2\)"):
        assert_close(np.zeros(2), np.zeros((1, 2)))


def test_tolerances_can_be_told_and_grow_with_sums() -> None:
    assert_close(np.array([1.1]), np.array([1.0]), relative=0.2)
    assert_close(np.array([0.1]), np.array([0.0]), relative=0.0, absolute=0.2)
    actual, expected = np.array([1 + 5e-12]), np.array([1.0])
    assert_close(actual, expected, terms=100)
    with pytest.raises(AssertionError):
        assert_close(actual, expected)
