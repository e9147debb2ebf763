"""Products whose sum a program writes as several loops: the same numbers on every target, in the emulator too."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tiledsl import tile
from tiledsl.ir.dtypes import BY_NAME, to_numpy

Array = npt.NDArray[Any]


@tile.kernel
def convolution(
    x: tile.Tensor, w: tile.Tensor, stride: tile.constexpr = 1, dilation: tile.constexpr = 1, around: tile.constexpr = 1
) -> tile.Tensor:
    """Windows of an image, channels last; what lies around it reads as 0."""
    N, H, W, C = x.shape
    R, S, C, K = w.shape
    P, Q = (H + 2 * around - dilation * (R - 1) - 1) // stride + 1, W + 2 * around - dilation * (S - 1)
    y = tile.empty((N, P, Q, K), x.dtype)
    for n, p, q, k in tile.grid(N, P, Q, K, block=(1, 1, tile.auto, tile.auto)):
        acc = tile.zeros((q, k))
        for r in range(R):
            row = p * stride + r * dilation - around  # outside of the loop over channels
            for s in range(S):
                for c in tile.range(C):
                    acc = tile.dot(x[n, row, q + (s * dilation - around), c], w[r, s, c, k], acc)
        y[n, p, q, k] = acc
    return y


@tile.kernel
def two_sums(x: tile.Tensor, w: tile.Tensor, u: tile.Tensor, v: tile.Tensor) -> tile.Tensor:
    """Loops of two lengths over other tensors: each has its own blocks."""
    M, K = x.shape
    K, N = w.shape
    M, L = u.shape
    L, N = v.shape
    y = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n))
        for k in tile.range(K):
            acc = tile.dot(x[m, k], w[k, n], acc)
        for j in tile.range(L):
            acc = tile.dot(u[m, j], v[j, n], acc)
        y[m, n] = acc
    return y


@tile.kernel
def of_what_is_computed(x: tile.Tensor, w: tile.Tensor) -> tile.Tensor:
    """Both operands are 1 where a tensor has ended: a block beyond the end of a sum must not count."""
    M, K = x.shape
    T, K, N = w.shape
    y = tile.empty((M, N), tile.f32)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n))
        for t in range(T):
            for k in tile.range(K):
                acc = tile.dot(tile.exp(x[m, k]), tile.exp(w[t, k, n]), acc)
        y[m, n] = acc
    return y


@tile.kernel
def with_the_largest(x: tile.Tensor, w: tile.Tensor, largest: tile.Tensor) -> tile.Tensor:
    """Beside the products a fold of what they multiply: 0 behind the end of a row would be larger than all of it."""
    M, K = x.shape
    T, K, N = w.shape
    y = tile.empty((M, N), tile.f32)
    for m, n in tile.grid(M, N):
        acc, most = tile.zeros((m, n)), tile.full((m,), -1000.0)
        for t in range(T):
            for k in tile.range(K):
                rows = x[m, k]
                acc = tile.dot(rows, w[t, k, n], acc)
                most = tile.maximum(most, tile.max(rows, axis=1))
        y[m, n] = acc
        largest[m, n] = most[:, None] + tile.zeros((m, n))
    return y


def numbers(*shape: int, dtype: str = "f16", seed: int = 0) -> Array:
    """Whole numbers, so that sums are exact in any order."""
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(to_numpy(BY_NAME[dtype]))


def expected(x: Array, w: Array, stride: int, dilation: int, around: int) -> Array:
    padded = np.pad(x.astype(np.float64), ((0, 0), (around, around), (around, around), (0, 0)))
    rows = (padded.shape[1] - dilation * (w.shape[0] - 1) - 1) // stride + 1
    columns = padded.shape[2] - dilation * (w.shape[1] - 1)
    y = np.zeros((len(x), rows, columns, w.shape[3]))
    for r in range(w.shape[0]):
        for s in range(w.shape[1]):
            part = padded[:, r * dilation :, s * dilation :][:, : (rows - 1) * stride + 1 : stride, :columns]
            y += part @ w[r, s].astype(np.float64)
    return y


CASES = [
    # images, height, width, channels, window, columns, stride, dilation, around
    (1, 3, 9, 64, (3, 3), 24, 1, 1, 1),
    (2, 4, 7, 72, (2, 3), 16, 2, 1, 0),
    (1, 5, 6, 96, (3, 1), 40, 1, 2, 2),
    (1, 2, 5, 24, (1, 4), 8, 1, 1, 3),
    (2, 3, 3, 3, (2, 2), 5, 1, 1, 1),
]
"""Channels that blocks divide, some left over, and fewer than a block; windows of both sides."""


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize(("target", "dtype"), [("cpu", "f32"), ("sm_80", "f16"), ("sm_90", "f16"), ("sm_90", "f32")])
@pytest.mark.filterwarnings("ignore::tiledsl.TilePerformanceWarning")
def test_windows(case: tuple[Any, ...], target: str, dtype: str) -> None:
    n, h, w, c, (r, s), k, stride, dilation, around = case
    x, weights = numbers(n, h, w, c, dtype=dtype), numbers(r, s, c, k, dtype=dtype, seed=1)
    options = {"stride": stride, "dilation": dilation, "around": around}
    if target == "cpu":
        y: Any = convolution(x, weights, **options)
    else:
        y = convolution.emulate(x, weights, **options, arch=target, seed=2)
    np.testing.assert_array_equal(np.asarray(y, np.float64), expected(x, weights, stride, dilation, around))


@pytest.mark.parametrize("target", ["cpu", "sm_80", "sm_90"])
def test_loops_that_are_not_alike(target: str) -> None:
    dtype = "f32" if target == "cpu" else "f16"
    shapes = [(48, 64), (64, 40), (48, 24), (24, 40)]
    given = [numbers(*shape, dtype=dtype, seed=seed) for seed, shape in enumerate(shapes)]
    y: Any = two_sums(*given) if target == "cpu" else two_sums.emulate(*given, arch=target, seed=1)
    x, w, u, v = (one.astype(np.float64) for one in given)
    np.testing.assert_array_equal(np.asarray(y, np.float64), x @ w + u @ v)


@pytest.mark.parametrize("depth", [32, 11])
@pytest.mark.filterwarnings("ignore::tiledsl.TilePerformanceWarning")
def test_ends_of_sums_of_what_is_computed(depth: int) -> None:
    x, w = (np.random.default_rng(seed).normal(size=shape) for seed, shape in ((0, (9, depth)), (1, (3, depth, 7))))
    given = [one.astype(np.float32) for one in (x, w)]
    y: Any = of_what_is_computed.emulate(*given, arch="sm_90", seed=0)
    np.testing.assert_allclose(y, np.exp(x) @ np.exp(w).sum(axis=0), rtol=1e-5)


@pytest.mark.parametrize("depth", [32, 11, 0])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.filterwarnings("ignore::tiledsl.TilePerformanceWarning")
def test_folds_beside_the_products(depth: int, arch: str) -> None:
    x, w = -1 - np.abs(numbers(9, depth, dtype="f32")), numbers(3, depth, 8, dtype="f32", seed=1)
    largest = np.zeros((9, 8), np.float32)
    results: Any = with_the_largest.emulate(x, w, largest, arch=arch, seed=0)
    np.testing.assert_array_equal(results, x @ w.sum(axis=0))
    np.testing.assert_array_equal(largest, np.repeat(x.max(axis=1, initial=-1000)[:, None], 8, axis=1))


def test_sums_are_one_loop_where_loops_are_alike() -> None:
    """A plan with specialised warps, where nine loops had none."""
    image, windows = tile.spec((8, 56, 56, 128), tile.f16), tile.spec((3, 3, 128, 128), tile.f16)
    audit = convolution.audit(image, windows, arch="sm_90")
    assert audit.kernels[0].kernel.by_warpgroups
    sides = [tile.spec(shape, tile.f16) for shape in ((2048, 1024), (1024, 2048), (2048, 512), (512, 2048))]
    uneven = two_sums.audit(*sides, arch="sm_90")
    assert uneven.ratio < 2.5, "each of two loops has blocks of a size of its own"
