"""Worker threads, their scratch, and calls of several launches on them."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from tiledsl.backend_cpu.calls import threads
from tiledsl.backend_cpu.calls.chain import Chain, Launched, PhaseCode
from tiledsl.backend_cpu.calls.launcher import Launcher, compile_launcher, launcher
from tiledsl.backend_cpu.calls.threads import Scratch, own_scratch

_PHASE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


@pytest.fixture(name="either_launcher", params=[True, False], ids=["sleeps natively", "sleeps in Python"])
def _either_launcher(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Launcher:
    """Workers of a launcher of their own, which may have no POSIX threads to sleep with."""
    made = launcher() if request.param else compile_launcher(sleeps=False)
    monkeypatch.setattr(threads, "launcher", lambda: made)
    monkeypatch.setattr(threads, "_idle", [])
    return made


def run(job: Callable[[int, int, int], int], count: int, launches: int = 1) -> int:
    """Runs a function of Python, as if it were compiled, on so many threads."""
    phase = _PHASE(job)
    code = PhaseCode(ctypes.cast(phase, ctypes.c_void_p).value or 0, 64, count)
    return Chain([Launched(b"", (0, 0), 2, (code,))] * launches).run()


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.usefixtures("either_launcher")
def test_a_job_runs_on_as_many_threads(count: int) -> None:
    barrier = threading.Barrier(count)
    seen: list[tuple[int, int]] = []

    def job(frame: int, scratch: int, state: int) -> int:
        seen.append((threading.get_ident(), scratch))
        barrier.wait(10)  # passes only if all are there at once
        return 0

    assert run(job, count) == 0
    assert len({thread for thread, _ in seen}) == count
    assert len({scratch for _, scratch in seen}) == count
    assert threading.get_ident() in {thread for thread, _ in seen}


@pytest.mark.usefixtures("either_launcher")
def test_calls_from_several_threads_do_not_wait_for_each_other() -> None:
    barrier = threading.Barrier(4)

    def job(frame: int, scratch: int, state: int) -> int:
        barrier.wait(10)
        return 0

    callers = [threading.Thread(target=run, args=(job, 2)) for _ in range(2)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(10)
    assert not any(caller.is_alive() for caller in callers)


def never(_: object) -> None:
    """No worker comes."""


def fail(_: object) -> None:
    raise RuntimeError("can't create new thread at interpreter shutdown")


@pytest.mark.parametrize("start", [never, fail])
def test_a_caller_without_workers_does_all(monkeypatch: pytest.MonkeyPatch, start: Callable[[object], None]) -> None:
    monkeypatch.setattr(threads, "_idle", [])
    monkeypatch.setattr(threading.Thread, "start", start)
    seen: list[int] = []

    def job(frame: int, scratch: int, state: int) -> int:
        seen.append(scratch)
        return 0

    assert run(job, 3) == 0
    assert len(seen) == 1


def test_launches_after_one_that_failed_are_not_made() -> None:
    seen: list[int] = []

    def job(frame: int, scratch: int, state: int) -> int:
        seen.append(state)
        ctypes.c_int64.from_address(state).value = len(seen) - 1  # the second one fails
        return 0

    assert run(job, 1, launches=3) == 2
    assert len(seen) == 2


@pytest.mark.usefixtures("either_launcher")
def test_many_short_launches_on_workers_that_sleep_and_wake() -> None:
    def job(frame: int, scratch: int, state: int) -> int:
        return 0

    phase = _PHASE(job)
    code = PhaseCode(ctypes.cast(phase, ctypes.c_void_p).value or 0, 64, 3)
    chain = Chain([Launched(b"", (0, 0), 2, (code, code))] * 3)
    for _ in range(300):
        assert chain.run() == 0
        for worker in threads._idle:  # pyright: ignore[reportPrivateUsage]  # they have to fall asleep at once
            worker.spin(0)


def test_scratch_is_aligned_grows_and_belongs_to_one_thread() -> None:
    scratch = Scratch()
    small = scratch.at_least(100)
    assert small % 64 == 0
    assert scratch.at_least(50) == small
    assert scratch.at_least(1 << 20) % 64 == 0
    found: list[Scratch] = []
    other = threading.Thread(target=lambda: found.append(own_scratch()))
    other.start()
    other.join()
    assert found[0] is not own_scratch() is own_scratch()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_makes_workers_of_its_own() -> None:
    barrier = threading.Barrier(2)

    def job(frame: int, scratch: int, state: int) -> int:
        barrier.wait(10)  # would break without a second thread: the parent's is none of the child's
        return 0

    run(job, 2)
    child = os.fork()
    if child == 0:
        os._exit(run(job, 2))
    assert os.waitpid(child, 0)[1] == 0


_AT_EXIT = """
import atexit, ctypes, sys
from tiledsl.backend_cpu.calls.chain import Chain, Launched, PhaseCode
phase = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(lambda f, s, t: 0)
code = PhaseCode(ctypes.cast(phase, ctypes.c_void_p).value, 64, 3)
chain = Chain([Launched(b"", (0, 0), 2, (code,))])
chain.run()
atexit.register(chain.run)
if sys.argv[1] == "asleep":
    import time; time.sleep(0.05)
"""


@pytest.mark.parametrize("workers", ["asleep", "spinning"])
def test_the_process_ends_with_workers_that_wait(workers: str) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", _AT_EXIT, workers], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
