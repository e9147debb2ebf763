"""Control flow, helpers, constants and messages of the language, in the reference executor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.support.compare import assert_close
from tests.support.kernels.kernels_control import (
    PAIR,
    WIDTH,
    bounds_at_run_time,
    branches,
    carried_tuple,
    collatz,
    jumps_in_ranges,
    layer_norm,
    size_arithmetic,
    speaking,
    two_grids,
    unrolled,
)
from tests.support.kernels.lowered_kernels import run_kernel
from tiledsl import TileRuntimeError, tile


def counting(*shape: int, start: int = 0) -> Any:
    """start, start + 1 ... as f32."""
    return np.reshape(np.arange(start, start + math.prod(shape), dtype=np.float32), shape)


@pytest.mark.parametrize("limit", [1, 2])
def test_branches_on_scalars(limit: int) -> None:
    x = np.arange(-6, 7)
    flags = ((x > limit) & (x % 5 != 0)) | (x < -limit)
    expected = np.stack([np.sign(x), np.abs(x), flags, np.sign(x) if limit > 1 else np.full_like(x, -7)])
    assert_close(run_kernel(branches, x, limit)[0], expected)


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


def test_jumps_in_blocked_loops() -> None:
    x = counting(3, 8)
    expected = x[:, :2].sum(1) + x[:, 4:6].sum(1)
    expected[1] = 0
    assert_close(run_kernel(jumps_in_ranges, x, 6)[0], expected)


def test_unrolled_loops() -> None:
    x = np.arange(5, dtype=np.float32)
    rows = [x, x**2 + 2, x**3]
    assert_close(run_kernel(unrolled, x, constants={"depth": 3})[0], np.stack(rows))


def test_ranges_with_run_time_bounds() -> None:
    x = counting(4, 10)
    assert_close(run_kernel(bounds_at_run_time, x, 3, 99, block=4)[0], x[:, 3:].sum(1))
    assert_close(run_kernel(bounds_at_run_time, x, 5, 5, block=4)[0], np.zeros(4, np.float32))


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


def test_sizes_are_integers() -> None:
    got = run_kernel(size_arithmetic, np.zeros((4, 9), np.float32))[0]
    assert got.shape == (8, 5)
    assert_close(got, np.full((8, 5), 4 + 1 - 2 + 4 / 9 + 2 + 91 + 9, np.float32))


def test_prints_and_assertions() -> None:
    lines: list[str] = []
    run_kernel(speaking, np.array([1, 2, 3], np.int32), output=lines.append)
    assert len(lines) == 2
    assert all(line.startswith("block of 03") for line in lines)
    with pytest.raises(TileRuntimeError, match="below ten"):
        run_kernel(speaking, np.array([1, 20], np.int32), output=lines.append)


def test_grids_follow_one_another() -> None:
    x = counting(4, 7, start=1)
    assert_close(run_kernel(two_grids, x)[0], x / x.sum(1, keepdims=True))


def test_tuples_are_carried_and_numbers_take_the_dtype_of_tiles() -> None:
    x = np.arange(20, dtype=np.float32)
    assert_close(run_kernel(carried_tuple, x)[0], np.array([190, 21], np.float32))
