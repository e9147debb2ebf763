"""Groupings of a graph are searched for, kept, and followed by builds."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.fakes.fake_runner import FakeRunner
from tests.support.fakes.table_runner import TableRunner, crews_by
from tiledsl import tile
from tiledsl.api.calls.tuning import TuneReport
from tiledsl.api.graphs import tune_groupings
from tiledsl.api.graphs.fused import FusedGraph
from tiledsl.api.graphs.grouping_workload import GroupingWorkload
from tiledsl.autotune.records.database import Database
from tiledsl.autotune.sources import DatabasePlans
from tiledsl.passes.graph.groups import ties
from tiledsl.passes.graph.groups.price import Price, Prices
from tiledsl.passes.graph.kernels.kernel_plan import KernelPlan
from tiledsl.runtime.programs import cache
from tiledsl.runtime.programs.plan_source import APART, GROUPING, TOGETHER

X: Any = np.random.default_rng(0).standard_normal((32, 48)).astype(np.float32)
W: Any = np.random.default_rng(1).standard_normal((48, 16)).astype(np.float32)


def formula(x: Any, w: Any) -> Any:
    return tile.exp(x @ w)


def graph() -> FusedGraph:
    return tiledsl.fuse(tiledsl.trace(formula, X, W))


class GroupingRunner(FakeRunner):
    """In place of a crew: `faster` takes half of the time of the other."""

    def __init__(self, workload: GroupingWorkload, faster: str) -> None:
        other = APART if faster == TOGETHER else TOGETHER
        super().__init__({faster: 0.5e-3, other: 1e-3})
        self.workload = workload

    def confirm(self, plan: str) -> Any:
        self.confirmed.append(plan)
        return super().confirm(plan)


class Searches:
    """What was started, and by which plan it is faster."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.faster = APART
        self.ties: list[GroupingRunner] = []
        crews_by(monkeypatch, self.start)

    def start(self, workload: Any) -> FakeRunner:
        if not isinstance(workload, GroupingWorkload):
            return TableRunner(workload)
        self.ties.append(GroupingRunner(workload, self.faster))
        return self.ties[-1]


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Searches:
    """One kernel is by the model as fast as two."""
    monkeypatch.setenv("TILEDSL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TILEDSL_TUNING", str(tmp_path / "default"))
    cache.disk_cache.cache_clear()

    def price(self: Prices, plan: KernelPlan) -> Price:
        return Price(len(plan.outlined.function.body.ops) - 1, 0)

    monkeypatch.setattr(Prices, "of", price)
    return Searches(monkeypatch)


def tuned(folder: Path, seconds: float = 60) -> TuneReport:
    return tiledsl.tune(graph(), arch="cpu", seconds=seconds, trials=2, database=folder)


def kernels(folder: Path | None = None) -> int:
    (module,) = graph().build("cpu", tuning=folder).modules
    return len(module.built.schedule.steps)


def test_builds_follow_what_was_measured(searches: Searches, tmp_path: Path) -> None:
    assert kernels() == 1
    report = tuned(tmp_path / "db")
    (first, *others) = report.outcomes
    assert (first.pick, first.winner, first.kernel) == (TOGETHER, APART, "formula: map with contract")
    assert report.finished
    assert len(others) == 2, "plans are searched for the kernels that are left"
    assert len(searches.ties) == 1
    assert kernels(tmp_path / "db") == 2
    with tiledsl.tuned(tmp_path / "db"):
        assert kernels() == 2
    assert kernels() == 1
    result = graph().build("cpu", tuning=tmp_path / "db")(X, W)
    np.testing.assert_allclose(result, np.exp(X @ W), rtol=1e-3)
    said = graph().build("cpu", tuning=tmp_path / "db").explain()
    assert "that was measured, and is slower in one" in " ".join(said.split())


def test_the_models_decision_stays_where_it_is_as_fast(searches: Searches, tmp_path: Path) -> None:
    searches.faster = TOGETHER
    report = tuned(tmp_path / "db")
    assert report.outcomes[0].winner == TOGETHER
    assert kernels(tmp_path / "db") == 1


def test_a_second_search_measures_nothing_and_groups_nothing(
    searches: Searches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuned(tmp_path / "db")
    tuned(tmp_path / "db")
    cache.disk_cache.cache_clear()
    monkeypatch.setattr(tune_groupings, "alternatives", _unwanted)
    again = tuned(tmp_path / "db")
    assert len(searches.ties) == 1
    assert all(outcome.known for outcome in again.outcomes)


def test_a_warm_build_asks_no_database(searches: Searches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del searches
    tuned(tmp_path / "db")
    assert kernels(tmp_path / "db") == 2
    monkeypatch.setattr(DatabasePlans, "groupings", _unwanted)
    assert kernels(tmp_path / "db") == 2


def _unwanted(*_: object) -> Any:
    pytest.fail("it is asked again")


def test_what_is_recorded(searches: Searches, tmp_path: Path) -> None:
    del searches
    tuned(tmp_path / "db")
    database = Database(tmp_path / "db")
    database.refresh()
    ((question, (search,)),) = [
        (one, found) for one, found in database.entries.searches.items() if one.program.startswith(GROUPING)
    ]
    assert (question.target, question.sizes, search.winner) == ("cpu", (), APART)
    assert "graph.contract" in database.entries.programs[question.program].text
    trials = database.entries.trials[question]
    assert {(trial.plan, trial.state, trial.predicted) for trial in trials} == {(TOGETHER, "ok", 2), (APART, "ok", 2)}


def test_where_there_is_no_time_it_is_said(searches: Searches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune_groupings, "SHARE", 0.0)
    report = tuned(tmp_path / "db")
    assert not searches.ties
    assert not report.finished
    assert "formula: map with contract: there was no time left for it" in report.notes


def test_certain_decisions_are_not_measured(
    searches: Searches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ties, "MARGIN", 1.0)
    monkeypatch.setattr(Prices, "of", _dear)
    report = tuned(tmp_path / "db")
    assert not searches.ties
    assert len(report.outcomes) == 2, "of the plans of two kernels"


def _dear(prices: Prices, plan: KernelPlan) -> Price:
    """Of any two kernels the one that has both costs more."""
    del prices
    return Price(4.0 ** len(plan.outlined.function.body.ops), 0)


def test_ops_that_are_kernels_each_have_no_groupings(searches: Searches, tmp_path: Path) -> None:
    apart = tiledsl.fuse(tiledsl.trace(formula, X, W), fusion=False)
    tiledsl.tune(apart, arch="cpu", seconds=60, trials=2, database=tmp_path / "db")
    assert not searches.ties


def test_a_real_search_of_a_tie(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Real processes and real time; who wins is not asserted."""
    monkeypatch.setattr(ties, "MARGIN", 1e3)
    monkeypatch.setenv("TILEDSL_CACHE_DIR", str(tmp_path / "cache"))
    cache.disk_cache.cache_clear()
    started = time.monotonic()
    report = tuned(tmp_path / "db", 120)
    assert time.monotonic() - started < 120
    first = report.outcomes[0]
    assert {first.pick, first.winner} <= {TOGETHER, APART}
    assert {(trial.state, trial.reason) for trial in first.trials} == {("ok", "")}
    assert kernels(tmp_path / "db") in (1, 2)
