"""What searches of kernels and of graphs share: where they keep what they find, and what they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tiledsl.api.calls.plan_sources import database_plans
from tiledsl.autotune.measuring.host import CannotPrepareError, Fleet
from tiledsl.autotune.measuring.staff import Staff
from tiledsl.autotune.records.database import Writer
from tiledsl.autotune.searching.outcome import Outcome
from tiledsl.autotune.searching.search import Listener, Searches, Silent, check_budget
from tiledsl.autotune.searching.task import Budget, Task
from tiledsl.autotune.sources import DatabasePlans
from tiledsl.runtime.programs.plan_source import ACTIVE_PLANS
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import fail
from tiledsl.support.options import read_options

if TYPE_CHECKING:
    from tiledsl.autotune.measuring.runner import Runner


@dataclass(frozen=True)
class TuneRequest:
    """What the user asks a search for. `database`: a folder, or None for where calls look."""

    seconds: float = 30.0
    trials: int = 20
    database: str | Path | None = None
    listener: Listener = field(default_factory=Silent)
    fleet: Fleet | None = None
    """Who measures; None: processes on this machine, one after the other."""
    libraries: bool = False
    """Whether calls of libraries are plans too, on GPUs."""

    @property
    def budget(self) -> Budget:
        return Budget(self.seconds, self.trials)

    def plans(self) -> DatabasePlans:
        """The database. Raises TileRuntimeError where there is nowhere to keep one."""
        if self.database is not None:
            return database_plans(Path(self.database))
        active = ACTIVE_PLANS.get()
        if isinstance(active, DatabasePlans):
            return active
        folder = read_options().tuning_directory
        if folder is None:
            fail("tuning-nowhere", caller_location())
        return database_plans(folder)


@dataclass(frozen=True)
class TuneReport:
    """What searches have come to, one for each program. `str()` is for people."""

    outcomes: tuple[Outcome, ...]
    database: Path
    notes: tuple[str, ...] = ()
    complete: bool = True
    """Whether there was time for all programs that are worth a search."""

    @property
    def finished(self) -> bool:
        """Whether all candidates of all programs were measured, now or before."""
        return self.complete and all(outcome.finished for outcome in self.outcomes)

    def __str__(self) -> str:
        return "\n".join([*map(str, self.outcomes), *self.notes, f"kept in {self.database}"])


@dataclass(frozen=True)
class Prepared:
    """A task, and what runs it once it is to be run."""

    task: Task
    runner: Callable[[Staff | Fleet], Runner]
    """What runs it, by processes of this machine or of a fleet."""


def search_all(prepared: Iterable[Prepared], request: TuneRequest, device: int | None = None) -> TuneReport:
    """Searches one after the other, each with the whole budget. `device`: the GPU that they are for, if it is one:
    processes start there while the first one is prepared, which `prepared` may do when it is asked."""
    check_budget(request.budget)
    plans = request.plans()
    plans.refresh()
    with Writer(plans.database) as writer, Staff() as staff:
        if device is not None and request.fleet is None:
            staff.begin(device)
        searches = Searches(writer, request.listener)
        outcomes = [search_one(searches, one, request.budget, request.fleet or staff) for one in prepared]
    return TuneReport(tuple(outcomes), plans.database.folder)


def search_one(searches: Searches, prepared: Prepared, budget: Budget, who: Staff | Fleet) -> Outcome:
    """One search; nothing is started where its answer is known. Raises TileRuntimeError where nothing can be run."""
    task = prepared.task
    known = searches.known(task)
    if known is not None:
        searches.listener.done(task, known)
        return known
    runner = prepared.runner(who)
    try:
        outcome = searches.run(task, runner, budget)
        searches.listener.done(task, outcome)
        return outcome
    except CannotPrepareError as error:
        fail(
            "tuning-pick-fails", caller_location(),
            kernel=task.kernel, plan=task.pick.plan, state="crash", reason=str(error).strip().splitlines()[0],
        )  # fmt: skip
    finally:
        with suppress(OSError):
            runner.close()
