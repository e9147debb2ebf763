"""Control flow, helpers, constants and messages of the language, in the reference executor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.support.compare import assert_close
from tests.support.kernels import run_kernel
from tiledsl import TileRuntimeError, tile

WIDTH = 3
PAIR: Any = (2, (np.float32(0.5), "name"))


def counting(*shape: int, start: int = 0) -> Any:
    """start, start + 1 ... as f32."""
    return np.reshape(np.arange(start, start + math.prod(shape), dtype=np.float32), shape)


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


@pytest.mark.parametrize("limit", [1, 2])
def test_branches_on_scalars(limit: int) -> None:
    x = np.arange(-6, 7)
    flags = ((x > limit) & (x % 5 != 0)) | (x < -limit)
    expected = np.stack([np.sign(x), np.abs(x), flags, np.sign(x) if limit > 1 else np.full_like(x, -7)])
    assert_close(run_kernel(branches, x, limit)[0], expected)


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


def test_while_and_integer_loops_with_jumps() -> None:
    x = np.array([1, 2, 7, 9, 10, 27])
    steps: list[int] = []
    odd: list[int] = []
    down: list[int] = []
    for start in x.tolist():
        value, count = start, 0
        while value != 1 and count < 20:
            value, count = (value // 2 if value % 2 == 0 else 3 * value + 1), count + 1
        steps.append(count)
        odd.append(sum(i for i in range(min(start, 8)) if i % 2 == 1))
        total = 0
        for i in range(start, 0, -2):
            total = total * 3 + i
        down.append(total)
    assert_close(run_kernel(collatz, x)[0], np.array([steps, odd, down]))


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


def test_jumps_in_blocked_loops() -> None:
    x = counting(3, 8)
    expected = x[:, :2].sum(1) + x[:, 4:6].sum(1)
    expected[1] = 0
    assert_close(run_kernel(jumps_in_ranges, x, 6)[0], expected)


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


def test_unrolled_loops() -> None:
    x = np.arange(5, dtype=np.float32)
    rows = [x, x**2 + 2, x**3]
    assert_close(run_kernel(unrolled, x, constants={"depth": 3})[0], np.stack(rows))


def bounds_at_run_time(x: tile.Tensor, low: int, high: int) -> tile.Tensor:
    M, N = x.shape
    out = tile.empty(M, tile.f32)
    for m in tile.grid(M):
        acc = tile.zeros(m)
        for n in tile.range(low, min(high, N)):
            acc = acc + x[m, n].sum(1)
        out[m] = acc
    return out


def test_ranges_with_run_time_bounds() -> None:
    x = counting(4, 10)
    assert_close(run_kernel(bounds_at_run_time, x, 3, 99, block=4)[0], x[:, 3:].sum(1))
    assert_close(run_kernel(bounds_at_run_time, x, 5, 5, block=4)[0], np.zeros(4, np.float32))


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


def test_helpers_are_inlined() -> None:
    x, w = np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32), np.arange(8, dtype=np.float32)
    y, means, plain = run_kernel(layer_norm, x, w)
    d = x - x.mean(1, keepdims=True)
    assert_close(y, d / np.sqrt((d * d).mean(1, keepdims=True) + np.float32(1e-5)) * w)
    assert_close(means, x.mean(1))
    assert_close(plain, x)


def test_closures_and_globals_are_constants() -> None:
    shift = 2.5

    def kernel(x: tile.Tensor) -> tile.Tensor:
        out = tile.empty(x.shape, x.dtype)
        for n in tile.grid(x.shape[0]):
            out[n] = x[n] * WIDTH + shift + math.pi + PAIR[0] + PAIR[1][0] + math.sqrt(4)
        return out

    x = np.arange(4, dtype=np.float32)
    assert_close(run_kernel(kernel, x)[0], x * 3 + np.float32(2.5 + math.pi + 2 + 0.5 + 2))


def size_arithmetic(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    out = tile.empty((M * 2, max(N, 3) // 2 + 1), tile.f32)
    for m, n in tile.grid(out.shape[0], out.shape[1]):
        out[m, n] = M + N % 4 - len(x.shape) + float(M) / N + int(2.75) + abs(N - 100) + (N if N > 5 else M)
    return out


def test_sizes_are_integers() -> None:
    got = run_kernel(size_arithmetic, np.zeros((4, 9), np.float32))[0]
    assert got.shape == (8, 5)
    assert_close(got, np.full((8, 5), 4 + 1 - 2 + 4 / 9 + 2 + 91 + 9, np.float32))


def speaking(x: tile.Tensor) -> None:
    for n in tile.grid(x.shape[0], block=2):
        tile.print("block", f"of {WIDTH:02d}", n.start, x[n])
        tile.assert_(x[n] < 10, "below ten")
        assert n.size <= 2, "at most two"
        assert WIDTH == 3


def test_prints_and_assertions() -> None:
    lines: list[str] = []
    run_kernel(speaking, np.array([1, 2, 3], np.int32), output=lines.append)
    assert len(lines) == 2
    assert all(line.startswith("block of 03") for line in lines)
    with pytest.raises(TileRuntimeError, match="below ten"):
        run_kernel(speaking, np.array([1, 20], np.int32), output=lines.append)


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


def test_grids_follow_one_another() -> None:
    x = counting(4, 7, start=1)
    assert_close(run_kernel(two_grids, x)[0], x / x.sum(1, keepdims=True))


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


def test_tuples_are_carried_and_numbers_take_the_dtype_of_tiles() -> None:
    x = np.arange(20, dtype=np.float32)
    assert_close(run_kernel(carried_tuple, x)[0], np.array([190, 21], np.float32))
