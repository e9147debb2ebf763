"""Bounds, subscripts, offsets and sizes of every integer type mean the same on every target."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.every_target import assert_alike
from tiledsl import tile

Array = npt.NDArray[Any]
INTEGERS = pytest.mark.parametrize("dtype", ["i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8"])


def stored(numbers: list[int], dtype: str) -> Array:
    kind = "uint" if dtype[0] == "u" else "int"
    return np.array(numbers, f"{kind}{dtype[1:]}")


def counted_up(rows: int, columns: int) -> Array:
    """0, 1, 2, ... row by row."""
    return (np.arange(rows)[:, None] * columns + np.arange(columns)).astype(np.float32)


@tile.kernel
def segments(x: tile.Tensor, offsets: tile.Tensor) -> Any:
    """Sums of runs of rows: by blocks, by single rows, by numbers counted up and down."""
    _N, D = x.shape
    P = offsets.shape[0]
    blocks, rows = tile.empty((P - 1, D), x.dtype), tile.empty((P - 1, D), x.dtype)
    up, down = tile.empty((P - 1, D), x.dtype), tile.empty((P - 1, D), x.dtype)
    for p, d in tile.grid(P - 1, D, block=(1, tile.auto)):
        low, high = offsets[p], offsets[p + 1]
        in_blocks = tile.zeros((d,), x.dtype)
        for n in tile.range(low, high):
            in_blocks += tile.sum(x[n, d], axis=0)
        blocks[p, d] = in_blocks
        in_rows = tile.zeros((d,), x.dtype)
        for n in tile.range(low, high, block=1):
            in_rows += x[n, d]
        rows[p, d] = in_rows
        going_up = tile.zeros((d,), x.dtype)
        for n in range(low, high, 2):
            going_up += x[n, d]
        up[p, d] = going_up
        going_down = tile.zeros((d,), x.dtype)
        for n in range(high - 1, low, -2):
            going_down += x[n, d]
        down[p, d] = going_down
    return blocks, rows, up, down


@INTEGERS
def test_bounds(dtype: str) -> None:
    x = counted_up(60, 5)
    blocks, rows, up, _ = assert_alike(segments, x, stored([0, 7, 7, 20, 60], dtype))
    wanted = [x[a:b].sum(0) for a, b in ((0, 7), (7, 7), (7, 20), (20, 60))]
    np.testing.assert_array_equal(blocks, wanted)
    np.testing.assert_array_equal(rows, wanted)
    np.testing.assert_array_equal(up, [x[a:b:2].sum(0) for a, b in ((0, 7), (7, 7), (7, 20), (20, 60))])


@tile.kernel
def experts(x: tile.Tensor, w: tile.Tensor, offsets: tile.Tensor) -> tile.Tensor:
    """Rows of `x` times the matrix of their expert: a product in a loop whose bounds are loaded."""
    T, D = x.shape
    D, F = w.shape[1:]
    P = offsets.shape[0]
    y = tile.zeros((T, F), tile.f32)
    for e, f in tile.grid(P - 1, F, block=(1, tile.auto)):
        for t in tile.range(offsets[e], offsets[e + 1]):
            acc = tile.zeros((t, f), tile.f32)
            for d in tile.range(D):
                acc = tile.dot(x[t, d], w[e, d, f], acc)
            y[t, f] = acc
    return y


@tile.kernel
def tails(a: tile.Tensor, b: tile.Tensor, length: tile.Tensor) -> tile.Tensor:
    """A product over the first `length` of what both have: a pipelined loop with a loaded bound."""
    M, N = a.shape[0], b.shape[1]
    c = tile.empty((M, N), tile.f32)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(1, length[0]):
            acc = tile.dot(a[m, k], b[k, n], acc)
        c[m, n] = acc
    return c


@INTEGERS
def test_bounds_of_products(dtype: str) -> None:
    generator = np.random.default_rng(0)
    x = generator.integers(-3, 4, (40, 24)).astype(np.float16)
    w = generator.integers(-3, 4, (3, 24, 16)).astype(np.float16)
    ends = [0, 9, 9, 33]
    (y,) = assert_alike(experts, x, w, stored(ends, dtype))
    wide = w.astype(np.float32)
    for e in range(3):
        part = slice(ends[e], ends[e + 1])
        np.testing.assert_array_equal(y[part], x[part].astype(np.float32) @ wide[e])
    (c,) = assert_alike(tails, x, w[0], stored([19], dtype), plans=2)
    np.testing.assert_array_equal(c, x[:, 1:19].astype(np.float32) @ wide[0][1:19])


@tile.kernel
def subscripts(x: tile.Tensor, where: tile.Tensor, by: tile.Tensor) -> Any:
    """Loads, stores and atomics at loaded places: of one row, of shifted blocks, of gathered rows."""
    M, N = x.shape
    K = where.shape[0]
    _B = by.shape[0]
    rows, gathered, scattered = tile.empty((K, N), x.dtype), tile.empty((K, N), x.dtype), tile.empty((K, N), x.dtype)
    shifted, back = tile.empty((M, N), x.dtype), tile.zeros((M, N), x.dtype)
    counted, numbers = tile.zeros(M, tile.i32), tile.empty((K, N), tile.f32)
    for k, n in tile.grid(K, N, block=(1, tile.auto)):
        rows[k, n] = x[where[k], n]
    for k, n in tile.grid(K, N):
        gathered[k, n] = x[where[k], n]
        scattered[where[k] % K, n] = x[where[k], n]
        numbers[k, n] = tile.rand(by[0], where[k])[:, None] + n.index[None, :].to(tile.f32)
    for k in tile.grid(K):
        tile.atomic_add(counted[where[k]], 1)
    for m, n in tile.grid(M, N):
        shifted[m, n] = x[m + by[0], n]
        back[m + by[1], n] = x[m, n]
    return rows, gathered, scattered, shifted, back, counted, numbers


@INTEGERS
def test_subscripts(dtype: str) -> None:
    x = counted_up(21, 9)
    where = [3, 20, 7, 12, 4, 5]  # all different when divided by 6
    rows, gathered, _, shifted, back, counted, _ = assert_alike(
        subscripts, x, stored(where, dtype), stored([2, 5], dtype)
    )
    np.testing.assert_array_equal(rows, x[where])
    np.testing.assert_array_equal(gathered, x[where])
    np.testing.assert_array_equal(shifted, np.concatenate([x[2:], np.zeros((2, 9), np.float32)]))
    np.testing.assert_array_equal(back, np.concatenate([np.zeros((5, 9), np.float32), x[:-5]]))
    np.testing.assert_array_equal(counted, np.bincount(where, minlength=21))


@tile.kernel
def parts(x: tile.Tensor, at: tile.Tensor) -> Any:
    """An element and a row of a tile, a number of turns, and how many of them there were, in the loaded type."""
    N = x.shape[1]
    P = at.shape[0]
    picked, counted = tile.empty((P, N), x.dtype), tile.empty(P, at.dtype)
    for p in tile.grid(P, block=1):
        whole = x[:, :]
        picked[p, :] = whole[at[p], :]
        turns = at[p] * 0
        while turns < at[p]:
            turns = turns + 1
        counted[p] = turns
    return picked, counted


@INTEGERS
def test_parts_of_tiles(dtype: str) -> None:
    x = counted_up(12, 8)
    picked, counted = assert_alike(parts, x, stored([0, 11, 5], dtype))
    np.testing.assert_array_equal(picked, x[[0, 11, 5]])
    np.testing.assert_array_equal(counted, [0, 11, 5])


@tile.kernel
def first_rows(x: tile.Tensor, rows: tile.Tensor, count: int, COLUMNS: tile.constexpr) -> tile.Tensor:
    """`count` times the rows of as many columns as are said."""
    M = x.shape[0]
    y = tile.zeros((M, COLUMNS), x.dtype)
    for m in tile.grid(M):
        for _ in range(count):
            y[m, :] = y[m, :] + x[m, 0:COLUMNS] * rows[0].to(x.dtype)
    return y


@INTEGERS
def test_sizes_that_are_given(dtype: str) -> None:
    x = counted_up(5, 8)
    number: Any = stored([3], dtype)[0]
    (y,) = assert_alike(first_rows, x, stored([2], dtype), number, COLUMNS=int(number))
    np.testing.assert_array_equal(y, 6 * x[:, :3])
