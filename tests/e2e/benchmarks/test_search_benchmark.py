"""The benchmark of searches without a machine that anyone measures: its tables, its rows, and what it writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiledsl
from benchmarks.gpu.timing import State
from benchmarks.search import gains, landscape
from benchmarks.search.__main__ import main
from tests.support.fakes.tuning_records import DEVICE, search
from tiledsl import tile
from tiledsl.autotune.records.database import Database, Writer


def test_the_table_of_the_landscape() -> None:
    head, row = landscape.table([(128, 128, 128)], machines=2)
    assert head == (
        "product",
        "random",
        "random, half",
        "bred, half",
        "bred",
        "without residual",
        "others known",
        "others, half",
    )
    assert row[0] == "128x128x128"
    assert all(float(cell) >= 1 for cell in row[1:]), "the model's pick is the first trial"


class Counting:
    """A clock by which tuned calls take 1 us, and untuned ones 2 or 3."""

    def __init__(self) -> None:
        self.turns: list[str] = []

    def time(self, call: Callable[[], Any], calls: int, *, state: State = "clean") -> list[float]:
        call()
        name = ("untuned", "tuned", "again")[len(self.turns) // 2 % 3] if len(self.turns) < 6 else ""
        self.turns.append(name)
        number = len(self.turns) - 1
        at = number // 2 if number < 6 else (number - 6) % 3
        return [(2e-6, 1e-6, 2.5e-6)[at]] * calls


def rows() -> list[gains.Row]:
    return list(gains.rows_of([], [f"{__file__}:sums"], "cpu"))


def _sum_of_rows(x: Any) -> Any:
    return tile.sum(x, axis=-1)


def sums() -> tuple[Any, list[Any]]:
    """A model, as `--models` names it."""
    graph = tiledsl.trace(_sum_of_rows, tile.spec((8, 32), tile.f32))
    return graph, [np.ones((8, 32), np.float32)]


def test_ratios_of_tuned_and_untuned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEDSL_TUNING", str(tmp_path))
    tmp_path.joinpath("db").mkdir()
    found = gains.measure(rows(), "cpu", tmp_path / "db", Counting())
    assert list(found.values()) == [2.0]
    out = capsys.readouterr().out.splitlines()
    assert out[0].split() == ["us", "untuned", "tuned", "ratio", "noise"]
    assert out[1].split()[-4:] == ["2.00", "1.00", "2.000", "0.800"]
    assert out[2].startswith("geometric mean 2.000; least 2.000: ")


def test_results_that_differ_are_no_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="tuned and untuned results differ in 1 of 2 elements"):
        gains._must_agree("x", np.ones(2), np.array([1.0, 2.0]))  # pyright: ignore[reportPrivateUsage]


def test_rows_of_the_zoo_on_a_cpu_have_sizes_for_it() -> None:
    (row,) = gains.rows_of(["norms: softmax, columns"], [], "cpu")
    assert sum(array.nbytes for array in row.arguments()) <= 32 << 20
    assert {array.dtype for array in row.arguments()} == {np.dtype(np.float32)}


def test_rows_are_tuned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gains.tune(rows(), "cpu", tmp_path, 30, 2)
    out = capsys.readouterr().out
    assert ": start " in out
    database = Database(tmp_path)
    database.refresh()
    assert len(database.entries.searches) == 1


def test_what_ships_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Writer(Database(tmp_path / "db")) as writer:
        writer.add(search("won", question=DEVICE))
        writer.add(search("of a CPU"))
    assert main(["ship", "--db", str(tmp_path / "db"), "--to", str(tmp_path / "to")]) == 0
    assert capsys.readouterr().out.startswith("1 winners on a GPU are in ")
    assert [path.name for path in (tmp_path / "to").iterdir()] == ["a-gpu.jsonl"]
    assert main(["ship", "--db", str(tmp_path / "none"), "--to", str(tmp_path / "to")]) == 1


def test_no_such_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "--db", str(tmp_path), "--rows", "no such row"]) == 1
    assert capsys.readouterr().out == "no row has such a name\n"


def test_what_ships_is_confirmed_apart_from_the_search(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A row whose searches won nothing is not measured again, nor one that is slower then copied."""
    (row,) = rows()
    folder, into = gains.folder_of(tmp_path, row), tmp_path / "confirmed"
    assert gains.confirmed([row], "cpu", tmp_path, into, Counting()) == 0
    with Writer(Database(folder)) as writer:
        writer.add(search("m=64, 1 threads"))
    assert gains.confirmed([row], "cpu", tmp_path, into, Counting()) == 0, "the model's pick stayed"
    with Writer(Database(folder)) as writer:
        writer.add(search("m=8, 1 threads", "2027-01-01"))
    assert gains.confirmed([row], "cpu", tmp_path, into, Slower()) == 0
    assert not into.exists()
    assert gains.confirmed([row], "cpu", tmp_path, into, Counting()) == 1
    kept = Database(into)
    kept.refresh()
    ((_, found),) = kept.entries.searches.items()
    assert {one.winner for one in found} == {"m=64, 1 threads", "m=8, 1 threads"}
    assert "2.000   0.800 confirmed" in capsys.readouterr().out


def test_a_gain_within_noise_is_not_confirmed() -> None:
    assert gains.Measured(1.03, 1.0, 1.01).is_confirmed
    assert not gains.Measured(1.03, 1.0, 1.02).is_confirmed
    assert not gains.Measured(1.03, 1.0, 0.98).is_confirmed
    assert not gains.Measured(1.005, 1.0, 1.0).is_confirmed


class Slower(Counting):
    """A clock by which tuned calls take as long as untuned ones."""

    def time(self, call: Callable[[], Any], calls: int, *, state: State = "clean") -> list[float]:
        call()
        return [1e-6] * calls


def test_rows_that_there_is_no_time_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gains.tune_apart(rows(), "cpu", tmp_path, 1.0, 1, 0.0)
    assert "there was no time left for it" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
