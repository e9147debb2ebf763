"""Processes elsewhere: lost machines, late answers, several searches at once. Ray's own cluster is a slow test."""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.fakes.tuning_faults import Faulty
from tiledsl import tile
from tiledsl.autotune.measuring.host import Fleet, HostRunner, Limits, Lost, NewHosts
from tiledsl.autotune.measuring.messages import PLACES, Check, Open, Time
from tiledsl.autotune.measuring.runner import Checked, Rounds
from tiledsl.autotune.measuring.worker import Worker
from tiledsl.autotune.records.database import Database

LIMITS = Limits(1, 1, 1)


@dataclass
class Machine:
    """A host in this process, which nobody knows the place of. `lost_at`: at which requests, counted over all hosts of
    the list, it is lost; `bad`: plans that it is lost at."""

    log: list[object]
    lost_at: Sequence[int] = ()
    bad: Sequence[str] = ()
    hangs: bool = False
    ended: bool = False
    request: object = None
    worker: Worker = field(default_factory=lambda: Worker(bytearray(PLACES)))

    def send(self, request: object) -> None:
        self.request = request

    def answer(self, seconds: float) -> Any:
        request = self.request
        assert not self.ended
        self.log.append(request)
        plans = request.plans if isinstance(request, Time) else [request.plan] if isinstance(request, Check) else []
        if len(self.log) - 1 in self.lost_at or set(self.bad) & set(plans):
            raise Lost(self.hangs, "the actor is gone")
        return self.worker.answer(request)

    def place(self) -> int:
        return 0

    def end(self) -> None:
        self.ended = True


def runner(log: list[object], **faults: Any) -> HostRunner:
    return HostRunner(Faulty(), NewHosts(lambda: Machine(log, **faults)), LIMITS, retries=1)


def test_a_machine_that_is_lost_costs_no_plan() -> None:
    log: list[object] = []
    found = runner(log, lost_at=[1]).check("good")
    assert found.state == "ok"
    assert [type(one).__name__ for one in log] == ["Open", "Check", "Open", "Check"]


def test_a_plan_that_loses_every_machine_is_to_blame() -> None:
    assert runner([], bad=["good"]).check("good") == Checked("crash", "the actor is gone")


def test_a_plan_that_hangs_is_not_run_again() -> None:
    log: list[object] = []
    assert runner(log, bad=["good"], hangs=True).check("good").state == "timeout"
    assert len(log) == 2


def test_rounds_go_on_where_a_machine_was_lost() -> None:
    log: list[object] = []
    found = runner(log, lost_at=[2]).rounds(["good", "fast"], 6)
    assert found == Rounds([(1e-6, 0.5e-6)] * 6)


def test_who_loses_machines_while_it_is_timed_is_found_by_running_each_alone() -> None:
    failed = runner([], bad=["fast"]).rounds(["good", "fast", "other"], 4).failed
    assert failed is not None
    assert (failed.plan, failed.state) == ("fast", "crash")


def test_as_many_programs_are_measured_at_once_as_there_are_machines(tmp_path: Path) -> None:
    together = threading.Barrier(3)

    class Meets(Machine):
        """Answers its first check when all three have one: it would not come to that one by one."""

        met = False

        def answer(self, seconds: float) -> Any:
            request = self.request
            if isinstance(request, Check) and not self.met:
                together.wait(timeout=60)
                self.met = True
            if isinstance(request, Open):
                self.log.append(request)
                return None
            if isinstance(request, Check):
                return Checked("ok", "", 0.0, ("given",))
            assert isinstance(request, Time)
            return Rounds([(1e-3,) * len(request.plans)] * request.count)

    weights = [np.ones((64, 16 * n), np.float32) for n in (1, 2, 3)]
    graph = tiledsl.trace(three_products(weights), tile.spec((64, 64), tile.f32))
    log: list[object] = []
    report = tiledsl.tune(graph, database=tmp_path, trials=2, fleet=Fleet(3, lambda: Meets(log)))
    searches = [one for one in log if isinstance(one, Open) and one.prepares == "check"]
    assert len(report.outcomes) == len(searches) == 3
    database = Database(tmp_path)
    database.refresh()
    assert len(database.entries.searches) == 3
    assert len(list(tmp_path.glob("*.jsonl"))) == 1, "one writes"


def three_products(weights: Sequence[Any]) -> Any:
    def products(x: Any) -> Any:
        return tuple(x @ weight for weight in weights)

    return products


@pytest.fixture
def ray() -> Generator[Any]:
    found = pytest.importorskip("ray")
    found.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    yield found
    found.shutdown()


@pytest.mark.slow
def test_actors_of_ray(ray: Any, tmp_path: Path) -> None:
    from tiledsl.autotune.measuring.ray_host import ray_fleet

    fleet = ray_fleet(2, num_cpus=1)
    one = HostRunner(Faulty(), NewHosts(fleet.start), Limits(60, 5, 5), fleet.retries)
    states = {plan: one.check(plan).state for plan in ("good", "wrong", "exits", "hangs", "fast")}
    assert states == {"good": "ok", "wrong": "wrong", "exits": "crash", "hangs": "timeout", "fast": "ok"}
    failed = one.rounds(["good", "crashes when timed"], 4).failed
    assert failed is not None
    assert failed.plan == "crashes when timed"
    one.close()
    weights = [np.ones((64, 16 * n), np.float32) for n in (1, 2)]
    graph = tiledsl.trace(three_products(weights), tile.spec((64, 64), tile.f32))
    report = tiledsl.tune(graph, database=tmp_path, trials=2, seconds=120, fleet=fleet)
    assert report.finished
    assert all(trial.state == "ok" for outcome in report.outcomes for trial in outcome.trials)
