"""Loops that fold what they load, whose loads run ahead: right in the emulator, without barriers in the loop."""

from __future__ import annotations

from collections.abc import Callable
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
from tiledsl.ir.gpu.gpu_ops import Barrier, Copy, Load
from tiledsl.ir.tile_ops import For, Yield
from tiledsl.passes.gpu.plan import parse_plan
from tiledsl.passes.gpu.plans.choose_plans import choose_plans
from tiledsl.passes.gpu.plans.costs.run_ahead import ENOUGH_BYTES
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.pipelines import gpu_front_pipeline


def times_column(x: tile.Tensor, w: tile.Tensor) -> tile.Tensor:
    M, K = x.shape
    (K,) = w.shape
    y = tile.empty(M, tile.f32)
    for m in tile.grid(M):
        total = tile.zeros(m)
        for k in tile.range(K):
            total += tile.sum(x[m, k].to(tile.f32) * w[k].to(tile.f32), axis=1)
        y[m] = total
    return y


def row_times(x: tile.Tensor, w: tile.Tensor) -> tile.Tensor:
    (K,) = x.shape
    K, M = w.shape
    y = tile.empty(M, tile.f32)
    for m in tile.grid(M):
        total = tile.zeros(m)
        for k in tile.range(K):
            total += tile.sum(w[k, m].to(tile.f32) * x[k].to(tile.f32)[:, None], axis=0)
        y[m] = total
    return y


def weighted(k: tile.Tensor, v: tile.Tensor) -> tile.Tensor:
    """Two loads of a turn, one of them behind a fold among threads."""
    M, N, D = k.shape
    M, N, D = v.shape
    y = tile.empty((M, D), tile.f32)
    for m in tile.grid(M, block=1):
        total, top = tile.zeros(D), tile.full((), -1e30, tile.f32)
        for n in tile.range(N):
            scores = tile.sum(k[m, n, :].to(tile.f32), axis=1)
            higher = tile.maximum(top, tile.max(scores, axis=0))
            total = total * tile.exp(top - higher)
            total += tile.sum(tile.exp(scores - higher)[:, None] * v[m, n, :].to(tile.f32), axis=0)
            top = higher
        y[m, :] = total
    return y


def rows_between(x: tile.Tensor, w: tile.Tensor, ends: tile.Tensor) -> tile.Tensor:
    """Each block goes through rows of its own, of which there may be none."""
    (K,) = x.shape
    K, M = w.shape
    (B,) = ends.shape
    y = tile.empty((B, M), tile.f32)
    for b, m in tile.grid(B, M, block=(1, tile.auto)):
        total = tile.zeros(m)
        for k in tile.range(tile.minimum(8 * b, K), tile.minimum(ends[b], K)):
            total += tile.sum(w[k, m].to(tile.f32) * x[k].to(tile.f32)[:, None], axis=0)
        y[b, m] = total
    return y


def pixels_times(x: tile.Tensor, w: tile.Tensor) -> tile.Tensor:
    """What is copied as it lies is read turned: by threads of another block, if some share it."""
    M, K, D = x.shape
    N, K = w.shape
    y = tile.empty((M, N), tile.f32)
    for m, n in tile.grid(M, N):
        total = tile.zeros((m, n, D), tile.f32)
        for k in tile.range(K):
            turned = tile.transpose(x[m, k, :], (0, 2, 1))
            total += tile.sum(turned[:, None, :, :] * w[n, k][None, :, None, :], axis=3)
        y[m, n] = tile.sum(total, axis=2)
    return y


def placed(module: Module) -> Module:
    return PassManager(gpu_front_pipeline()).run(module, PassContext())


COLUMN = "m=8, k=64, 64 threads, 3 stages, K%8=0, aligned to 16/16/16"
ROW = "m=16, k=32, 64 threads, 3 stages, M%8=0, aligned to 16/16/16"
BETWEEN = "m=16, k=16, 64 threads, 3 stages, M%8=0, aligned to 16/16/16"
IN_A_CLUSTER = "m=16, k=64, 64 threads x 2, 3 stages, K%8=0, aligned to 16/16/16"
PIXELS = "m=1, n=16, k=32, 128 threads x 4, 8 stages, D:=64, K%8=0, aligned to 16/16/16"
KEYS = "n=8, 32 threads, 4 stages, D:=64, aligned to 16/16/16"
SIZES = [(16, 512), (24, 328), (8, 8), (24, 64)]
"""Rows and length: also fewer turns than stages, and a last turn that is short."""


def halves(*shape: int) -> npt.NDArray[Any]:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float16)


def gpu_form(kernel: Callable[..., Any], plan: str, **ranks: int) -> Module:
    given = {name: tensor(rank, tile.f16) for name, rank in ranks.items()}
    return lowered(placed(lower(kernel, **given)), parse_plan(plan), "sm_90")


