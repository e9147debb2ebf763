"""Plans for CPUs as text, and which of them a program can be run by."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tile_programs import GEMM
from tests.unit.passes.cpu.test_choose_blocks import work_of
from tiledsl.passes.cpu.cpu_plan import CpuPlan, parse_cpu_plan, why_no_plan
from tiledsl.passes.cpu.plan_launch import launch_by, plan_launch
from tiledsl.passes.machine import MACHINES

MACHINE = MACHINES["avx512"]
SIZES = {"M": 1000, "N": 300, "K": 77}
NAMES = st.sampled_from(["m", "n", "k", "row_1"])


@given(st.dictionaries(NAMES, st.integers(1, 4096)), st.lists(st.integers(1, 64), min_size=1, max_size=3))
def test_text_reads_back(blocks: dict[str, int], threads: list[int]) -> None:
    plan = CpuPlan(tuple(blocks.items()), tuple(threads))
    assert parse_cpu_plan(str(plan)) == plan


@pytest.mark.parametrize("text", ["m=", "m=4; 2 threads", "2 threads, and more", ""])
def test_other_words_are_no_plan(text: str) -> None:
    with pytest.raises(ValueError, match="nothing that a plan"):
        parse_cpu_plan(text)


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_what_is_chosen_is_a_plan_and_launches_the_same(threads: int) -> None:
    works = [work_of(GEMM)]
    chosen = plan_launch(works, MACHINE, SIZES, threads)
    assert why_no_plan(chosen.plan, works, threads) is None
    assert launch_by(chosen.plan, works, MACHINE, SIZES) == chosen


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"m": 7}, "`m=7` is no multiple of 8"),
        ({"m": 0}, "`m=0` is no multiple"),
        ({"m": 1 << 20}, "is no multiple of 8 up to"),
        ({"z": 8}, "the program has blocks of k, m, n, and the plan of k, m, n, z"),
    ],
)
def test_what_code_cannot_be_run_by(change: dict[str, int], reason: str) -> None:
    works = [work_of(GEMM)]
    plan = plan_launch(works, MACHINE, SIZES, 2).plan
    other = CpuPlan(tuple({**dict(plan.blocks), **change}.items()), plan.threads)
    assert reason in (why_no_plan(other, works, 2) or "")


def test_threads_that_there_are_not() -> None:
    works = [work_of(GEMM)]
    plan = plan_launch(works, MACHINE, SIZES, 2).plan
    assert "there are 1 threads" in (why_no_plan(CpuPlan(plan.blocks, (2,)), works, 1) or "")
    assert "has 1 grids, and the plan threads of 2" in (why_no_plan(CpuPlan(plan.blocks, (1, 1)), works, 1) or "")
