"""Processes that a server forks: they do what started ones do, and nobody is left behind."""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.fakes.tuning_faults import Faulty
from tiledsl.autotune.measuring import with_compiler
from tiledsl.autotune.measuring.child import Children
from tiledsl.autotune.measuring.fork_server import HAS_FORK, Forked
from tiledsl.autotune.measuring.host import HostRunner, Limits
from tiledsl.autotune.measuring.workload import Bench

LIMITS = Limits(prepare=60, check=0.5, rounds=0.5)
IMPORTS = (Faulty.__module__,)

pytestmark = pytest.mark.skipif(not HAS_FORK, reason="there is no fork here")


@dataclass(frozen=True)
class Named:
    """Writes which process has opened it, and of whom that is a child."""

    folder: Path

    def open(self) -> Bench:
        (self.folder / str(os.getpid())).write_text(str(os.getppid()), encoding="utf-8")
        return Faulty().open()


@pytest.fixture(scope="module")
def children() -> Generator[Children]:
    with Children(imports=IMPORTS) as made:
        yield made


FAULTS = {
    "wrong": ("wrong", "`y` differs from the reference in 1 of 8 elements"),
    "raises": ("refused", "RuntimeError: it cannot be"),
    "crashes": ("crash", "the process ended by SIGSEGV"),
    "exits": ("crash", "the process ended with code 3: something was said before the end"),
    "hangs": ("timeout", "it took longer than 0.5 s"),
}


@pytest.mark.parametrize("plan", FAULTS)
def test_faults_are_as_in_a_process_that_was_started(children: Children, plan: str) -> None:
    runner = HostRunner(Faulty(), children, LIMITS)
    state, reason = FAULTS[plan]
    checked = runner.check(plan)
    assert checked.state == state
    assert reason in checked.reason
    assert runner.check("good").state == "ok"
    assert len(runner.rounds(["good"], 3).times) == 3
    runner.close()


def test_processes_are_children_of_one_that_has_imported_everything(tmp_path: Path) -> None:
    with Children(imports=IMPORTS) as children:
        runners = [HostRunner(Named(tmp_path), children, LIMITS) for _ in range(3)]
        for runner in runners:
            runner.begin()
        for runner in runners:
            runner.is_ready()
        parents = {int(file.read_text(encoding="utf-8")) for file in tmp_path.iterdir()}
        assert len(list(tmp_path.iterdir())) == 3
        assert len(parents) == 1
        assert os.getpid() not in parents
        for runner in runners:
            runner.close()
    assert all(_is_gone(int(file.name)) for file in tmp_path.iterdir())


def test_without_imports_each_is_started_by_itself(tmp_path: Path) -> None:
    """Where memory lies is to differ from process to process."""
    with Children() as children:
        runner = HostRunner(Named(tmp_path), children, LIMITS)
        runner.begin()
        runner.is_ready()
        (file,) = tmp_path.iterdir()
        assert int(file.read_text(encoding="utf-8")) == os.getpid()
        runner.close()


def test_what_opens_ahead_is_not_waited_for(tmp_path: Path) -> None:
    with Children(imports=IMPORTS) as children:
        children.ready(2, Named(tmp_path))
        assert len(children._idle) == 2  # pyright: ignore[reportPrivateUsage]
        runner = HostRunner(Faulty(), children, LIMITS)
        assert runner.check("good").state == "ok"
        assert len(children._idle) == 1  # pyright: ignore[reportPrivateUsage]
        runner.close()


def test_a_server_that_is_gone_costs_its_processes_and_no_search() -> None:
    with Children(imports=IMPORTS) as children:
        child = children.take()
        assert isinstance(child._process, Forked)  # pyright: ignore[reportPrivateUsage]
        assert child._process.pid  # pyright: ignore[reportPrivateUsage]
        server = children._server  # pyright: ignore[reportPrivateUsage]
        assert server is not None
        server.close()
        child.end()
        runner = HostRunner(Faulty(), children, LIMITS)
        assert runner.check("good").state == "ok"
        runner.close()


def test_a_module_that_cannot_be_imported_costs_no_search() -> None:
    with Children(imports=("tiledsl.no_such_module",)) as children:
        runner = HostRunner(Faulty(), children, LIMITS)
        assert runner.check("good").state == "ok"
        runner.close()


def test_what_compilers_begin_with_has_started_nothing() -> None:
    with Children(imports=(with_compiler.__name__,)) as children:
        child = children.take()
        assert isinstance(child._process, Forked)  # pyright: ignore[reportPrivateUsage]
        parent = Path(f"/proc/{child._process.pid}/status")  # pyright: ignore[reportPrivateUsage]
        if parent.exists():
            (line,) = [line for line in parent.read_text().splitlines() if line.startswith("PPid:")]
            server = Path(f"/proc/{line.split()[1]}/status").read_text()
            assert "Threads:\t1\n" in server, "who forks has one thread"
        child.end()


def _is_gone(pid: int) -> bool:
    end = time.monotonic() + 5
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False
