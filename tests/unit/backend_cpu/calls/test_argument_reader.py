"""Arrays of a call as native code sees them."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np
import pytest

from tiledsl.backend_cpu.calls.argument_reader import as_expected, can_read, reading_table
from tiledsl.backend_cpu.calls.launcher import launcher

pytestmark = pytest.mark.skipif(sys.implementation.name != "cpython", reason="arrays lie elsewhere")

Array = np.ndarray[Any, np.dtype[Any]]

_ARRAYS: list[Array] = [
    np.zeros((), np.float64),
    np.zeros((0, 3), np.int8),
    np.zeros(5, np.float16),
    np.zeros((2, 3, 4), np.int64)[::-1, ::2],
    np.broadcast_to(np.float32(1), (3, 4)),
]


def read(arrays: tuple[object, ...], expected: tuple[Array, ...], *written: int) -> list[int] | None:
    table = reading_table([as_expected(array) for array in expected], written)
    assert table is not None
    found = (ctypes.c_int64 * max(1, len(expected)))()
    if not launcher().read(arrays, table.address, ctypes.addressof(found)):
        return None
    return [*found][: len(expected)]


def test_arrays_can_be_read_here() -> None:
    assert can_read()


@pytest.mark.parametrize("array", _ARRAYS, ids=[f"{array.dtype}{list(array.shape)}" for array in _ARRAYS])
def test_the_address_of_an_array_like_the_expected_one(array: Array) -> None:
    assert read((array,), (array,)) == [array.ctypes.data]


def test_every_pair_of_different_arrays_is_told_apart() -> None:
    arrays: list[Array] = [
        *_ARRAYS,
        np.zeros(5, np.int16),
        np.zeros(6, np.float16),
        np.zeros(10, np.float16)[::2],
        np.zeros((5, 1)),
    ]
    for array in arrays:
        for expected in arrays:
            found = read((array, arrays[0]), (expected, arrays[0]))
            assert (found is not None) == (array is expected)


def test_strides_of_axes_of_one_element_do_not_matter() -> None:
    row: Array = np.zeros(5, np.float32)
    one, column = np.zeros((1, 5), np.float32), np.zeros((3, 1), np.float32)
    assert row[None].strides != one.strides
    assert read((row[None],), (one,)) is not None
    assert read((row[:, None][::2],), (column,)) is None


def test_what_is_no_array_is_refused() -> None:
    class Sub(np.ndarray[Any, np.dtype[Any]]):
        pass

    array: Array = np.zeros((2, 3), np.float32)
    for value in (None, 1, 1.0, "x", np.float32(1), [1, 2], Sub((2, 3), np.float32), array.tolist()):
        assert read((value,), (array,)) is None
    assert read((), (array,)) is None
    assert read((array, array), (array,)) is None


def test_misaligned_arrays_are_refused() -> None:
    memory: Any = np.zeros(41, np.uint8)
    odd: Array = np.ndarray(10, np.float32, memory[1:])
    even: Array = np.ndarray(10, np.float32, memory)
    aligned = even if even.flags.aligned else odd
    other = odd if aligned is even else even
    assert read((aligned,), (aligned,)) is not None
    assert read((other,), (aligned,)) is None


def test_what_is_written_must_be_writeable() -> None:
    array, read_only = np.zeros(5, np.float32), np.zeros(5, np.float32)
    read_only.flags.writeable = False
    assert read((array, read_only), (array, array), 0) is not None
    assert read((array, read_only), (array, array), 1) is None
    assert read((array, read_only), (array, array), 0, 1) is None


def test_what_is_written_must_lie_apart_from_all_else() -> None:
    """At every distance: two arrays of 6 elements, one of them with gaps or backwards, in one memory."""
    memory: Array = np.zeros(60, np.float32)
    for steps in (slice(0, 6), slice(0, 18, 3), slice(5, None, -1)):
        one = memory[20:44][steps]
        for start in range(54):
            other = memory[start : start + 6]
            low, high = sorted((0, 5 * (steps.step or 1)))
            first = 20 + (5 if steps.step == -1 else 0)
            meets = start < first + high + 1 and first + low < start + 6
            for written in ((0,), (1,), (0, 1)):
                assert (read((one, other), (one, other), *written) is None) == meets
            assert read((one, other), (one, other)) is not None
    empty = memory[30:30]
    assert read((memory, empty), (memory, empty), 0, 1) is not None
