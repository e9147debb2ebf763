"""Which source of plans calls and builds ask: that of `tiledsl.tuned`, or the database of the environment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from tiledsl.api.calls.targets import cuda_services
from tiledsl.passes.gpu_machine import architecture_of
from tiledsl.runtime.programs.plan_source import ACTIVE_PLANS, PlansFor, PlanSource
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import fail
from tiledsl.support.options import read_options

if TYPE_CHECKING:
    from tiledsl.autotune.sources import DatabasePlans

Made = TypeVar("Made")

_known: dict[tuple[Path, bool], DatabasePlans] = {}
_lock = threading.Lock()


def plans_of_calls() -> PlanSource | None:
    """What is asked now, in this thread; None: the model alone."""
    active = ACTIVE_PLANS.get()
    return default_plans() if active is None else active


def default_plans() -> PlanSource | None:
    """The database that the environment names, if it is there, with what ships; None where plans are switched off."""
    folder = read_options().tuning_directory
    if folder is None:
        return None
    ships = any(shipped_folder().glob("*.jsonl"))
    return database_plans(folder, ships=ships) if ships or folder.is_dir() else None


def plans_on(source: PlanSource | None, arch: str, device: str | None) -> PlansFor | None:
    """A source as a build for an architecture asks it. `device`: where the module will run, in words, or how they
    begin; None: the devices at hand, if there are any of the architecture, and all are alike.

    Raises TileRuntimeError for a device that is named, and that the source knows nothing of.
    """
    if source is None:
        return None
    if device is None:
        at_hand = cuda_services().at_hand(arch)
        return PlansFor(source, at_hand[0] if len(at_hand) == 1 else "", source.mark())
    known = source.devices(architecture_of(arch))
    fitting = [one for one in known if one == device] or [one for one in known if one.startswith(device)]
    if len(fitting) != 1:
        named = ", ".join(f"`{one}`" for one in fitting or known) or f"there is none for `{arch}`"
        fail("tuning-device", caller_location(), device=device, known=named)
    return PlansFor(source, fitting[0], source.mark())


def shipped_folder() -> Path:
    """Where the package has the winners of searches on devices."""
    return Path(__file__).resolve().parents[2] / "autotune" / "shipped"


def database_plans(folder: Path, *, ships: bool = False) -> DatabasePlans:
    """The plans of a database: one source for all who name it, which is read once. `ships`: with those that ship where
    it has none."""
    from tiledsl.autotune.records.database import Database  # costs start-up time
    from tiledsl.autotune.records.shipped import Shipped
    from tiledsl.autotune.sources import DatabasePlans

    folder = folder.resolve()
    with _lock:
        found = _known.get((folder, ships))
        if found is None:
            known = _known.get((folder, not ships))
            database = Database(folder) if known is None else known.database
            shipped = Shipped(shipped_folder()) if ships else None
            found = _known[folder, ships] = DatabasePlans(database, shipped)
        return found


def existing_plans(path: str | Path) -> DatabasePlans:
    """The same, as it is now on the disk. Raises TileRuntimeError where there is no database."""
    folder = Path(path)
    if not folder.exists():
        fail("tuning-absent", caller_location(), folder=folder)
    plans = database_plans(folder)
    plans.refresh()
    return plans


@contextmanager
def tuned(path: str | Path) -> Generator[None]:
    """Calls within take the plans that the database in a folder has for them, and the model's where it has none.

    That holds for this thread (or task), for kernels and formulas that are called, and modules that are built there.
    A database is what `kernel.tune` and `tiledsl tune` write. Raises TileRuntimeError where there is none.
    """
    token = ACTIVE_PLANS.set(existing_plans(path))
    try:
        yield
    finally:
        ACTIVE_PLANS.reset(token)


class BySource(Generic[Made]):
    """One thing for each source of plans, made when it is first asked for. Threads may share it."""

    def __init__(self, make: Callable[[PlanSource | None], Made]) -> None:
        """`make` takes None for whatever calls ask by default."""
        self._make = make
        self._others: dict[PlanSource, Made] = {}
        self._lock = threading.Lock()
        self.default = make(None)

    def current(self) -> Made:
        """That of the source that calls ask now."""
        plans = ACTIVE_PLANS.get()
        return self.default if plans is None else self.of(plans)

    def of(self, plans: PlanSource) -> Made:
        """That of a source."""
        found = self._others.get(plans)
        if found is None:
            with self._lock:
                found = self._others.setdefault(plans, self._make(plans))
        return found

    def every(self) -> list[Made]:
        """All that were made."""
        return [self.default, *self._others.values()]

    def forget(self) -> None:
        """Makes all anew: plans have changed."""
        with self._lock:
            self._others = {}
            self.default = self._make(None)
