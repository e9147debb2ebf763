"""Short rows that begin anywhere move as one run through shared memory: when, and that it is right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.gpu_code.gpu_lowering import lowered, run_as_launched
from tests.support.kernels.lowered_kernels import lower, tensor
from tiledsl import tile
from tiledsl.backend_cuda.build.gate import refusals
from tiledsl.backend_cuda.build.nvrtc import compile_cubin
from tiledsl.backend_cuda.emit.emit_program import emit_program
from tiledsl.ir.core import Module
from tiledsl.ir.gpu.gpu_ops import Load, Store
from tiledsl.passes.gpu.plan import Plan
from tiledsl.passes.gpu.plans.choose_plans import choose_plans
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.pipelines import gpu_front_pipeline

Array = npt.NDArray[Any]


def softmax(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    y = tile.empty((M, N), x.dtype)
    for m in tile.grid(M):
        row = x[m, :].to(tile.f32)
        weights = tile.exp(row - tile.max(row, axis=1, keepdims=True))
        y[m, :] = (weights / tile.sum(weights, axis=1, keepdims=True)).to(x.dtype)
    return y


def scaled(x: tile.Tensor, s: tile.Tensor) -> tile.Tensor:
    """Two arrays of rows, and a number for each."""
    M, N = x.shape
    (M,) = s.shape
    y = tile.empty((M, N), tile.f32)
    for m in tile.grid(M):
        row = x[m, :].to(tile.f32)
        y[m, :] = row * s[m][:, None] - tile.sum(row, axis=1, keepdims=True)
    return y


def added(x: tile.Tensor) -> tile.Tensor:
    """Rows of two axes."""
    M, H, W = x.shape
    y = tile.empty(M, tile.f32)
    for m in tile.grid(M):
        y[m] = tile.sum(x[m, :, :].to(tile.f32), axis=(1, 2)) / (H * W)
    return y


def running(x: tile.Tensor) -> tile.Tensor:
    """Threads have runs of a row, and sum them from both ends."""
    M, N = x.shape
    y = tile.empty((M, N), x.dtype)
    for m in tile.grid(M):
        y[m, :] = tile.cumsum(x[m, :], 1) - 0.5 * tile.cumsum(x[m, :], 1, reverse=True)
    return y


def running_of(x: Array) -> Array:
    wide = x.astype(np.float64)
    return np.cumsum(wide, 1) - 0.5 * np.cumsum(wide[:, ::-1], 1)[:, ::-1]


def softmax_of(x: Array) -> Array:
    weights = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def scaled_of(x: Array, s: Array) -> Array:
    return x.astype(np.float64) * s[:, None] - x.sum(axis=1, keepdims=True, dtype=np.float64)


def added_of(x: Array) -> Array:
    return x.mean(axis=(1, 2), dtype=np.float64)


def normal(*shape: int, dtype: Any = np.float16) -> Array:
    return (np.random.default_rng(0).standard_normal(shape) * 2).astype(dtype)


def placed(module: Module) -> Module:
    return PassManager(gpu_front_pipeline()).run(module, PassContext())


CASES: dict[str, tuple[Callable[..., Any], Callable[..., Array], tuple[Array, ...]]] = {
    "odd rows of 16 bits": (softmax, softmax_of, (normal(300, 49),)),
    "a few elements": (softmax, softmax_of, (normal(517, 7),)),
    "one row": (softmax, softmax_of, (normal(1, 49),)),
    "rows for several lanes": (softmax, softmax_of, (normal(70, 197),)),
    "rows of 32 bits": (softmax, softmax_of, (normal(130, 65, dtype=np.float32),)),
    "dtypes of two widths": (scaled, scaled_of, (normal(129, 33), normal(129, dtype=np.float32))),
    "rows of bytes": (
        scaled, scaled_of, (normal(77, 31, dtype=np.int8), normal(77, dtype=np.float32)),
    ),
    "running sums": (running, running_of, (normal(70, 133, dtype=np.float32),)),
    "running sums of few": (running, running_of, (normal(90, 37, dtype=np.float32),)),
    "rows of two axes": (added, added_of, (normal(200, 7, 7),)),
}  # fmt: skip


def plans_of(
    function: Callable[..., Any], arrays: tuple[Array, ...], packed: int = 16
) -> tuple[Module, Sequence[Plan]]:
    given = {name: tensor(array.ndim, _dtype(array)) for name, array in zip(("x", "s"), arrays)}
    module = placed(lower(function, **given))
    named = ["M", "H", "W"] if arrays[0].ndim == 3 else ["M", "N"]
    sizes = dict(zip(named, arrays[0].shape))
    widths = [array.itemsize for array in arrays]
    plans = choose_plans(module.entry, gpu_machine("sm_90"), sizes, (*widths, 2), (*(packed for _ in arrays), packed))
    return module, plans


def _dtype(array: Array) -> Any:
    return {2: tile.f16, 4: tile.f32, 1: tile.i8}[array.itemsize]


@pytest.mark.parametrize("name", CASES)
def test_rows_move_as_one_run(name: str) -> None:
    """Every access of whole rows is by vectors, and what comes out is right in any order of threads."""
    function, meaning, arrays = CASES[name]
    module, (plan, *_) = plans_of(function, arrays)
    assert plan.grids[0].flat
    assert plan.packed
    code = lowered(module, plan)
    rows = [op for op in code.entry.walk() if isinstance(op, (Load, Store)) and len(op.indices) > 1]
    assert rows
    assert all(op.flat and op.vector * _width(op) == 16 for op in rows)
    for seed in (None, 0, 1):
        (found,) = run_as_launched(code.entry, arrays, seed=seed)
        np.testing.assert_allclose(found, meaning(*arrays), atol=2e-3, rtol=2e-3)


def _width(op: Load | Store) -> int:
    value = op.value if isinstance(op, Store) else op.result
    return value.dtype.bytes


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("name", ["odd rows of 16 bits", "rows of bytes"])
def test_it_compiles_without_spills(name: str, arch: str) -> None:
    function, _, arrays = CASES[name]
    module, (plan, *_) = plans_of(function, arrays)
    source = emit_program(lowered(module, plan, arch), int(arch.removeprefix("sm_")))
    assert refusals(compile_cubin(source.text, arch, "rows")) == []


def test_rows_with_gaps_and_rows_that_are_aligned_do_not() -> None:
    """What lies between rows would come with them; accesses of eight bytes and more are left alone."""
    assert not any(plan.grids[0].flat for plan in plans_of(softmax, (normal(300, 49),), packed=0)[1])
    assert not any(plan.grids[0].flat for plan in plans_of(softmax, (normal(300, 49),), packed=2)[1])
    module, _ = plans_of(softmax, (normal(300, 48),))
    sizes = {"M": 300, "N": 48}
    plans = choose_plans(module.entry, gpu_machine("sm_90"), sizes, (16, 16), (16, 16))
    assert not any(plan.grids[0].flat for plan in plans)


def test_few_rows_are_shared_out_among_more_lanes() -> None:
    assert plans_of(softmax, (normal(1024, 197),))[1][0].grids[0].row_threads == 16
    module, _ = plans_of(softmax, (normal(4, 197),))
    many = choose_plans(module.entry, gpu_machine("sm_90"), {"M": 1 << 20, "N": 197}, (2, 2), (16, 16))[0]
    assert many.grids[0].row_threads == 4
