"""Plans with swapped sides: where they come first, and where they are not asked for."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from gemm import gemm
from tests.e2e.gpu_code.test_gpu_plans import module_of
from tests.support.gpu_cases.gpu_cases import Case
from tests.support.gpu_cases.specialised_cases import activated
from tests.support.gpu_code.gpu_lowering import lowered, plans_for
from tests.support.gpu_code.run_gpu_ir import CompiledIr
from tiledsl.backend_cuda.build.gate import refusals
from tiledsl.ir.core import Module
from tiledsl.ir.gpu.async_ops import TmaStore
from tiledsl.ir.gpu.gpu_ops import Write
from tiledsl.passes.gpu.plan import RankedPlan
from tiledsl.passes.gpu.plans.choose_plans import ranked_plans
from tiledsl.passes.gpu.plans.facts.grid_shape import grids_of, sizes_of_call
from tiledsl.passes.gpu.plans.product_plans.specialised_plans import read_grid
from tiledsl.passes.gpu.plans.swap_candidates import GAIN, with_swapped_sides
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.passes.manager import PassContext
from tiledsl.passes.tile.swap_sides import SwapSides

HOPPER = gpu_machine("sm_90")
BF16 = ml_dtypes.bfloat16


@cache
def placed() -> Module:
    """A product, before plans."""
    arrays = [np.zeros((64, 64), BF16) for _ in "ab"]
    return plans_for(module_of(Case("gemm", gemm, lambda _: [*arrays]), [*arrays]), [*arrays])[0]


def plans(m: int, n: int, k: int) -> list[RankedPlan]:
    return ranked_plans(placed().entry, HOPPER, {"M": m, "N": n, "K": k}, [16, 16, 16])


@pytest.mark.parametrize("sizes", [(777, 4096, 4096), (300, 12288, 4096), (400, 8192, 2048)])
def test_few_blocks_of_odd_rows_are_swapped(sizes: tuple[int, int, int]) -> None:
    first, *others = plans(*sizes)
    assert first.plan.grids[0].swapped
    assert first.plan.grids[0].cluster == 1
    plain = next(one for one in others if not one.plan.grids[0].swapped)
    assert first.seconds is not None
    assert plain.seconds is not None
    assert first.seconds <= GAIN * plain.seconds


@pytest.mark.parametrize("sizes", [(4096, 4096, 4096), (8192, 8192, 512), (512, 512, 512), (4096, 768, 4096)])
def test_others_stay(sizes: tuple[int, int, int]) -> None:
    assert not any(one.plan.grids[0].swapped for one in plans(*sizes))


def test_code_of_the_plan_that_is_chosen() -> None:
    """Matrices are turned on their way to shared memory, from where TMA stores rows; nothing is spilled."""
    module = lowered(placed(), plans(777, 4096, 4096)[0].plan)
    (write,) = [op for op in module.walk() if isinstance(op, Write)]
    assert write.method == "matrix-transposed"
    assert any(isinstance(op, TmaStore) for op in module.walk())
    assert refusals(CompiledIr(module).cubin) == []


@pytest.mark.parametrize(("kernel", "ranks", "swaps"), [(gemm, (2, 2), True), (activated, (2, 2, 2), False)])
def test_what_stands_behind_the_loop(kernel: Any, ranks: tuple[int, ...], swaps: bool) -> None:
    """What is loaded comes ahead of products, which it would have to do the other way round."""
    arrays = [np.zeros((64,) * rank, BF16) for rank in ranks]
    module = module_of(Case("behind", kernel, lambda _: [*arrays]), [*arrays])
    grid = next(grids_of(module.entry))
    asked: list[object] = []

    def noted(program: object, shape: object) -> list[RankedPlan]:
        asked.append(shape)
        return []

    found = [one for one in plans(777, 4096, 4096) if not one.plan.grids[0].swapped]
    assert with_swapped_sides(module.entry, 0, found, HOPPER, lambda _: 64, noted) == found
    assert bool(asked) == swaps
    assert grid.dots


def test_blocks_of_a_cluster_have_whole_rows() -> None:
    """Side by side along instructions' rows they would have columns of what is stored."""
    module = SwapSides((0,)).run(Module([placed().entry.clone()]), PassContext())
    grid = next(grids_of(module.entry))
    of_call = sizes_of_call(module.entry, grid, {"M": 777, "N": 4096, "K": 4096}, [16, 16, 16])
    nest, _ = read_grid(grid.op, grid.blocks, HOPPER, of_call)
    assert "TMA stores whole rows" in nest.rows_apart
