"""Kernels that keep what they stored in registers; loops that compute little, several rounds at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from examples.gallery.__main__ import entry_of
from tiledsl import tile

ARCH = "sm_90"
cholesky = entry_of("cholesky").kernel


@tile.kernel
def eliminated(a: tile.Tensor) -> tile.Tensor:
    """Gauss' elimination in place, without pivots: each element is stored several times."""
    N, _, B = a.shape
    u = tile.empty((N, N, B), a.dtype)
    for b in tile.grid(B):
        for i in range(N):
            for j in range(N):
                u[i, j, b] = a[i, j, b]
        for k in range(N):
            for i in range(k + 1, N):
                u[i, k, b] = u[i, k, b] / u[k, k, b]
                for j in range(k + 1, N):
                    u[i, j, b] = u[i, j, b] - u[i, k, b] * u[k, j, b]
    return u


@tile.kernel
def steps(x: tile.Tensor, count: int, fn: tile.constexpr) -> tile.Tensor:
    (N,) = x.shape
    y = tile.empty((N,), x.dtype)
    for n in tile.grid(N):
        e = x[n]
        for _ in range(count):
            e = (tile.sin(e) if fn == "sin" else e * 0.5) + 1.0
        y[n] = e
    return y


def definite(order: int, batch: int) -> Any:
    roots: Any = np.random.default_rng(0).standard_normal((batch, order, order), np.float32)
    return np.ascontiguousarray((roots @ roots.transpose(0, 2, 1) + order * np.eye(order, dtype=np.float32)).T)


@pytest.mark.parametrize(("kernel", "stores"), [(cholesky, 10), (eliminated, 16)])
def test_each_place_is_stored_once_and_not_read(kernel: Any, stores: int) -> None:
    compiled = kernel.compile(definite(4, 8192), arch=ARCH)
    code = compiled.ir("gpu")
    assert "tile.for" not in code
    written = "factor" if kernel is cholesky else "u"
    assert f"gpu.load(%{written}" not in code
    assert code.count(f"gpu.store(%{written}") == stores
    assert "stores forwarded" in compiled.explain() or "written out" in compiled.explain()


@pytest.mark.parametrize("batch", [1, 70])
def test_factors_are_right(batch: int) -> None:
    a = definite(4, batch)
    expected = np.transpose(np.linalg.cholesky(np.transpose(a, (2, 0, 1))), (1, 2, 0))
    assert np.allclose(cholesky.emulate(a, arch=ARCH), expected, atol=1e-5)
    assert np.allclose(cholesky(a), expected, atol=1e-5)


def test_elimination_is_right() -> None:
    a = definite(4, 33)
    got: Any = eliminated.emulate(a, arch=ARCH).astype(np.float64)
    matrices = got.transpose(2, 0, 1)
    lower, upper = np.tril(matrices, -1) + np.eye(4), np.triu(matrices)
    assert np.allclose(lower @ upper, a.transpose(2, 0, 1), atol=1e-4)


@pytest.mark.parametrize(("fn", "rounds"), [("half", 4), ("sin", 1)])
def test_loops_that_compute_little_go_several_rounds_at_a_time(fn: str, rounds: int) -> None:
    source = steps.compile(tile.spec((1 << 20,), tile.f32), 64, fn, arch=ARCH).source
    assert f"#pragma unroll {rounds}\n" in source


def test_no_two_threads_compute_the_same() -> None:
    plan = steps.compile(np.zeros(70_000, np.float32), 64, "half", arch=ARCH)
    assert "replicate" not in plan.ir("gpu")
