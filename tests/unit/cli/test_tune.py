"""`tiledsl tune` and `tiledsl db`, in process, with runners that have no machine."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.fakes.fake_driver import fake_driver
from tests.support.fakes.fake_library import FakeLibrary, fake_library
from tests.support.fakes.fake_runner import FakeRunner, task_of
from tests.support.fakes.table_runner import TableRunner, crews_by, started_by_searches
from tests.support.fakes.tuning_records import QUESTION, TEXT, search, trial
from tiledsl.api.calls import cuda_tasks
from tiledsl.autotune.measuring.runner import Checked
from tiledsl.autotune.records.database import Database, Writer
from tiledsl.autotune.searching.search import Searches
from tiledsl.autotune.searching.task import Budget
from tiledsl.cli.commands.tune import INTERRUPTED
from tiledsl.cli.main import main
from tiledsl.cli.tune_table import Table

FILE = """
import numpy as np
import tiledsl
from tiledsl import tile

W = np.ones((64, 64), np.float32) / 64


@tile.kernel
def product(a, b):
    M, K = a.shape
    K, N = b.shape
    c = tile.empty((M, N), a.dtype)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(K):
            acc = tile.dot(a[m, k], b[k, n], acc)
        c[m, n] = acc
    return c


graph = tiledsl.trace(lambda x: tile.relu(x @ W), tile.spec(("B", 64), tile.f32))
halves = tiledsl.trace(lambda x, w: x @ w, tile.spec((64, 64), tile.f16), tile.spec((64, 64), tile.f16))
built = tiledsl.fuse(tiledsl.trace(lambda x: x @ W, tile.spec((64, 64), tile.f32))).build("cpu")
"""
SPECS = ["--spec", "f32[M,64]", "--spec", "f32[64,64]", "--size", "M=64"]


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "models.py"
    path.write_text(FILE, encoding="utf-8")
    return str(path)


@pytest.fixture
def runners(monkeypatch: pytest.MonkeyPatch) -> list[TableRunner]:
    return started_by_searches(monkeypatch)


def said(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> list[str]:
    assert main([str(argument) for argument in arguments]) == code
    return capsys.readouterr().out.splitlines()


def test_a_kernel(file: str, runners: list[TableRunner], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line, *report = said(capsys, "tune", f"{file}:product", *SPECS, "--db", tmp_path / "db")
    assert line.startswith("product  K=64, M=64, N=64  ")
    assert line.endswith("  done")
    assert report[0].startswith("product with K=64, M=64, N=64 on ")
    assert report[-1] == f"kept in {(tmp_path / 'db').resolve()}"
    again, *_ = said(capsys, "tune", f"{file}:product", *SPECS, "--db", tmp_path / "db", "--resume")
    assert again.endswith("  known")
    assert len(runners) == 1


def test_a_graph(file: str, runners: list[TableRunner], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line, *_ = said(capsys, "tune", f"{file}:graph", "--size", "B=64", "--db", tmp_path / "db", "--trials", "3")
    assert line.endswith("  3  done")
    assert len(runners) == 1


class LibraryRunner(FakeRunner):
    """Calls of libraries take half of the time. Nothing is compiled."""

    def __init__(self, workload: object) -> None:
        super().__init__({})
        del workload

    def check(self, plan: str) -> Checked:
        return replace(super().check(plan), code="")

    def _sample(self, plan: str) -> float:
        self.now += 1e-3
        return 5e-6 if plan.startswith("cuBLASLt") else 1e-5


def measured_alone(build: object, measuring: FakeRunner, hosts: object) -> FakeRunner:
    del build, hosts
    return measuring


def test_libraries(
    file: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crews_by(monkeypatch, LibraryRunner)
    monkeypatch.setattr(cuda_tasks, "cuda_runner", measured_alone)
    searched = ["tune", f"{file}:halves", "--arch", "sm_90", "--db", str(tmp_path / "db"), "--trials", "4"]
    library = FakeLibrary()
    with fake_driver(), fake_library(library):
        first, *report = said(capsys, *searched, "--libraries")
        assert first.endswith("  done")
        assert any("cuBLASLt 131000 by 42/0/0/0/0/0/0/0" in line for line in report)
        assert len(library.asked) == 1
        assert said(capsys, *searched)[0].endswith("  known")
    with fake_driver(), fake_library(None):
        assert main([*searched, "--libraries"]) == 1
        assert "`pip install tiledsl[library]`" in capsys.readouterr().err


def test_ctrl_c_keeps_records(
    file: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(number: int) -> None:
        if number == 10:
            raise KeyboardInterrupt

    def start(workload: object) -> TableRunner:
        runner = TableRunner(workload)
        runner.on_round = interrupt
        return runner

    crews_by(monkeypatch, start)
    out = said(capsys, "tune", f"{file}:product", *SPECS, "--db", tmp_path / "db", code=INTERRUPTED)
    assert out == ["interrupted: what was measured is kept, and the next search goes on from there"]
    database = Database(tmp_path / "db")
    database.refresh()
    (trials,) = database.entries.trials.values()
    assert {one.times.count for one in trials if one.times is not None} == {8}


def test_what_cannot_be_done(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, text in (
        (["tune", f"{file}:product", *SPECS, "--db", tmp_path / "db", "--resume"], "there is no database in"),
        (["tune", f"{file}:product", *SPECS, "--db", tmp_path / "db", "--seconds", "0"], "a search of seconds 0.0"),
        (["tune", f"{file}:product", *SPECS, "--db", tmp_path / "db", "--trials", "0"], "a search of trials 0"),
        (["tune", f"{file}:product", *SPECS, "--db", f"{file}/db"], "cannot be written: Not a"),
        (["db", "show", tmp_path / "none"], "there is no database in"),
    ):
        assert main([str(one) for one in arguments]) == 1
        assert text in capsys.readouterr().err


@pytest.fixture
def database(tmp_path: Path) -> Path:
    with Writer(Database(tmp_path / "db")) as writer:
        for number in range(6):
            writer.add(trial(f"m={number}", 0.9 + number / 100))
        for entry in (TEXT, trial("bad", state="wrong"), search("m=0")):
            writer.add(entry)
    return tmp_path / "db"


def test_show_and_top(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head, row = said(capsys, "db", "show", database)
    assert head.split() == ["kernel", "sizes", "target", "tried", "failed", "gain", "winner", "when"]
    assert row.split() == ["gemm", "M=64,", "N=32", "cpu", "7", "1", "1.111", "m=0", "2026-01-01"]
    first, _, *rows = said(capsys, "db", "top", database, "--count", "2")
    assert first == "gemm with M=64, N=32 on a CPU, 2 cores"
    assert [row.split()[0] for row in rows] == ["0.900", "0.910"]
    (head_alone,) = said(capsys, "db", "show", database, "--kernel", "softmax")
    assert head_alone.split() == head.split()


def test_check(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "db", "check", database) == ["9 entries in 1 file; all lines are whole"]
    (database / "cut.jsonl").write_bytes(b"0123456789abcdef 1 {")
    (database / "old.jsonl").write_bytes(b"what is this\n")
    assert said(capsys, "db", "check", database, code=1) == [
        "9 entries in 3 files; 2 lines were skipped: 1 cut, 1 damaged",
        "  cut.jsonl:1: cut",
        "  old.jsonl:1: damaged",
    ]
    assert said(capsys, "db", "show", database)[-1] == (
        "2 lines were skipped: 1 cut, 1 damaged; `tiledsl db check` lists them"
    )


def test_merge_prune_export_compact(database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "new").mkdir()
    assert said(capsys, "db", "merge", tmp_path / "new", database) == ["9 entries are new"]
    assert said(capsys, "db", "merge", tmp_path / "new", database) == ["0 entries are new"]
    assert said(capsys, "db", "prune", tmp_path / "new", "--keep", "2") == ["5 of 9 entries are left"]
    out = tmp_path / "one.jsonl"
    assert said(capsys, "db", "export", database, out) == [f"9 entries are in {out}"]
    assert said(capsys, "db", "compact", database) == ["9 entries are in one file"]


def test_replay(file: str, runners: list[TableRunner], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "tune", f"{file}:product", *SPECS, "--db", tmp_path / "db")
    _, row = said(capsys, "db", "replay", tmp_path / "db")
    assert row.endswith("its code is as it was")
    assert len(runners) == 1, "what has not changed is not measured"
    changed = Database(tmp_path / "db")
    changed.refresh()
    ((question, (found,)),) = changed.entries.searches.items()
    older = replace(question, program="0" * 40)
    with Writer(Database(tmp_path / "old")) as writer:
        writer.add(replace(next(iter(changed.entries.programs.values())), program="0" * 40))
        writer.add(replace(found, question=older))
    _, row = said(capsys, "db", "replay", tmp_path / "old")
    assert "its code has changed; measured again" in row
    assert len(runners) == 2


def test_a_live_table_in_a_terminal(tmp_path: Path) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    runner = FakeRunner({"pick": 1e-3, "a": 0.5e-3})
    with Writer(Database(tmp_path)) as writer, Table(60, terminal, runner.clock) as table:
        task: Any = task_of(["a"])
        outcome = Searches(writer, table, runner.clock).run(task, runner, Budget(60))
        table.done(task, outcome)
    shown = terminal.getvalue()
    assert "s left" in shown
    assert "gemm" in shown
    assert "M=64, N=32" in shown
    assert "done" in shown
    assert QUESTION.device not in shown


def test_a_page(
    file: str, runners: list[TableRunner], tmp_path: Path, database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    assert said(capsys, "db", "report", database, "--html", page) == [f"written to {page}"]
    assert "gemm with M=64, N=32" in page.read_text(encoding="utf-8")
    assert said(capsys, "db", "report", database, "--html", page, "--kernel", "none") == [f"written to {page}"]
    assert "There is no search in this database." in page.read_text(encoding="utf-8")
    *_, last = said(capsys, "tune", f"{file}:product", *SPECS, "--db", tmp_path / "new", "--html", page)
    assert last == f"written to {page}"
    assert "product with K=64, M=64, N=64" in page.read_text(encoding="utf-8")
    assert len(runners) == 1
    assert main(["db", "report", str(database), "--html", str(tmp_path / "no" / "page.html")]) == 1
    assert "cannot be written" in capsys.readouterr().err
