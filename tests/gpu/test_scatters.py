"""Scatters of many updates at the same time: sums by atomics, the last of several updates of one place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiledsl
from tiledsl import ops

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")
ROWS, COLUMNS, COUNT = 300, 200, 4000


def given(dtype: Any) -> tuple[Any, Any, Any]:
    """A tensor, positions that come many times, and whole numbers to add: their sums are exact."""
    random = np.random.default_rng(0)
    x = random.integers(-4, 5, (ROWS, COLUMNS)).astype(dtype)
    at = random.integers(0, ROWS, COUNT)
    return x, at, random.integers(-2, 3, (COUNT, COLUMNS)).astype(dtype)


def applied(formula: Any, *arrays: Any) -> Any:
    built = tiledsl.fuse(tiledsl.trace(formula, *arrays)).build()
    return built(*(torch.from_numpy(array).cuda() for array in arrays)).cpu().numpy()


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize("reduce", ["add", "max", "min"])
def test_rows(dtype: Any, reduce: str) -> None:
    x, at, updates = given(dtype)
    wanted = x.copy()
    {"add": np.add, "max": np.maximum, "min": np.minimum}[reduce].at(wanted, at, updates)

    def formula(x: Any, at: Any, updates: Any) -> Any:
        return ops.scatter_nd(x, at.reshape(-1, 1), updates, reduce=reduce)

    np.testing.assert_array_equal(applied(formula, x, at, updates), wanted)


def test_the_last_of_several() -> None:
    x, at, updates = given(np.float32)
    wanted = x.copy()
    for place, row in zip(at, updates):
        wanted[place] = row

    def formula(x: Any, at: Any, updates: Any) -> Any:
        return ops.scatter_nd(x, at.reshape(-1, 1), updates)

    np.testing.assert_array_equal(applied(formula, x, at, updates), wanted)


@pytest.mark.parametrize("deterministic", [False, True])
def test_counts(deterministic: bool) -> None:
    _, at, _ = given(np.float32)
    zeros, ones = np.zeros(ROWS, np.float32), np.ones(COUNT, np.float32)

    def formula(zeros: Any, at: Any, ones: Any) -> Any:
        return ops.scatter(zeros, at, ones, 0, reduce="add", deterministic=deterministic)

    np.testing.assert_array_equal(applied(formula, zeros, at, ones), np.bincount(at, minlength=ROWS))


def test_elements_of_f16() -> None:
    x, _, updates = given(np.float16)
    at: Any = np.random.default_rng(1).integers(0, ROWS, (COUNT, COLUMNS))
    wanted = x.astype(np.float64)
    np.add.at(wanted, (at, np.arange(COLUMNS)[None, :]), updates.astype(np.float64))

    def formula(x: Any, at: Any, updates: Any) -> Any:
        return ops.scatter(x, at, updates, 0, reduce="add")

    np.testing.assert_array_equal(applied(formula, x, at, updates), wanted.astype(np.float16))


@pytest.mark.parametrize("skewed", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_many_updates_of_few_elements(dtype: Any, skewed: bool) -> None:
    """Programs have tables of their own; of skewed places most are the same."""
    at = np.random.default_rng(0).integers(0, 256, 1_000_003)
    at = np.where(np.arange(at.size) % 16 == 0, at, 7) if skewed else at
    zeros = np.zeros(256, dtype)

    def formula(y: Any, at: Any) -> Any:
        return ops.index_put(y, (at,), 1, True, deterministic=False)

    np.testing.assert_array_equal(applied(formula, zeros, at), np.bincount(at, minlength=256))