@pytest.mark.parametrize("plan", [COLUMN, IN_A_CLUSTER])
@pytest.mark.parametrize(("rows", "length"), SIZES)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_matrix_times_a_column(plan: str, rows: int, length: int, seed: int) -> None:
    x, w = halves(rows, length), halves(length)
    (y,) = run_as_launched(gpu_form(times_column, plan, x=2, w=1).entry, [x, w], seed=seed)
    np.testing.assert_allclose(y, x.astype(np.float32) @ w.astype(np.float32), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("columns", "length"), SIZES)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_row_times_a_matrix(columns: int, length: int, seed: int) -> None:
    x, w = halves(length), halves(length, columns)
    (y,) = run_as_launched(gpu_form(row_times, ROW, x=1, w=2).entry, [x, w], seed=seed)
    np.testing.assert_allclose(y, x.astype(np.float32) @ w.astype(np.float32), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("seed", [0, 1])
def test_loops_without_a_turn_ask_for_nothing(seed: int) -> None:
    x, w = halves(100), halves(100, 24)
    ends = np.array([100, 8, 0, -5, 33, 1000], np.int64)
    given = {"x": tensor(1, tile.f16), "w": tensor(2, tile.f16), "ends": tensor(1, tile.i64)}
    module = lowered(placed(lower(rows_between, **given)), parse_plan(BETWEEN), "sm_90")
    (y,) = run_as_launched(module.entry, [x, w, ends], seed=seed)
    for b, end in enumerate(ends):
        part = slice(8 * b, max(8 * b, min(100, end)))
        expected = x[part].astype(np.float32) @ w[part].astype(np.float32)
        np.testing.assert_allclose(y[b], expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("kernel", "plan", "ranks"), [
    (times_column, COLUMN, {"x": 2, "w": 1}),
    (row_times, ROW, {"x": 1, "w": 2}),
])  # fmt: skip
def test_what_several_threads_read_is_loaded_a_turn_ahead(
    kernel: Callable[..., Any], plan: str, ranks: dict[str, int]
) -> None:
    """A turn computes with nothing that it has loaded itself: it hands that on."""
    module = gpu_form(kernel, plan, **ranks)
    (loop,) = [op for op in module.walk() if isinstance(op, For)]
    (load,) = [op for op in loop.walk() if isinstance(op, Load)]
    assert [type(user) for user in load.result.users] == [Yield]


@pytest.mark.parametrize("plan", [PIXELS, PIXELS.replace(" x 4", "")])
@pytest.mark.parametrize(("rows", "length"), [(16, 512), (24, 72)])
def test_what_is_read_in_another_block_is_loaded_there(plan: str, rows: int, length: int) -> None:
    x, w = (halves(*shape).astype(np.float32) for shape in ((2, length, 64), (rows, length)))
    module = lowered(placed(lower(pixels_times, x=tensor(3, tile.f32), w=tensor(2, tile.f32))), parse_plan(plan))
    (y,) = run_as_launched(module.entry, [x, w])
    np.testing.assert_allclose(y, np.einsum("mkd,nk->mn", x, w), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("length", [64, 20])
@pytest.mark.parametrize("seed", [0, 1])
def test_loads_before_and_behind_a_fold(length: int, seed: int) -> None:
    k, v = halves(2, length, 64), halves(2, length, 64)
    (y,) = run_as_launched(gpu_form(weighted, KEYS, k=3, v=3).entry, [k, v], seed=seed)
    scores = k.astype(np.float32).sum(axis=2)
    factors = np.exp(scores - scores.max(axis=1, keepdims=True))
    np.testing.assert_allclose(y, np.einsum("mn,mnd->md", factors, v.astype(np.float32)), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("kernel", "plan", "ranks", "copies"), [
    (times_column, COLUMN, {"x": 2, "w": 1}, 1),
    (row_times, ROW, {"x": 1, "w": 2}, 1),
    (weighted, KEYS, {"k": 3, "v": 3}, 2),
])  # fmt: skip
def test_threads_wait_for_nobody(kernel: Callable[..., Any], plan: str, ranks: dict[str, int], copies: int) -> None:
    module = gpu_form(kernel, plan, **ranks)
    loop = next(op for op in module.walk() if isinstance(op, For))
    assert sum(isinstance(op, Copy) for op in loop.walk()) == copies
    assert not any(isinstance(op, Barrier) for op in loop.walk())
    source = emit_program(module, 90)
    assert refusals(compile_cubin(source.text, "sm_90", "ahead")) == []


def test_what_two_threads_read_is_loaded_by_both() -> None:
    """A thread that copies for others would have to meet them: the column stays in registers."""
    module = gpu_form(times_column, COLUMN, x=2, w=1)
    loop = next(op for op in module.walk() if isinstance(op, For))
    assert [op.tensor.name for op in loop.walk() if isinstance(op, Load)] == ["w"]


@pytest.mark.parametrize("sizes", [{"M": 8192, "K": 8192}, {"M": 512, "K": 65536}])
def test_plans_keep_enough_under_way(sizes: dict[str, int]) -> None:
    given = {"x": tensor(2, tile.f16), "w": tensor(1, tile.f16)}
    plan = choose_plans(placed(lower(times_column, **given)).entry, gpu_machine("sm_90"), sizes, (16, 16, 16))[0]
    (grid,), blocks = plan.grids, dict(plan.blocks)
    assert grid.stages >= 2
    at_once = min(2048 // grid.threads, -(-sizes["M"] // blocks["m"] * grid.cluster // 132))
    assert at_once * grid.stages * blocks["m"] * blocks["k"] * 2 >= ENOUGH_BYTES


def test_short_loops_have_no_ring() -> None:
    given = {"x": tensor(2, tile.f16), "w": tensor(1, tile.f16)}
    function = placed(lower(times_column, **given)).entry
    (plan, *_) = choose_plans(function, gpu_machine("sm_90"), {"M": 65536, "K": 64}, (16, 16, 16))
    assert plan.grids[0].stages == 1
