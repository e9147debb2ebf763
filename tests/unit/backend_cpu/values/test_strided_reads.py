"""Reads of elements that lie apart: every other one and those in the other direction, up to the ends of memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support import guard_pages
from tiledsl import tile
from tiledsl.ir.dtypes import BY_NAME, to_numpy


@tile.kernel
def doubled(x: Any) -> Any:
    """y[n] = x[n] + x[n]."""
    n = x.shape[0]
    y = tile.empty((n,), x.dtype)
    for i in tile.grid(n):
        y[i] = x[i] + x[i]
    return y


def at_the_end(values: Any) -> Any:
    """The values in memory behind which there is none."""
    if not guard_pages.available:
        return values
    room: Any = guard_pages.memory_before_a_guard(values.nbytes)
    placed = room[-values.nbytes :].view(values.dtype)
    placed[:] = values
    return placed


@pytest.mark.parametrize("dtype", ["f32", "f16", "f64", "i8", "i64", "bf16"])
@pytest.mark.parametrize("step", [1, 2, 3, -1, -2, 16])
@pytest.mark.parametrize("size", [1, 16, 31, 64, 100])
def test_steps(step: int, size: int, dtype: str) -> None:
    values = np.random.default_rng(0).integers(-9, 9, (size - 1) * abs(step) + 1)
    x = at_the_end(values.astype(to_numpy(BY_NAME[dtype])))[::step]
    assert x.shape == (size,)
    np.testing.assert_array_equal(np.asarray(doubled(x), np.float64), 2 * np.asarray(x, np.float64))


def test_whole_vectors_are_shuffled() -> None:
    """Where strides are known when the program runs, it asks which they are."""

    @tile.kernel
    def other(x: Any) -> Any:
        m = x.shape[0]
        y = tile.empty((m,), x.dtype)
        for i in tile.grid(m):
            y[i] = x[i, 0]
        return y

    source = other.compile(tile.spec((64, 2), tile.f32), arch="cpu").source
    lanes = ", ".join(f"i32 {2 * i if i < 8 else 2 * i + 1}" for i in range(16))
    assert f"<16 x i32> <{lanes}>" in source or "<16 x float>" not in source  # narrower vectors
