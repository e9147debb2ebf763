"""A database: a folder of files that are only ever added to, one for each writer.

Nobody waits for anybody: a reader takes the lines that are whole, and leaves what is being written. A writer that dies
loses the line that it was at. Trouble with the disk does not stop a search: what cannot be written is kept in memory,
and said.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

from tiledsl.autotune.records.lines import Skipped, line_of, read_lines
from tiledsl.autotune.records.record import Entry, ProgramText, Search, Trial
from tiledsl.runtime.programs.plan_source import PlanQuestion
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import fail
from tiledsl.support.options import LOG

SUFFIX = ".jsonl"


class Entries:
    """What lines say, by question."""

    def __init__(self) -> None:
        self.trials: dict[PlanQuestion, list[Trial]] = {}
        self.searches: dict[PlanQuestion, list[Search]] = {}
        self.programs: dict[str, ProgramText] = {}

    def add(self, entry: Entry) -> None:
        """Takes one more."""
        match entry:
            case Trial():
                self.trials.setdefault(entry.question, []).append(entry)
            case Search():
                self.searches.setdefault(entry.question, []).append(entry)
            case ProgramText():
                self.programs[entry.program] = entry


class Database:
    """The database in a folder. Threads and processes may share it."""

    def __init__(self, folder: Path, only: str | None = None) -> None:
        """Nothing is read yet, and nothing made: a folder that is not there is an empty database. `only`: the name of
        the one file that belongs to it."""
        self.folder = folder
        self._only = only
        self.entries = Entries()
        self.skipped: list[Skipped] = []
        self._seen: set[bytes] = set()
        """Lines, which merged files have several times."""
        self._read: dict[str, tuple[int, int]] = {}
        """How many bytes and lines of each file were read."""
        self._lock = threading.RLock()

    def refresh(self) -> None:
        """Reads what was written since the last time."""
        with self._lock:
            for path in self.files():
                self._read_file(path)

    def files(self) -> list[Path]:
        """The files, by name. Raises TileRuntimeError for a folder that cannot be read."""
        try:
            return sorted(path for path in self.folder.iterdir() if path.suffix == SUFFIX and self._has(path))
        except FileNotFoundError:
            return []
        except OSError as error:
            if not self.folder.exists():  # a file is in the way above it
                return []
            fail("tuning-unreadable", caller_location(), folder=self.folder, reason=_reason(error))

    def stamp(self) -> str:
        """Changes when a file is written, comes or goes."""
        found: list[tuple[str, int, int]] = []
        for path in self.files():
            with contextlib.suppress(OSError):  # compacted in the meantime
                status = path.stat()
                found.append((path.name, status.st_size, status.st_mtime_ns))
        return repr(found)

    def _has(self, path: Path) -> bool:
        return self._only is None or path.name == self._only

    def best(self, question: PlanQuestion) -> Search | None:
        """The last search for a question; None if there was none."""
        found = self.entries.searches.get(question)
        return max(found, key=lambda search: search.when) if found else None

    def add(self, entry: Entry) -> bool:
        """Takes an entry that a file has, or will have; False if it is known."""
        with self._lock:
            line = line_of(entry)
            if line in self._seen:
                return False
            self._seen.add(line)
            self.entries.add(entry)
            return True

    def _read_file(self, path: Path) -> None:
        bytes_read, lines_read = self._read.get(path.name, (0, 0))
        try:
            if path.stat().st_size <= bytes_read:
                return
            with path.open("rb") as file:
                file.seek(bytes_read)
                data = file.read()
        except FileNotFoundError:  # compacted in the meantime
            return
        except OSError as error:
            LOG.warning("cannot read %s (%s)", path, error)
            return
        faults: list[Skipped] = []
        known = {fault for fault in self.skipped if fault.file == path.name}
        self.skipped = [fault for fault in self.skipped if fault not in known or fault.fault != "cut"]
        for line, found in read_lines(data, path.name, lines_read + 1):
            if isinstance(found, Skipped):
                faults.append(found)
                if found.fault == "cut":  # perhaps it is being written
                    break
            elif line not in self._seen:
                self._seen.add(line)
                self.entries.add(found)
            bytes_read, lines_read = bytes_read + len(line), lines_read + 1
        self._read[path.name] = bytes_read, lines_read
        self.skipped += faults
        new = [fault for fault in faults if fault not in known]
        if new:
            LOG.warning("%s: %s", path, described(new))


def described(skipped: Iterable[Skipped]) -> str:
    """How many lines were skipped, and why: `3 lines were skipped: 1 cut, 2 damaged`."""
    counts = Counter(one.fault for one in skipped)
    total = sum(counts.values())
    lines = "1 line was" if total == 1 else f"{total} lines were"
    return f"{lines} skipped: " + ", ".join(f"{count} {fault}" for fault, count in sorted(counts.items()))


class Writer:
    """Adds to a database, in a file of its own. Of one process; threads may share it."""

    def __init__(self, database: Database, open_file: Callable[[Path], BinaryIO] | None = None) -> None:
        """Makes the folder and the file. Raises TileRuntimeError where that cannot be done.

        `open_file`: opens a new file for adding, without a buffer.
        """
        self.database = database
        self.unwritten: list[Entry] = []
        """What the disk did not take."""
        self.trouble = ""
        """Why it did not."""
        self._lock = threading.Lock()
        self._torn = False
        path = database.folder / f"{os.getpid()}-{secrets.token_hex(4)}{SUFFIX}"
        try:
            database.folder.mkdir(parents=True, exist_ok=True)
            self._file = (open_file or _opened)(path)
        except OSError as error:
            fail("tuning-unwritable", caller_location(), folder=database.folder, reason=_reason(error))
        self.path = path

    def add(self, entry: Entry) -> None:
        """Adds an entry, to the file and to the database in memory."""
        if not self.database.add(entry):
            return
        with self._lock:
            line = line_of(entry)
            try:
                # one call, so that a process that ends leaves whole lines but one; behind half a line, a new one
                data = b"\n" + line if self._torn else line
                written = self._file.write(data)
                self._torn = self._torn if not written else written < len(data)
                if written != len(data):
                    raise OSError(f"{written} of {len(data)} bytes were written")
            except OSError as error:
                self.unwritten.append(entry)
                self.trouble = _reason(error)
                LOG.warning("cannot write to %s (%s); the record is kept in memory", self.path, self.trouble)

    def close(self) -> None:
        """Closes the file; one that nothing was written to goes."""
        with self._lock, contextlib.suppress(OSError):
            self._file.close()
            if self.path.stat().st_size == 0:
                self.path.unlink()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _opened(path: Path) -> BinaryIO:
    file = open(path, "xb", buffering=0)  # noqa: SIM115  # `Writer.close` closes it
    hold(file)
    return file  # pyright: ignore[reportReturnType]  # a raw file writes and closes as others do


def hold(file: object) -> bool:
    """Holds a file for its writer, where the system can; False if somebody else does."""
    try:
        import fcntl
    except ImportError:  # Windows, where an open file cannot be removed anyway
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # pyright: ignore[reportArgumentType]
        return True
    except OSError:
        return False


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
