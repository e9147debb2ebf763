"""Plans in another process: what is wrong is found, what hangs is ended, what crashes costs nobody else anything."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.fakes.fake_runner import task_of
from tests.support.fakes.tuning_faults import Faulty
from tests.support.fakes.tuning_records import QUESTION
from tiledsl.autotune.measuring.child import ChildRunner
from tiledsl.autotune.measuring.host import CannotPrepareError, Limits
from tiledsl.autotune.records.database import Database, Writer
from tiledsl.autotune.searching.search import Searches
from tiledsl.autotune.searching.task import Budget

LIMITS = Limits(prepare=30, check=0.5, rounds=0.5)


@pytest.fixture(scope="module")
def runner() -> Generator[ChildRunner]:
    made = ChildRunner(Faulty(), LIMITS)
    yield made
    made.close()


FAULTS = {
    "wrong": ("wrong", "`y` differs from the reference in 1 of 8 elements, first at [3]: 7.0, not 6.0"),
    "writes too little": ("wrong", "first at [7]: nan, not 14.0"),
    "corrupts its inputs": ("wrong", "`x`, which is only read, was changed"),
    "racy": ("wrong", "`y` is not the same after two runs on the same arguments"),
    "raises": ("refused", "RuntimeError: it cannot be"),
    "crashes": ("crash", "the process ended by SIGSEGV"),
    "exits": ("crash", "the process ended with code 3: something was said before the end"),
    "hangs": ("timeout", "it took longer than 0.5 s"),
}


@pytest.mark.parametrize("plan", FAULTS)
def test_a_fault_is_found_and_the_next_plan_is_not_hurt(runner: ChildRunner, plan: str) -> None:
    state, reason = FAULTS[plan]
    checked = runner.check(plan)
    assert checked.state == state
    assert reason in checked.reason
    assert runner.check("good").state == "ok"


def test_one_process_serves_for_as_long_as_it_lives() -> None:
    runner = ChildRunner(Faulty(), LIMITS)
    for plan in ("good", "wrong", "raises", "good"):
        runner.check(plan)
    assert len(runner.rounds(["good", "fast"], 20).times) == 20
    assert runner.started == 1
    runner.check("crashes")
    runner.check("good")
    assert runner.started == 2
    runner.close()


def test_rounds_have_the_times_of_each_plan(runner: ChildRunner) -> None:
    found = runner.rounds(["good", "fast", "other"], 5)
    assert found.times == [(1e-6, 0.5e-6, 1e-6)] * 5
    assert found.failed is None


@pytest.mark.parametrize(
    ("plan", "state"),
    [("crashes when timed", "crash"), ("hangs when timed", "timeout"), ("raises when timed", "crash")],
)  # fmt: skip
def test_who_fails_while_it_is_timed_is_known(runner: ChildRunner, plan: str, state: str) -> None:
    failed = runner.rounds(["good", "fast", plan, "other"], 8).failed
    assert failed is not None
    assert (failed.plan, failed.state) == (plan, state)
    assert runner.rounds(["good"], 2).times == [(1e-6,)] * 2


@pytest.mark.parametrize("plan", ["crashes when made ready", "raises when made ready"])
def test_who_fails_while_it_is_made_ready_is_not_to_blame_before_it_is_timed(plan: str) -> None:
    runner = ChildRunner(Faulty(), LIMITS)
    runner.begin()
    runner.ready(["good", plan])
    runner.is_ready()
    assert runner.rounds(["good", "fast"], 2).times == [(1e-6, 0.5e-6)] * 2
    runner.close()


@pytest.mark.parametrize("opens", ["error", "crash"])
def test_a_workload_that_cannot_be_opened_is_not_ready_either(opens: str) -> None:
    runner = ChildRunner(Faulty(opens), LIMITS)
    runner.begin()
    with pytest.raises(CannotPrepareError):
        runner.ready(["good"])
    runner.close()


@pytest.mark.parametrize("opens", ["error", "crash", "hang"])
def test_a_workload_that_cannot_be_opened(opens: str) -> None:
    runner = ChildRunner(Faulty(opens), Limits(prepare=1.0))
    with pytest.raises(CannotPrepareError, match=r"no such program|SIGABRT|longer than 1 s"):
        runner.check("good")


def test_no_fault_is_ever_accepted(tmp_path: Path, runner: ChildRunner) -> None:
    plans = ["fast", *FAULTS, "crashes when timed", "hangs when timed"]
    with Writer(Database(tmp_path)) as writer:
        outcome = Searches(writer).run(task_of(plans, pick="good"), runner, Budget(60))
    assert outcome.winner == "fast"
    database = Database(tmp_path)
    database.refresh()
    states = {trial.plan: trial.state for trial in database.entries.trials[QUESTION]}
    assert states == {
        "good": "ok", "fast": "ok", "crashes when timed": "crash", "hangs when timed": "timeout",
        **{plan: state for plan, (state, _) in FAULTS.items()},
    }  # fmt: skip
