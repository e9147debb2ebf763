"""Subscripts, loads, stores, atomics and shapes of the language against NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.support.compare import assert_close
from tests.support.kernels import run_kernel
from tiledsl import tile

RNG = np.random.default_rng(2)


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def neighbours(x: tile.Tensor) -> tile.Tensor:
    N = x.shape[0]
    out = tile.empty((3, N), x.dtype)
    for n in tile.grid(N):
        out[0, n] = x[n - 1] + x[n] + x[n + 1]
        out[1, n] = tile.load(x[n + 2], other=-math.inf)
        out[2, n - 1] = x[n]
        if n.start + n.size == N:
            out[2, N - 1] = 0
    return out


@pytest.mark.parametrize("block", [1, 4, 32])
def test_shifted_blocks_read_other_and_drop_writes_outside(block: int) -> None:
    x = floats(11)
    padded = np.pad(x, 1)
    beyond = np.concatenate([x[2:], [-np.inf, -np.inf]]).astype(np.float32)
    expected = np.stack([padded[:-2] + x + padded[2:], beyond, np.append(x[1:], np.float32(0))])
    assert_close(run_kernel(neighbours, x, block=block)[0], expected)


def gather(x: tile.Tensor, idx: tile.Tensor) -> tile.Tensor:
    M, K = idx.shape[0], x.shape[1]
    out = tile.empty((M, K), x.dtype)
    for m, k in tile.grid(M, K):
        out[m, k] = x[idx[m], k]
    return out


def test_gather_of_rows() -> None:
    x, idx = floats(12, 9), RNG.integers(0, 12, 23).astype(np.int32)
    assert_close(run_kernel(gather, x, idx)[0], x[idx])
    outside = np.array([0, -1, 12, 3], np.int64)
    expected = np.where(((outside >= 0) & (outside < 12))[:, None], x[outside % 12], 0).astype(np.float32)
    assert_close(run_kernel(gather, x, outside)[0], expected)


def gather_elements(x: tile.Tensor, i: tile.Tensor, j: tile.Tensor) -> tile.Tensor:
    M, N = i.shape[0], j.shape[0]
    out = tile.empty((2, M, N), x.dtype)
    for m, n in tile.grid(M, N):
        rows, columns = i[m], j[n]
        out[0, m, n] = x[rows[:, None], columns[None, :]]
        out[1, m, n] = x.T[columns[None, :], rows[:, None]]
    return out


def test_gather_on_two_axes_and_from_a_transposed_view() -> None:
    x, i, j = floats(6, 8), RNG.integers(0, 6, 9), RNG.integers(0, 8, 5)
    expected = x[i[:, None], j[None, :]]
    assert_close(run_kernel(gather_elements, x, i, j)[0], np.stack([expected, expected]))


def scatter(x: tile.Tensor, idx: tile.Tensor, out: tile.Tensor) -> tile.Tensor:
    M = x.shape[0]
    for m in tile.grid(M):
        out[idx[m], :] = x[m, :] * 2
    return out


def test_scatter() -> None:
    x, idx = floats(5, 3), np.array([7, 0, 100, 2, -1])
    expected = np.zeros((9, 3), np.float32)
    expected[[7, 0, 2]] = 2 * x[[0, 1, 3]]
    assert_close(run_kernel(scatter, x, idx, np.zeros((9, 3), np.float32))[0], expected)


def views(x: tile.Tensor) -> Any:
    B, M, N = x.shape
    swapped = tile.empty((B, N, M), x.dtype)
    reversed_ = tile.empty((N, M, B), x.dtype)
    for b, m, n in tile.grid(B, M, N):
        swapped[b, n, m] = x.mT[b, n, m]
        reversed_.T[b, m, n] = x[b, m, n] + 0
        tile.static_assert(x.T.shape == (N, M, B) and x.mT.ndim == 3)
    return swapped, reversed_


def test_transposed_views() -> None:
    x = floats(3, 8, 9)
    swapped, reversed_ = run_kernel(views, x, block=4)
    assert_close(swapped, x.swapaxes(1, 2))
    assert_close(reversed_, x.T)


def slices(x: tile.Tensor, half: tile.constexpr) -> Any:
    M, N = x.shape
    left, right = tile.empty((M, half), x.dtype), tile.empty((M, N - half), x.dtype)
    picked, corner = tile.empty((M, 4), x.dtype), tile.empty((2, M), x.dtype)
    for m in tile.grid(M):
        left[m, :] = x[m, :half]
        right[m, :] = x[m, half:]
        row = x[m]
        picked[m, :] = row[:, 1:5]
        corner[0, m] = x[m, -1]
        corner[1, m] = row[:, 0] + row[:, N - 2]
    return left, right, picked, corner


@pytest.mark.parametrize("columns", [8, 9])
def test_slices_and_constant_coordinates(columns: int) -> None:
    x = floats(9, columns)
    left, right, picked, corner = run_kernel(slices, x, constants={"half": 4}, block=4)
    assert_close(left, x[:, :4])
    assert_close(right, x[:, 4:])
    assert_close(picked, x[:, 1:5])
    assert_close(corner, np.stack([x[:, -1], x[:, 0] + x[:, -2]]))


def axes(x: tile.Tensor) -> Any:
    M, N = x.shape
    outer, stacked, flat = tile.empty((M, M), x.dtype), tile.empty((M, 1, N), x.dtype), tile.empty((N, M), x.dtype)
    for _ in tile.grid(1, block=1):
        v = x[:, 0]
        outer[:, :] = v[:, None] - v[None, :]
        stacked[...] = x[:, None, ...]
        flat[:, :] = x[:, :].reshape(-1).reshape((N, M))
    return outer, stacked, flat


def test_new_axes_ellipsis_and_reshape() -> None:
    x = floats(4, 6)
    outer, stacked, flat = run_kernel(axes, x)
    assert_close(outer, x[:, 0][:, None] - x[:, 0])
    assert_close(stacked, x[:, None])
    assert_close(flat, x.reshape(6, 4))


def tile_shapes(x: tile.Tensor) -> Any:
    M, N = x.shape
    turned, sums, wide = tile.empty((N, M), x.dtype), tile.empty((1, N), x.dtype), tile.empty((3, M, N), x.dtype)
    for _ in tile.grid(1, block=1):
        t = x[:, :]
        turned[:, :] = t.T + tile.transpose(t, (1, 0)) + t.mT
        sums[:, :] = t.sum(axis=0, keepdims=True)
        wide[...] = tile.broadcast_to(t, (3, M, N))
        tile.static_assert(t.shape[1] == N and t.ndim == 2 and t.size == M * N and t.T.shape == (N, M))
    return turned, sums, wide


def test_shapes_of_tiles() -> None:
    x = floats(4, 6)
    turned, sums, wide = run_kernel(tile_shapes, x)
    assert_close(turned, 3 * x.T)
    assert_close(sums, x.sum(axis=0, keepdims=True))
    assert_close(wide, np.broadcast_to(x, (3, 4, 6)))


def histogram(x: tile.Tensor, counts: tile.Tensor, extremes: tile.Tensor) -> Any:
    N = x.shape[0]
    for n in tile.grid(N):
        tile.atomic_add(counts[x[n]], 1)
        tile.atomic_max(extremes[0], tile.max(x[n]))
        old = tile.atomic_min(extremes[1], tile.min(x[n]))
        tile.assert_(old >= 0)
        tile.atomic_or(extremes[2], 1)
        tile.atomic_exchange(extremes[3], 5)
    return counts, extremes


def test_atomics() -> None:
    x = RNG.integers(0, 6, 40)
    counts, extremes = run_kernel(histogram, x, np.zeros(6, np.int32), np.array([-9, 99, 0, 0]))
    assert_close(counts, np.bincount(x, minlength=6).astype(np.int32))
    assert_close(extremes, np.array([x.max(), x.min(), 1, 5]))


def filling(n: tile.constexpr) -> Any:
    zeros, ones, sevens, made = tile.zeros((n, 3)), tile.ones(n, tile.i32), tile.full(n, 7), tile.empty((4, n))
    for i in tile.grid(n):
        made[0, i] = tile.zeros(i) + tile.ones((i,), tile.f64)
        made[1, i] = tile.full((i,), 2.5)
        made[2, i] = tile.arange(i) + i.start
        made[3, i] = i.index
    return zeros, ones, sevens, made


def test_filled_tensors_and_tiles() -> None:
    zeros, ones, sevens, made = run_kernel(filling, constants={"n": 9}, block=4)
    assert_close(zeros, np.zeros((9, 3), np.float32))
    assert_close(ones, np.ones(9, np.int32))
    assert_close(sevens, np.full(9, 7))
    count = np.arange(9)
    assert_close(made, np.stack([0 * count + 1, 0 * count + 2.5, count, count]).astype(np.float32))


def ranges(n: tile.constexpr) -> tile.Tensor:
    out = tile.empty((2, n), tile.i32)
    for _ in tile.grid(1, block=1):
        out[0, :] = tile.arange(3, 3 + 2 * n, 2)
        out[1, :] = tile.arange(n, dtype=tile.i32)[:]
    return out


def test_arange() -> None:
    expected = np.stack([np.arange(3, 17, 2), np.arange(7)]).astype(np.int32)
    assert_close(run_kernel(ranges, constants={"n": 7})[0], expected)


def update(x: tile.Tensor, y: tile.Tensor) -> None:
    N = x.shape[0]
    for n in tile.grid(N):
        y[n] += x[n] * 2
        y[n] -= 1
        tile.store(y[n], y[n] + 0.5)


def test_updates_in_place() -> None:
    x, y = floats(11), floats(11)
    expected = (y + x * 2) - 1 + 0.5
    assert run_kernel(update, x, y) == ()
    assert_close(y, expected.astype(np.float32))


def coordinates(x: tile.Tensor, out: tile.Tensor, B: tile.constexpr) -> tile.Tensor:
    M, N = x.shape
    for m, n in tile.grid(M, N, block=(B, 4)):
        out[m, n] = tile.zeros((m, n)) + x[m, n] + m.index * 0 + m.start * 0 + m.size * 0
    return out


def test_blocks_of_one_leave_no_axis() -> None:
    x = floats(5, 9)
    assert_close(run_kernel(coordinates, x, np.zeros_like(x), constants={"B": 1})[0], x)


def scalars(x: tile.Tensor, flag: bool, count: int, scale: float) -> tile.Tensor:
    out = tile.empty(x.shape, x.dtype)
    for n in tile.grid(x.shape[0]):
        out[n] = x[()] if x.ndim == 0 else tile.where(flag, x[n] * scale, count)
    return out


@pytest.mark.parametrize("flag", [True, False])
def test_scalar_parameters(flag: bool) -> None:
    x = floats(9)
    expected = x * np.float32(0.5) if flag else np.full(9, 3, np.float32)
    assert_close(run_kernel(scalars, x, flag, 3, 0.5)[0], expected)


def levels(x: tile.Tensor) -> tile.Tensor:
    out = tile.empty(x.shape, x.dtype)
    for n in tile.grid(x.shape[0], block=8):
        for k in tile.range(1, block=1, num_stages=2):
            out[n] = tile.load(x[n], level=tile.shared) + tile.load(x[n], level=tile.register) * (k + 1)
    return out


def test_levels_and_stages() -> None:
    x = floats(19)
    assert_close(run_kernel(levels, x)[0], 2 * x)
