"""What may be passed for a tensor, and how its elements are found."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tiledsl.runtime.arrays.arrays import (
    as_array,
    element_strides,
    is_addressable,
    is_array,
    overlap,
    pointer,
    repeats_elements,
)


class ByDlpack:
    """An array of another library."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> object:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


class ByInterface:
    """An array that shares its memory the older way."""

    def __init__(self, array: Any) -> None:
        self.__array_interface__ = array.__array_interface__


def itself(array: Any) -> Any:
    return array


def zeros(*shape: int, dtype: Any = np.float32) -> Any:
    return np.zeros(shape, dtype)


@pytest.mark.parametrize("wrap", [itself, ByDlpack, ByInterface])
def test_arrays_share_their_memory(wrap: Any) -> None:
    array = zeros(2, 3)
    taken = as_array(wrap(array), "x")
    assert type(taken) is np.ndarray
    assert np.shares_memory(taken, array)
    assert taken.shape == (2, 3)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(np.zeros(2), True), (np.zeros(()), True), (np.float32(1), False), (1.5, False), (None, False), ([1], False)],
)
def test_numbers_are_no_arrays(value: object, expected: bool) -> None:
    assert is_array(value) is expected


def pointed_at(array: Any) -> int:
    return array.__array_interface__["data"][0]


def frozen(array: Any) -> Any:
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "array",
    [
        zeros(3, 4),
        zeros(3, 4).T,
        zeros(3, 4)[1:, ::2],
        zeros(5)[::-1],
        zeros(0, 3),
        zeros(),
        frozen(zeros(3)),
        zeros(3, dtype=ml_dtypes.bfloat16),
        np.broadcast_to(zeros(3), (4, 3)),
    ],
)
def test_pointer_is_that_of_the_first_element(array: Any) -> None:
    assert pointer(array) == pointed_at(array)


def test_strides_are_in_elements() -> None:
    array = zeros(3, 4, 5)
    assert element_strides(array) == (20, 5, 1)
    assert element_strides(array[::2, ::-1].transpose(2, 0, 1)) == (1, 40, -5)


def test_strides_that_nothing_can_tell_apart_are_those_of_a_contiguous_array() -> None:
    column = zeros(6, 8)[:, 3:4]
    assert element_strides(column) == (8, 1)
    assert element_strides(zeros(1, 5)[:, ::2]) == (6, 2)
    assert element_strides(zeros(0, 5).T) == (1, 1)
    assert element_strides(zeros()) == ()


def test_addressable() -> None:
    records = zeros(4, dtype=np.dtype([("tag", "u1"), ("value", "f4")]))
    assert not is_addressable(records["value"])
    shifted = zeros(41, dtype=np.uint8)[1:].view(np.float32)
    assert not is_addressable(shifted)
    assert is_addressable(zeros(4, 5)[::2, ::-1])


def test_overlap_is_exact_where_it_is_cheap() -> None:
    array = zeros(10)
    assert overlap(array[:6], array[5:])
    assert not overlap(array[::2], array[1::2])
    assert not overlap(array[:5], array[5:])


def test_repeated_elements() -> None:
    assert repeats_elements(np.broadcast_to(zeros(3), (4, 3)))
    assert not repeats_elements(np.broadcast_to(zeros(3), (1, 3)))
    assert not repeats_elements(np.broadcast_to(zeros(3), (0, 3)))
