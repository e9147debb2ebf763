"""`tile.sort` of whole rows, of columns and of blocks of a fixed size: on a CPU, and as GPU code in the emulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiledsl import tile

PARTS = 48


@tile.kernel
def rows(x: tile.Tensor) -> Any:
    M, N = x.shape
    y = tile.empty((M, N), x.dtype)
    for m in tile.grid(M):
        y[m, :] = tile.sort(x[m, :])
    return y


@tile.kernel
def columns(x: tile.Tensor) -> Any:
    M, N = x.shape
    y = tile.empty((M, N), x.dtype)
    for n in tile.grid(N):
        y[:, n] = tile.sort(x[:, n] + 1, axis=0) - 1
    return y


@tile.kernel
def parts(x: tile.Tensor) -> Any:
    M, N = x.shape
    y = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N, block=(tile.auto, PARTS)):
        y[m, n] = tile.sort(x[m, n], axis=1)
    return y


def in_rows(x: Any) -> Any:
    return np.sort(x, axis=1)


def in_columns(x: Any) -> Any:
    return np.sort(x + 1, axis=0) - 1


def in_parts(x: Any) -> Any:
    cuts = range(PARTS, x.shape[1], PARTS)
    return np.concatenate([np.sort(part, axis=1) for part in np.split(x, list(cuts), axis=1)], axis=1)


KERNELS: dict[str, tuple[Any, Any]] = {
    "rows": (rows, in_rows),
    "columns": (columns, in_columns),
    "parts": (parts, in_parts),
}


@st.composite
def tensors(draw: st.DrawFn) -> Any:
    dtype = draw(st.sampled_from([np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64]))
    shape = draw(st.integers(1, 40)), draw(st.integers(1, 300))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    limits = np.iinfo(dtype)
    few = draw(st.booleans())
    low, high = (max(limits.min, -3), 5) if few else (limits.min // 2, limits.max // 2)
    x = random.integers(low, high, shape).astype(dtype)
    x[random.random(shape) < 0.1] = limits.max
    return x


@pytest.mark.parametrize("name", KERNELS)
@given(x=tensors())
@settings(max_examples=12)
def test_sorts(name: str, x: Any) -> None:
    kernel, meaning = KERNELS[name]
    np.testing.assert_array_equal(kernel(x), meaning(x))


@pytest.mark.parametrize("name", KERNELS)
@given(x=tensors())
@settings(max_examples=6)
def test_sorts_as_gpu_code(name: str, x: Any) -> None:
    kernel, meaning = KERNELS[name]
    np.testing.assert_array_equal(kernel.emulate(x, arch="sm_90"), meaning(x))
