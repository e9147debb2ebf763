"""Kernels, as plain functions, with every kind of control flow, helpers and constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiledsl import tile

WIDTH = 3
PAIR: Any = (2, (np.float32(0.5), "name"))


def branches(x: tile.Tensor, limit: int) -> tile.Tensor:
    N = x.shape[0]
    out = tile.empty((4, N), tile.i64)
    for n in tile.grid(N, block=1):
        v = x[n]
        sign = 0
        if v > 0:
            sign = 1
            size = v
        elif v < 0:
            sign = -1
            size = -v
        else:
            size = v
        out[0, n] = sign
        out[1, n] = size
        fives = v % 5 == 0
        out[2, n] = 1 if (v > limit and not fives) or v < -limit else 0
        out[3, n] = (v, sign)[1] if limit > 1 else -7
        if v == 100:
            pass
    return out


def collatz(x: tile.Tensor) -> tile.Tensor:
    N = x.shape[0]
    out = tile.empty((3, N), tile.i64)
    for n in tile.grid(N, block=1):
        value, steps = x[n], 0
        while value != 1:
            if value % 2 == 0:
                value = value // 2
            else:
                value = 3 * value + 1
            steps += 1
            if steps >= 20:
                break
        out[0, n] = steps
        odd = 0
        for i in range(x[n]):
            if i % 2 == 0:
                continue
            if i > 7:
                break
            odd += i
        out[1, n] = odd
        down = 0
        for i in range(x[n], 0, -2):
            down = down * 3 + i
        out[2, n] = down
    return out


def jumps_in_ranges(x: tile.Tensor, until: int) -> tile.Tensor:
    M, N = x.shape
    out = tile.zeros(M)
    for m in tile.grid(M, block=1):
        if m == 1:
            continue
        total = 0.0
        for n in tile.range(N, block=2):
            if n.start == 2:
                continue
            if n.start >= until:
                break
            total += tile.sum(x[m, n])
        out[m] = total
    return out


def unrolled(x: tile.Tensor, depth: tile.constexpr) -> tile.Tensor:
    N = x.shape[0]
    out = tile.empty((depth, N), x.dtype)
    for n in tile.grid(N):
        power = tile.ones(n)
        for i in range(depth):
            for factor in (x[n], 1.0):
                power = power * factor
            out[i, n] = power
            if i == 2:
                break
        for i, (scale, row) in enumerate(zip((1.0, 2.0), (0, 1))):
            out[row, n] += i * scale
    return out


def bounds_at_run_time(x: tile.Tensor, low: int, high: int) -> tile.Tensor:
    M, N = x.shape
    out = tile.empty(M, tile.f32)
    for m in tile.grid(M):
        acc = tile.zeros(m)
        for n in tile.range(low, min(high, N)):
            acc = acc + x[m, n].sum(1)
        out[m] = acc
    return out


@tile.func
def normalise(x: Any, eps: Any = 1e-5, *, centre: tile.constexpr = True) -> Any:
    """x with mean 0 (if `centre`) and variance 1; and the mean."""
    mean = tile.sum(x, axis=1, keepdims=True) / x.shape[1]
    if not centre:
        return x, mean
    d = x - mean
    return d * tile.rsqrt(tile.sum(d * d, axis=1, keepdims=True) / x.shape[1] + eps), mean


def layer_norm(x: tile.Tensor, w: tile.Tensor) -> Any:
    M, N = x.shape
    y, means, plain = tile.empty((M, N), x.dtype), tile.empty(M, x.dtype), tile.empty((M, N), x.dtype)
    for m in tile.grid(M):
        value, mean = normalise(x[m, :])
        y[m, :] = value * w[:]
        means[m] = mean[:, 0]
        plain[m, :] = normalise(x[m, :], centre=False)[0]
    return y, means, plain


def size_arithmetic(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    out = tile.empty((M * 2, max(N, 3) // 2 + 1), tile.f32)
    for m, n in tile.grid(out.shape[0], out.shape[1]):
        out[m, n] = M + N % 4 - len(x.shape) + float(M) / N + int(2.75) + abs(N - 100) + (N if N > 5 else M)
    return out


def speaking(x: tile.Tensor) -> None:
    for n in tile.grid(x.shape[0], block=2):
        tile.print("block", f"of {WIDTH:02d}", n.start, x[n])
        tile.assert_(x[n] < 10, "below ten")
        assert n.size <= 2, "at most two"
        assert WIDTH == 3


def two_grids(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    sums = tile.empty(M, tile.f32)
    out = tile.empty((M, N), tile.f32)
    for m in tile.grid(M):
        row = x[m, :]
        sums[m] = row.sum(axis=1)
    for m, n in tile.grid(M, N):
        row = x[m, n]
        out[m, n] = row / sums[m][:, None]
    return out


def carried_tuple(x: tile.Tensor) -> tile.Tensor:
    N = x.shape[0]
    out = tile.empty(2, x.dtype)
    for _ in tile.grid(1, block=1):
        pair = (0.0, 1)
        for n in tile.range(N):
            total, count = pair
            pair = (total + tile.sum(x[n]), count + n.size)
        out[0], out[1] = pair
    return out
