"""Databases: several writers, lines that are no good, disks that are full, processes that are killed."""

from __future__ import annotations

import errno
import io
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.fakes.tuning_records import DEVICE, QUESTION, TEXT, search, trial
from tiledsl.autotune.records.database import Database, Writer
from tiledsl.autotune.records.lines import line_of
from tiledsl.autotune.records.record import Trial
from tiledsl.autotune.records.upkeep import every_entry
from tiledsl.support.errors import TileRuntimeError


def read(folder: Path) -> Database:
    database = Database(folder)
    database.refresh()
    return database


def test_what_was_written_is_there(tmp_path: Path) -> None:
    with Writer(Database(tmp_path / "db")) as writer:
        for entry in (TEXT, trial(), trial("m=16, 1 threads", 1.1), search()):
            writer.add(entry)
    database = read(tmp_path / "db")
    assert database.entries.trials == {QUESTION: [trial(), trial("m=16, 1 threads", 1.1)]}
    assert database.entries.programs == {TEXT.program: TEXT}
    assert database.best(QUESTION) == search()
    assert database.best(DEVICE) is None
    assert database.skipped == []


def test_a_folder_that_is_not_there_is_an_empty_database(tmp_path: Path) -> None:
    assert read(tmp_path / "none").entries.trials == {}
    assert not (tmp_path / "none").exists()


def test_the_last_search_counts(tmp_path: Path) -> None:
    with Writer(Database(tmp_path)) as writer:
        writer.add(search("m=16", "2026-02-01"))
        writer.add(search("m=32", "2026-03-01"))
        writer.add(search("m=64", "2026-01-01"))
    best = read(tmp_path).best(QUESTION)
    assert best is not None
    assert best.winner == "m=32"


def test_two_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    database = Database(tmp_path)
    one, two = Writer(database), Writer(Database(tmp_path))
    for number in range(20):
        (one, two)[number % 2].add(trial(f"m={number}"))
    assert one.path != two.path
    database.refresh()
    assert {t.plan for t in database.entries.trials[QUESTION]} == {f"m={number}" for number in range(20)}
    one.close()
    two.close()


def test_a_reader_goes_on_where_it_was(tmp_path: Path) -> None:
    database = Database(tmp_path)
    with Writer(Database(tmp_path)) as writer:
        for number in range(3):
            writer.add(trial(f"m={number}"))
            database.refresh()
            assert len(database.entries.trials[QUESTION]) == number + 1


def test_a_line_that_is_being_written_is_left_until_it_is_whole(tmp_path: Path) -> None:
    line, file = line_of(trial()), tmp_path / "a.jsonl"
    file.write_bytes(line[:50])
    database = read(tmp_path)
    assert [str(one) for one in database.skipped] == ["a.jsonl:1: cut"]
    file.write_bytes(line)
    database.refresh()
    assert database.entries.trials == {QUESTION: [trial()]}
    assert database.skipped == []


def test_lines_that_are_no_good_are_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    line = line_of(trial())
    (tmp_path / "a.jsonl").write_bytes(line.replace(b"near", b"far_") + line_of(search()) + line[:-9])
    caplog.set_level("WARNING", "tiledsl")
    database = read(tmp_path)
    database.refresh()
    assert database.best(QUESTION) == search()
    assert [record.getMessage().split(": ", 1)[1] for record in caplog.records] == [
        "2 lines were skipped: 1 cut, 1 damaged"
    ]


def test_the_same_line_in_two_files_counts_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_bytes(line_of(trial()))
    assert read(tmp_path).entries.trials == {QUESTION: [trial()]}


class FullDisk(io.BytesIO):
    """Takes so many bytes, and then says that the disk is full until there is room again."""

    def __init__(self, path: Path, room: int) -> None:
        super().__init__()
        self.path, self.room = path, room

    def write(self, data: Any, /) -> int:
        if self.room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        part = bytes(data)[: self.room]
        self.room -= len(part)
        with self.path.open("ab") as file:
            file.write(part)
        return len(part)


def test_a_full_disk_costs_no_record_of_this_process(tmp_path: Path) -> None:
    disks: list[FullDisk] = []

    def opened(path: Path) -> FullDisk:
        disks.append(FullDisk(path, len(line_of(trial("m=0"))) + 20))
        return disks[-1]

    database = Database(tmp_path)
    writer = Writer(database, opened)
    for number in range(3):
        writer.add(trial(f"m={number}"))
    assert [getattr(entry, "plan", "") for entry in writer.unwritten] == ["m=1", "m=2"]
    assert writer.trouble == "No space left on device"
    assert len(database.entries.trials[QUESTION]) == 3, "the search goes on with all of them"
    disks[0].room = 1 << 20
    writer.add(trial("m=3"))
    later = read(tmp_path)
    assert [t.plan for t in later.entries.trials[QUESTION]] == ["m=0", "m=3"], "half a line costs no other line"
    assert [one.fault for one in later.skipped] == ["damaged"]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(TileRuntimeError, match="cannot be written: Not a directory"):
        Writer(Database(tmp_path / "file" / "db"))


