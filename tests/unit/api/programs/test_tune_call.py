"""`kernel.tune`, and what calls take from databases. Times come from a table, by a runner without a machine."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.fakes.table_runner import TableRunner, started_by_searches
from tiledsl import tile
from tiledsl.api.calls import plan_sources
from tiledsl.api.calls.plan_sources import database_plans
from tiledsl.api.calls.tuning import TuneReport
from tiledsl.autotune.records.database import Database
from tiledsl.autotune.records.lines import line_of
from tiledsl.autotune.records.shipped import ship
from tiledsl.autotune.sources import DatabasePlans
from tiledsl.support.errors import TileError


@pytest.fixture
def runners(monkeypatch: pytest.MonkeyPatch) -> list[TableRunner]:
    """Those that searches start."""
    return started_by_searches(monkeypatch)


@pytest.fixture(autouse=True)
def default_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILEDSL_TUNING", str(tmp_path / "default"))
    return tmp_path / "default"


def product() -> Any:
    """A kernel that nothing was called of yet."""

    @tile.kernel
    def product(a: tile.Tensor, b: tile.Tensor) -> tile.Tensor:
        M, K = a.shape
        K, N = b.shape
        c = tile.empty((M, N), a.dtype)
        for m, n in tile.grid(M, N):
            acc = tile.zeros((m, n), tile.f32)
            for k in tile.range(K):
                acc = tile.dot(a[m, k], b[k, n], acc)
            c[m, n] = acc
        return c

    return product


A: Any = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)


def rows_of_winner(report: TuneReport) -> int:
    """The block of `m` that the winner of the only search has."""
    (outcome,) = report.outcomes
    assert outcome.winner != outcome.pick
    return int(outcome.winner.split(",")[0].removeprefix("m="))


def rows_of_last_launch(kernel: Any) -> int:
    """The block of `m` that the last new launch has."""
    return int(kernel.explain().rsplit("blocks: m = ", 1)[1].split(",")[0])


def test_later_calls_take_what_was_found(runners: list[TableRunner], default_database: Path) -> None:
    kernel = product()
    before = kernel(A, A)
    untuned = rows_of_last_launch(kernel)
    report = kernel.tune(A, A)
    assert report.finished
    assert report.database == default_database.resolve()
    np.testing.assert_allclose(kernel(A, A), before, rtol=1e-5, atol=1e-5)
    assert rows_of_last_launch(kernel) == rows_of_winner(report) != untuned
    assert runners[0].closed
    second = product()
    second(A, A)
    assert rows_of_last_launch(second) == rows_of_winner(report), "a kernel with the same code asks the same question"


def test_the_second_search_starts_nothing(runners: list[TableRunner]) -> None:
    product().tune(A, A)
    report = product().tune(A, A)
    assert len(runners) == 1
    assert report.outcomes[0].known


def test_other_sizes_and_layouts_do_not_take_it(runners: list[TableRunner]) -> None:
    kernel = product()
    untouched, wide = product(), np.zeros((64, 80), np.float32)
    others: list[Any] = [A[:48], wide[:, :64]]  # fewer rows; rows with gaps
    for other in others:
        untouched(other, A)
    rows = rows_of_winner(kernel.tune(A, A))
    for other in others:
        kernel(other, A)
    assert untouched.explain().count("blocks:") == kernel.explain().count("blocks:")
    assert f"m = {rows}," not in kernel.explain()


def test_a_database_of_ones_own(runners: list[TableRunner], tmp_path: Path) -> None:
    kernel = product()
    kernel(A, A)
    untuned = rows_of_last_launch(kernel)
    rows = rows_of_winner(kernel.tune(A, A, database=tmp_path / "own"))
    kernel(A, A)
    assert rows_of_last_launch(kernel) == untuned, "calls look elsewhere"
    with tiledsl.tuned(tmp_path / "own"):
        kernel(A, A)
        assert rows_of_last_launch(kernel) == rows
        compiled = kernel.compile(A, A)
        compiled(A, A)
        assert f"blocks: m = {rows}," in compiled.explain()
        assert "by a plan that was measured" in compiled.explain()
    fresh = product()
    fresh(A, A)
    assert rows_of_last_launch(fresh) == untuned


def test_what_is_tuned_within_goes_to_that_database(runners: list[TableRunner], tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    with tiledsl.tuned(tmp_path / "own"):
        kernel = product()
        report = kernel.tune(A, A)
        assert report.database == (tmp_path / "own").resolve()
        kernel(A, A)
        assert rows_of_last_launch(kernel) == rows_of_winner(report)


def test_it_holds_for_one_thread(runners: list[TableRunner], tmp_path: Path) -> None:
    winner = rows_of_winner(product().tune(A, A, database=tmp_path / "own"))
    kernel, rows = product(), list[int]()

    def call() -> None:
        kernel(A, A)
        rows.append(rows_of_last_launch(kernel))

    with tiledsl.tuned(tmp_path / "own"):
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        call()
    assert rows[0] != rows[1] == winner


def test_off_takes_nothing(
    runners: list[TableRunner], monkeypatch: pytest.MonkeyPatch, default_database: Path
) -> None:  # fmt: skip
    rows = rows_of_winner(product().tune(A, A))
    monkeypatch.setenv("TILEDSL_TUNING", "off")
    kernel = product()
    kernel(A, A)
    assert rows_of_last_launch(kernel) != rows
    with pytest.raises(TileError, match="TILEDSL_TUNING is `off`"):
        kernel.tune(A, A)


def test_a_plan_that_is_none_for_the_code_is_left_and_said(
    runners: list[TableRunner], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    product().tune(A, A, database=tmp_path / "own")
    database = Database(tmp_path / "own")
    database.refresh()
    ((question, (search,)),) = database.entries.searches.items()
    forged = replace(search, winner="m=7, n=16, k=8, 1 threads", when="9")
    (tmp_path / "forged").mkdir()
    (tmp_path / "forged" / "a.jsonl").write_bytes(line_of(forged))
    kernel = product()
    with tiledsl.tuned(tmp_path / "forged"):
        np.testing.assert_allclose(kernel(A, A), A @ A, rtol=1e-4, atol=1e-4)
    assert "`m=7` is no multiple of 8" in caplog.text
    assert database_plans(tmp_path / "forged").used == {}
    assert question.target == "cpu"


def test_arguments_are_copied_and_stay_as_they_are(runners: list[TableRunner]) -> None:
    given = np.array(A)
    product().tune(given, given)
    assert np.array_equal(given, A)
    workload: Any = runners[0].workload
    assert all(not np.shares_memory(given, copy) for copy in workload.given.arrays())


def test_a_formula_is_searched_kernel_by_kernel(runners: list[TableRunner], tmp_path: Path) -> None:
    @tile.kernel
    def formula(x: Any, w: Any) -> Any:
        return tile.relu(x @ w)

    report = formula.tune(A, A, database=tmp_path / "own")
    block = f"m={rows_of_winner(report)},"
    with tiledsl.tuned(tmp_path / "own"):
        np.testing.assert_allclose(formula(A, A), np.maximum(A @ A, 0), rtol=1e-4, atol=1e-4)
        compiled: Any = formula.compile(A, A)
        assert [block in kernel.plan for kernel in compiled.kernels.values()] == [True]


def test_graphs_and_modules(runners: list[TableRunner], tmp_path: Path) -> None:
    def layer(x: Any) -> Any:
        return tile.relu(x @ A)

    graph = tiledsl.trace(layer, tile.spec(("B", 64), tile.f32))
    block = f"m={rows_of_winner(tiledsl.tune(graph, B=64, database=tmp_path / 'own'))},"
    built = tiledsl.fuse(graph).build("cpu", tuning=tmp_path / "own", B=64)
    (kernel,) = built.kernels.values()
    x = np.array(A)
    np.testing.assert_allclose(built(x), np.maximum(x @ A, 0), rtol=1e-3, atol=1e-3)
    assert block in kernel.plan
    plain = tiledsl.fuse(graph).build("cpu", B=64)
    again = tiledsl.tune(plain, database=tmp_path / "own")
    assert all(outcome.known for outcome in again.outcomes)
    assert kernel.launches == 1


def test_equal_launches_of_a_module_are_one_task(runners: list[TableRunner], tmp_path: Path) -> None:
    def layers(x: Any, y: Any, z: Any) -> Any:
        return tuple(tile.relu(one @ A) for one in (x, y, z))

    graph = tiledsl.trace(layers, *[tile.spec((64, 64), tile.f32)] * 3)
    report = tiledsl.tune(graph, database=tmp_path / "own")
    launches = sum(kernel.launches for kernel in tiledsl.fuse(graph).build("cpu").kernels.values())
    assert 0 < len(report.outcomes) < launches


def test_calls_take_what_ships_for_their_device(
    runners: list[TableRunner], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As if this machine were one that the project has measured."""
    report = product().tune(A, A, database=tmp_path / "measured")
    (outcome,) = report.outcomes
    measured = Database(tmp_path / "measured")
    _, count = ship(measured, outcome.device, tmp_path / "shipped")
    assert count == 1
    monkeypatch.setattr(plan_sources, "shipped_folder", lambda: tmp_path / "shipped")
    fresh = product()
    assert fresh(A, A).shape == (64, 64)
    source = plan_sources.default_plans()
    assert isinstance(source, DatabasePlans)
    assert [answer.plan for answer in source.used.values()] == [outcome.winner]
    monkeypatch.setenv("TILEDSL_TUNING", "off")
    assert plan_sources.default_plans() is None


def test_no_file_ships_and_nothing_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(plan_sources, "shipped_folder", lambda: tmp_path / "none")
    assert plan_sources.default_plans() is None
