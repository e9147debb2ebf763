"""A few threads that wait for work: compiled code is called on each of them at once, with the GIL released.

Where the system lets us (Linux), every worker is sent to a CPU of its own, away from the caller's. A woken thread is
often put on the CPU of the thread that woke it, which is about to compute: the two would share it for milliseconds,
longer than most kernels run, while another CPU stands idle.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

Job = Callable[[], object]
_ALIGNMENT = 64


class _Worker:
    def __init__(self) -> None:
        self.jobs: SimpleQueue[tuple[Job, SimpleQueue[BaseException | None]]] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="tiledsl", daemon=True)
        self._thread.start()
        self._cpu = -1

    def send_to(self, cpu: int) -> None:
        """Has the worker run on that CPU from now on."""
        if cpu == self._cpu or self._thread.native_id is None:
            return
        self._cpu = cpu
        with suppress(OSError):  # the CPU may have been taken from the process
            os.sched_setaffinity(self._thread.native_id, {cpu})

    def _serve(self) -> None:
        while True:
            job, done = self.jobs.get()
            try:
                job()
                done.put(None)
            except BaseException as error:  # handed to the caller, who raises it
                done.put(error)


class _Pool:
    """Idle workers. A call takes as many as it wants and gives them back, so that calls from several threads mix."""

    def __init__(self) -> None:
        self.idle: list[_Worker] = []

    def take(self) -> _Worker:
        try:
            return self.idle.pop()
        except IndexError:
            return _Worker()


_pool = _Pool()


def _forget_workers() -> None:
    """In a forked child the parent's threads do not exist."""
    _pool.idle = []


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_workers)


def _find_current_cpu() -> Callable[[], int] | None:
    """A function that tells the CPU of the calling thread, where there is one."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    return getattr(ctypes.CDLL(None), "sched_getcpu", None)


_current_cpu = _find_current_cpu()


def _spread(workers: list[_Worker]) -> None:
    """Sends workers to CPUs of their own, if there are enough of them."""
    if _current_cpu is None:
        return
    cpus = sorted(os.sched_getaffinity(0))
    here = _current_cpu()
    if here in cpus and len(cpus) > len(workers):
        at = cpus.index(here)
        for step, worker in enumerate(workers, 1):
            worker.send_to(cpus[(at + step) % len(cpus)])


def run_on_threads(job: Job, threads: int) -> None:
    """Calls `job` on the calling thread and on `threads - 1` others, and waits for all of them."""
    workers = [_pool.take() for _ in range(threads - 1)]
    done: SimpleQueue[BaseException | None] = SimpleQueue()
    _spread(workers)
    for worker in workers:
        worker.jobs.put((job, done))
    failure: BaseException | None = None
    try:
        job()
    finally:
        for _ in workers:
            failure = done.get() or failure
        _pool.idle += workers
    if failure is not None:
        raise failure


class _Scratch(threading.local):
    """The scratch memory of a thread. It grows, and is kept for the next call."""

    def __init__(self) -> None:
        self.bytes = -1
        self.memory: ctypes.Array[ctypes.c_char] | None = None
        self.address = 0


_scratch = _Scratch()


def scratch_address(size: int) -> int:
    """The address of at least `size` bytes that belong to the calling thread, aligned to a cache line."""
    if _scratch.bytes < size:
        memory = ctypes.create_string_buffer(size + _ALIGNMENT)
        _scratch.memory = memory
        _scratch.bytes = size
        _scratch.address = -(-ctypes.addressof(memory) // _ALIGNMENT) * _ALIGNMENT
    return _scratch.address
