"""Searches from end to end: real plans, real processes, real time; what is asserted does not depend on the time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiledsl
from gemm import gemm
from tests.support.pages import python_of
from tiledsl.autotune import Facts, forget_rule
from tiledsl.autotune.candidates.rules import plans_by_rules
from tiledsl.autotune.records.database import Database
from tiledsl.autotune.records.record import Trial
from tiledsl.passes.cpu.cpu_plan import CpuPlan
from tiledsl.passes.cpu.grid_work import Axis

ROOT = Path(__file__).resolve().parents[3]
A: Any = np.random.default_rng(0).standard_normal((96, 96)).astype(np.float32)


def trials(folder: Path) -> list[Trial]:
    database = Database(folder)
    database.refresh()
    return [trial for found in database.entries.trials.values() for trial in found]


def test_a_kernel_is_tuned_and_stays_right(tmp_path: Path) -> None:
    expected = gemm(A, A)
    report = gemm.tune(A, A, seconds=60, trials=3, database=tmp_path)
    assert report.finished
    found = trials(tmp_path)
    assert len(found) == 4
    assert {(trial.state, trial.reason) for trial in found} == {("ok", "")}
    assert all(trial.times is not None and "repeated" in trial.checked for trial in found)
    with tiledsl.tuned(tmp_path):
        np.testing.assert_allclose(gemm(A, A), expected, rtol=1e-4, atol=1e-4)
    assert gemm.tune(A, A, database=tmp_path).outcomes[0].known


def test_the_page_on_search() -> None:
    """Its rule is asked from then on; what searches for long, or on a cluster, is Python."""
    page = (ROOT / "docs" / "search.md").read_text(encoding="utf-8")
    try:
        exec(compile(python_of(page), "search.md", "exec"), {"__name__": "page"})
        axis = Axis("m", 100, 64, 8, "upto")
        ((name, plan),) = plans_by_rules("cpu", CpuPlan((("m", 64),), (1,)), Facts({}, {"m": axis}))
        assert (name, dict(plan.blocks)) == ("three_units", {"m": 24})
    finally:
        forget_rule("three_units")
    compile(python_of(page, "python tuning", "python cluster"), "search.md", "exec")


def started(folder: Path) -> subprocess.Popen[str]:
    """A search that takes a while, once it has written something."""
    command = [
        sys.executable, "-m", "tiledsl", "tune", str(ROOT / "examples/gemm.py:gemm"), "--spec", "f32[256,256]",
        "--spec", "f32[256,256]", "--seconds", "300", "--trials", "100", "--db", str(folder),
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    while not any(path.stat().st_size for path in folder.glob("*.jsonl")):
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        time.sleep(0.05)
    return process


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_ends_a_search_and_keeps_what_was_found(tmp_path: Path) -> None:
    process = started(tmp_path)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")
    assert "what was measured is kept" in out
    database = Database(tmp_path)
    database.refresh()
    assert database.skipped == []
    assert len(database.entries.programs) == 1


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes there")
def test_who_is_killed_leaves_a_whole_database_and_no_process(tmp_path: Path) -> None:
    process = started(tmp_path)
    children: list[str] = []
    while not children:  # the process that measures is started after the first record is written
        assert process.poll() is None
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii").split()
    process.kill()
    process.communicate()
    database = Database(tmp_path)
    database.refresh()
    assert database.skipped == []
    until = time.monotonic() + 30
    while any(os.path.exists(f"/proc/{child}") for child in children):
        assert time.monotonic() < until, "the process that measures goes on"
        time.sleep(0.1)
