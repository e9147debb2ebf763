"""Blocks and threads that predicted cost leads to."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.kernels.lowered_kernels import lower, tensor
from tiledsl import tile
from tiledsl.ir.core import Module
from tiledsl.ir.dtypes import bf16
from tiledsl.passes.gpu.plan import GridPlan
from tiledsl.passes.gpu.plans import choose_plans as choosing
from tiledsl.passes.gpu.plans.choose_plans import choose_plans
from tiledsl.passes.gpu.plans.costs.grid_cost import GridCost
from tiledsl.passes.gpu.plans.improve_plan import HELD, held_registers, improved
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.nest.count_work import WorkCounts
from tiledsl.passes.nest.loop_nest import LoopNest, loop_nests
from tiledsl.passes.pipelines import gpu_front_pipeline

SIZES = {"M": 4096, "N": 8192}


def column_sums(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape  # noqa: RUF059 # pyright: ignore[reportUnusedVariable] - names the sizes
    y = tile.empty(N, tile.f32)
    for n in tile.grid(N):
        y[n] = tile.sum(x[:, n].to(tile.f32), axis=0)
    return y


def row_sums(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape  # noqa: RUF059 # pyright: ignore[reportUnusedVariable] - names the sizes
    y = tile.empty(M, tile.f32)
    for m in tile.grid(M):
        y[m] = tile.sum(x[m, :].to(tile.f32), axis=1)
    return y


def quotients(x: tile.Tensor, s: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    (N,) = s.shape
    y = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N):
        y[m, n] = (x[m, n].to(tile.f32) / s[n][None, :]).to(x.dtype)
    return y


def product(x: tile.Tensor, w: tile.Tensor) -> tile.Tensor:
    M, N = x.shape  # pyright: ignore[reportUnusedVariable] - names the sizes
    N, K = w.shape  # noqa: RUF059 # pyright: ignore[reportUnusedVariable] - names the sizes
    y = tile.empty((M, K), tile.f32)
    for m, k in tile.grid(M, K):
        y[m, k] = tile.dot(x[m, :], w[:, k])
    return y


def nest_of(module: Module) -> LoopNest:
    (nest,) = loop_nests(PassManager(gpu_front_pipeline()).run(module, PassContext()).entry)
    return nest


@pytest.mark.parametrize(("arch", "clusters"), [("sm_90", True), ("sm_80", False)])
def test_columns_are_read_in_runs(arch: str, clusters: bool) -> None:
    nest, machine = nest_of(lower(column_sums, x=2)), gpu_machine(arch)
    before = GridCost(nest, GridPlan(256), {"n": 1}, SIZES, machine).times
    plan, blocks = improved(nest, GridPlan(256), {"n": 1}, SIZES, machine)
    after = GridCost(nest, plan, blocks, SIZES, machine).times
    assert blocks["n"] >= 4
    assert clusters or plan.cluster == 1
    assert held_registers(nest, plan, WorkCounts(nest, SIZES, blocks)) <= HELD[plan.threads]
    assert after.seconds < before.seconds / 2
    assert before.bound == "lines"


def test_what_is_near_its_floor_stays() -> None:
    nest, machine = nest_of(lower(row_sums, x=2)), gpu_machine("sm_90")
    assert improved(nest, GridPlan(256), {"m": 1}, SIZES, machine) == (GridPlan(256), {"m": 1})


def test_rows_that_begin_anywhere_waste_no_threads() -> None:
    """Threads are to have few elements beyond the ends of rows, and to load columns for many rows."""
    lowered = lower(quotients, x=tensor(2, bf16), s=1)
    entry = PassManager(gpu_front_pipeline()).run(lowered.clone(), PassContext()).entry
    sizes = {"M": 5496, "N": 5261}
    even, odd = (choose_plans(entry, gpu_machine("sm_90"), sizes, bytes_)[0] for bytes_ in ([16, 16, 16], [2, 16, 2]))
    rooms = [-(-5261 // dict(plan.blocks)["n"]) * dict(plan.blocks)["n"] for plan in (even, odd)]
    assert max(rooms) < 1.1 * 5261
    assert all(dict(plan.blocks)["m"] >= 8 for plan in (even, odd))
    nest = nest_of(lowered)
    assert held_registers(nest, odd.grids[0], WorkCounts(nest, sizes, dict(odd.blocks))) <= 16


def test_products_have_plans_of_their_own() -> None:
    nest, machine = nest_of(lower(product, x=2, w=2)), gpu_machine("sm_90")
    blocks = {"m": 1, "k": 1}
    assert improved(nest, GridPlan(32), blocks, {**SIZES, "K": 64}, machine) == (GridPlan(32), blocks)


def test_a_plan_that_is_refused_is_followed_by_half_of_it() -> None:
    module = PassManager(gpu_front_pipeline()).run(lower(column_sums, x=2), PassContext())
    first, second, *_ = choose_plans(module.entry, gpu_machine("sm_90"), SIZES, [16, 16])
    assert dict(first.blocks)["n"] == 2 * dict(second.blocks)["n"]
    assert first.grids == second.grids


@pytest.mark.parametrize("kernel", [column_sums, row_sums])
@pytest.mark.parametrize("threads", [32, 128, 1024])
def test_what_is_seen_early_to_take_longer_does(kernel: Any, threads: int) -> None:
    nest, machine = nest_of(lower(kernel, x=2)), gpu_machine("sm_90")
    (name,) = [axis.extent for axis in nest.axes]
    assert name is not None
    for block in (1, 4, 16):
        costs = [GridCost(nest, GridPlan(threads), {name: block}, SIZES, machine) for _ in range(2)]
        seconds = costs[0].times.seconds
        assert not costs[1].takes_longer(seconds)
        assert costs[1].takes_longer(max(costs[0].times.waiting, costs[0].times.memory) * 0.999)


def test_grids_that_are_alike_are_searched_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[object] = []

    def counted(*args: Any) -> tuple[GridPlan, dict[str, int]]:
        searched.append(args)
        return improved(*args)

    monkeypatch.setattr(choosing, "improved", counted)
    choosing.SEARCHED.clear()
    entries = [PassManager(gpu_front_pipeline()).run(lower(column_sums, x=2), PassContext()).entry for _ in range(2)]
    first, second = (choose_plans(entry, gpu_machine("sm_90"), SIZES, [16, 16])[0] for entry in entries)
    assert first == second
    assert len(searched) == 1
    for sizes, arch, bytes_ in (({**SIZES, "M": 64}, "sm_90", 16), (SIZES, "sm_80", 16), (SIZES, "sm_90", 2)):
        choose_plans(entries[0], gpu_machine(arch), sizes, [bytes_, 16])
    assert len(searched) == 4
