"""Whole databases: merged, exported, pruned, compacted; and what an interruption leaves."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.fakes.tuning_records import DEVICE, QUESTION, TEXT, search, trial
from tiledsl.autotune.records.database import Database, Writer
from tiledsl.autotune.records.lines import line_of
from tiledsl.autotune.records.record import Entry
from tiledsl.autotune.records.upkeep import compact, every_entry, export, merge, prune, top
from tiledsl.support.errors import TileRuntimeError


def filled(folder: Path, *entries: Entry) -> Database:
    with Writer(Database(folder)) as writer:
        for entry in entries:
            writer.add(entry)
    return Database(folder)


def lines(folder: Path) -> set[bytes]:
    database = Database(folder)
    database.refresh()
    return {line_of(entry) for entry in every_entry(database)}


def test_merging_takes_what_is_new(tmp_path: Path) -> None:
    ours = filled(tmp_path / "a", TEXT, trial())
    theirs = filled(tmp_path / "b", TEXT, trial(), trial("m=16"), search())
    assert merge(ours, [theirs]) == 2
    assert lines(tmp_path / "a") == lines(tmp_path / "b")
    assert merge(Database(tmp_path / "a"), [theirs]) == 0


def test_an_export_is_a_database(tmp_path: Path) -> None:
    database = filled(tmp_path / "a", TEXT, trial(), search())
    assert export(database, tmp_path / "out" / "all.jsonl") == 3
    assert lines(tmp_path / "out") == lines(tmp_path / "a")


def test_the_best_plans_each_once(tmp_path: Path) -> None:
    trials = [trial("a", 0.95), trial("b", 0.8), trial("a", 0.7), trial("c", 0.9), trial("d", state="wrong")]
    assert [(t.plan, t.ratio.median if t.ratio else None) for t in top(trials, 2)] == [("a", 0.7), ("b", 0.8)]


def test_pruning_keeps_the_best_the_winner_and_what_failed(tmp_path: Path) -> None:
    failed = trial("hangs", state="timeout")
    entries = [TEXT, *(trial(f"m={n}", 0.9 + n / 100) for n in range(9)), failed, search("m=7"), search("m=7", "2027")]
    database = filled(tmp_path, *entries)
    (tmp_path / "bad.jsonl").write_bytes(b"what is this\n")
    assert prune(database, 2) == 6
    assert lines(tmp_path) == {
        line_of(entry)
        for entry in (TEXT, trial("m=0", 0.9), trial("m=1", 0.91), trial("m=7", 0.97), failed, search("m=7", "2027"))
    }
    assert len(list(tmp_path.iterdir())) == 1


def test_compaction_leaves_one_file_with_all(tmp_path: Path) -> None:
    for number in range(3):
        filled(tmp_path, trial(f"m={number}"), trial(question=DEVICE))
    before = lines(tmp_path)
    assert compact(Database(tmp_path)) == 4
    assert lines(tmp_path) == before
    assert len(list(tmp_path.iterdir())) == 1


def test_what_is_being_written_stays(tmp_path: Path) -> None:
    with Writer(Database(tmp_path)) as writer:
        writer.add(trial("m=1"))
        assert compact(Database(tmp_path)) == 1
        writer.add(trial("m=2"))
    database = Database(tmp_path)
    database.refresh()
    assert [t.plan for t in database.entries.trials[QUESTION]] == ["m=1", "m=2"]


@pytest.mark.parametrize("act", ["replace", "fsync"])
def test_an_interrupted_compaction_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: str) -> None:
    database = filled(tmp_path, trial(), search())
    before = lines(tmp_path)

    def interrupted(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, act, interrupted)
    with pytest.raises(TileRuntimeError, match="cannot be written: No space left"):
        compact(database)
    monkeypatch.undo()
    assert lines(tmp_path) == before
    assert [path.suffix for path in tmp_path.iterdir()] == [".jsonl"]


def test_who_is_killed_between_renaming_and_removing_leaves_entries_twice(tmp_path: Path) -> None:
    database = filled(tmp_path, trial(), search())
    (kept,) = tmp_path.iterdir()
    data = kept.read_bytes()
    compact(database)
    kept.write_bytes(data)
    assert len(lines(tmp_path)) == 2
    again = Database(tmp_path)
    again.refresh()
    assert len(again.entries.trials[QUESTION]) == 1
