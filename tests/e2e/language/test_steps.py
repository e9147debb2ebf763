"""Every other element: whole runs are read by vectors, and elements picked in registers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tiledsl
from tiledsl import tile

Array = npt.NDArray[Any]


@tile.kernel
def pairs(x: Any) -> Any:
    return x[:, ::2] * x[:, 1::2]


@tile.kernel
def thirds(x: Any) -> Any:
    return x[:, ::3] + x[:, 2::3]


@tile.kernel
def sums(x: Any) -> Any:
    return tile.sum(x[:, 1::2].to(tile.f32), axis=1)


@tile.kernel
def added(x: Any, y: Any) -> Any:
    M, N = x.shape
    z = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N):
        z[m, n] = x[m, n] + y[m, n]
    return z


FORMULAS: dict[str, tuple[Any, Callable[[Array], Array]]] = {
    "pairs": (pairs, lambda x: x[:, ::2] * x[:, 1::2]),
    "thirds": (thirds, lambda x: x[:, ::3] + x[:, 2::3]),
    "sums": (sums, lambda x: x[:, 1::2].sum(axis=1, dtype=np.float64)),
}


def values(*shape: int, dtype: Any = np.float16) -> Array:
    return (np.random.default_rng(0).standard_normal(shape) * 2).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8])
@pytest.mark.parametrize("shape", [(33, 96), (5, 4800), (7, 30), (1, 384)])
@pytest.mark.parametrize("name", FORMULAS)
def test_what_is_picked_is_right(name: str, shape: tuple[int, int], dtype: Any) -> None:
    """Also of rows that are not aligned, which are read element by element."""
    formula, meaning = FORMULAS[name]
    x = values(*shape, dtype=dtype)
    np.testing.assert_allclose(formula.emulate(x, seed=0), meaning(x), atol=2e-2, rtol=2e-3)


@pytest.mark.parametrize("first", [0, 1])
def test_arrays_of_calls(first: int) -> None:
    """Of a tile program, whose arrays the caller has sliced."""
    x, y = values(40, 256), values(40, 128)
    np.testing.assert_array_equal(added.emulate(x[:, first::2], y, seed=0), x[:, first::2] + y)


@pytest.mark.parametrize(("formula", "shape", "step", "phases"), [
    (FORMULAS["pairs"][0], (4096, 8192), 2, {0, 1}),
    (FORMULAS["thirds"][0], (4096, 6144), 3, {0, 2}),
    (FORMULAS["sums"][0], (4096, 8192), 2, {1}),  # runs of 16 bytes
])  # fmt: skip
def test_loads_are_of_whole_vectors(formula: Any, shape: tuple[int, int], step: int, phases: set[int]) -> None:
    """And the code compiles, whatever the architecture."""
    for arch in ("sm_80", "sm_90", "sm_100"):
        built = tiledsl.fuse(tiledsl.trace(formula, tile.spec(shape, tile.f16))).build(arch)
        (kernel,) = built.kernels.values()
        loads = [line for line in kernel.ir("gpu").splitlines() if "gpu.load" in line]
        vector = 4 if formula is sums else 8
        assert all(f"vector = {vector}, step = {step}" in line for line in loads)
        assert {1 if "phase = 1" in line else 2 if "phase = 2" in line else 0 for line in loads} == phases
        assert "steps of " in kernel.plan


def test_rows_that_are_not_aligned_have_none() -> None:
    built = tiledsl.fuse(tiledsl.trace(FORMULAS["sums"][0], tile.spec((64, 8190), tile.f16))).build("sm_90")
    (kernel,) = built.kernels.values()
    assert "steps of " not in kernel.plan
