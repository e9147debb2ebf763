"""Random loops of products that feed on each other: plans are right, and take the memory that they say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

from tests.support.compare import assert_close
from tests.support.gpu_code.gpu_lowering import lowered
from tests.support.kernels.back_to_back_kernels import BackToBack, back_to_back
from tests.support.kernels.product_nests import nest_of, placed_case
from tiledsl.backend_ref.arguments import bind_arguments
from tiledsl.backend_ref.emulator.emulate import emulate
from tiledsl.ir.core import Module
from tiledsl.ir.gpu.async_ops import Role, TmaLoad, Wgmma
from tiledsl.ir.gpu.gpu_ops import Launch
from tiledsl.ir.tile_ops import Dot, Range
from tiledsl.passes.analysis.sizes import blocks_in
from tiledsl.passes.gpu.plan import APART, GridPlan
from tiledsl.passes.gpu.plans.choose_plans import ranked_plans
from tiledsl.passes.gpu.plans.product_plans.footprint import RESERVED_BYTES, shared_bytes
from tiledsl.passes.gpu.plans.product_plans.product_nest import ProductNest
from tiledsl.passes.gpu.plans.product_plans.specialised_plans import MOST_PLANS, ranked_tilings
from tiledsl.passes.gpu.plans.product_plans.tilings import Tiling
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.support.errors import TileResourceError

HOPPER = gpu_machine("sm_90")
WIDTHS = st.sampled_from([16, 32, 64, 80, 128])


@st.composite
def cases(draw: st.DrawFn) -> BackToBack:
    weights = draw(st.sampled_from(["softmax", "softmax", "plain", "top first"]))
    masks = ["none", "causal"] if weights == "top first" else ["none", "causal", "window"]
    mask = draw(st.sampled_from(masks))
    queries = draw(st.integers(1, 200))
    keys = draw(st.integers(1, 200)) if mask == "none" else queries
    sizes = (draw(st.integers(1, 2)), queries, keys, draw(WIDTHS), draw(WIDTHS), draw(WIDTHS))
    return BackToBack(
        sizes,
        scores=draw(st.sampled_from(["one", "added", "in one sum"])),
        sums=draw(st.integers(1, 2)),
        squash=draw(st.sampled_from(["none", "tanh"])),
        bias=draw(st.booleans()),
        mask=mask,
        weights=weights,
    )


def sizes_of(case: BackToBack, module: Module) -> dict[str, int]:
    return bind_arguments(module.entry, case.arrays())[0]


def check(case: BackToBack, module: Module, arrays: list[Any], seed: int | None) -> None:
    (got,) = emulate(module.entry, arrays, seed=seed).results
    wanted = case.expected(arrays)
    largest = max(1.0, float(np.max(np.abs(wanted), initial=0.0)))
    assert_close(got, wanted.astype(np.float32), relative=1e-2, absolute=1e-2 * largest)


@given(case=cases(), place=st.integers(0, MOST_PLANS - 1), seed=st.integers(0, 99))
@settings(max_examples=7, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
def test_random_loops(case: BackToBack, place: int, seed: int) -> None:
    placed = placed_case(back_to_back, case.arrays(), **case.constants)
    every = ranked_plans(placed.entry, HOPPER, sizes_of(case, placed), (16,) * 8, MOST_PLANS)
    plans = [one for one in every if one.plan.grids[0].roles]
    assert plans, "there is always one with specialised warps"
    plan = plans[min(place, len(plans) - 1)].plan
    note(str(plan))
    module = lowered(placed, plan)
    tilings = ranked_tilings(nest := nest_of(placed, sizes_of(case, placed)), HOPPER)
    check_shared_memory(nest, tilings[min(place, len(plans) - 1)][1], module)
    assert any(isinstance(op, TmaLoad) for op in module.walk())
    assert not any(isinstance(op, Dot) for op in module.walk())
    check(case, module, case.arrays(), seed)


@given(case=cases(), seed=st.integers(0, 99), depth=st.sampled_from([32, 48, 64]))
@settings(max_examples=5, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
def test_random_loops_with_scores_apart(case: BackToBack, seed: int, depth: int) -> None:
    """Whether or not a planner would: one warpgroup makes scores, two have half of the columns of each sum."""
    placed = placed_case(back_to_back, case.arrays(), **case.constants)
    every = ranked_plans(placed.entry, HOPPER, sizes_of(case, placed), (16,) * 8, MOST_PLANS)
    plan = next(one.plan for one in every if one.plan.grids[0].roles and one.plan.grids[0].warps == (4, 1))
    turns = {one.extent for one in blocks_in(placed.entry).values() if isinstance(one.op, Range)}
    blocks = tuple((name, depth if name in turns else size) for name, size in plan.blocks)
    plan = replace(plan, grids=(GridPlan(256, warps=(4, 2), stages=2, roles=APART),), blocks=blocks)
    note(str(plan))
    try:
        module = lowered(placed, plan)
    except TileResourceError as error:
        known = "a role for scores wants one loop", "cannot share a product of", "has rows of"
        if any(text in str(error) for text in known):
            return
        raise
    roles = [op.threads for op in module.walk() if isinstance(op, Role)]
    assert roles == [256, 128, 32]
    check(case, module, case.arrays(), seed)


BASE = (2, 100, 150, 64, 32, 64)
NEIGHBOURS = {
    "attention": BackToBack(BASE),
    "scores of two products": BackToBack(BASE, scores="added"),
    "scores of two products in one sum": BackToBack(BASE, scores="in one sum"),
    "two values": BackToBack(BASE, sums=2),
    "softcap": BackToBack(BASE, squash="tanh"),
    "bias by distance": BackToBack(BASE, bias=True),
    "window": BackToBack((1, 200, 200, 64, 16, 64), mask="window"),
    "causal, all of it": BackToBack((1, 130, 130, 64, 32, 80), "added", 2, "tanh", bias=True, mask="causal"),
    "no softmax": BackToBack(BASE, weights="plain"),
    "two loops": BackToBack(BASE, weights="top first"),
    # results are as many bytes as a tile that was loaded, but lie otherwise
    "two loops and values": BackToBack((1, 185, 25, 128, 128, 64), "added", 2, bias=True, weights="top first"),
}


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_neighbours_of_attention(name: str) -> None:
    """One kernel, by `wgmma` and TMA, right whichever warp comes first; scores are begun beside the sums before."""
    case = NEIGHBOURS[name]
    placed = placed_case(back_to_back, case.arrays(), **case.constants)
    plan = ranked_plans(placed.entry, HOPPER, sizes_of(case, placed), (16,) * 8)[0].plan
    module = lowered(placed, plan)
    launches = [op for op in module.walk() if isinstance(op, Launch)]
    assert len(launches) == 1
    assert any(isinstance(op, Wgmma) for op in module.walk())
    for seed in (None, 1):
        check(case, module, case.arrays(), seed)


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_shared_memory_is_what_the_planner_says(name: str) -> None:
    case = NEIGHBOURS[name]
    placed = placed_case(back_to_back, case.arrays(), **case.constants)
    for heads in (2, 128):  # of which the latter has programs that go through several blocks
        sizes = {**sizes_of(case, placed), "H": heads}
        nest = nest_of(placed, sizes)
        tilings = ranked_tilings(nest, HOPPER)[:3]
        plans = ranked_plans(placed.entry, HOPPER, sizes, (16,) * 8, 3)[: len(tilings)]
        for (_, tiling), (plan, _) in zip(tilings, plans):
            check_shared_memory(nest, tiling, lowered(placed, plan))


def check_shared_memory(nest: ProductNest, tiling: Tiling, module: Module) -> None:
    (launch,) = [op for op in module.walk() if isinstance(op, Launch)]
    said = shared_bytes(nest, tiling)
    assert said - 4096 <= launch.shared_bytes <= said + RESERVED_BYTES, str(tiling)
