"""Which grids get plans with specialised warps, and what of the program they keep."""

from __future__ import annotations

import re

import pytest

from tests.support.gpu_code.gpu_lowering import lowered
from tests.support.tile_programs import GEMM
from tiledsl.ir.core import Module
from tiledsl.ir.gpu.gpu_ops import Store
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.tile_ops import Empty
from tiledsl.ir.types import TensorType
from tiledsl.passes.gpu.plan import RankedPlan
from tiledsl.passes.gpu.plans.choose_plans import FIRST_PLANS, choose_plans, ranked_plans
from tiledsl.passes.gpu.plans.product_plans import specialised_plans
from tiledsl.passes.gpu.plans.product_plans.search import EVERY
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.pipelines import gpu_front_pipeline

ALIGNED = (16, 16, 16)


FOLD = """%top = tile.reduce([%total]) {axes = [1], fn = max, keepdims = true}
    %tops = tile.broadcast(%top) {shape = [m, n]}
    %less = tile.map([%total, %tops]) {fn = sub}"""
"""Less the largest of each row of a block."""


def product(
    dtype: str = "bf16",
    blocks: str = "auto, auto",
    depth: str = "auto",
    stages: int = 0,
    result: str = "f32",
    fold: str = "",
) -> Module:
    """c = a @ b, in form `tile-placed`, with blocks as the program says. `fold`: what becomes of the product before."""
    text = re.sub(r"(%[ab]: tensor)<f32", rf"\1<{dtype}", GEMM)
    text = text.replace("shape = [M, N], dtype = f32", f"shape = [M, N], dtype = {result}")
    text = text.replace(
        "tile.store(%c, [%m, %n], %total)",
        f"""{fold}
        %cast = tile.cast({"%less" if fold else "%total"}) {{dtype = {result}}}
        tile.store(%c, [%m, %n], %cast)""",
    )
    text = text.replace("[auto, auto]", f"[{blocks}]")
    text = text.replace("[auto]", f"[{depth}]" + (f", num_stages = {stages}" if stages else ""))
    return PassManager(gpu_front_pipeline()).run(parse_module(text), PassContext())


def ranked(
    module: Module, size: int = 4096, arch: str = "sm_90", alignment: tuple[int, ...] = ALIGNED, count: int = 20
) -> list[RankedPlan]:
    sizes: dict[str, int] = dict.fromkeys(("M", "N", "K"), size)
    return ranked_plans(module.entry, gpu_machine(arch), sizes, alignment, count)


def is_specialised(one: RankedPlan) -> bool:
    return bool(one.plan.grids[0].roles)


def test_specialised_plans_come_first_then_what_to_fall_back_to() -> None:
    module = product()
    plans = ranked(module)
    found = [one for one in plans if is_specialised(one)]
    assert len(found) == 20
    assert plans[:20] == found
    assert len(plans) > 20
    times = [one.seconds for one in found if one.seconds is not None]
    assert len(times) == 20
    assert times == sorted(times)
    assert all(one.seconds is None for one in plans[20:])
    chosen = choose_plans(module.entry, gpu_machine("sm_90"), {"M": 4096, "N": 4096, "K": 4096}, ALIGNED)
    assert chosen[:FIRST_PLANS] == [one.plan for one in plans[:FIRST_PLANS]]
    assert not chosen[FIRST_PLANS].grids[0].roles


def test_the_first_plan_in_words() -> None:
    """The result in f32 takes half of the shared memory."""
    assert str(ranked(product())[0].plan) == (
        "m=128, n=128, k=64, 256 threads, 8x1 warps, 5 stages, 132 programs, 16 rows at a time, cooperative, "
        "M%128=0, N%128=0, K%64=0, aligned to 16/16/16"
    )


@pytest.mark.parametrize("size", [64, 100, 136, 1000, 1001, 4096])
def test_plans_are_lowered(size: int) -> None:
    module = product()
    alignment = (16, 16, 16) if size % 8 == 0 else (8, 8, 16) if size % 4 == 0 else (2, 2, 4)
    for one in ranked(module, size, alignment=alignment, count=3)[:3]:
        assert is_specialised(one)
        assert one.plan.grids[0].copied == ((0, 1) if size == 1001 else ())
        text = str(lowered(module, one.plan))
        assert text


