"""A few threads that wait for work at slots of memory (see `launcher`), and memory for what runs on a thread.

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

from tiledsl.backend_cpu.calls.launcher import LOOKS, SLOT_WORDS, launcher

_ALIGNMENT = 64
SPIN_SECONDS = 200e-6
"""How long a worker looks for its next job before it sleeps: waking one up takes 30 to 50 us, and a call of a module
or of the next kernel follows sooner than that."""


_FOR_EVER = 1 << 62


class Scratch:
    """Scratch memory of one thread. It grows, and is kept for the next call."""

    def __init__(self) -> None:
        self._bytes = -1
        self._memory: ctypes.Array[ctypes.c_char] | None = None
        self._address = 0

    def at_least(self, size: int) -> int:
        """The address of at least `size` bytes, aligned to a cache line."""
        if self._bytes < size:
            self._memory = ctypes.create_string_buffer(size + _ALIGNMENT)
            self._bytes = size
            self._address = -(-ctypes.addressof(self._memory) // _ALIGNMENT) * _ALIGNMENT
        return self._address


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.scratch = Scratch()


_own = _OfThread()


def own_scratch() -> Scratch:
    """The scratch of the calling thread."""
    return _own.scratch


class Worker:
    """A thread that serves a slot until the process ends."""

    def __init__(self) -> None:
        self.scratch = Scratch()
        self.cpu = -1
        self._memory = ctypes.create_string_buffer(8 * SLOT_WORDS + _ALIGNMENT)
        self.slot = -(-ctypes.addressof(self._memory) // _ALIGNMENT) * _ALIGNMENT
        self._looks = ctypes.c_int64.from_address(self.slot + 8 * LOOKS)
        self._launcher = launcher()
        self._launcher.prepare(self.slot)
        self._wanted = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="tiledsl", daemon=True)
        self._thread.start()

    def spin(self, seconds: float) -> None:
        """Has the worker look for work for that long before it sleeps."""
        if self._launcher.sleeps:
            self._looks.value = self._launcher.looks(seconds)

    def rouse(self) -> None:
        """To be called before launches: a worker that cannot sleep at its slot sleeps here."""
        if not self._launcher.sleeps:
            self._looks.value = _FOR_EVER
            self._wanted.set()

    def dismiss(self) -> None:
        """To be called after them."""
        if not self._launcher.sleeps:
            self._looks.value = 0

    def send_to(self, cpu: int) -> None:
        """Has the worker run on that CPU from now on."""
        if cpu == self.cpu or self._thread.native_id is None:
            return
        self.cpu = cpu
        with suppress(OSError):  # the CPU may have been taken from the process
            os.sched_setaffinity(self._thread.native_id, {cpu})

    def _serve(self) -> None:
        while True:
            self._launcher.serve(self.slot)  # comes back only where it cannot sleep
            self._wanted.wait()
            self._wanted.clear()


_idle: list[Worker] = []
"""A call takes as many as it wants and gives them back, so that calls from several threads mix."""


def _take_one() -> Worker:
    try:
        return _idle.pop()
    except IndexError:
        return Worker()


def take_workers(count: int) -> list[Worker]:
    """Workers that nobody else uses, on CPUs of their own if there are enough of those.

    Fewer than `count` where no thread can be started, as while Python ends.
    """
    workers: list[Worker] = []
    with suppress(RuntimeError):
        while len(workers) < count:
            workers.append(_take_one())
    _spread(workers)
    for worker in workers:
        worker.rouse()
    return workers


def give_back(workers: list[Worker]) -> None:
    """What `take_workers` gave, with nothing left to do."""
    for worker in workers:
        worker.dismiss()
    _idle.extend(reversed(workers))  # the same ones are taken first again


def _forget_workers() -> None:
    """In a forked child the parent's threads do not exist."""
    _idle.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_workers)


def _find_current_cpu() -> Callable[[], int] | None:
    """A function that tells the CPU of the calling thread, where there is one."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    return getattr(ctypes.PyDLL(None), "sched_getcpu", None)


_current_cpu = _find_current_cpu()


def _spread(workers: list[Worker]) -> None:
    """Sends workers to CPUs of their own, if there are enough of them: else they had better not spin."""
    here = _current_cpu() if _current_cpu is not None else -1
    if len({-1, here, *[worker.cpu for worker in workers]}) == 2 + len(workers):
        return  # they were sent away from each other before
    cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [*range(os.cpu_count() or 1)]
    alone = len(cpus) > len(workers)
    for step, worker in enumerate(workers, 1):
        worker.spin(SPIN_SECONDS if alone else 0)
        if alone and here in cpus:
            worker.send_to(cpus[(cpus.index(here) + step) % len(cpus)])
