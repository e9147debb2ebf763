"""Folds of what is gathered: element by element where that is faster, with and without checks of bounds."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.support.compare import assert_close
from tiledsl import tile

Array = np.ndarray[Any, np.dtype[Any]]


@tile.kernel
def sums_of_rows(starts: Any, columns: Any, data: Any, x: Any, block: tile.constexpr = None) -> Any:
    P = starts.shape[0]
    y = tile.empty(P - 1, x.dtype)
    for row in tile.grid(P - 1, block=1):
        total = x[0] * 0
        for j in tile.range(starts[row], starts[row + 1], block=block):
            total += tile.sum(data[j] * x[columns[j]]).to(x.dtype)
        y[row] = total
    return y


@tile.kernel
def largest_of_rows(weights: Any, columns: Any, x: Any) -> Any:
    M, _ = weights.shape
    y, z = tile.empty(M, x.dtype), tile.empty(M, x.dtype)
    for m in tile.grid(M):
        picked = weights[m, :] * x[columns[m, :]]
        y[m] = tile.max(picked, axis=1)
        z[m] = tile.sum(picked, axis=1).to(x.dtype)
    return y, z


@tile.kernel
def sums_of_exponentials(columns: Any, x: Any) -> Any:
    M, _ = columns.shape
    y = tile.empty(M, x.dtype)
    for m in tile.grid(M):
        y[m] = tile.sum(tile.exp(tile.sin(x[columns[m, :]])), axis=1)
    return y


def drawn(dtype: Any, *shape: int) -> Array:
    return np.random.default_rng(len(shape)).integers(-4, 5, shape).astype(dtype)


def read_at(array: Array, index: Array) -> Array:
    """Elements, 0 where there is none."""
    inside = (index >= 0) & (index < len(array))
    return np.where(inside, array[np.where(inside, index, 0)], np.zeros((), array.dtype))


def expected_sums(starts: Array, columns: Array, data: Array, x: Array) -> list[Any]:
    """Row by row, and 0 for every read outside of an array."""
    rows: list[Array] = [np.arange(first, last) for first, last in itertools.pairwise(starts.tolist())]
    return [(read_at(data, row) * read_at(x, read_at(columns, row))).sum() for row in rows]


@pytest.mark.parametrize("block", [None, 1, 3, 16])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
def test_rows_of_every_length(dtype: str, block: int | None) -> None:
    lengths = np.arange(40) % 23
    starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    columns = np.random.default_rng(1).integers(0, 30, starts[-1], np.int32)
    data, x = drawn(dtype, int(starts[-1])), drawn(dtype, 30)
    actual = sums_of_rows(starts, columns, data, x, block)
    assert_close(actual, np.array(expected_sums(starts, columns, data, x), dtype))


@pytest.mark.parametrize("starts", [(-3, 4, 9), (0, 7, 12), (5, 8, 30), (-9, -2, 3), (9, 4, 11), (20, 25, 40)])
def test_rows_and_columns_that_lie_outside(starts: tuple[int, ...]) -> None:
    columns = np.array([3, -1, 0, 5, 6, 2**31 - 1, -(2**31), 2, 4], np.int32)
    data, x = drawn("f4", 9), np.arange(1, 7, dtype=np.float32)
    ends = np.array(starts, np.int32)
    assert_close(sums_of_rows(ends, columns, data, x), np.array(expected_sums(ends, columns, data, x), "f4"))


@pytest.mark.parametrize("dtype", ["f2", "f4", "i4"])
@pytest.mark.parametrize("size", [(1, 1), (5, 2), (3, 17), (40, 33)])
def test_several_folds_of_one_gather(size: tuple[int, int], dtype: str) -> None:
    columns = np.random.default_rng(0).integers(-2, 12, size)
    weights, x = drawn(dtype, *size), drawn(dtype, 10)
    picked = weights * read_at(x, columns)
    largest, total = largest_of_rows(weights, columns, x)
    assert_close(largest, picked.max(axis=1))
    assert_close(total, picked.sum(axis=1).astype(dtype))


def test_only_what_is_little_work_goes_by_single_elements() -> None:
    columns, x = tile.spec(("M", "N"), tile.i32), tile.spec(("K",), tile.f32)
    starts, elements = tile.spec(("P",), tile.i32), tile.spec(("N",), tile.f32)
    rows = sums_of_rows.compile(starts, tile.spec(("N",), tile.i32), elements, x)
    assert "masked.gather" not in rows.source
    assert "masked.gather" in sums_of_exponentials.compile(columns, x).source
