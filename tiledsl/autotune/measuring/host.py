"""Runs plans in processes that may hang or end: one at a time, each for as long as it lives.

Where the process is (`child.py`: on this machine; `ray_host.py`: somewhere in a cluster) is another's matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tiledsl.autotune.measuring.messages import Check, Open, Refusal, Time
from tiledsl.autotune.measuring.runner import Checked, Failed, Rounds
from tiledsl.autotune.measuring.workload import Workload


@dataclass(frozen=True)
class Limits:
    """Seconds after which a process is taken to hang: at making the reference, at checking a plan, at rounds of samples
    beyond ten times what the plans took before."""

    prepare: float = 120.0
    check: float = 20.0
    rounds: float = 20.0


class Lost(Exception):  # noqa: N818  # it is caught here
    """The process is gone. `hung`: it was ended because it took too long."""

    def __init__(self, hung: bool, reason: str) -> None:
        super().__init__(reason)
        self.hung = hung
        self.reason = reason


class CannotPrepareError(Exception):
    """The workload cannot be opened, whatever the plan. `error`: the user's, if it is one."""


class Host(Protocol):
    """A process that answers requests (`messages.py`)."""

    def ask(self, request: object, seconds: float, /) -> Any:
        """The answer to a request. Raises Lost where there is none within that time."""
        ...

    def place(self) -> int:
        """The number of the plan that was being run, from 1 on; 0 if that is not known."""
        ...

    def end(self) -> None:
        """Ends the process, whatever it does."""
        ...


@dataclass(frozen=True)
class Fleet:
    """Processes that measure, in a cluster perhaps: `size` of them at once, each of which `start` starts.

    `retries`: how often a plan is run again whose process was lost, which may have been the fault of its machine.
    """

    size: int
    start: Callable[[], Host]
    retries: int = 1

    def runner(self, workload: Workload) -> HostRunner:
        """What runs the plans of a workload in one of its processes."""
        return HostRunner(workload, self.start, Limits(), self.retries)


class HostRunner:
    """A runner whose plans run in another process, which it starts when there is none."""

    def __init__(self, workload: Workload, start: Callable[[], Host], limits: Limits, retries: int = 0) -> None:
        """`start` starts a process; `retries`: as `Fleet` has it."""
        self._workload = workload
        self._start = start
        self._limits = limits
        self._retries = retries
        self._prepares = True
        self._host: Host | None = None
        self.started = 0
        """How many processes were started."""

    def ahead(self, plans: Sequence[str]) -> None:
        """Nothing: one plan is run at a time."""

    def check(self, plan: str) -> Checked:
        """As `Runner.check`. Raises CannotPrepareError where no plan can be run."""
        answer = self._asked(Check(plan), self._limits.check)
        if isinstance(answer, Lost):
            return Checked("timeout" if answer.hung else "crash", answer.reason)
        return Checked("refused", answer.text) if isinstance(answer, Refusal) else answer

    def rounds(self, plans: Sequence[str], count: int) -> Rounds:
        """As `Runner.rounds`."""
        done: list[tuple[float, ...]] = []
        longest = 0.0
        while len(done) < count:
            part = 1 if not done else max(1, min(count - len(done), int(1 / max(longest, 1e-6))))  # about a second
            seconds = self._limits.rounds + 10 * part * longest
            host = self._running()
            try:
                answer = host.ask(Time(tuple(plans), part), seconds)
            except Lost as lost:
                place = host.place()
                self.close()
                failed = self._failed(plans[place - 1], lost) if place else self._culprit(plans, seconds)
                if failed is None:
                    continue  # nobody: a machine was lost
                return Rounds(done, failed)
            done += answer.times
            longest = max(longest, *map(sum, answer.times))
        return Rounds(done)

    def renew(self) -> None:
        """As `Runner.renew`. Plans are not checked in the new process."""
        self.close()
        self._prepares = False

    def close(self) -> None:
        """Ends the process."""
        if self._host is not None:
            self._host.end()
            self._host = None

    def _culprit(self, plans: Sequence[str], seconds: float) -> Failed | None:
        """Which of some plans does not survive being timed, by running each alone; None if all do."""
        for plan in plans:
            answer = self._asked(Time((plan,), 1), seconds)
            if isinstance(answer, Lost):
                return self._failed(plan, answer)
        return None

    def _asked(self, request: object, seconds: float) -> Any:
        """The answer, or how the process was lost that was asked, after as many retries as there may be."""
        lost = Lost(False, "")
        for _ in range(1 + self._retries):
            host = self._running()
            try:
                return host.ask(request, seconds)
            except Lost as found:
                lost = found
                self.close()
                if lost.hung:
                    break
        return lost

    @staticmethod
    def _failed(plan: str, lost: Lost) -> Failed:
        return Failed(plan, "timeout" if lost.hung else "crash", lost.reason)

    def _running(self) -> Host:
        if self._host is None:
            host = self._host = self._start()
            self.started += 1
            try:
                answer = host.ask(Open(self._workload, self._prepares), self._limits.prepare)
            except Lost as lost:
                self.close()
                raise CannotPrepareError(lost.reason) from lost
            if isinstance(answer, Refusal):
                self.close()
                raise CannotPrepareError(answer.text)
        return self._host
