"""What is done to whole databases: merged, exported, pruned, compacted.

A new file is written beside its place, synced and renamed before any file that it replaces goes, so that who is
interrupted leaves every entry at least once.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path

from tiledsl.autotune.records.database import SUFFIX, Database, hold
from tiledsl.autotune.records.lines import line_of
from tiledsl.autotune.records.record import Entry, ProgramText, Trial
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import fail

TOP = 4
"""Plans of each question that pruning keeps beside the last search and what failed."""


def every_entry(database: Database) -> Iterator[Entry]:
    """All that a database has, programs first."""
    entries = database.entries
    yield from entries.programs.values()
    for trials in entries.trials.values():
        yield from trials
    for searches in entries.searches.values():
        yield from searches


def merge(into: Database, others: Iterable[Database]) -> int:
    """Copies what others have and this one has not; gives how many entries that were."""
    into.refresh()
    new: list[Entry] = []
    for other in others:
        other.refresh()
        new += [entry for entry in every_entry(other) if into.add(entry)]
    if new:
        write_file(into.folder, into.folder / f"merged-{secrets.token_hex(4)}{SUFFIX}", new)
    return len(new)


def export(database: Database, file: Path) -> int:
    """Writes all whole entries to one file, which is a database where its folder is; gives how many there are."""
    database.refresh()
    entries = list(every_entry(database))
    write_file(file.parent, file, entries)
    return len(entries)


def top(trials: Iterable[Trial], count: int) -> list[Trial]:
    """The best plans, those that were held against the pick for longest first where one was tried several times."""
    best: dict[str, Trial] = {}
    for trial in trials:
        known = best.get(trial.plan)
        if trial.state == "ok" and trial.ratio is not None and (known is None or _pairs(known) <= trial.ratio.pairs):
            best[trial.plan] = trial
    return sorted(best.values(), key=lambda trial: trial.ratio.median if trial.ratio else 1.0)[:count]


def _pairs(trial: Trial) -> int:
    return trial.ratio.pairs if trial.ratio is not None else 0


def prune(database: Database, keep: int = TOP) -> int:
    """Drops trials beyond the best ones of each question, earlier searches, and lines that nobody can read; gives how
    many entries are left. What failed stays: nobody needs to try it again."""
    database.refresh()
    kept: list[Entry] = []
    for question, trials in database.entries.trials.items():
        kept += top(trials, keep)
        kept += {trial.plan: trial for trial in trials if trial.state != "ok"}.values()
        best = database.best(question)
        winner = "" if best is None else best.winner
        kept += [trial for trial in trials if trial.plan == winner and trial.state == "ok"][-1:]
    for question in database.entries.searches:
        best = database.best(question)
        assert best is not None
        kept.append(best)
    programs = {entry.question.program for entry in kept if not isinstance(entry, ProgramText)}
    texts = [text for digest, text in database.entries.programs.items() if digest in programs]
    by_line: dict[bytes, Entry] = {line_of(entry): entry for entry in (*texts, *kept)}
    replace_files(database, by_line.values())
    return len(by_line)


def compact(database: Database) -> int:
    """Brings all entries into one file; gives how many there are. Files that somebody writes to stay."""
    database.refresh()
    entries = list(every_entry(database))
    replace_files(database, entries)
    return len(entries)


def replace_files(database: Database, entries: Iterable[Entry]) -> None:
    """One file with these entries takes the place of all that nobody writes to."""
    old = [path for path in database.files() if _is_idle(path)]
    write_file(database.folder, database.folder / f"compact-{secrets.token_hex(4)}{SUFFIX}", entries)
    for path in old:
        with contextlib.suppress(OSError):
            path.unlink()


def _is_idle(path: Path) -> bool:
    """Whether nobody writes to a file."""
    try:
        with path.open("rb") as file:
            return hold(file)
    except OSError:
        return False


def write_file(folder: Path, file: Path, entries: Iterable[Entry]) -> None:
    """Writes a whole file, or none. Raises TileRuntimeError where that cannot be done."""
    temporary = folder / f".new-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as new:
            for entry in entries:
                new.write(line_of(entry))
            new.flush()
            os.fsync(new.fileno())
        os.replace(temporary, file)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        fail("tuning-unwritable", caller_location(), folder=folder, reason=error.strerror or str(error))
