"""Plans by threads that are all alike for products that feed on each other: decisions, reasons, what they take."""

from __future__ import annotations

from typing import Any

import pytest

from attention import attention
from tests.support.kernels.product_nests import placed_kernel
from tiledsl import tile
from tiledsl.backend_cuda.build.compile import compile_variant
from tiledsl.backend_cuda.build.gate import refusals
from tiledsl.ir.core import Module
from tiledsl.passes.gpu.plans.audit_function import audit_function
from tiledsl.passes.gpu.plans.choose_plans import choose_plans
from tiledsl.passes.gpu.plans.facts.grid_shape import KnownSizes, grids_of
from tiledsl.passes.gpu.plans.facts.whole_axes import with_whole_axes
from tiledsl.passes.gpu.plans.product_plans.back_to_back_threads import BackToBackSearch, best_tilings
from tiledsl.passes.gpu.plans.product_plans.thread_cost import MOST_REGISTERS, ThreadTiling
from tiledsl.passes.gpu.plans.product_plans.thread_tilings import Refusal
from tiledsl.passes.gpu.plans.refused_plans import refused_plans
from tiledsl.passes.gpu.plans.split_candidates import costs_of
from tiledsl.passes.gpu_machine import gpu_machine

ALIGNED = (16,) * 4
COMPILED = {
    64: (((128, 64, (8, 1), 2), 110, 49152), ((128, 64, (4, 1), 2), 206, 49152), ((64, 64, (4, 1), 2), 100, 40960),
         ((128, 32, (4, 1), 3), 138, 40960), ((128, 128, (8, 1), 2), 186, 81920), ((256, 32, (8, 1), 2), 174, 49152)),
    128: (((128, 64, (8, 1), 2), 154, 98304), ((128, 32, (4, 1), 2), 253, 65536), ((64, 128, (4, 1), 2), 219, 147456),
          ((128, 32, (8, 1), 2), 129, 65536)),
}  # fmt: skip
"""By the width of attention: rows, keys of a turn, warps, stages; registers and shared bytes of the code for sm_80."""
SPILLED = ((128, 64, (4, 1), 2), (256, 64, (8, 1), 2), (64, 64, (2, 1), 2))
"""The same of code for a width of 128 that has no room for what it holds."""


@tile.kernel
def blocks_of_rows(q: tile.Tensor, k: tile.Tensor, v: tile.Tensor) -> tile.Tensor:
    Q, D = q.shape
    K, D = k.shape
    K, D = v.shape
    out = tile.empty((Q, D), q.dtype)
    for i in tile.grid(Q, block=48):
        acc = tile.zeros((i, D))
        for j in tile.range(K):
            acc = tile.dot(tile.exp(tile.dot(q[i, :], k[j, :].mT)).to(v.dtype), v[j, :], acc)
        out[i, :] = acc
    return out


@tile.kernel
def columns_apart(q: tile.Tensor, k: tile.Tensor, v: tile.Tensor) -> tile.Tensor:
    Q, D = q.shape
    K, D = k.shape
    K, E = v.shape
    out = tile.empty((Q, E), q.dtype)
    for i, e in tile.grid(Q, E):
        acc = tile.zeros((i, e))
        for j in tile.range(K):
            acc = tile.dot(tile.exp(tile.dot(q[i, :], k[j, :].mT) * D**-0.5).to(v.dtype), v[j, e], acc)
        out[i, e] = acc
    return out


def sizes(width: int = 64, length: int = 4096, heads: int = 32) -> dict[str, int]:
    return {"H": heads, "Q": length, "K": length, "D": width, "E": width}


def search(kernel: Any, rank: int, known: dict[str, int], arch: str = "sm_80") -> BackToBackSearch:
    function = placed_kernel(kernel, rank).entry
    grid, at_hand = next(grids_of(function)), KnownSizes(function, known, ALIGNED)
    refused: list[Refusal] = []
    return BackToBackSearch(
        grid, gpu_machine(arch), at_hand, lambda plan: with_whole_axes(grid, plan, at_hand, 8, 32), refused
    )


