"""f32 products of tile programs by planes that threads make: by warpgroups, by all threads alike, as f32 has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.gpu_code.gpu_lowering import alignment_of, lowered, run_as_launched
from tests.support.kernels.product_nests import placed_case
from tiledsl import tile
from tiledsl.passes.gpu.plan import parse_plan

pytestmark = pytest.mark.filterwarnings("ignore::tiledsl.TilePerformanceWarning")

DIGITS = 3e-7
"""Of the sum of magnitudes; a sum of single multiply-adds is off by more."""
BY_WARPGROUPS = (
    "m=128, n=64, k=32, 256 threads, 8x1 warps, 3 stages, cooperative, by planes",
    "m=64, n=96, k=32, 128 threads, 4x1 warps, 2 stages, cooperative, by planes",
    "m=64, n=64, k=64, 256 threads, 4x1 warps, 2 stages, pingpong, 2 programs, by planes",
    "m=128, n=32, k=16, 256 threads, 8x1 warps, 4 stages, 3 programs, cooperative, by planes",
)
BY_THREADS = (
    "m=64, n=64, k=32, 128 threads, 2x2 warps, 3 stages, by planes",
    "m=32, n=64, k=16, 64 threads, 1x2 warps, 2 stages, by planes",
    "m=16, n=16, k=16, 32 threads, 1 stages, by planes",
)


@tile.kernel
def product(a: tile.Tensor, b: tile.Tensor) -> tile.Tensor:
    M, K = a.shape
    K, N = b.shape
    c = tile.empty((M, N), a.dtype)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n))
        for k in tile.range(K):
            acc = tile.dot(a[m, k], b[k, n], acc)
        c[m, n] = acc
    return c


@tile.kernel
def product_of_turned(a: tile.Tensor, b: tile.Tensor) -> tile.Tensor:
    """a.T @ b.T, with something added before and after."""
    K, M = a.shape
    N, K = b.shape
    c = tile.empty((M, N), a.dtype)
    for m, n in tile.grid(M, N):
        acc = tile.full((m, n), 1.5, tile.f32)
        for k in tile.range(K):
            acc = tile.dot(a[k, m].mT, b[n, k].mT, acc)
        c[m, n] = tile.maximum(acc * 0.5, 0)
    return c


@tile.kernel
def widened(x: tile.Tensor, w: tile.Tensor, scale: tile.Tensor) -> tile.Tensor:
    """x @ (w * scale).T for weights of 8 bits."""
    M, K = x.shape
    N, K = w.shape
    out = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(K):
            acc = tile.dot(x[m, k], (w[n, k].to(tile.f32) * scale[n][:, None]).mT, acc)
        out[m, n] = acc
    return out


@tile.kernel
def rows_of_windows(x: tile.Tensor, w: tile.Tensor) -> tile.Tensor:
    """A convolution of rows with 3 weights for each pair of channels, padded by one."""
    Q, C = x.shape
    _, C, N = w.shape
    y = tile.empty((Q, N), x.dtype)
    for q, n in tile.grid(Q, N):
        acc = tile.zeros((q, n))
        for s in range(3):
            for c in tile.range(C):
                acc = tile.dot(x[q + s - 1, c], w[s, c, n], acc)
        y[q, n] = acc
    return y


def run(kernel: Any, arrays: list[Any], plan: str, arch: str = "sm_90", seed: int | None = 0) -> Any:
    module = placed_case(kernel, arrays)
    columns = arrays[1].shape[0] if kernel in (product_of_turned, widened) else arrays[1].shape[-1]
    aligned = "/".join(str(alignment_of(one)) for one in (*arrays, np.empty((2, columns), np.float32)))
    made = lowered(module, parse_plan(f"{plan}, aligned to {aligned}"), arch)
    return run_as_launched(made.entry, arrays, seed=seed)[0]


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def assert_exact(got: Any, wanted: Any, sizes: Any) -> None:
    """As far as f32 goes."""
    off = np.abs(got.astype(np.float64) - wanted)
    assert (off <= DIGITS * sizes).all(), float((off / sizes).max())


def wide(*arrays: Any) -> list[Any]:
    return [array.astype(np.float64) for array in arrays]


@pytest.mark.parametrize("plan", [*BY_WARPGROUPS, *BY_THREADS])
@pytest.mark.parametrize(("m", "n", "k"), [(128, 128, 64), (100, 68, 100), (130, 36, 12)])
def test_digits(plan: str, m: int, n: int, k: int) -> None:
    a, b = normal(m, k), normal(k, n, seed=1)
    got = run(product, [a, b], plan, seed=m)
    wa, wb = wide(a, b)
    assert_exact(got, wa @ wb, np.abs(wa) @ np.abs(wb))


@pytest.mark.parametrize("plan", BY_THREADS)
def test_before_warpgroups(plan: str) -> None:
    a, b = normal(65, 48), normal(48, 33, seed=1)
    wa, wb = wide(a, b)
    assert_exact(run(product, [a, b], plan, "sm_80"), wa @ wb, np.abs(wa) @ np.abs(wb))


@pytest.mark.parametrize("plan", [BY_WARPGROUPS[0], BY_WARPGROUPS[2], BY_THREADS[0]])
@pytest.mark.parametrize("seed", [None, 1])
def test_turned_operands_that_a_sum_begins_with(plan: str, seed: int | None) -> None:
    a, b = normal(72, 132), normal(68, 72, seed=1)
    got = run(product_of_turned, [a, b], plan, seed=seed)
    wa, wb = wide(a.T, b.T)
    assert_exact(got, np.maximum((wa @ wb + 1.5) * 0.5, 0), np.abs(wa) @ np.abs(wb) + 1.5)


@pytest.mark.parametrize("plan", [BY_WARPGROUPS[0], BY_THREADS[0]])
def test_operands_that_are_computed(plan: str) -> None:
    x, scale = normal(100, 96), np.abs(normal(80, seed=2))
    w = np.random.default_rng(1).integers(-127, 128, (80, 96)).astype(np.int8)
    got = run(widened, [x, w, scale], plan)
    wx, ww = wide(x, w.astype(np.float32) * scale[:, None])
    assert_exact(got, wx @ ww.T, np.abs(wx) @ np.abs(ww.T))


@pytest.mark.parametrize("plan", ["q=64, n=64, c=32, 128 threads, 4x1 warps, 2 stages, cooperative, by planes",
                                  "q=32, n=32, c=16, 64 threads, 2x1 warps, 2 stages, by planes"])  # fmt: skip
def test_loops_that_were_merged(plan: str) -> None:
    x, w = normal(70, 32), normal(3, 32, 64, seed=1)
    got = run(rows_of_windows, [x, w], plan)
    wx, ww = wide(x, w)
    padded = np.pad(wx, ((1, 1), (0, 0)))
    wanted = sum(padded[s : s + 70] @ ww[s] for s in range(3))
    sizes = sum(np.abs(padded[s : s + 70]) @ np.abs(ww[s]) for s in range(3))
    assert_exact(got, wanted, sizes)


@pytest.mark.parametrize("plan", [BY_WARPGROUPS[0], BY_WARPGROUPS[2], BY_THREADS[0]])
@pytest.mark.parametrize(
    ("left", "right"),
    [
        (np.inf, 1.0), (-np.inf, 0.0), (np.nan, 1.0), (3e38, 1.0), (3e38, 16.0), (1e-40, 1.0), (1e-45, 1e38),
        (-3e38, -2.0), (2.0**112, 2.0**-20), (1e-30, 1e-30),
    ],
)  # fmt: skip
def test_special_values(plan: str, left: float, right: float) -> None:
    """In one row and one column, which are all the rest of f32: only they are what f32 makes of them."""
    a, b = normal(128, 40), normal(40, 64, seed=1)
    a[70], b[:, 5] = 0, 0
    a[70, 7], b[7, 5] = left, right
    got = run(product, [a, b], plan)
    with np.errstate(all="ignore"):
        wanted = np.zeros((128, 64), np.float32)
        for k in range(40):  # in f32, one after the other
            wanted = a[:, k, None] * b[None, k] + wanted
    special = ~np.isfinite(wanted)
    np.testing.assert_array_equal(got[special], wanted[special])
    wa, wb = wide(a, b)
    with np.errstate(all="ignore"):
        off, sizes = np.abs(got - wa @ wb), np.abs(wa) @ np.abs(wb)
    assert (off[~special] <= DIGITS * sizes[~special] + 2.0**-149).all()


def test_special_values_of_tiles_that_a_program_makes_behind_each_other() -> None:
    """Those before and behind are made of planes."""
    plan = "m=64, n=64, k=32, 128 threads, 4x1 warps, 2 stages, 1 programs, cooperative, by planes"
    a, b = normal(192, 64), normal(64, 64, seed=1)
    a[100, 3] = np.inf
    got = run(product, [a, b], plan)
    wa, wb = wide(np.delete(a, 100, 0), b)
    assert_exact(np.delete(got, 100, 0), wa @ wb, np.abs(wa) @ np.abs(wb))
    np.testing.assert_array_equal(got[100], np.inf * np.sign(b[3]))


def test_long_sums_of_positive_numbers() -> None:
    random = np.random.default_rng(0)
    a, b = random.random((16, 4096), np.float32), random.random((4096, 16), np.float32)
    got = run(product, [a, b], "m=16, n=16, k=32, 32 threads, 2 stages, by planes", "sm_80")
    wa, wb = wide(a, b)
    assert_exact(got, wa @ wb, wa @ wb * 2)
