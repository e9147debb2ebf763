"""Random loops of products that feed on each other, by threads that are all alike: plans are right, and take the
memory and the sums that the planner says."""

from __future__ import annotations

import pytest
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

from tests.properties.gpu_code.test_back_to_back_plans import NEIGHBOURS, cases, check, sizes_of
from tests.support.gpu_code.gpu_lowering import lowered
from tests.support.kernels.back_to_back_kernels import BackToBack, back_to_back
from tests.support.kernels.product_nests import placed_case
from tiledsl.ir.core import Module
from tiledsl.ir.gpu.gpu_ops import Buffer, Launch, Mma
from tiledsl.ir.types import TileType
from tiledsl.passes.gpu.layouts.shared_accesses import SMALL_BYTES
from tiledsl.passes.gpu.plans.choose_plans import choose_plans
from tiledsl.passes.gpu.plans.facts.grid_shape import KnownSizes, grids_of
from tiledsl.passes.gpu.plans.facts.whole_axes import with_whole_axes
from tiledsl.passes.gpu.plans.product_plans.back_to_back_threads import MOST_PLANS, BackToBackSearch, best_tilings
from tiledsl.passes.gpu.plans.product_plans.thread_footprint import ThreadFootprint
from tiledsl.passes.gpu.sync.memory_effects import buffer_bytes
from tiledsl.passes.gpu_machine import gpu_machine

ARCHES = st.sampled_from(["sm_80", "sm_100"])
EVEN = (16, 32, 64, 128)
"""Widths whose tiles threads copy 16 bytes at a time, whatever their number."""


def search_of(module: Module, sizes: dict[str, int], arch: str) -> BackToBackSearch:
    grid, known = next(grids_of(module.entry)), KnownSizes(module.entry, sizes, (16,) * 8)
    return BackToBackSearch(grid, gpu_machine(arch), known, lambda plan: with_whole_axes(grid, plan, known, 8, 32))


def check_footprint(footprint: ThreadFootprint, stages: int, module: Module, even: bool) -> None:
    (launch,) = [op for op in module.walk() if isinstance(op, Launch)]
    said = footprint.shared_bytes(stages)
    # small buffers have places apart, which begin at multiples of what their layouts ask; delayed folds need none
    small = sum(isinstance(op, Buffer) and buffer_bytes(op) <= SMALL_BYTES for op in launch.walk())
    assert launch.shared_bytes <= said + small * SMALL_BYTES
    assert launch.shared_bytes >= said - SMALL_BYTES or not even
    sums = {
        op.result.layout.slots * op.result.dtype.bytes // 4
        for op in module.walk()
        if isinstance(op, Mma) and isinstance(op.result.type, TileType)
    }
    assert sums == {footprint.sums(dot) for dot in footprint.dots}


@given(case=cases(), place=st.integers(0, MOST_PLANS - 1), arch=ARCHES, seed=st.integers(0, 99))
@settings(max_examples=5, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
def test_random_loops(case: BackToBack, place: int, arch: str, seed: int) -> None:
    placed = placed_case(back_to_back, case.arrays(), **case.constants)
    search = search_of(placed, sizes_of(case, placed), arch)
    found = best_tilings(search)
    tiling = found[min(place, len(found) - 1)].tiling
    said = search.plan(tiling)
    every = choose_plans(placed.entry, gpu_machine(arch), sizes_of(case, placed), (16,) * 8)
    (plan,) = [one for one in every if (one.grids, one.blocks) == (said.grids, said.blocks)]
    note(str(plan))
    module = lowered(placed, plan, arch)
    check_footprint(search.cost(tiling).footprint, tiling.stages, module, all(w in EVEN for w in case.sizes[3:]))
    check(case, module, case.arrays(), seed)


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_neighbours_of_attention(name: str) -> None:
    """What calls get on a GPU without warpgroups, right whichever warp comes first."""
    case = NEIGHBOURS[name]
    placed = placed_case(back_to_back, case.arrays(), **case.constants)
    plans = choose_plans(placed.entry, gpu_machine("sm_80"), sizes_of(case, placed), (16,) * 8)
    module = lowered(placed, plans[0], "sm_80")
    check(case, module, case.arrays(), 1)
