"""Worker threads and their scratch."""

from __future__ import annotations

import os
import threading

import pytest

from tiledsl.backend_cpu.threads import run_on_threads, scratch_address


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_job_runs_on_as_many_threads(count: int) -> None:
    barrier = threading.Barrier(count)
    seen: list[int] = []

    def job() -> None:
        seen.append(threading.get_ident())
        barrier.wait(10)  # passes only if all are there at once

    run_on_threads(job, count)
    assert len(set(seen)) == count
    assert threading.get_ident() in seen


def test_calls_from_several_threads_do_not_wait_for_each_other() -> None:
    barrier = threading.Barrier(4)
    callers = [threading.Thread(target=run_on_threads, args=(lambda: barrier.wait(10), 2)) for _ in range(2)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(10)
    assert not any(caller.is_alive() for caller in callers)


def test_an_error_of_a_worker_reaches_the_caller() -> None:
    main = threading.get_ident()

    def job() -> None:
        if threading.get_ident() != main:
            raise ValueError("from the worker")

    with pytest.raises(ValueError, match="from the worker"):
        run_on_threads(job, 2)
    run_on_threads(lambda: None, 2)  # and the worker lives on


def test_scratch_is_aligned_grows_and_belongs_to_one_thread() -> None:
    small = scratch_address(100)
    assert small % 64 == 0
    assert scratch_address(50) == small
    assert scratch_address(1 << 20) % 64 == 0
    addresses: list[int] = []
    run_on_threads(lambda: addresses.append(scratch_address(1 << 20)), 2)
    assert len(set(addresses)) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_makes_workers_of_its_own() -> None:
    run_on_threads(lambda: None, 2)
    child = os.fork()
    if child == 0:
        run_on_threads(lambda: None, 2)  # would wait forever for a thread that the child does not have
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