def test_a_file_in_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(TileRuntimeError, match="cannot be read: Not a directory"):
        Database(tmp_path / "file").refresh()


def test_a_writer_that_wrote_nothing_leaves_nothing(tmp_path: Path) -> None:
    Writer(Database(tmp_path)).close()
    assert list(tmp_path.iterdir()) == []


WRITES_FOREVER = """
import sys
from pathlib import Path
from tests.support.fakes.tuning_records import trial
from tiledsl.autotune.records.database import Database, Writer

writer = Writer(Database(Path(sys.argv[1])))
for number in range(10**9):
    writer.add(trial(f"m={number}"))
    print(number, flush=True)
"""


def test_a_writer_that_is_killed_loses_one_record_at_most(tmp_path: Path) -> None:
    for kill_after in (1, 17, 160):
        folder = tmp_path / str(kill_after)
        process = subprocess.Popen(
            [sys.executable, "-c", WRITES_FOREVER, str(folder)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        said = -1
        while said < kill_after:
            said = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        said = int((process.stdout.read().split() or [said])[-1])  # what it had said before it died was written
        process.wait()
        plans = [t.plan for t in read(folder).entries.trials[QUESTION]]
        assert plans[: said + 1] == [f"m={number}" for number in range(said + 1)]


def test_one_folder_may_be_read_while_another_process_is_killed_in_the_middle_of_a_line(tmp_path: Path) -> None:
    line = line_of(trial())
    for cut in range(1, len(line), 37):
        (tmp_path / f"{cut}.jsonl").write_bytes(line_of(trial(f"m={cut}")) + line[:cut])
    database = read(tmp_path)
    assert len(database.entries.trials[QUESTION]) == len(list(tmp_path.iterdir()))
    assert all(isinstance(t, Trial) and t.plan != trial().plan for t in database.entries.trials[QUESTION])


SEARCHES_FOREVER = """
import sys
from dataclasses import replace
from pathlib import Path
from tests.support.fakes.fake_runner import FakeRunner, task_of
from tests.support.fakes.tuning_records import QUESTION
from tiledsl.autotune.records.database import Database, Writer
from tiledsl.autotune.searching.search import Searches
from tiledsl.autotune.searching.task import Budget

TIMES = {"pick": 1e-3, "a": 0.9e-3, "b": 1.1e-3, "c": 0.95e-3}
database = Database(Path(sys.argv[1]))
database.refresh()
writer = Writer(database)
number = len(database.entries.searches)
while True:
    number += 1
    question = replace(QUESTION, sizes=(("M", number), ("N", 32)))
    runner = FakeRunner(TIMES)
    outcome = Searches(writer, clock=runner.clock).run(task_of(["a", "b", "c"], question=question), runner, Budget(60))
    print(number, outcome.winner, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_searches_that_are_killed_at_a_hundred_points_leave_all_that_they_finished(tmp_path: Path) -> None:
    """A process searches in a folder and is killed after some bytes; the next one goes on where it was. Kills come at
    random places of what is written: of records, of the ends of searches, and in between."""
    source, said = random.Random(0), set[int]()
    for run in range(10):  # the folder of the first nine runs grows under the next
        process = subprocess.Popen(
            [sys.executable, "-c", SEARCHES_FOREVER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for _ in range(source.randrange(1, 12)):
            said.add(int(process.stdout.readline().split()[0]))
        process.send_signal(signal.SIGKILL)
        said |= {int(line.split()[0]) for line in process.stdout.read().splitlines() if len(line.split()) == 2}
        process.wait()
        database = read(tmp_path)
        assert {dict(question.sizes)["M"] for question in database.entries.searches} >= said, f"run {run}"
        assert all(search.winner == "a" for found in database.entries.searches.values() for search in found)
        assert all(skipped.fault == "cut" for skipped in database.skipped)
    whole = [path.read_bytes() for path in tmp_path.glob("*.jsonl")]
    longest = max(whole, key=len)
    everything = {line_of(entry) for entry in every_entry(read(tmp_path))}
    for cut in sorted(source.sample(range(len(longest)), 90)):  # the other ninety: where a file may have ended
        folder = tmp_path / f"cut at {cut}"
        folder.mkdir()
        (folder / "w.jsonl").write_bytes(longest[:cut])
        left = read(folder)
        lines = longest[:cut].count(b"\n")
        assert sum(1 for _ in every_entry(left)) == lines
        assert {line_of(entry) for entry in every_entry(left)} <= everything
        assert len(left.skipped) == (longest[:cut][-1:] not in (b"", b"\n"))


def test_a_folder_that_cannot_be_there_is_an_empty_database(tmp_path: Path) -> None:
    """The place of the cache is a file: calls go on without it, and what ships counts."""
    (tmp_path / "cache").write_text("in the way")
    blocked = Database(tmp_path / "cache" / "tuning")
    assert blocked.files() == []
    assert blocked.stamp() == "[]"
    blocked.refresh()
