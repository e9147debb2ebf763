"""What is done to a product: what the ranking counts, and which plans come of it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from gemm import gemm
from tests.e2e.gpu_code.test_gpu_plans import module_of
from tests.support.gpu_cases.gpu_cases import Array, Case
from tests.support.gpu_code.gpu_lowering import plans_for
from tests.support.kernels.fused_products import gated_products, linear_gelu, linear_layer_norm, linear_residual
from tests.support.kernels.product_nests import nest_of
from tiledsl import Kernel
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Module
from tiledsl.passes.gpu.plan import RankedPlan
from tiledsl.passes.gpu.plans.choose_plans import ranked_plans
from tiledsl.passes.gpu.plans.product_plans.product_nest import ProductNest
from tiledsl.passes.gpu.products.parallel_products import products_of
from tiledsl.passes.gpu_machine import gpu_machine


def zeros(*shape: int) -> Array:
    return np.zeros(shape, np.float16)


def placed_of(kernel: Kernel, *arrays: Array, **constants: object) -> Module:
    return plans_for(module_of(Case("", kernel, lambda random: [], constants), arrays), arrays)[0]


def read(kernel: Kernel, *arrays: Array, **constants: object) -> ProductNest:
    return nest_of(placed_of(kernel, *arrays, **constants), {})


def first_plan(kernel: Kernel, sizes: Mapping[str, int], *arrays: Array, **constants: object) -> RankedPlan:
    case = Case("", kernel, lambda random: [], constants)
    placed, _ = plans_for(module_of(case, arrays), arrays)
    return ranked_plans(placed.entry, gpu_machine("sm_90"), sizes, (16,) * 8)[0]


A, B, ROW, BESIDE = zeros(64, 64), zeros(64, 64), zeros(64), zeros(64, 64)


def test_a_layer_norm() -> None:
    nest = read(linear_layer_norm, A, B, ROW, BESIDE, ROW, ROW)
    assert nest.epilogue[:3] == (2, 2, 6)
    assert nest.epilogue.folds == 2
    assert nest.whole_rows


def test_a_gelu_takes_more_instructions_than_a_sum() -> None:
    gelu, beside = read(linear_gelu, A, B, ROW, form="erf"), read(linear_residual, A, B, ROW, BESIDE)
    assert gelu.epilogue.instructions > 4 * beside.epilogue.instructions


def test_products_side_by_side() -> None:
    grid = next(op for op in placed_of(gated_products, A, B, B).entry.body.ops if isinstance(op, ops.Grid))
    products = products_of(next(op for op in grid.body.ops if isinstance(op, ops.Range)))
    assert read(gated_products, A, B, B).parallel_products == 2
    assert [dot.b.op is not None and dot.b.op.operands[0].name for dot in products] == ["b", "c"]


@pytest.mark.parametrize(("n", "across"), [(384, 1), (768, 2), (1024, 8)])
def test_whole_rows(n: int, across: int) -> None:
    sizes = {"M": 8192, "N": n, "K": n}
    plan = first_plan(
        linear_layer_norm, sizes, zeros(8, n), zeros(n, n), zeros(n), zeros(8, n), zeros(n), zeros(n)
    ).plan
    assert plan.grids[0].across == across
    assert ("N", n) in plan.sizes


def test_an_epilogue_is_predicted_to_cost_little_beside_a_long_loop() -> None:
    sizes = dict.fromkeys("MNK", 4096)
    bare = first_plan(gemm, sizes, A, B).seconds
    beside = first_plan(linear_residual, sizes, A, B, ROW, BESIDE).seconds
    assert bare is not None
    assert beside is not None
    assert beside < 1.05 * bare