def test_operands_are_copied_before_where_that_is_worth_it() -> None:
    """Or threads copy them into the ring, where rows allow. Small products with odd rows are left to all threads."""
    module = product(result="bf16")
    copies = {
        (size, alignment): {
            one.plan.grids[0].copied for one in ranked(module, size, alignment=alignment) if one.seconds
        }
        for size, alignment in ((4095, (16, 2, 2)), (4095, (2, 8, 2)), (4100, (8, 8, 8)), (100, (2, 2, 2)))
    }
    assert copies == {
        (4095, (16, 2, 2)): {(1,)},
        (4095, (2, 8, 2)): {(0,), (0, 1)},
        (4100, (8, 8, 8)): {(), (0, 1)},
        (100, (2, 2, 2)): set(),
    }
    fed = [one.plan.grids[0] for one in ranked(module, 4100, alignment=(8, 8, 16)) if not one.plan.grids[0].copied]
    assert all(grid.cluster == 1 for grid in fed)


def test_copies_of_long_rows_start_at_lines_of_the_cache() -> None:
    """Of short rows what is added would be a large part. Rows that start within lines cost more than twice as much."""
    module = product()
    for size, lines in ((4095, (0, 1)), (255, ())):
        plans = [one.plan for one in ranked(module, size, alignment=(2, 2, 4), count=8) if one.plan.grids[0].copied]
        assert all(plan.grids[0].lines == lines for plan in plans)
        assert plans or size == 255
    grids = lowered(module, ranked(module, 4095, alignment=(2, 2, 4))[0].plan)
    copies = [op.result.type for op in grids.walk() if isinstance(op, Empty) and op.scratch]
    assert [str(copy.shape[-1]) for copy in copies if isinstance(copy, TensorType)] == [
        "64 * ((K + 63) // 64)",
        "64 * ((N + 63) // 64)",
    ]
    aligned, between = (ranked(module, size, alignment=(16, 16, 16))[0].seconds or 0.0 for size in (1024, 1000))
    assert between > aligned


def test_a_result_with_odd_rows_has_room_to_be_stored_row_by_row() -> None:
    """Neighbouring threads write neighbouring elements."""
    module = product(result="bf16")
    for one in ranked(module, 4095, alignment=(16, 16, 2), count=2)[:2]:
        (grid,) = one.plan.grids
        assert grid.roles
        assert grid.cluster == 1
        (store,) = [op for op in lowered(module, one.plan).walk() if isinstance(op, Store)]
        last = store.value.layout.thread_digits[-1]
        assert (last.axis, last.stride, last.size % 32) == (1, 1, 0)


@pytest.mark.parametrize(
    ("module", "arch", "alignment"),
    [
        (product(), "sm_80", ALIGNED),
        (product(), "sm_100", ALIGNED),
        (product("f8e4m3"), "sm_90", ALIGNED),  # b counts fastest along N
        (product(blocks="96, auto"), "sm_90", ALIGNED),
        (product(blocks="16, 16"), "sm_90", ALIGNED),
    ],
)
def test_grids_that_are_left_to_all_threads(module: Module, arch: str, alignment: tuple[int, ...]) -> None:
    assert not any(map(is_specialised, ranked(module, arch=arch, alignment=alignment)))


def test_what_the_program_says_is_kept() -> None:
    for one in ranked(product(blocks="128, auto", depth="64", stages=3)):
        if is_specialised(one):
            (grid,) = one.plan.grids
            assert grid.stages == 3
            assert grid.threads * 64 // grid.cluster <= 128 * 128
            assert set(dict(one.plan.blocks)) == {"n"}
    assert is_specialised(ranked(product(blocks="128, auto", depth="64", stages=3))[0])
    assert is_specialised(ranked(product(blocks="128, 128"))[0])


def test_loops_are_shared_where_tiles_are_few_and_nothing_is_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(specialised_plans, "MADE", EVERY)
    few: dict[str, int] = {"M": 16, "N": 128, "K": 16384}
    hopper = gpu_machine("sm_90")
    plans = [one.plan for one in ranked_plans(product().entry, hopper, few, ALIGNED)]
    grid = next(plan for plan in plans if not plan.parts).grids[0]
    assert grid.splits == grid.cluster > 1
    assert grid.rows == 16
    found = [one.plan.grids[0] for one in ranked_plans(product(fold=FOLD).entry, hopper, few, ALIGNED)]
    assert found[0].roles
    assert all(one.splits == 1 for one in found)
