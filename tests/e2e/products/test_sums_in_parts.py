"""Sums that plans split among programs, down to machine code: right in the emulator, compiled without spills."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tiledsl
from tests.support.gpu_code.gpu_lowering import lowered, plans_for, run_as_launched
from tiledsl import tile
from tiledsl.api.schedules.schedule_graph import schedule_graph
from tiledsl.backend_cuda.build.gate import refusals
from tiledsl.backend_cuda.build.nvrtc import compile_cubin
from tiledsl.backend_cuda.emit.emit_program import emit_program
from tiledsl.ir.core import Module
from tiledsl.ir.gpu.async_ops import TmaLoad, Wgmma
from tiledsl.ir.gpu.gpu_ops import Launch
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.tile_ops import Empty
from tiledsl.passes.gpu.plan import Plan, parse_plan
from tiledsl.passes.gpu.plans.split_candidates import program_of
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.pipelines import gpu_front_pipeline

SEEDS = (0, 1)
BLOCKS = "m=64, n=64, k=64, m_sum=2, n_sum=64, {parts} parts"
BY_WARPGROUPS = BLOCKS + ", 128 threads, 4x1 warps, 3 stages, cooperative, 128 threads"
BY_WARPS = BLOCKS + ", 128 threads, 2x2 warps, 3 stages, 128 threads"
PLANS = [("sm_90", BY_WARPGROUPS), ("sm_90", BY_WARPS), ("sm_80", BY_WARPS)]
SHAPES = [(64, 64, 1024, 4), (40, 72, 304, 4), (8, 24, 2000, 3)]
"""Rows, columns, length of the sums, parts: also parts that have nothing to add up."""


def linear() -> Module:
    """relu(a @ b + bias) in f16, in form `tile-placed`."""
    text = """
func @linear(%a: tensor<f16, [M, K], unit=1>, %b: tensor<f16, [K, N], unit=1>, %bias: tensor<f32, [N], unit=0>) {
  %M = tile.size() {value = M}
  %N = tile.size() {value = N}
  %K = tile.size() {value = K}
  %none = tile.constant() {value = 0, dtype = i64}
  %c = tile.empty() {shape = [M, N], dtype = f16}
  tile.grid([%M, %N]) {blocks = [auto, auto]} body(%m: axis<m>, %n: axis<n>) {
    %zero = tile.constant() {value = 0.0, dtype = f32}
    %zeros = tile.broadcast(%zero) {shape = [m, n]}
    %sum = tile.range(%none, %K, [%zeros]) {blocks = [auto]} body(%k: axis<k>, %acc: tile<f32, [m, n]>) {
      %left = tile.load(%a, [%m, %k])
      %right = tile.load(%b, [%k, %n])
      %next = tile.dot(%left, %right, %acc) {dtype = f32}
      tile.yield([%next])
    }
    %row = tile.load(%bias, [%n])
    %rows = tile.broadcast(%row) {shape = [m, n]}
    %biased = tile.map([%sum, %rows]) {fn = add}
    %out = tile.map([%biased, %zeros]) {fn = maximum}
    %rounded = tile.cast(%out) {dtype = f16}
    tile.store(%c, [%m, %n], %rounded)
  }
  tile.return([%c])
}
"""
    return PassManager(gpu_front_pipeline()).run(parse_module(text), PassContext())


def arguments(rows: int, columns: int, length: int) -> list[npt.NDArray[Any]]:
    """Small whole numbers, whose sums are exact in any order."""
    generator = np.random.default_rng(0)
    left, right = (generator.integers(-2, 3, shape) for shape in ((rows, length), (length, columns)))
    return [left.astype(np.float16), right.astype(np.float16), generator.integers(-9, 9, columns).astype(np.float32)]


@pytest.mark.parametrize(("arch", "plan"), PLANS)
@pytest.mark.parametrize(("rows", "columns", "length", "parts"), SHAPES)
def test_in_the_emulator(arch: str, plan: str, rows: int, columns: int, length: int, parts: int) -> None:
    module = lowered(linear(), parse_plan(plan.format(parts=parts)), arch)
    given = arguments(rows, columns, length)
    left, right, bias = (one.astype(np.float64) for one in given)
    expected = np.maximum(left @ right + bias, 0).astype(np.float16)
    for seed in SEEDS:
        (actual,) = run_as_launched(module.entry, given, seed=seed)
        assert np.array_equal(actual, expected)


@pytest.mark.parametrize(("arch", "plan"), PLANS)
def test_compiles_without_spills_or_warnings(arch: str, plan: str) -> None:
    module = lowered(linear(), parse_plan(plan.format(parts=32)), arch)
    source = emit_program(module, int(arch.removeprefix("sm_")))
    assert refusals(compile_cubin(source.text, arch, "linear")) == []
    assert len(source.kernels) == 2
    assert [str(one.shape[0]) for one in source.scratch] == ["32"]


def test_warpgroups_multiply_parts_and_tma_brings_and_takes_them() -> None:
    module = lowered(linear(), parse_plan(BY_WARPGROUPS.format(parts=8)))
    first, second = (op for op in module.walk() if isinstance(op, Launch))
    assert any(isinstance(op, Wgmma) for op in first.walk())
    assert sum(isinstance(op, TmaLoad) for op in first.walk()) == 2
    assert not any(isinstance(op, (Wgmma, TmaLoad)) for op in second.walk())
    assert [op.scratch for op in module.walk() if isinstance(op, Empty)] == [False, True]


def attention() -> Module:
    """One query of each of some heads, in groups that share keys and values, in form `tile-placed`."""

    def formula(q: Any, k: Any, v: Any) -> Any:
        scores = tile.dot(q, k.mT).to(tile.f32) * 0.125
        return tile.dot(tile.softmax(scores, axis=-1).to(v.dtype), v)

    specs = [tile.spec(shape, tile.f16) for shape in ((2, 4, 64), (2, 1024, 64), (2, 1024, 64))]
    fused = tiledsl.fuse(tiledsl.trace(formula, *specs))
    schedule = schedule_graph(fused.lowered("sm_90"), fused.graph.inputs, fused.graph.constants)
    (step,) = schedule.schedule.steps
    return PassManager(gpu_front_pipeline()).run(Module([schedule.functions[step.program]]), PassContext())


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("keys", [1024, 512])
def test_attention_in_parts_in_the_emulator(arch: str, keys: int) -> None:
    """Of 3 parts, one of which has few keys, or none."""
    placed = attention()
    generator = np.random.default_rng(0)
    given = [
        generator.standard_normal(shape).astype(np.float16) for shape in ((2, 4, 64), (2, keys, 64), (2, keys, 64))
    ]
    program = program_of(placed.entry, Plan((), parts=(3,)))
    _, (plan, *_) = plans_for(Module([program]), given, arch)
    module = lowered(placed, replace(plan, parts=(3,)), arch)
    wide: list[Any] = [one.astype(np.float64) for one in given]
    q, k, v = wide
    scores = q @ k.transpose(0, 2, 1) * 0.125
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    expected = weights / weights.sum(axis=-1, keepdims=True) @ v
    (actual,) = run_as_launched(module.entry, given)
    assert np.abs(actual.astype(np.float64) - expected).max() < 2e-3
    source = emit_program(module, int(arch.removeprefix("sm_")))
    assert refusals(compile_cubin(source.text, arch, "attention")) == []
    assert len(source.kernels) == 2
