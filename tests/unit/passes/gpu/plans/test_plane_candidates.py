"""Which f32 products of tile programs are made of planes, and which stay single multiply-adds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.gpu_code.gpu_lowering import lowered
from tests.support.kernels.product_nests import placed_case
from tiledsl import tile
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Module
from tiledsl.ir.gpu.gpu_ops import Mma
from tiledsl.passes.gpu.plan import Plan, parse_plan
from tiledsl.passes.gpu.plans.choose_plans import ranked_plans
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.passes.manager import PassContext
from tiledsl.passes.tile.split_products import SplitProducts, loops_to_split
from tiledsl.support.errors import TileResourceError


@tile.kernel
def product(a: tile.Tensor, b: tile.Tensor, precision: tile.constexpr = "ieee") -> tile.Tensor:
    M, K = a.shape
    K, N = b.shape
    c = tile.empty((M, N), tile.f32)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(K):
            acc = tile.dot(a[m, k], b[k, n], acc, precision=precision)
        c[m, n] = acc
    return c


@tile.kernel
def product_and_sum(a: tile.Tensor, b: tile.Tensor) -> tile.Tensor:
    M, K = a.shape
    K, N = b.shape
    c = tile.empty((M, N), tile.f32)
    for m, n in tile.grid(M, N):
        acc, total = tile.zeros((m, n)), tile.zeros(m)
        for k in tile.range(K):
            acc = tile.dot(a[m, k], b[k, n], acc)
            total += tile.sum(a[m, k], axis=1)
        c[m, n] = acc + total[:, None]
    return c


def placed(kernel: Any, dtype: Any = np.float32, **constants: Any) -> Module:
    return placed_case(kernel, [np.empty((64, 32), dtype), np.empty((32, 48), dtype)], **constants)


def plans(arch: str, m: int, n: int, k: int) -> list[Plan]:
    module = placed(product)
    sizes = {"M": m, "N": n, "K": k}
    return [one.plan for one in ranked_plans(module.entry, gpu_machine(arch), sizes, (16, 16, 16))]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_large_products_are_made_of_planes(arch: str) -> None:
    first = plans(arch, 4096, 4096, 4096)[0].grids[0]
    assert first.split
    assert bool(first.roles) == (arch == "sm_90")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_multiply_adds_are_what_there_is_to_fall_back_to(arch: str) -> None:
    assert not plans(arch, 4096, 4096, 4096)[-1].grids[0].split


@pytest.mark.parametrize(("kernel", "constants"), [(product, {"precision": "tf32"}), (product_and_sum, {})])
def test_other_loops_stay(kernel: Any, constants: dict[str, Any]) -> None:
    module = placed(kernel, **constants)
    (grid,) = [op for op in module.entry.body.ops if isinstance(op, ops.Grid)]
    assert loops_to_split(grid) == []


def test_narrow_operands_stay() -> None:
    module = placed(product, np.float16)
    (grid,) = [op for op in module.entry.body.ops if isinstance(op, ops.Grid)]
    assert loops_to_split(grid) == []


def test_a_branch_that_is_rare_has_what_f32_has() -> None:
    module = SplitProducts((0,)).run(placed(product).clone(), PassContext())
    (branch,) = [op for op in module.walk() if isinstance(op, ops.If)]
    assert branch.rare
    inside = [op for op in branch.then.walk() if isinstance(op, ops.Map)]
    assert [op.fn for op in inside] == ["fma"]
    assert [op.precision for op in module.walk() if isinstance(op, ops.Dot)] == ["split"]


def test_six_products_of_each_step_by_all_threads_alike() -> None:
    plan = "m=16, n=16, k=16, 32 threads, 1 stages, by planes, aligned to 16/16/16"
    gpu = lowered(placed(product), parse_plan(plan), "sm_80")
    assert len([op for op in gpu.walk() if isinstance(op, Mma)]) == len(ops.PLANE_PAIRS)


def test_one_stage_is_too_few_for_warpgroups() -> None:
    plan = "m=64, n=64, k=32, 128 threads, 4x1 warps, 1 stages, cooperative, by planes, aligned to 16/16/16"
    with pytest.raises(TileResourceError, match="planes are made of operands a turn ahead, in two stages or more"):
        lowered(placed(product), parse_plan(plan))


def test_a_plan_says_so() -> None:
    text = "m=64, n=64, k=32, 128 threads, 4x1 warps, 2 stages, by planes, cooperative"
    assert str(parse_plan(text)) == text
    assert parse_plan(text).grids[0].split
