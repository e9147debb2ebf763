"""What is done to a product: what the ranking counts, and which plans come of it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from gemm import gemm
from tests.e2e.test_gpu_plans import module_of
from tests.support.fused_products import gated_products, linear_gelu, linear_layer_norm, linear_residual
from tests.support.gpu_cases import Array, Case
from tests.support.gpu_lowering import plans_for
from tiledsl import Kernel
from tiledsl.ir import tile_ops as ops
from tiledsl.passes.gpu.choose_plans import ranked_plans
from tiledsl.passes.gpu.parallel_products import products_of
from tiledsl.passes.gpu.plan import RankedPlan
from tiledsl.passes.gpu.product_epilogues import epilogue_of
from tiledsl.passes.gpu_machine import gpu_machine


def zeros(*shape: int) -> Array:
    return np.zeros(shape, np.float16)


def grid_of(kernel: Kernel, *arrays: Array, **constants: object) -> tuple[ops.Grid, tuple[ops.Dot, ...]]:
    case = Case("", kernel, lambda random: [], constants)
    placed, _ = plans_for(module_of(case, arrays), arrays)
    grid = next(op for op in placed.entry.body.ops if isinstance(op, ops.Grid))
    loop = next(op for op in grid.body.ops if isinstance(op, ops.Range))
    return grid, products_of(loop)


def first_plan(kernel: Kernel, sizes: Mapping[str, int], *arrays: Array, **constants: object) -> RankedPlan:
    case = Case("", kernel, lambda random: [], constants)
    placed, _ = plans_for(module_of(case, arrays), arrays)
    return ranked_plans(placed.entry, gpu_machine("sm_90"), sizes, (16,) * 8)[0]


A, B, ROW, BESIDE = zeros(64, 64), zeros(64, 64), zeros(64), zeros(64, 64)


def test_a_layer_norm() -> None:
    grid, (dot,) = grid_of(linear_layer_norm, A, B, ROW, BESIDE, ROW, ROW)
    epilogue = epilogue_of(grid, dot)
    assert (epilogue.beside_bytes, epilogue.row_bytes, epilogue.row_loaded, epilogue.folds) == (2, 2, 6, 2)


def test_a_gelu_takes_more_instructions_than_a_sum() -> None:
    gelu, (dot,) = grid_of(linear_gelu, A, B, ROW, form="erf")
    beside, (other,) = grid_of(linear_residual, A, B, ROW, BESIDE)
    assert epilogue_of(gelu, dot).instructions > 4 * epilogue_of(beside, other).instructions


def test_products_side_by_side() -> None:
    _, products = grid_of(gated_products, A, B, B)
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