def tiling(rows: int, turn: int, warps: tuple[int, int], stages: int) -> ThreadTiling:
    return ThreadTiling(rows, 0, turn, warps, stages)


@pytest.mark.parametrize("width", COMPILED)
def test_what_plans_take_is_what_code_takes(width: int) -> None:
    of_attention = search(attention, 3, sizes(width))
    for plan, registers, shared in COMPILED[width]:
        footprint = of_attention.cost(tiling(*plan)).footprint
        assert footprint.registers == pytest.approx(registers, rel=0.3)
        assert footprint.shared_bytes(plan[3]) == shared


def test_what_spills_is_refused() -> None:
    of_attention = search(attention, 3, sizes(128))
    for plan in SPILLED:
        assert of_attention.cost(tiling(*plan)).footprint.registers > MOST_REGISTERS


def test_warps_multiply_32_rows_where_they_have_room() -> None:
    """A column that is read from shared memory is multiplied by twice as many rows."""
    for width, turn in ((64, 64), (128, 32)):
        _, best = best_tilings(search(attention, 3, sizes(width)))[0]
        assert (best.rows // best.warps[0], best.depth, best.warps[1]) == (32, turn, 1)
    _, few = best_tilings(search(attention, 3, {**sizes(), "Q": 16}))[0]
    assert few.rows <= 32


@pytest.mark.parametrize("width", [64, 128])
def test_the_price_is_the_cost_of_the_plan(width: int) -> None:
    """Not what `GridCost` says, which knows nothing of warps that wait for their own products."""
    found = search(attention, 3, sizes(width))
    function = placed_kernel(attention, 3).entry
    audit = audit_function(function, gpu_machine("sm_80"), sizes(width), ALIGNED)
    assert audit.predicted == pytest.approx(best_tilings(found)[0].seconds)
    grid = choose_plans(function, gpu_machine("sm_80"), sizes(width), ALIGNED)[0]
    alone = sum(cost.times.seconds for cost in costs_of(function, grid, sizes(width), gpu_machine("sm_80")))
    assert audit.predicted > 1.2 * alone


def test_wide_results_are_shared_by_columns() -> None:
    """A thread would hold 256 registers of sums of 16 rows of 512."""
    _, best = best_tilings(search(attention, 3, sizes(512)))[0]
    assert best.warps[1] > 1


def test_columns_that_a_grid_cuts_up() -> None:
    _, best = best_tilings(search(columns_apart, 2, sizes(128)))[0]
    assert best.columns >= 64


def test_reasons() -> None:
    found = search(attention, 3, sizes(128))
    best_tilings(found)
    assert found.refused is not None
    reasons = {" ".join(word for word in one.reason.split() if not word.isdigit()) for one in found.refused}
    assert "a thread would hold registers, and has room for" in reasons
    assert "it asks for bytes of shared memory, of" in reasons
    found = search(blocks_of_rows, 2, sizes())
    assert best_tilings(found)[0].tiling.rows == 48
    assert found.refused is not None
    assert "2 warps do not share the 48 rows that are asked for" in {one.reason for one in found.refused}


def test_what_was_refused_is_said() -> None:
    function = placed_kernel(attention, 3).entry
    found = refused_plans(function, gpu_machine("sm_80"), sizes(128), ALIGNED)
    assert any("a thread would hold" in one.reason and "instead of" in one.reason for one in found)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("width", [64, 128, 512])
def test_code_has_no_spills(arch: str, width: int) -> None:
    module: Module = placed_kernel(attention, 3)
    plans = choose_plans(module.entry, gpu_machine(arch), sizes(width), ALIGNED)
    alike = [plan for plan in plans if not any(grid.roles for grid in plan.grids) and not plan.parts]
    variant = compile_variant(module, arch, alike[:1])
    assert not refusals(variant.machine_code)
