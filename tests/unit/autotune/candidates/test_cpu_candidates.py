"""Plans for a CPU as candidates; rules of users; breeding, beside random search."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest

from benchmarks.search.landscape import TRIALS, at_random, bred, machine
from gemm import gemm
from softmax import softmax
from tests.support.fakes.table_runner import TableRunner, crews_by
from tests.support.tile_programs import GEMM
from tests.unit.passes.cpu.test_choose_blocks import MACHINE, work_of
from tiledsl.autotune import Facts, forget_rule, rule
from tiledsl.autotune.candidates.candidate import NEAR, Candidate, different, in_turns
from tiledsl.autotune.candidates.cpu_candidates import BredCpuPlans, CpuSpace, cpu_candidates
from tiledsl.autotune.candidates.evolve import Breeder
from tiledsl.autotune.records.database import Database
from tiledsl.backend_cpu.calls.program import CpuProgram, question_of
from tiledsl.passes.cpu.cpu_plan import CpuPlan, parse_cpu_plan


def empty(*shape: int) -> Any:
    return np.empty(shape, np.float32)


@cache
def space(m: int, n: int, k: int) -> CpuSpace:
    """Of a product on a machine with AVX-512, whatever the one at hand is."""
    compiled = gemm.compile(empty(m, k), empty(k, n)).program
    assert isinstance(compiled, CpuProgram)
    program = replace(compiled, works=(work_of(GEMM),), machine=MACHINE)
    return CpuSpace(program, question_of(program, {"M": m, "N": n, "K": k}, [(k, 1), (n, 1), (n, 1)], 2))


SPACES = [(512, 512, 512), (1024, 1024, 1024), (64, 2048, 512), (2048, 64, 256)]


def test_each_plan_comes_once_in_the_order_of_its_first_place() -> None:
    a, b, c = (Candidate(name, None, "") for name in "abc")
    assert [one.plan for one in different([b, a, b, c])] == ["b", "a", "c"]
    assert [one.plan for one in in_turns([[a, b], [c, a]], 2)] == ["a", "c"]


@pytest.mark.parametrize("sizes", SPACES)
def test_candidates_are_legal_near_or_neighbours(sizes: tuple[int, int, int]) -> None:
    made = space(*sizes)
    pick = made.pick
    assert pick.predicted is not None
    found = cpu_candidates(made, [], TRIALS)
    assert 5 < len(found) <= TRIALS
    assert len({one.plan for one in found} | {pick.plan}) == len(found) + 1
    for one in found:
        assert made.is_legal(parse_cpu_plan(one.plan))
        assert one.predicted is not None
        assert one.why != "near by the model" or one.predicted <= NEAR * pick.predicted


def test_winners_at_other_sizes_come_first_where_they_are_legal() -> None:
    made = space(512, 512, 512)
    found = cpu_candidates(made, ["m=8, n=16, k=8, 1 threads", "m=9, n=16, k=8, 1 threads"], 5)
    assert (found[0].plan, found[0].why) == ("m=8, n=16, k=8, 1 threads", "the winner at other sizes")
    assert all("m=9," not in one.plan for one in found)


def test_a_fold_has_few_plans() -> None:
    program = softmax.compile(empty(100, 1000)).program
    assert isinstance(program, CpuProgram)
    made = CpuSpace(program, question_of(program, {"M": 100, "N": 1000}, [(1000, 1)] * 2, 2))
    assert all(made.is_legal(parse_cpu_plan(one.plan)) for one in cpu_candidates(made, [], TRIALS))


@pytest.fixture
def three_units() -> Generator[None]:
    @rule(target="cpu")
    def three_units(plan: CpuPlan, facts: Facts) -> Iterator[CpuPlan]:  # pyright: ignore[reportUnusedFunction]
        for name, axis in facts.axes.items():
            if axis.kind == "upto" and 3 * axis.unit <= axis.limit:
                yield plan.with_block(name, 3 * axis.unit)

    yield
    forget_rule("three_units")


def test_a_rule_of_the_user_adds_plans(three_units: None) -> None:
    found = [one for one in cpu_candidates(space(512, 512, 512), [], TRIALS) if one.why == "by rule three_units"]
    blocks = [dict(parse_cpu_plan(one.plan).blocks) for one in found]
    assert [block["m"] for block in blocks].count(24) == 1
    assert [block["n"] for block in blocks].count(48) == 1
    forget_rule("three_units")
    assert all("rule" not in one.why for one in cpu_candidates(space(512, 512, 512), [], TRIALS))


def test_what_a_rule_yields_is_searched_recorded_and_used_without_it(
    three_units: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Runner(TableRunner):
        def _sample(self, plan: str) -> float:
            super()._sample(plan)
            return 1e-4 if plan.startswith("m=24,") else 1e-3

    crews_by(monkeypatch, Runner)
    a: Any = np.ones((128, 128), np.float32)
    (outcome,) = gemm.tune(a, a, database=tmp_path).outcomes
    assert outcome.winner.startswith("m=24,")
    forget_rule("three_units")
    database = Database(tmp_path)
    database.refresh()
    (trials,) = database.entries.trials.values()
    assert {trial.why for trial in trials if trial.plan == outcome.winner} == {"by rule three_units"}
    assert gemm.tune(a, a, database=tmp_path).outcomes[0].winner == outcome.winner


def test_a_rule_that_yields_no_plan_for_the_code_is_refused_by_the_check() -> None:
    @rule(target="cpu")
    def nonsense(plan: CpuPlan, facts: Facts) -> Iterator[CpuPlan]:  # pyright: ignore[reportUnusedFunction]
        del facts
        yield plan.with_block("m", 7)

    try:
        found = [one for one in cpu_candidates(space(512, 512, 512), [], TRIALS) if "nonsense" in one.why]
        assert [one.plan.split(",")[0] for one in found] == ["m=7"]
        assert not space(512, 512, 512).is_legal(parse_cpu_plan(found[0].plan))
    finally:
        forget_rule("nonsense")


# Breeding, on machines whose times are the model's but for something that it does not know


RUNS = [(sizes, seed) for sizes in SPACES for seed in range(5)]


def machine_of(sizes: tuple[int, int, int], seed: int) -> tuple[CpuSpace, Callable[[str], float], int]:
    made = space(*sizes)
    return made, machine(made, seed), seed


def test_breeding_beats_random_search_with_half_of_the_trials() -> None:
    drawn = [at_random(*machine_of(*run))[-1] for run in RUNS]
    found = [bred(*machine_of(*run), uses_residual=True) for run in RUNS]
    assert median(a / b[-1] for a, b in zip(drawn, found)) > 1
    halves = [a / b[TRIALS // 2 - 1] for a, b in zip(drawn, found)]
    assert median(halves) >= 1


def test_the_residual_is_of_use() -> None:
    with_it = [bred(*machine_of(*run), uses_residual=True)[-1] for run in RUNS]
    without = [bred(*machine_of(*run), uses_residual=False)[-1] for run in RUNS]
    ratios = [b / a for a, b in zip(with_it, without)]
    assert math.prod(ratios) > 1


@pytest.mark.parametrize("sizes", SPACES)
def test_what_is_bred_is_legal_and_new(sizes: tuple[int, int, int]) -> None:
    made, seconds, _ = machine_of(sizes, 1)
    plans = [made.pick.plan, *(one.plan for one in cpu_candidates(made, [], 8))]
    new = [one.plan for one in Breeder(BredCpuPlans(made)).next({plan: seconds(plan) for plan in plans}, ["m=8"], 6)]
    assert new
    assert not {*new} & {*plans}
    assert all(made.is_legal(parse_cpu_plan(plan)) for plan in new)
