"""Tensors as they lie in memory."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiledsl.autotune.measuring.tensors import Tensor, memory_of, strides_with_unit
from tiledsl.runtime.arrays.arrays import element_strides

F32: Any = np.dtype(np.float32)
STRIDES = st.sampled_from(
    [((3, 4), (4, 1)), ((3, 4), (8, 1)), ((3, 4), (1, 3)), ((3, 4), (-4, 1)), ((2,), (-1,)), ((), ())]
)


@given(STRIDES)
def test_content_lies_as_it_should(lying: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    shape, strides = lying
    content: Any = np.random.default_rng(0).random(shape, np.float32)
    array = Tensor("x", "input", shape, strides, F32).allocated(content)
    assert np.array_equal(array, content)
    assert element_strides(array) == strides
    assert memory_of(array).nbytes >= content.nbytes


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_poison_is_no_number(dtype: Any) -> None:
    array: Any = Tensor("x", "result", (5,), (1,), np.dtype(dtype)).allocated(None)
    assert np.isnan(array.astype(np.float64)).all()


def test_poison_of_integers_and_bools() -> None:
    assert list(Tensor("x", "result", (2,), (1,), np.dtype(np.int32)).allocated(None)) == [-1, -1]
    assert list(Tensor("x", "result", (2,), (1,), np.dtype(np.bool_)).allocated(None)) == [True, True]


def test_nothing_has_no_memory() -> None:
    array = Tensor("x", "result", (0, 3), (3, 1), F32).allocated(None)
    assert (array.shape, memory_of(array).nbytes) == ((0, 3), 0)


def test_memory_has_the_gaps_too() -> None:
    array = Tensor("x", "input", (3, 4), (8, 1), F32).allocated(np.ones((3, 4), np.float32))
    memory = memory_of(array)
    assert memory.nbytes == 4 * (2 * 8 + 4)
    memory[:] = 0
    assert not array.any(), "the array is a view of it"


@pytest.mark.parametrize(
    ("shape", "unit", "strides"),
    [((2, 3, 4), None, (12, 4, 1)), ((2, 3, 4), 2, (12, 4, 1)), ((2, 3, 4), 0, (1, 8, 2)), ((2, 3), 0, (1, 2))],
)
def test_the_unit_axis_counts_fastest(shape: tuple[int, ...], unit: int | None, strides: tuple[int, ...]) -> None:
    assert strides_with_unit(shape, unit) == strides
