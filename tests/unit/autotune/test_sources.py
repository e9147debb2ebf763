"""What a database says of kernels that may be one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.fakes.tuning_records import search
from tiledsl.api.programs.replay import replay
from tiledsl.autotune.records.database import Database, Writer
from tiledsl.autotune.records.record import ProgramText, Search
from tiledsl.autotune.records.shipped import Shipped, ship
from tiledsl.autotune.sources import DatabasePlans, NoPlans, PinnedPlan
from tiledsl.runtime.programs.plan_source import APART, GROUPING, TOGETHER, PlanQuestion


def found(key: str, pick: str, winner: str, device: str = "a GPU", *, finished: bool = True, when: str = "1") -> Search:
    question = PlanQuestion(GROUPING + key, "sm_90", device, ())
    return replace(search(winner, when, question), pick=pick, finished=finished)


def written(folder: Path, *entries: Search) -> Database:
    with Writer(Database(folder)) as writer:
        for entry in entries:
            writer.add(entry)
    return Database(folder)


def test_only_what_is_against_the_model_counts(tmp_path: Path) -> None:
    plans = DatabasePlans(
        written(
            tmp_path,
            found("a", TOGETHER, APART), found("b", APART, TOGETHER), found("c", APART, APART),
            found("d", APART, TOGETHER, finished=False), found("e", APART, TOGETHER, "another"), search(),
        )
    )  # fmt: skip
    assert plans.groupings("sm_90", "a GPU") == {"a": False, "b": True}
    assert plans.groupings("sm_90", "another") == {"e": True}
    assert plans.groupings("cpu", "a GPU") == {}
    assert plans.groupings("sm_90", "") == {}, "there are two, and it may be either"


def test_where_no_device_is_known_the_only_one_counts(tmp_path: Path) -> None:
    plans = DatabasePlans(written(tmp_path, found("a", TOGETHER, APART)))
    assert plans.groupings("sm_90", "") == {"a": False}


def test_the_last_search_counts_and_what_was_written_since(tmp_path: Path) -> None:
    plans = DatabasePlans(written(tmp_path, found("a", TOGETHER, APART)))
    assert plans.groupings("sm_90", "a GPU") == {"a": False}
    written(tmp_path, found("a", TOGETHER, TOGETHER, when="2"))
    plans.mark()
    assert plans.groupings("sm_90", "a GPU") == {}


def test_what_ships_counts_where_the_user_has_measured_nothing(tmp_path: Path) -> None:
    of_project = written(tmp_path / "theirs", found("a", TOGETHER, APART), found("b", APART, TOGETHER))
    _, count = ship(of_project, "a GPU", tmp_path / "shipped")
    assert count == 2
    shipped = Shipped(tmp_path / "shipped")
    assert DatabasePlans(Database(tmp_path / "none"), shipped).groupings("sm_90", "a GPU") == {"a": False, "b": True}
    own = written(tmp_path / "own", found("a", TOGETHER, TOGETHER, when="0"))
    assert DatabasePlans(own, shipped).groupings("sm_90", "a GPU") == {"b": True}
    assert DatabasePlans(own, shipped).groupings("sm_90", "another") == {}


@pytest.mark.parametrize("source", [NoPlans(), PinnedPlan("m=8", lambda reason: None)])
def test_who_has_no_database_knows_nothing(source: NoPlans | PinnedPlan) -> None:
    assert source.groupings("cpu", "a CPU") == {}
    assert source.devices("cpu") == ()
    assert source.mark() == ""


def test_a_replay_says_what_builds_do(tmp_path: Path) -> None:
    one = found("a", TOGETHER, APART)
    database = written(tmp_path, one)
    with Writer(database) as writer:
        text = "func @tie(%x: tensor<f32, [4]>) {\n  graph.return([%x])\n}\n"
        writer.add(ProgramText(one.question.program, "layer: map with contract", text))
    database.refresh()
    ((_, _, said),) = replay(database, 1.0)
    assert said == "builds make kernels apart of its ops, as long as the model has both for about as fast"
