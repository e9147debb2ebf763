"""What kernels mean: each feature of the language against NumPy, in the reference executor, on even and odd sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.compare import assert_close
from tests.support.kernels.kernels_whole import add, attention, gemm, softmax
from tests.support.kernels.lowered_kernels import run_kernel

RNG = np.random.default_rng(0)
BLOCKS = pytest.mark.parametrize("block", [1, 3, 16])


def floats(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.standard_normal(shape).astype(dtype)


# Whole kernels


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
