"""Searches with a runner that has no machine: what is tried, recorded, and taken from the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.fakes.fake_runner import FakeRunner, task_of
from tests.support.fakes.tuning_records import QUESTION
from tiledsl.autotune.candidates.candidate import Candidate
from tiledsl.autotune.candidates.evolve import Breeder
from tiledsl.autotune.measuring.runner import Checked
from tiledsl.autotune.records.database import Database, Writer
from tiledsl.autotune.records.record import Trial
from tiledsl.autotune.searching.outcome import Outcome
from tiledsl.autotune.searching.search import Searches
from tiledsl.autotune.searching.task import Budget, Task
from tiledsl.autotune.sources import DatabasePlans
from tiledsl.runtime.programs.plan_source import Answer, PlanQuestion
from tiledsl.support.errors import TileRuntimeError

TIMES = {"pick": 1e-3, "a": 0.9e-3, "b": 1.1e-3, "c": 0.95e-3}


def searched(
    folder: Path, runner: FakeRunner, task: Task | None = None, budget: Budget | None = None
) -> tuple[Outcome, Database]:
    """A search by a process that has just started; and the database as the next one reads it."""
    database = Database(folder)
    database.refresh()
    with Writer(database) as writer:
        task, budget = task or task_of(["a", "b", "c"]), budget or Budget(60)
        outcome = Searches(writer, clock=runner.clock).run(task, runner, budget)
    later = Database(folder)
    later.refresh()
    return outcome, later


def by_plan(database: Database) -> dict[str, Trial]:
    return {trial.plan: trial for trial in database.entries.trials[QUESTION]}


def test_the_winner_is_recorded_and_used(tmp_path: Path) -> None:
    outcome, database = searched(tmp_path, FakeRunner(TIMES))
    assert (outcome.winner, outcome.finished, outcome.measured) == ("a", True, 3)
    assert outcome.gain == pytest.approx(1 / 0.9, rel=0.02)
    assert DatabasePlans(database).plan_for(QUESTION) == Answer("a", "c" * 40)
    trials = by_plan(database)
    assert {plan: trial.state for plan, trial in trials.items()} == dict.fromkeys(TIMES, "ok")
    assert trials["a"].why == "near"
    assert trials["a"].predicted == 1e-3
    assert trials["a"].ratio is not None
    assert database.entries.programs[QUESTION.program].kernel == "gemm"


def test_the_second_search_measures_nothing(tmp_path: Path) -> None:
    first, _ = searched(tmp_path, FakeRunner(TIMES))
    runner = FakeRunner(TIMES)
    second, _ = searched(tmp_path, runner)
    assert (second.known, second.winner, second.ratio) == (True, first.winner, first.ratio)
    assert runner.checks == []
    assert "nothing was measured" in str(second)


def test_two_searches_agree(tmp_path: Path) -> None:
    winners = {searched(tmp_path / str(seed), FakeRunner(TIMES, seed=seed))[0].winner for seed in range(5)}
    assert winners == {"a"}


@pytest.mark.parametrize("state", ["wrong", "refused", "timeout", "crash"])
def test_what_fails_is_recorded_never_timed_and_never_tried_again(tmp_path: Path, state: str) -> None:
    bad = Checked(state, "it is so", checked=("given",))  # pyright: ignore[reportArgumentType]  # one of the states
    runner = FakeRunner({**TIMES, "a": 1e-9}, states={"a": bad})
    outcome, database = searched(tmp_path, runner)
    assert outcome.winner == "c"
    assert runner.calls.get("a") is None
    trial = by_plan(database)["a"]
    assert (trial.state, trial.reason, trial.times, trial.ratio) == (state, "it is so", None, None)
    again = FakeRunner(TIMES, states={"a": bad})
    other_pick = task_of(["a", "b"], pick="c")  # as a later version may choose
    searched(tmp_path, again, other_pick)
    assert "a" not in again.checks


def test_who_dies_while_it_is_timed_is_recorded(tmp_path: Path) -> None:
    outcome, database = searched(tmp_path, FakeRunner(TIMES, dies_at={"a": 12}))
    assert (outcome.winner, outcome.finished) == ("c", True)
    assert by_plan(database)["a"].state == "crash"
    assert by_plan(database)["a"].times is None


def test_no_more_trials_than_were_asked_for(tmp_path: Path) -> None:
    plans = [f"p{number}" for number in range(50)]
    runner = FakeRunner(dict.fromkeys(["pick", *plans], 1e-3))
    outcome, _ = searched(tmp_path, runner, task_of(plans), Budget(60, 20))
    assert (len(runner.checks), outcome.measured) == (21, 20)


def test_a_short_budget_is_kept_and_said(tmp_path: Path) -> None:
    slow = {plan: 1000 * seconds for plan, seconds in TIMES.items()}
    runner = FakeRunner(slow)
    outcome, database = searched(tmp_path, runner, budget=Budget(60))
    assert (outcome.finished, outcome.winner) == (False, "pick")
    assert "60 s were too short to finish: 3 plans were checked, 3 timed, and there were no finals" in str(outcome)
    assert DatabasePlans(database).plan_for(QUESTION) is None
    assert by_plan(database)["a"].ratio is not None, "what was measured is kept"
    resumed, database = searched(tmp_path, FakeRunner(TIMES))
    assert (resumed.known, resumed.winner) == (False, "a"), "an unfinished search is no answer"


def test_what_was_certainly_slower_is_not_measured_again(tmp_path: Path) -> None:
    plans = [f"p{number}" for number in range(4)]
    times = {"pick": 0.1, "p0": 0.2, "p1": 0.099, "p2": 0.3, "p3": 0.101}
    outcome, _ = searched(tmp_path, FakeRunner(times), task_of(plans), Budget(10))
    assert not outcome.finished
    runner = FakeRunner(times)
    searched(tmp_path, runner, task_of(plans), Budget(1e6))
    assert runner.checks == ["pick", "p1", "p3"]


def test_time_for_checks_alone(tmp_path: Path) -> None:
    outcome, _ = searched(tmp_path, FakeRunner(TIMES), budget=Budget(0.015))
    assert "1 plans were checked, none was timed" in str(outcome)


def test_time_for_the_pick_alone(tmp_path: Path) -> None:
    outcome, _ = searched(tmp_path, FakeRunner(TIMES), budget=Budget(0.01))
    assert "it took 0.01 s to run the reference and the model's pick" in str(outcome)


def test_ctrl_c_keeps_what_was_measured(tmp_path: Path) -> None:
    def interrupt(number: int) -> None:
        if number == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        searched(tmp_path, FakeRunner(TIMES, on_round=interrupt))
    database = Database(tmp_path)
    database.refresh()
    kept = by_plan(database)
    assert set(kept) == set(TIMES)
    assert kept["a"].times is not None
    assert kept["a"].times.count == 16
    assert database.best(QUESTION) is None


def test_finalists_are_made_ready_before_they_are_checked_on_other_inputs(tmp_path: Path) -> None:
    runner = FakeRunner(TIMES)
    outcome, _ = searched(tmp_path, runner)
    (ready,) = runner.made_ready
    assert ready[0] == "pick"
    assert outcome.winner in ready


def test_winners_at_other_sizes_are_tried_first_the_nearest_first(tmp_path: Path) -> None:
    slow = dict.fromkeys(["far", "near", "nearer"], 1.0)
    for size, winner in ((4096, "far"), (128, "near"), (96, "nearer")):
        question = replace(QUESTION, sizes=(("M", size), ("N", 32)), strides=((32, 1),))
        searched(tmp_path, FakeRunner({**slow, "pick": 1e-3, winner: 0.5e-3}), task_of([winner], question=question))
    runner = FakeRunner({**TIMES, **slow})
    searched(tmp_path, runner)
    assert runner.checks[:4] == ["pick", "nearer", "near", "far"]


@pytest.mark.parametrize(
    "other",
    [
        replace(QUESTION, sizes=(("M", 63), ("N", 32))),
        replace(QUESTION, strides=((33, 1), (1, 64))),
        replace(QUESTION, device="another CPU"),
        replace(QUESTION, threads=1),
        replace(QUESTION, program="other" * 8),
        replace(QUESTION, target="sm_90"),
    ],
)
def test_nothing_applies_to_another_question(tmp_path: Path, other: object) -> None:
    _, database = searched(tmp_path, FakeRunner(TIMES))
    assert DatabasePlans(database).plan_for(other) is None  # pyright: ignore[reportArgumentType]


def test_code_for_a_device_that_is_not_there_takes_the_plans_of_the_only_one(tmp_path: Path) -> None:
    question = replace(QUESTION, device="")
    _, database = searched(tmp_path, FakeRunner(TIMES))
    assert DatabasePlans(database).plan_for(question) == Answer("a", "c" * 40)
    second = task_of(["a", "b", "c"], question=replace(QUESTION, device="another GPU"))
    _, database = searched(tmp_path, FakeRunner({**TIMES, "a": 1.0}), second)
    assert DatabasePlans(database).plan_for(question) is None, "two devices, two answers"


def test_a_busy_machine_is_said_with_its_spread(tmp_path: Path) -> None:
    outcome, _ = searched(tmp_path, FakeRunner(TIMES, busy=4.0))
    assert "something else keeps the machine busy" in str(outcome)
    assert outcome.winner == "a", "pairs see through it"


class Numbers:
    """A space of plans `p0` to `p99`: neighbours are the next ones, and the model knows nothing."""

    def mutated(self, plan: str) -> list[str]:
        number = int(plan.removeprefix("p"))
        return [f"p{other}" for other in (number - 1, number + 1) if 0 <= other < 100]

    def crossed(self, one: str, other: str) -> list[str]:
        del one, other
        return []

    def predicted(self, plan: str) -> float:
        return 1e-3 + 1e-6 * (int(plan.removeprefix("p")) > 50)

    def terms(self, plan: str) -> tuple[float, ...]:
        return (float(plan.removeprefix("p")),)


def by_numbers(trials: object) -> Breeder:
    del trials
    return Breeder(Numbers())


def bred_task() -> Task:
    """Plans are the faster the nearer they are to `p50`; the first ones are far from it."""
    first = task_of([f"p{number}" for number in (10, 20, 30, 40)], pick="p5")
    return replace(first, breeder=by_numbers)


BRED = {f"p{number}": 1e-3 + 1e-5 * abs(number - 50) for number in range(100)}


def test_plans_are_bred_from_the_best_ones(tmp_path: Path) -> None:
    runner = FakeRunner(BRED, noise=0.001)
    outcome, database = searched(tmp_path, runner, bred_task(), Budget(60, 10))
    assert outcome.finished
    assert runner.checks[:5] == ["p5", "p10", "p20", "p30", "p40"]
    assert len(runner.checks) == 11, "no more than were asked for"
    assert outcome.winner in ("p41", "p42", "p43")
    assert by_plan(database)[outcome.winner].why == "bred: one decision of a good plan is another"


def test_what_fails_is_not_bred_from_and_not_bred_again(tmp_path: Path) -> None:
    states = {"p41": Checked("wrong", "it is so"), "p39": Checked("crash", "it is so")}
    outcome, database = searched(tmp_path, FakeRunner(BRED, states, noise=0.001), bred_task(), Budget(60, 10))
    assert outcome.winner == "p40"
    assert by_plan(database)["p41"].state == "wrong"
    again = FakeRunner(BRED, states)
    searched(tmp_path, again, replace(bred_task(), plan="p6"), Budget(60, 10))
    assert not {"p41", "p39"} & set(again.checks)


def test_who_dies_in_a_first_heat_is_out(tmp_path: Path) -> None:
    outcome, database = searched(tmp_path, FakeRunner(BRED, dies_at={"p40": 3}), bred_task(), Budget(60, 10))
    assert outcome.finished
    assert by_plan(database)["p40"].state == "crash"
    assert outcome.winner != "p40"


def test_breeding_ends_in_time(tmp_path: Path) -> None:
    slow = {plan: 100 * seconds for plan, seconds in BRED.items()}
    runner = FakeRunner(slow)
    outcome, _ = searched(tmp_path, runner, bred_task(), Budget(10, 20))
    assert not outcome.finished
    assert runner.now < 15


def test_a_pick_alone_is_bred_from(tmp_path: Path) -> None:
    alone = replace(bred_task(), candidates=task_of([]).candidates, plan="p48")
    runner = FakeRunner({**BRED, "p50": 0.5e-3})
    outcome, _ = searched(tmp_path, runner, alone, Budget(60, 10))
    assert (outcome.winner, outcome.finished) == ("p50", True)


def test_who_has_no_prediction_is_tried_with_the_bred_ones(tmp_path: Path) -> None:
    """Nobody can say that it is not worth a trial."""
    first = task_of([f"p{number}" for number in (10, 20, 30, 40)], pick="p5")

    def candidates(winners: Sequence[str], most: int) -> list[Candidate]:
        return [*first.candidates(winners, most), Candidate("p90", 1e-3, "near"), Candidate("p50", None, "strange")]

    runner = FakeRunner(BRED, noise=0.001)
    outcome, _ = searched(tmp_path, runner, replace(first, candidates=candidates, breeder=by_numbers), Budget(60, 10))
    assert outcome.winner == "p50"
    assert runner.checks.index("p50") >= 5
    assert "p90" not in runner.checks, "it was beyond the first ones"


def test_one_generation_has_all_that_is_left(tmp_path: Path) -> None:
    runner = FakeRunner(BRED, noise=0.001)
    searched(tmp_path, runner, replace(bred_task(), generations=1), Budget(60, 10))
    assert len(runner.checks) == 11
    assert set(runner.checks[5:]) <= {f"p{parent + step}" for parent in (40, 30, 20, 10) for step in (-1, 1)}


def test_a_pick_that_dies_while_it_is_timed_is_said(tmp_path: Path) -> None:
    with pytest.raises(TileRuntimeError, match="it ended in `crash`: the process ended by SIGSEGV"):
        searched(tmp_path, FakeRunner(TIMES, dies_at={"pick": 12}))
    database = Database(tmp_path)
    database.refresh()
    assert by_plan(database)["pick"].state == "crash"
    assert database.best(QUESTION) is None


def test_a_pick_without_any_other_plan_stays(tmp_path: Path) -> None:
    outcome, _ = searched(tmp_path, FakeRunner(TIMES), task_of([]))
    assert (outcome.winner, outcome.finished, outcome.measured) == ("pick", True, 0)


def test_a_finalist_is_checked_on_all_inputs_before_it_may_win(tmp_path: Path) -> None:
    wrong = Checked("wrong", "`c` differs (odd arguments)", None, ("odd",))
    runner = FakeRunner(TIMES, confirmations={"a": wrong})
    outcome, database = searched(tmp_path, runner)
    assert outcome.winner == "c"
    trial = by_plan(database)["a"]
    assert (trial.state, trial.reason, trial.times) == ("wrong", wrong.reason, None)
    assert by_plan(database)["c"].checked == ("given", "repeated", "random", "odd")
    assert "b" not in runner.confirmed, "who cannot win is not checked further"


def test_a_pick_that_is_wrong_on_other_inputs_is_said(tmp_path: Path) -> None:
    with pytest.raises(TileRuntimeError, match="it is so"):
        searched(tmp_path, FakeRunner(TIMES, confirmations={"pick": Checked("wrong", "it is so")}))


def test_where_the_seconds_went(tmp_path: Path) -> None:
    runner = FakeRunner(TIMES)
    outcome, database = searched(tmp_path, runner)
    assert runner.begun
    assert abs(sum(outcome.phases.values()) - outcome.seconds) < 1e-9
    found = {name: round(seconds, 6) for name, seconds in outcome.phases.items()}
    assert (found["start"], found["builds"], found["checks"]) == (0.01, 0.0, 0.03)
    assert outcome.phases["finals"] > outcome.phases["race"] > 0.1
    assert "start 0.01, builds 0.00, checks 0.03, race 0." in str(outcome)
    best = database.best(QUESTION)
    assert best is not None
    assert best.phases == outcome.phases


def test_a_breeder_is_told_what_was_tried_at_other_sizes(tmp_path: Path) -> None:
    told: list[tuple[PlanQuestion, set[str]]] = []

    def breeder(trials: Sequence[tuple[PlanQuestion, Sequence[Trial]]]) -> Breeder:
        told.extend((question, {trial.plan for trial in tried}) for question, tried in trials)
        return Breeder(Numbers())

    other = replace(QUESTION, sizes=(("M", 96), ("N", 32)))
    elsewhere = replace(other, device="another CPU")
    for question in (other, elsewhere):
        searched(tmp_path, FakeRunner(BRED), task_of(["p7"], pick="p6", question=question))
    searched(tmp_path, FakeRunner(BRED, noise=0.001), replace(bred_task(), breeder=breeder), Budget(60, 10))
    assert told == [(other, {"p6", "p7"})]
