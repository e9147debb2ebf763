"""Runs plans in processes that may hang or end: one at a time, each for as long as it lives.

Where the process is (`child.py`: on this machine; `ray_host.py`: somewhere in a cluster) is another's matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tiledsl.autotune.measuring.messages import Check, Open, Prepares, Ready, Refusal, Time
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
    """A process that answers requests (`messages.py`), one after the other."""

    def send(self, request: object, /) -> None:
        """Makes a request, and does not wait."""
        ...

    def answer(self, seconds: float, /) -> Any:
        """The answer to the request. Raises Lost where there is none within that time."""
        ...

    def place(self) -> int:
        """The number of the plan that was being run, from 1 on; 0 if that is not known."""
        ...

    def end(self) -> None:
        """Ends the process, whatever it does."""
        ...


class Hosts(Protocol):
    """Where processes come from, and go when they are no longer needed. Threads may share it."""

    def take(self) -> Host:
        """A process for one workload."""
        ...

    def give_back(self, host: Host, /) -> None:
        """Takes a process back that nothing went wrong in; it may not have answered its last request yet."""
        ...


@dataclass(frozen=True)
class NewHosts:
    """A new process for each workload."""

    start: Callable[[], Host]

    def take(self) -> Host:
        return self.start()

    def give_back(self, host: Host) -> None:
        host.end()


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
        return HostRunner(workload, NewHosts(self.start), Limits(), self.retries)


class HostRunner:
    """A runner whose plans run in another process, which it starts when there is none."""

    waited = 0.0

    def __init__(
        self,
        workload: Workload,
        hosts: Hosts,
        limits: Limits = Limits(),
        retries: int = 0,
        *,
        prepares: Prepares = "check",
    ) -> None:
        """`retries`: as `Fleet` has it; `prepares`: for what the first process makes itself ready."""
        self._workload = workload
        self._hosts = hosts
        self._limits = limits
        self._retries = retries
        self._prepares: Prepares = prepares
        self._host: Host | None = None
        self._opened = False
        self._getting_ready = False
        self._clean = True
        """Whether no plan did anything in the process that it should not have done."""
        self.started = 0
        """How many processes were started."""

    def begin(self) -> None:
        """As `Runner.begin`."""
        if self._host is None:
            self._host = self._hosts.take()
            self._opened, self._getting_ready, self._clean = False, False, True
            self.started += 1
            self._host.send(Open(self._workload, self._prepares))

    def is_ready(self) -> None:
        """Waits until the process that has begun is there. Raises CannotPrepareError where it is of no use."""
        if self._host is None:
            return
        self._running()
        if self._getting_ready:
            self._getting_ready = False
            try:
                self._host.answer(self._limits.check)
            except Lost:  # who is to blame is found when plans are timed, in another process
                self._drop()

    def ready(self, plans: Sequence[str]) -> None:
        """As `Runner.ready`, of the process that has begun."""
        if self._host is not None:
            self._running()
            self._host.send(Ready(tuple(plans)))
            self._getting_ready = True

    def ahead(self, plans: Sequence[str]) -> None:
        """Nothing: one plan is run at a time."""

    def check(self, plan: str) -> Checked:
        """As `Runner.check`. Raises CannotPrepareError where no plan can be run."""
        return self._checked(Check(plan))

    def confirm(self, plan: str) -> Checked:
        """As `Runner.confirm`."""
        return self._checked(Check(plan, confirms=True))

    def rounds(self, plans: Sequence[str], count: int) -> Rounds:
        """As `Runner.rounds`."""
        done: list[tuple[float, ...]] = []
        longest = 0.0
        while len(done) < count:
            part = 1 if not done else max(1, min(count - len(done), int(1 / max(longest, 1e-6))))  # about a second
            seconds = self._limits.rounds + 10 * part * longest
            host = self._running()
            try:
                answer = _ask(host, Time(tuple(plans), part), seconds)
            except Lost as lost:
                place = host.place()
                self._drop()
                failed = self._failed(plans[place - 1], lost) if place else self._culprit(plans, seconds)
                if failed is None:
                    continue  # nobody: a machine was lost
                return Rounds(done, failed)
            done += answer.times
            longest = max(longest, *map(sum, answer.times))
        return Rounds(done)

    def renew(self) -> None:
        """As `Runner.renew`. Plans are not checked in the new process."""
        self._drop()
        self._prepares = "nothing"

    def abandon(self) -> None:
        """Ends the process, while another thread waits for what it says of a plan."""
        host = self._host
        if host is not None:
            self._clean = False
            host.end()

    def close(self) -> None:
        """Gives the process back."""
        host, self._host = self._host, None
        if host is None:
            return
        if self._clean:
            self._hosts.give_back(host)
        else:
            host.end()

    def _checked(self, request: Check) -> Checked:
        answer = self._asked(request, self._limits.check)
        if isinstance(answer, Lost):
            return Checked("timeout" if answer.hung else "crash", answer.reason)
        if isinstance(answer, Refusal):
            return Checked("refused", answer.text)
        assert isinstance(answer, Checked)
        self._clean = self._clean and answer.state != "wrong"  # who writes wrong things may write them anywhere
        return answer

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
                return _ask(host, request, seconds)
            except Lost as found:
                lost = found
                self._drop()
                if lost.hung:
                    break
        return lost

    @staticmethod
    def _failed(plan: str, lost: Lost) -> Failed:
        return Failed(plan, "timeout" if lost.hung else "crash", lost.reason)

    def _drop(self) -> None:
        """Ends the process."""
        if self._host is not None:
            self._host.end()
            self._host = None

    def _running(self) -> Host:
        self.begin()
        assert self._host is not None
        if not self._opened:
            try:
                answer = self._host.answer(self._limits.prepare)
            except Lost as lost:
                self._drop()
                raise CannotPrepareError(lost.reason) from lost
            if isinstance(answer, Refusal):
                self._drop()
                raise CannotPrepareError(answer.text)
            self._opened = True
        return self._host


def _ask(host: Host, request: object, seconds: float) -> Any:
    """The answer to a request. Raises Lost where there is none within that time."""
    host.send(request)
    return host.answer(seconds)
