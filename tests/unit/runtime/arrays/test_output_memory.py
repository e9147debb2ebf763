"""Memory of large outputs: used again once nobody can see it, and never before."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from tiledsl.runtime.arrays.output_memory import ALIGNMENT, MOST_KEPT, SMALLEST, empty

LARGE = (SMALLEST // 4 + 5,)
F32 = np.dtype(np.float32)


def address(array: npt.NDArray[Any]) -> int:
    return array.ctypes.data


def test_memory_is_used_again() -> None:
    first = empty(LARGE, F32)
    at = address(first)
    del first
    assert address(empty(LARGE, F32)) == at


def test_a_view_keeps_memory() -> None:
    first = empty(LARGE, F32)
    first[...] = 1
    view = first[::2][3:]
    del first
    second = empty(LARGE, F32)
    second[...] = 2
    assert (view == 1).all()


@pytest.mark.parametrize(
    "dtype", [np.float64, np.float16, np.bool_, np.int8, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn]
)
@pytest.mark.parametrize("shape", [(3, 5), (2, SMALLEST), (SMALLEST, 0), ()])
def test_arrays_are_like_those_of_numpy(shape: tuple[int, ...], dtype: Any) -> None:
    array, expected = empty(shape, np.dtype(dtype)), np.empty(shape, dtype)
    assert (array.shape, array.strides, array.dtype) == (expected.shape, expected.strides, expected.dtype)
    assert array.flags.writeable
    assert array.flags.aligned
    array[...] = 1
    assert (np.asarray(array, np.float64) == 1).all()


def test_large_arrays_start_at_a_cache_line() -> None:
    assert address(empty(LARGE, F32)) % ALIGNMENT == 0


def test_two_arrays_never_share() -> None:
    arrays = [empty(LARGE, F32) for _ in range(5)]
    for number, array in enumerate(arrays):
        array[...] = number
    assert [array[0] for array in arrays] == [0, 1, 2, 3, 4]


def test_what_is_kept_is_limited() -> None:
    arrays = [empty((MOST_KEPT // 4 // 4 + 1,), F32) for _ in range(6)]
    known = {address(array) for array in arrays}
    assert len(known) == 6
    del arrays
    again = [empty((MOST_KEPT // 4 // 4 + 1,), F32) for _ in range(6)]
    assert len({address(array) for array in again}) == 6
