"""Who answers for plans: a database, or one plan for whatever is asked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from tiledsl.autotune.records.database import Database
from tiledsl.autotune.records.shipped import Shipped
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
        self._read = False

    def refresh(self) -> None:
        """Reads what was written since."""
        with self._lock:
            self.database.refresh()
            self._read = True

    def plan_for(self, question: PlanQuestion) -> Answer | None:
        """The winner of the last search; None where that is the model's pick, or where there was none."""
        if not self._read:
            self.refresh()
        found = self.database.best(question if question.device else self._with_device(question))
        if self.shipped is not None and (found is None or not found.finished):
            found = self.shipped.best(question)
        if found is None or found.winner == found.pick:
            return None
        answer = self.used[question] = Answer(found.winner, found.code)
        return answer

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
