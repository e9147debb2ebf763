"""How arrays lie in memory, as one number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiledsl.ir.lying import STEPS, lying, packed_bytes, step_and_phase, stepped

X: Any = np.zeros((6, 64), np.float16)


def of(view: Any, start: int = 0) -> int:
    strides = tuple(stride // view.itemsize for stride in view.strides)
    first = view.__array_interface__["data"][0] - X.__array_interface__["data"][0]
    return lying(view.shape, strides, start + first, view.itemsize)


@pytest.mark.parametrize(("view", "start", "number"), [
    (X, 0, 16),
    (X, 32, 16),
    (X, 8, 8),
    (X[2:], 6, 2),
    (X[:, 3:], 0, 0),  # rows with gaps
    (X[:, ::2], 0, 64),
    (X[:, 1::2], 0, 65),
    (X[:, 1::2], 16, 65),
    (X[:, 1::2], 2, 0),  # the element in front of the first one is not aligned
    (X[:, 2::3], 0, 98),
    (X[:, ::5], 0, 0),
    (X[:, ::-2], 0, 0),
    (X.T, 0, 0),
    (X[:1, :1], 0, 16),
])  # fmt: skip
def test_numbers(view: Any, start: int, number: int) -> None:
    assert of(view, start) == number


def test_rows_that_are_not_aligned_have_no_steps() -> None:
    assert lying((6, 30), (61, 2), 0, 2) == 0


@given(st.sampled_from(STEPS), st.integers(0, 3))
def test_a_number_says_one_thing(step: int, phase: int) -> None:
    number = stepped(step, phase)
    assert step_and_phase(number) == (step, phase)
    assert packed_bytes(number) == 0
    assert all(step_and_phase(whole) == (1, 0) for whole in (0, 1, 2, 4, 8, 16))
