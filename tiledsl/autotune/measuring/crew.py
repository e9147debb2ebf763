"""Several processes with one workload: they check plans at the same time, one of them times, and each of the others
holds a part of the finals. They are started at the same time, so that nobody waits for one after the other."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from tiledsl.autotune.measuring.host import HostRunner
from tiledsl.autotune.measuring.runner import Checked, Rounds


class Crew:
    """A runner made of several. Only one is timed in at a time, and nobody checks then."""

    def __init__(self, members: Sequence[HostRunner], checkers: int = 1, *, at_once: bool = True) -> None:
        """`checkers`: how many of the members check, the first ones. At least one of each. `at_once`: whether those
        that only hold finals start with the others; if not, they start when there is a finalist."""
        self._at_once = at_once
        self._members = list(members)
        self._checkers = self._members[:checkers]
        """Those that are not at a plan."""
        self._others = self._members[checkers:]
        self._pool = ThreadPoolExecutor(len(self._checkers))
        self._lock = threading.Lock()
        self._results: dict[str, Future[Checked]] = {}
        self._at = 0
        self._settled = False

    waited = 0.0

    def begin(self) -> None:
        """As `Runner.begin`."""
        for member in self._members if self._at_once else self._members[: len(self._checkers)]:
            member.begin()

    def ahead(self, plans: Sequence[str]) -> None:
        """Begins to check plans. Threads may share it."""
        with self._lock:
            self._settled = False
            for plan in plans:
                if plan not in self._results:
                    self._results[plan] = self._pool.submit(self._check, plan)

    def check(self, plan: str) -> Checked:
        """As `Runner.check`. Raises CannotPrepareError where no plan can be run."""
        self.ahead([plan])
        return self._results[plan].result()

    def confirm(self, plan: str) -> Checked:
        """As `Runner.confirm`; finals are near. Where all processes start at once, the last one has made itself ready
        for this; where they do not, it is the first one's work."""
        self._settle()
        for member in self._members:
            member.begin()
        self._settled = False
        return self._members[-1 if self._at_once else 0].confirm(plan)

    def ready(self, plans: Sequence[str]) -> None:
        """As `Runner.ready`: those that hold finals, and have started, all do it at the same time, while the last one
        is asked whether the plans are right on other inputs."""
        if self._at_once:
            self._settle()
            for member in self._members[self._at + 1 : -1]:
                member.ready(plans)
            self._settled = False

    def rounds(self, plans: Sequence[str], count: int) -> Rounds:
        """As `Runner.rounds`, when nothing else is running."""
        self._settle()
        return self._members[self._at].rounds(plans, count)

    def renew(self) -> None:
        """Goes on to the next process."""
        if self._at + 1 < len(self._members):
            self._at += 1
        else:
            self._members[self._at].renew()

    def close(self) -> None:
        """Gives all processes back; one that is at a plan is ended."""
        self._cancel()
        with self._lock:
            free = [*self._checkers, *self._others]
        for member in self._members:
            if member not in free:
                member.abandon()
        self._pool.shutdown(wait=True, cancel_futures=True)
        for member in self._members:
            member.close()

    def _check(self, plan: str) -> Checked:
        with self._lock:
            member = self._checkers.pop(0)
        try:
            return member.check(plan)
        finally:
            with self._lock:
                self._checkers.append(member)

    def _settle(self) -> None:
        """Leaves the checks that nobody has waited for, and waits until every process is idle: what is timed is
        alone."""
        if self._settled:
            return
        self._cancel()
        for found in list(self._results.values()):
            if not found.cancelled():
                found.exception()
        for member in self._members:
            member.is_ready()
        self._settled = True

    def _cancel(self) -> None:
        for plan, found in list(self._results.items()):
            if found.cancel():
                del self._results[plan]
