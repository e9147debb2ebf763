"""Who answers for plans: a database, or one plan for whatever is asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tiledsl.autotune.records.database import Database
from tiledsl.autotune.records.record import Search
from tiledsl.autotune.records.shipped import Shipped
from tiledsl.runtime.programs.cache import digest
from tiledsl.runtime.programs.plan_source import Answer, PlanQuestion
from tiledsl.support.options import LOG


@dataclass(frozen=True)
class PinnedPlan:
    """One plan. `told`: takes why it was not used."""

    plan: str
    told: Callable[[str], object]

    def plan_for(self, question: PlanQuestion) -> Answer | None:
        del question
        return Answer(self.plan)

    def refused(self, question: PlanQuestion, answer: Answer, reason: str) -> None:
        del question, answer
        self.told(reason)

    def mark(self) -> str:
        return ""

    def devices(self, target: str) -> Sequence[str]:
        del target
        return ()


class DatabasePlans:
    """What searches have found, for exactly the question: other sizes, other machines and other code have no answer.

    Where code is made for a GPU that is not there, the records of the one device of its architecture count; those of
    several devices do not.
    """

    def __init__(self, database: Database, shipped: Shipped | None = None) -> None:
        """Reads the database at the first question. `shipped`: what counts where the database has nothing."""
        self.database = database
        self.shipped = shipped
        self.used: dict[PlanQuestion, Answer] = {}
        """What was answered so far."""
        self._lock = threading.Lock()
        self._read: str | None = None
        """The stamp of the files that were read."""
        self._seen: str | None = None
        """The stamp of the files as somebody has last seen them."""

    def refresh(self) -> None:
        """Reads what was written since."""
        with self._lock:
            stamp = self.database.stamp()  # before it is read: what is written meanwhile is read the next time
            self.database.refresh()
            self._read = self._seen = stamp

    def mark(self) -> str:
        """As `PlanSource.mark`, by names, sizes and times of files; reads none of them."""
        self._seen = self.database.stamp()
        return digest([self._seen, "" if self.shipped is None else self.shipped.stamp()])

    def devices(self, target: str) -> Sequence[str]:
        """As `PlanSource.devices`. Reads all files."""
        self.refresh()
        searches = [*self.database.entries.searches]
        if self.shipped is not None:
            searches += self.shipped.questions()
        return sorted({question.device for question in searches if question.target == target and question.device})

    def plan_for(self, question: PlanQuestion) -> Answer | None:
        """The winner of the last search; None where that is the model's pick, or where there was none."""
        if self._read is None or self._read != self._seen:
            self.refresh()
        found, whence = self.database.best(question if question.device else self._with_device(question)), "own"
        if self.shipped is not None and (found is None or not found.finished):
            found, whence = self.shipped.best(question), "shipped"
        if found is None or found.winner == found.pick:
            return None
        answer = self.used[question] = Answer(found.winner, found.code, self._origin(found, ships=whence == "shipped"))
        return answer

    def _origin(self, found: Search, *, ships: bool) -> str:
        """`measured on NVIDIA H200, 132 multiprocessors, 1.06 times as fast as the model's plan; ships with tiledsl`"""
        ratio = found.ratio
        gain = f", {1 / ratio.median:.3f} times as fast as the model's plan" if ratio and ratio.median else ""
        where = "ships with tiledsl" if ships else f"of {self.database.folder}"
        return f"measured on {found.question.device}{gain}; {where}"

    def refused(self, question: PlanQuestion, answer: Answer, reason: str) -> None:
        """Says it in the log: the model plans."""
        self.used.pop(question, None)
        if self.shipped is not None and self.database.best(question) is None:
            # it is nothing that the user has measured, and could do anything about
            LOG.info("the plan (%s) of %s is not used: %s", answer.plan, self.shipped.folder, reason)
            return
        LOG.warning("the plan (%s) of %s is not used: %s", answer.plan, self.database.folder, reason)

    def _with_device(self, question: PlanQuestion) -> PlanQuestion:
        searches = self.database.entries.searches
        devices = {known.device for known in searches if replace(known, device="") == question}
        return replace(question, device=devices.pop()) if len(devices) == 1 else question
