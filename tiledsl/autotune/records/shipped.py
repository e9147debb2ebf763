"""What ships with the package: for each device that was measured, a file of winners, `shipped/DEVICE.jsonl`.

It is read when a question from exactly that device comes. There may be no file at all.
"""

from __future__ import annotations

import re
from pathlib import Path

from tiledsl.autotune.records.database import SUFFIX, Database
from tiledsl.autotune.records.record import Entry, Search, Trial
from tiledsl.autotune.records.upkeep import write_file
from tiledsl.runtime.programs.plan_source import PlanQuestion


class Shipped:
    """The databases of a folder, one for each device. Threads may share it."""

    def __init__(self, folder: Path) -> None:
        """Nothing is read yet."""
        self.folder = folder
        self._databases: dict[str, Database] = {}

    def best(self, question: PlanQuestion) -> Search | None:
        """What was found for a question of its device; None where nothing was."""
        return self.of(question.device).best(question) if question.device else None

    def of(self, device: str) -> Database:
        """What was found on a device."""
        found = self._databases.get(device)
        if found is None:
            found = Database(self.folder, file_name(device))
            found.refresh()
            self._databases[device] = found
        return found

    def stamp(self) -> str:
        """Changes when a file is written, comes or goes."""
        return Database(self.folder).stamp()

    def questions(self) -> list[PlanQuestion]:
        """What was searched for, on all devices. Reads all files."""
        every = Database(self.folder)
        every.refresh()
        return list(every.entries.searches)


def file_name(device: str) -> str:
    """`nvidia-h200-132-multiprocessors.jsonl`"""
    return re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-") + SUFFIX


def ship(database: Database, device: str, folder: Path) -> tuple[Path, int]:
    """Writes what searches on a device have won over the model to a file that is to ship; gives the file, and how many
    plans are in it. What was there for that device is replaced. Raises TileRuntimeError where it cannot be written."""
    database.refresh()
    found = [database.best(question) for question in database.entries.searches if question.device == device]
    won = [search for search in found if search is not None and search.finished and search.winner != search.pick]
    texts = database.entries.programs
    programs = {search.question.program for search in won}
    entries: list[Entry] = [texts[program] for program in sorted(programs) if program in texts]
    for search in sorted(won, key=lambda search: (search.kernel, search.question.sizes)):
        entries += [*_of_winner(database, search), search]
    path = folder / file_name(device)
    write_file(folder, path, entries)
    return path, len(won)


def _of_winner(database: Database, search: Search) -> list[Trial]:
    """The last trial of the winner."""
    trials = database.entries.trials.get(search.question, [])
    return [trial for trial in trials if trial.plan == search.winner and trial.state == "ok"][-1:]
