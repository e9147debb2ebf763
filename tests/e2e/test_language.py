"""What kernels mean: each feature of the language against NumPy, in the reference executor, on even and odd sizes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.support.compare import assert_close
from tests.support.kernels import run_kernel
from tiledsl import tile

RNG = np.random.default_rng(0)
BLOCKS = pytest.mark.parametrize("block", [1, 3, 16])


def floats(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.standard_normal(shape).astype(dtype)


# Whole kernels


def add(x: tile.Tensor, y: tile.Tensor) -> tile.Tensor:
    n = x.shape[0]
    out = tile.empty(n, x.dtype)
    for i in tile.grid(n):
        out[i] = x[i] + y[i]
    return out


def gemm(a: tile.Tensor, b: tile.Tensor) -> tile.Tensor:
    M, K = a.shape
    K, N = b.shape
    c = tile.empty((M, N), a.dtype)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(K):
            acc = tile.dot(a[m, k], b[k, n], acc)
        c[m, n] = acc
    return c


def softmax(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    y = tile.empty((M, N), x.dtype)
    for m in tile.grid(M, block=1):
        largest = -math.inf
        for n in tile.range(N):
            largest = max(largest, tile.max(x[m, n]))
        total = 0.0
        for n in tile.range(N):
            total += tile.sum(tile.exp(x[m, n] - largest))
        for n in tile.range(N):
            y[m, n] = tile.exp(x[m, n] - largest) / total
    return y


def attention(q: tile.Tensor, k: tile.Tensor, v: tile.Tensor, causal: tile.constexpr) -> tile.Tensor:
    H, Q, D = q.shape
    H, K, D = k.shape
    out = tile.empty((H, Q, D), q.dtype)
    scale = D**-0.5
    for h, i in tile.grid(H, Q, block=(1, tile.auto)):
        qs = q[h, i, :] * scale
        top = tile.full((i,), -math.inf)
        total = tile.zeros((i,))
        acc = tile.zeros((i, D))
        end = min(i.start + i.size + K - Q, K) if causal else K
        for j in tile.range(0, end):
            s = qs @ k[h, j, :].mT
            if causal:
                s = tile.where(j.index[None, :] <= i.index[:, None] + (K - Q), s, -math.inf)
            new_top = tile.maximum(top, tile.max(s, axis=1))
            old = tile.exp(top - new_top)
            p = tile.exp(s - new_top[:, None])
            total = total * old + tile.sum(p, axis=1)
            acc = tile.dot(p, v[h, j, :], acc * old[:, None])
            top = new_top
        out[h, i, :] = acc / total[:, None]
    return out


@BLOCKS
@pytest.mark.parametrize("n", [0, 1, 16, 37])
def test_add(n: int, block: int) -> None:
    x, y = floats(n), floats(n)
    assert_close(run_kernel(add, x, y, block=block)[0], x + y)


@BLOCKS
@pytest.mark.parametrize("shape", [(4, 8, 4), (5, 7, 3), (1, 1, 1), (3, 0, 2)])
def test_gemm(shape: tuple[int, int, int], block: int) -> None:
    m, k, n = shape
    a, b = floats(m, k), floats(k, n)
    assert_close(run_kernel(gemm, a, b, block=block)[0], a @ b, terms=k + 1)


@BLOCKS
def test_softmax_in_three_passes(block: int) -> None:
    x = floats(3, 17)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    assert_close(run_kernel(softmax, x, block=block)[0], e / e.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("queries", "keys"), [(1, 9), (8, 8), (5, 11)])
def test_attention(queries: int, keys: int, causal: bool) -> None:
    q, k, v = floats(2, queries, 4), floats(2, keys, 4), floats(2, keys, 4)
    s = q @ k.swapaxes(1, 2) * 4**-0.5
    if causal:
        s = np.where(np.arange(keys) <= np.arange(queries)[:, None] + keys - queries, s, -np.inf)
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    expected = (e / e.sum(axis=-1, keepdims=True)) @ v
    got = run_kernel(attention, q, k, v, constants={"causal": causal}, block=3)[0]
    assert_close(got, expected.astype(np.float32), terms=keys)
