"""What ships for a device: written from a database, taken for that device alone, and the user's own comes first."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.fakes.tuning_records import DEVICE, QUESTION, TEXT, search, trial
from tiledsl.api.calls.plan_sources import shipped_folder
from tiledsl.autotune.racing.race import WINS_BELOW
from tiledsl.autotune.records.database import Database, Writer
from tiledsl.autotune.records.record import Entry
from tiledsl.autotune.records.shipped import Shipped, file_name, ship
from tiledsl.autotune.sources import DatabasePlans
from tiledsl.runtime.programs.plan_source import Answer

OTHER = replace(DEVICE, sizes=(("M", 65),))


def database(folder: Path, *entries: Entry) -> Database:
    with Writer(Database(folder)) as writer:
        for entry in entries:
            writer.add(entry)
    return writer.database


@pytest.fixture
def shipped(tmp_path: Path) -> Shipped:
    text = replace(TEXT, program=DEVICE.program)
    measured = database(
        tmp_path / "measured",
        text,
        trial("won", question=DEVICE),
        trial("bad", state="wrong", question=DEVICE),
        search("won", question=DEVICE),
        search("m=64, 1 threads", question=OTHER),  # the model's pick stayed
        search("of a CPU", question=QUESTION),
    )
    path, count = ship(measured, "a GPU", tmp_path / "shipped")
    assert (path.name, count) == ("a-gpu.jsonl", 1)
    return Shipped(tmp_path / "shipped")


def test_the_winners_of_one_device_are_written(shipped: Shipped) -> None:
    whole = Database(shipped.folder)
    whole.refresh()
    assert list(whole.entries.searches) == [DEVICE]
    assert [one.plan for one in whole.entries.trials[DEVICE]] == ["won"]
    assert list(whole.entries.programs) == [DEVICE.program], "so that it can be replayed"


def test_it_is_taken_for_exactly_that_device(shipped: Shipped, tmp_path: Path) -> None:
    plans = DatabasePlans(Database(tmp_path / "none"), shipped)
    assert plans.plan_for(DEVICE) == Answer("won", "c" * 40)
    for question in (replace(DEVICE, device="a GPU, larger"), replace(DEVICE, device=""), OTHER, QUESTION):
        assert plans.plan_for(question) is None


def test_the_users_own_comes_first(shipped: Shipped, tmp_path: Path) -> None:
    own = database(tmp_path / "own", search("mine", question=DEVICE))
    assert DatabasePlans(own, shipped).plan_for(DEVICE) == Answer("mine", "c" * 40)
    stayed = database(tmp_path / "stayed", search("m=64, 1 threads", question=DEVICE))
    assert DatabasePlans(stayed, shipped).plan_for(DEVICE) is None, "the user has measured that the model is right"
    unfinished = database(tmp_path / "unfinished", replace(search("m=64, 1 threads", question=DEVICE), finished=False))
    assert DatabasePlans(unfinished, shipped).plan_for(DEVICE) == Answer("won", "c" * 40)


def test_without_any_file(tmp_path: Path) -> None:
    assert Shipped(tmp_path / "none").best(DEVICE) is None


def test_what_no_longer_fits_is_no_warning(shipped: Shipped, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    plans = DatabasePlans(Database(tmp_path / "none"), shipped)
    answer = plans.plan_for(DEVICE)
    assert answer is not None
    with caplog.at_level(logging.INFO, logger="tiledsl"):
        plans.refused(DEVICE, answer, "its code is another one")
    (record,) = caplog.records
    assert record.levelno == logging.INFO


def test_names_of_files() -> None:
    assert file_name("NVIDIA H200, 132 multiprocessors") == "nvidia-h200-132-multiprocessors.jsonl"


def test_what_ships_is_whole_and_has_won() -> None:
    """Each winner was right on other inputs too, and is certainly faster than the model's plan."""
    for file in sorted(shipped_folder().glob("*.jsonl")):
        read = Database(file.parent, file.name)
        read.refresh()
        assert read.skipped == []
        assert read.entries.searches, f"{file} has nothing"
        for question, (found,) in read.entries.searches.items():
            assert file_name(question.device) == file.name
            assert question.program in read.entries.programs
            assert found.finished
            assert found.winner != found.pick
            assert found.ratio is not None
            assert found.ratio.high < WINS_BELOW
            assert found.code
            (trial,) = read.entries.trials[question]
            assert (trial.plan, trial.state) == (found.winner, "ok")
            assert "random" in trial.checked
