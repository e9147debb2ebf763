"""Rows that meet weights: programs hold these, and go through many rows."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layer_norm import layer_norm, numpy_layer_norm
from rms_norm import rms_norm
from tests.support.compare import assert_close
from tests.support.gpu_code.gpu_lowering import lowered
from tests.support.kernels.lowered_kernels import lower, tensor
from tiledsl import tile
from tiledsl.backend_cuda.program import CudaProgram
from tiledsl.backend_ref.emulator.emulate import emulate
from tiledsl.ir.core import Module
from tiledsl.ir.dtypes import f32
from tiledsl.passes.gpu.plan import parse_plan
from tiledsl.passes.gpu.plans.choose_plans import choose_plans
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.pipelines import gpu_front_pipeline


def layer_norm_f32(x: tile.Tensor, weight: tile.Tensor, bias: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    (N,) = weight.shape
    (N,) = bias.shape
    y = tile.empty((M, N), x.dtype)
    for m in tile.grid(M):
        row = x[m, :].to(tile.f32)
        centred = row - tile.sum(row, axis=1, keepdims=True) / N
        variance = tile.sum(centred * centred, axis=1, keepdims=True) / N
        y[m, :] = centred * tile.rsqrt(variance + 1e-5) * weight[:] + bias[:]
    return y


def placed() -> Module:
    given = lower(layer_norm_f32, x=tensor(2, f32), weight=tensor(1, f32), bias=tensor(1, f32))
    return PassManager(gpu_front_pipeline()).run(given, PassContext())


def plan_of(m: int, n: int, dtype: tile.DType = tile.bf16, weights: int = 2) -> str:
    """What is planned for an H200, up to the alignment."""
    row = tile.spec((n,), dtype)
    kernel, scale = (layer_norm, 1e-5) if weights == 2 else (rms_norm, 1e-6)
    program = kernel.compile(tile.spec((m, n), dtype), *[row] * weights, scale, arch="sm_90").program
    assert isinstance(program, CudaProgram)
    (plan, *_) = choose_plans(
        program.module.entry, gpu_machine("sm_90"), {"M": m, "N": n}, [16 if 2 * n % 16 == 0 else 4] * (2 + weights)
    )
    return re.sub(", aligned.*", "", str(plan))


@pytest.mark.parametrize(("m", "n", "plan"), [
    (8192, 1024, "m=1, 64 threads, 4 stages, 2112 programs"),
    (8192, 4096, "m=1, 128 threads, 4 stages, 528 programs"),
    (3072, 12288, "m=1, 512 threads, 5 stages, 132 programs"),
    (4096, 16384, "m=1, 512 threads, 4 stages, 132 programs"),
])  # fmt: skip
def test_each_multiprocessor_works_on_32_kib_of_rows(m: int, n: int, plan: str) -> None:
    assert plan_of(m, n) == plan


def test_rows_that_are_short_few_or_begin_anywhere_have_a_program_each() -> None:
    assert "programs" not in plan_of(65536, 512)
    assert "programs" not in plan_of(2048, 1024)
    assert "programs" not in plan_of(8192, 1026)


def test_one_program_for_a_multiprocessor_is_worth_two_tensors_of_weights() -> None:
    assert "programs" in plan_of(4096, 16384)
    assert "programs" not in plan_of(4096, 16384, weights=1)
    assert "programs" in plan_of(4096, 8192, weights=1)


@given(
    rows=st.integers(1, 9), pieces=st.sampled_from([16, 32, 48, 80]), stages=st.integers(2, 5),
    programs=st.integers(1, 4), seed=st.integers(0, 99),
)  # fmt: skip
@settings(max_examples=8)
def test_rows_are_normalised_whoever_makes_them(rows: int, pieces: int, stages: int, programs: int, seed: int) -> None:
    n = 4 * pieces
    plan = parse_plan(f"m=1, 32 threads, {stages} stages, {programs} programs, N:={n}, aligned to 16/16/16/16")
    random = np.random.default_rng(seed)
    x, weight, bias = (random.standard_normal(shape).astype(np.float32) for shape in ((rows, n), (n,), (n,)))
    (got,) = emulate(lowered(placed(), plan).entry, [x, weight, bias], seed=seed).results
    assert_close(got, numpy_layer_norm(x, weight, bias), relative=1e-5)
