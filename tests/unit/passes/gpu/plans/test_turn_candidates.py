"""When operands are turned before a product, and that what comes of it is right and compiles to `wgmma`."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.gpu_code.gpu_lowering import lowered, run_as_launched
from tests.support.tile_programs import GEMM
from tiledsl.backend_cuda.build.gate import refusals
from tiledsl.backend_cuda.build.nvrtc import compile_cubin
from tiledsl.backend_cuda.emit.emit_program import emit_program
from tiledsl.ir.core import Module
from tiledsl.ir.gpu.async_ops import Wgmma
from tiledsl.ir.text.parser import parse_module
from tiledsl.passes.gpu.plan import Plan, parse_plan
from tiledsl.passes.gpu.plans.audit_function import audit_plan
from tiledsl.passes.gpu.plans.choose_plans import ranked_plans
from tiledsl.passes.gpu.plans.describe_plan import plan_words
from tiledsl.passes.gpu.plans.refused_plans import refused_plans
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.passes.manager import PassManager
from tiledsl.passes.pipelines import gpu_front_pipeline
from tiledsl.passes.tile.turn_operands import operands_to_turn

ALIGNED = (16, 16, 16)
FORCED = "k_turned=32, n_turned=32, m=64, n=64, k=DEEP, turned 1, 64 threads, 128 threads, 4x1 warps, 2 stages, cooperative, aligned to 16/16/16"  # fmt: skip # noqa: E501


def product(dtype: str = "f32", precision: str = "tf32", facts: str = "facts [K % 16 == 0]", right: str = "[K, N]") -> Module:  # fmt: skip # noqa: E501
    """a @ b, of which b lies row by row (unit=1) with K along its first axis."""
    total = "i32" if dtype == "i8" else "f32"
    text = GEMM.replace("f32", total)
    text = text.replace(f"%a: tensor<{total}", f"%a: tensor<{dtype}").replace(
        f"%b: tensor<{total}", f"%b: tensor<{dtype}"
    )
    text = text.replace("value = 0.0", "value = 0") if dtype == "i8" else text
    text = text.replace("unit=1>) {", f"unit=1>) {facts} {{")
    said = f"{{dtype = {total}, precision = {precision}}}" if precision else f"{{dtype = {total}}}"
    text = text.replace(f"%partial) {{dtype = {total}}}", f"%partial) {said}")
    if right == "[N, K]":
        text = text.replace("tensor<" + dtype + ", [K, N]", "tensor<" + dtype + ", [N, K]")
        text = text.replace(
            "%bt = tile.load(%b, [%k, %n])",
            "%bn = tile.load(%b, [%n, %k])\n      %bt = tile.transpose(%bn) {permutation = [1, 0]}",
        )
    return PassManager(gpu_front_pipeline()).run(parse_module(text))


def best(module: Module, size: int = 4096, arch: str = "sm_90") -> Plan:
    sizes: dict[str, int] = dict.fromkeys("MNK", size)
    return ranked_plans(module.entry, gpu_machine(arch), sizes, ALIGNED)[0].plan


@pytest.mark.parametrize(("dtype", "precision"), [("f32", "tf32"), ("i8", "")])
def test_rows_across_the_sum_are_turned(dtype: str, precision: str) -> None:
    plan = best(product(dtype, precision))
    assert plan.turned == (1,)
    assert [bool(grid.roles) for grid in plan.grids] == [False, True]
    assert parse_plan(str(plan)) == plan
    assert ("operands", "`b` turned before, by another grid") in plan_words(plan, ["a", "b", "c"])


@pytest.mark.parametrize(
    "module",
    [
        product("bf16", ""),  # of 16 bits, from rows along either axis
        product("f32", ""),  # all digits: no `wgmma`
        product(right="[N, K]"),
        product(facts=""),  # rows of the copy might not start at multiples of 16 bytes
    ],
)
def test_others_are_not(module: Module) -> None:
    assert best(module).turned == ()


def test_small_products_are_not_worth_another_launch() -> None:
    assert best(product(), 256).turned == ()
    assert best(product(), arch="sm_80").turned == ()
    assert [found.order for found in operands_to_turn(product().entry)] == [(1, 0)]


def test_the_price_is_that_of_both_grids() -> None:
    module, machine = product(), gpu_machine("sm_90")
    sizes: dict[str, int] = dict.fromkeys("MNK", 4096)
    turned, *others = [one.plan for one in ranked_plans(module.entry, machine, sizes, ALIGNED)]
    plain = next(plan for plan in others if not plan.turned)
    one, two = (audit_plan(module.entry, machine, sizes, plan, None) for plan in (plain, turned))
    assert two.moved_bytes - one.moved_bytes >= 2 * 4096 * 4096 * 4 - 1
    assert one.floor == two.floor


@pytest.mark.parametrize(("dtype", "precision", "deep"), [("f32", "tf32", 32), ("i8", "", 128)])
def test_in_the_emulator(dtype: str, precision: str, deep: int) -> None:
    draw = np.random.default_rng(2)
    a, b = draw.integers(-8, 8, (80, 160)), draw.integers(-8, 8, (160, 96))
    a, b = (x.astype(np.float32 if dtype == "f32" else np.int8) for x in (a, b))
    module = lowered(product(dtype, precision), parse_plan(FORCED.replace("DEEP", str(deep))))
    assert any(isinstance(op, Wgmma) for op in module.walk())
    for seed in (None, 1):
        (result,) = run_as_launched(module.entry, [a, b], seed=seed)
        np.testing.assert_array_equal(result, a.astype(np.int64) @ b.astype(np.int64))


def test_what_is_turned_needs_no_reason() -> None:
    machine, sizes = gpu_machine("sm_90"), dict.fromkeys("MNK", 4096)
    reasons = [one.reason for one in refused_plans(product().entry, machine, sizes, ALIGNED)]
    assert all("would take" in reason for reason in reasons)  # of other tilings of the product alone
    (other,) = refused_plans(product(facts="").entry, machine, sizes, ALIGNED)
    assert "only from rows along the axis that is added up" in other.reason


def test_machine_code() -> None:
    module = product()
    source = emit_program(lowered(module, best(module)), 90)
    cubin = compile_cubin(source.text, "sm_90", "kernel")
    assert refusals(cubin) == []
    assert "wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32" in source.text
