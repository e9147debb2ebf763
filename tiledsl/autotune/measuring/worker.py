"""The process that measures: opens a workload, and runs plans of it as it is told. `python -m` this, by `child.py`.

The first message has the paths of modules, and of a file where the plan that is being run stands: it outlives the
process.
"""

from __future__ import annotations

import gc
import mmap
import os
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, BinaryIO

from tiledsl.autotune.measuring.frames import receive, send
from tiledsl.autotune.measuring.messages import PLACES, Check, Open, Ready, Refusal, Time
from tiledsl.autotune.measuring.runner import Rounds
from tiledsl.autotune.measuring.workload import Bench

LOOK = 1.0
"""Seconds between two looks at whether the search is still there."""


class Worker:
    """Answers requests."""

    def __init__(self, place: mmap.mmap | bytearray) -> None:
        self._place = place
        self._bench: Bench | None = None
        self._refusal: Refusal | None = None
        """Why the workload could not be opened."""

    def answer(self, request: object) -> object:
        """The answer to a request. What a plan raises while it is timed ends the process: it was right before."""
        if isinstance(request, Time):
            assert self._bench is not None
            answer: object = Rounds([self._round(self._bench, request.plans, n) for n in range(request.count)])
        else:
            answer = self._answered(request)
        self._place[:PLACES] = bytes(PLACES)
        return answer

    def _answered(self, request: object) -> object:
        try:
            if isinstance(request, Open):
                self._open(request)
                return None
            if isinstance(request, Ready):
                if self._bench is not None:
                    with suppress(Exception):  # who is to blame is found when plans are timed
                        self._bench.ready(request.plans)
                return self._refusal
            assert isinstance(request, Check)
            assert self._bench is not None
            self._at(0)
            act = self._bench.confirm if request.confirms else self._bench.check
            return act(request.plan)
        except Exception as error:
            refusal = Refusal("".join(traceback.format_exception_only(type(error), error)).strip())
            if isinstance(request, Open):
                self._bench, self._refusal = None, refusal
            return refusal

    def _open(self, request: Open) -> None:
        self._bench = self._refusal = None
        gc.collect()  # what the one before has in memory
        self._bench = request.workload.open()
        match request.prepares:
            case "check" | "confirm":
                self._bench.prepare(others=request.prepares == "confirm")
            case "time":
                self._bench.ready(())
            case "nothing":
                pass

    def _round(self, bench: Bench, plans: Sequence[str], number: int) -> tuple[float, ...]:
        times = [0.0] * len(plans)
        order = range(len(plans)) if number % 2 == 0 else range(len(plans) - 1, -1, -1)
        for index in order:
            self._at(index)
            times[index] = bench.seconds(plans[index])
        return tuple(times)

    def _at(self, index: int) -> None:
        self._place[:PLACES] = (index + 1).to_bytes(PLACES, "little")


def end_with_parent(parent: int) -> None:
    """Ends this process when the one that started it is gone, also in the middle of a plan that hangs."""
    while os.getppid() == parent:
        time.sleep(LOOK)
    os._exit(1)


def main() -> None:
    """Answers until the other side is gone. What programs print goes to standard error."""
    threading.Thread(target=end_with_parent, args=(os.getppid(),), daemon=True).start()
    answers: BinaryIO = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    paths, place_file = receive(sys.stdin.buffer)
    sys.path[:] = paths
    with open(place_file, "r+b") as file:
        place = mmap.mmap(file.fileno(), PLACES)
    worker = Worker(place)
    while True:
        try:
            request: Any = receive(sys.stdin.buffer)
        except EOFError:
            return
        send(answers, worker.answer(request))


if __name__ == "__main__":
    main()
