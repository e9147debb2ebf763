"""Tasks shared out among processes that have one device: each compiles on its own, and measures when it is its turn.

    for task, found in in_workers(["a", "b"], measure, workers=8, patience=300): ...

    def measure(task: str, turn: Turn) -> float:
        call = compiled(task)               while others compile, or measure
        with turn:                          alone
            return seconds_of(call)

A process that ends (a lost device, a crash) or takes longer than `patience` loses its task, and another one takes its
place.
"""

from __future__ import annotations

import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

T = TypeVar("T")
Turn = AbstractContextManager[object]
"""Entered by who measures: no other process does then."""
BROKEN = ("misaligned address", "illegal memory access", "illegal instruction", "unspecified launch failure")
"""Errors after which a process can no longer use the device."""
ASK = 0.5
"""Seconds between two looks at who takes too long."""


@dataclass(frozen=True)
class Failure:
    """Why there is nothing for a task."""

    reason: str

    @property
    def ends(self) -> bool:
        """Whether the process can do nothing more."""
        return any(text in self.reason for text in BROKEN)


class _TurnOfWorker:
    """Asks the first process for a turn."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def __enter__(self) -> None:
        self._pipe.send(("turn", None))
        self._pipe.recv()

    def __exit__(self, *_: object) -> None:
        self._pipe.send(("free", None))


class _Worker:
    """One process, and the task that it has."""

    def __init__(self, work: Callable[[str, Turn], object]) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, work), daemon=True)
        self.process.start()
        theirs.close()
        self.task: str | None = None
        self.since = 0.0

    def give(self, task: str) -> None:
        self.task, self.since = task, time.monotonic()
        self.pipe.send(task)

    def stop(self) -> None:
        self.process.terminate()
        self.process.join(10)
        self.pipe.close()


def _serve(pipe: Connection, work: Callable[[str, Turn], object]) -> None:
    turn = _TurnOfWorker(pipe)
    while True:
        task = pipe.recv()
        try:
            found: object = work(task, turn)
        except Exception as error:
            found = Failure(_reason(error))
        pipe.send(("found", found))


def _reason(error: Exception) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {' '.join(str(error).split())[:400]} [{place.name}:{place.lineno}]"


def in_workers(
    tasks: Sequence[str], work: Callable[[str, Turn], T], workers: int, patience: float = 600.0
) -> Iterator[tuple[str, T | Failure]]:
    """What `work` gives for each task, or why it gives nothing, in the order in which they are done.

    `work` is a function of a module, which processes import. `patience`: seconds for a task.
    """
    left, crew = deque(tasks), list[_Worker]()
    waiting, measuring = deque[_Worker](), None
    try:
        while left or crew:
            while left and len(crew) < workers:
                crew.append(_Worker(work))
                crew[-1].give(left.popleft())
            done, lost = list[tuple[_Worker, Any]](), set[_Worker]()
            for pipe in wait([worker.pipe for worker in crew], timeout=ASK):
                worker = next(one for one in crew if one.pipe is pipe)
                try:
                    what, value = worker.pipe.recv()
                except (EOFError, OSError):
                    lost.add(worker)
                    done.append((worker, Failure("the process ended")))
                    continue
                if what == "turn":
                    waiting.append(worker)
                elif what == "free":
                    measuring = None
                else:
                    done.append((worker, value))
            for worker in crew:
                if time.monotonic() - worker.since > patience and worker not in dict(done):
                    lost.add(worker)
                    done.append((worker, Failure(f"took more than {patience:.0f} s")))
            for worker, value in done:
                task = worker.task
                assert task is not None
                if worker in lost or not left or (isinstance(value, Failure) and value.ends):
                    worker.stop()
                    crew.remove(worker)
                    waiting = deque(one for one in waiting if one is not worker)
                    measuring = None if measuring is worker else measuring
                else:
                    worker.give(left.popleft())
                yield task, value
            while measuring is None and waiting:
                measuring = waiting.popleft()
                measuring.pipe.send("go")
    finally:
        for worker in crew:
            worker.stop()
