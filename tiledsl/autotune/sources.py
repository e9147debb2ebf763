"""Who answers for plans: a database, or one plan for whatever is asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tiledsl.autotune.records.database import Database
from tiledsl.autotune.records.record import Search
from tiledsl.autotune.records.shipped import Shipped
from tiledsl.runtime.programs.cache import digest
from tiledsl.runtime.programs.plan_source import GROUPING, TOGETHER, Answer, PlanQuestion
from tiledsl.support.options import LOG


@dataclass(frozen=True)
class PinnedPlan:
    """One plan. `told`: takes why it was not used."""

    plan: str
    told: Callable[[str], object]

    def plan_for(self, question: PlanQuestion) -> Answer | None:
        del question
        return Answer(self.plan)

    def refused(self, question: PlanQuestion, answer: Answer, reason: str, *, expected: bool = False) -> None:
        del question, answer, expected
        self.told(reason)

    def mark(self) -> str:
        return ""

    def devices(self, target: str) -> Sequence[str]:
        del target
        return ()

    def groupings(self, target: str, device: str) -> Mapping[str, bool]:
        del target, device
        return {}


@dataclass(frozen=True, eq=False)
class NoPlans:
    """Has no plan for anything: the model plans, whatever calls ask."""

    def plan_for(self, question: PlanQuestion) -> Answer | None:
        del question
        return None

    def refused(self, question: PlanQuestion, answer: Answer, reason: str, *, expected: bool = False) -> None:
        raise AssertionError("there was no answer")

    def mark(self) -> str:
        return ""

    def devices(self, target: str) -> Sequence[str]:
        del target
        return ()

    def groupings(self, target: str, device: str) -> Mapping[str, bool]:
        del target, device
        return {}


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

    def groupings(self, target: str, device: str) -> Mapping[str, bool]:
        """As `PlanSource.groupings`. Where no device is named, the records of the only one that there is count."""
        if self._read is None or self._read != self._seen:
            self.refresh()
        own = [one for one in self.database.entries.searches if _is_grouping(one, target)]
        devices = {question.device for question in own}
        if not device and len(devices) == 1:
            (device,) = devices
        found: dict[str, bool] = {}
        if self.shipped is not None and device:
            ships = self.shipped.of(device)
            found = _decided(ships, [one for one in ships.entries.searches if _is_grouping(one, target)])
        own = [question for question in own if question.device == device]
        for question in own:
            found.pop(question.program.removeprefix(GROUPING), None)
        return {**found, **_decided(self.database, own)}

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

    def refused(self, question: PlanQuestion, answer: Answer, reason: str, *, expected: bool = False) -> None:
        """Says it in the log: the model plans."""
        self.used.pop(question, None)
        if expected:
            LOG.info("the plan (%s) of %s is not used: %s", answer.plan, self.database.folder, reason)
            return
        if self.shipped is not None and self.database.best(question) is None:
            # it is nothing that the user has measured, and could do anything about
            LOG.info("the plan (%s) of %s is not used: %s", answer.plan, self.shipped.folder, reason)
            return
        LOG.warning("the plan (%s) of %s is not used: %s", answer.plan, self.database.folder, reason)

    def _with_device(self, question: PlanQuestion) -> PlanQuestion:
        searches = self.database.entries.searches
        devices = {known.device for known in searches if replace(known, device="") == question}
        return replace(question, device=devices.pop()) if len(devices) == 1 else question


def _is_grouping(question: PlanQuestion, target: str) -> bool:
    return question.target == target and question.program.startswith(GROUPING)


def _decided(database: Database, questions: Iterable[PlanQuestion]) -> dict[str, bool]:
    """Whether ops are one kernel, by near tie, where that was measured to be better than what the model decides."""
    found = [database.best(question) for question in questions]
    won = [search for search in found if search is not None and search.finished and search.winner != search.pick]
    return {one.question.program.removeprefix(GROUPING): one.winner == TOGETHER for one in won}
