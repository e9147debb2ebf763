"""Kernels, as plain functions, that read, write and shape in every way of the language."""

from __future__ import annotations

import math
from typing import Any

from tiledsl import tile


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


def gather(x: tile.Tensor, idx: tile.Tensor) -> tile.Tensor:
    M, K = idx.shape[0], x.shape[1]
    out = tile.empty((M, K), x.dtype)
    for m, k in tile.grid(M, K):
        out[m, k] = x[idx[m], k]
    return out


def gather_elements(x: tile.Tensor, i: tile.Tensor, j: tile.Tensor) -> tile.Tensor:
    M, N = i.shape[0], j.shape[0]
    out = tile.empty((2, M, N), x.dtype)
    for m, n in tile.grid(M, N):
        rows, columns = i[m], j[n]
        out[0, m, n] = x[rows[:, None], columns[None, :]]
        out[1, m, n] = x.T[columns[None, :], rows[:, None]]
    return out


def scatter(x: tile.Tensor, idx: tile.Tensor, out: tile.Tensor) -> tile.Tensor:
    M = x.shape[0]
    for m in tile.grid(M):
        out[idx[m], :] = x[m, :] * 2
    return out


def views(x: tile.Tensor) -> Any:
    B, M, N = x.shape
    swapped = tile.empty((B, N, M), x.dtype)
    reversed_ = tile.empty((N, M, B), x.dtype)
    for b, m, n in tile.grid(B, M, N):
        swapped[b, n, m] = x.mT[b, n, m]
        reversed_.T[b, m, n] = x[b, m, n] + 0
        tile.static_assert(x.T.shape == (N, M, B) and x.mT.ndim == 3)
    return swapped, reversed_


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


def computed(x: tile.Tensor, last: int, known: tile.constexpr) -> tile.Tensor:
    """Coordinates on both sides of an axis, of a tensor and of a tile; those that are computed never wrap."""
    M = x.shape[0]
    out = tile.zeros((6, M, 7), x.dtype)
    for m in tile.grid(M):
        row = x[m, :]
        for i in tile.range(7, block=1):
            out[0, m, i] = x[m, i - 1] + row[:, i - 1]
            out[1, m, i] = tile.load(x[m, i - 1], other=9)
            out[2, m, i] = x[m, last + i - i] + row[:, last + i - i]
        for i in range(7):
            out[3, m, i] = x[m, i - 1] + row[:, i - 1]
            out[4, m, i] = x[m, known] + row[:, known] + x[m, -1] + row[:, -1]
            out[5, m, i + known - 3] = x[m, 0]
    return out


def axes(x: tile.Tensor) -> Any:
    M, N = x.shape
    outer, stacked, flat = tile.empty((M, M), x.dtype), tile.empty((M, 1, N), x.dtype), tile.empty((N, M), x.dtype)
    for _ in tile.grid(1, block=1):
        v = x[:, 0]
        outer[:, :] = v[:, None] - v[None, :]
        stacked[...] = x[:, None, ...]
        flat[:, :] = x[:, :].reshape(-1).reshape((N, M))
    return outer, stacked, flat


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


def filling(n: tile.constexpr) -> Any:
    zeros, ones, sevens, made = tile.zeros((n, 3)), tile.ones(n, tile.i32), tile.full(n, 7), tile.empty((4, n))
    for i in tile.grid(n):
        made[0, i] = tile.zeros(i) + tile.ones((i,), tile.f64)
        made[1, i] = tile.full((i,), 2.5)
        made[2, i] = tile.arange(i) + i.start
        made[3, i] = i.index
    return zeros, ones, sevens, made


def ranges(n: tile.constexpr) -> tile.Tensor:
    out = tile.empty((2, n), tile.i32)
    for _ in tile.grid(1, block=1):
        out[0, :] = tile.arange(3, 3 + 2 * n, 2)
        out[1, :] = tile.arange(n, dtype=tile.i32)[:]
    return out


def update(x: tile.Tensor, y: tile.Tensor) -> None:
    N = x.shape[0]
    for n in tile.grid(N):
        y[n] += x[n] * 2
        y[n] -= 1
        tile.store(y[n], y[n] + 0.5)


def coordinates(x: tile.Tensor, out: tile.Tensor, B: tile.constexpr) -> tile.Tensor:
    M, N = x.shape
    for m, n in tile.grid(M, N, block=(B, 4)):
        out[m, n] = tile.zeros((m, n)) + x[m, n] + m.index * 0 + m.start * 0 + m.size * 0
    return out


def scalars(x: tile.Tensor, flag: bool, count: int, scale: float) -> tile.Tensor:
    out = tile.empty(x.shape, x.dtype)
    for n in tile.grid(x.shape[0]):
        out[n] = x[()] if x.ndim == 0 else tile.where(flag, x[n] * scale, count)
    return out


def levels(x: tile.Tensor) -> tile.Tensor:
    out = tile.empty(x.shape, x.dtype)
    for n in tile.grid(x.shape[0], block=8):
        for k in tile.range(1, block=1, num_stages=2):
            out[n] = tile.load(x[n], level=tile.shared) + tile.load(x[n], level=tile.register) * (k + 1)
    return out


def open_reshapes(x: tile.Tensor) -> Any:
    """Reshapes whose open size follows from sizes that are known at the call."""
    B, M, N = x.shape
    flat, turned, one = tile.empty((B, M * N), x.dtype), tile.empty((B, N, M), x.dtype), tile.empty((B, M * N), x.dtype)
    for b in tile.grid(B):
        flat[b, :] = x[b].reshape(b, -1)
        turned[b, :, :] = x[b].reshape(-1, M * N).reshape((b, -1, M))
    for b in tile.grid(B, block=1):
        one[b, :] = x[b].reshape(b, -1)
    return flat, turned, one


def stepped(x: tile.Tensor) -> Any:
    """Slices with steps, forwards and backwards, read and written."""
    M, N = x.shape
    back, half = tile.empty((M, N), x.dtype), tile.empty((M, (N + 1) // 2), x.dtype)
    last, spread = tile.empty((M, 3), x.dtype), tile.zeros((M, N), x.dtype)
    for m in tile.grid(M):
        back[m, :] = x[m, ::-1]
        half[m, :] = x[m, ::2] * 2
        last[m, :] = x[m, -1:-7:-2]
        spread[m, ::-2] = x[m, ::2]
    return back, half, last, spread
