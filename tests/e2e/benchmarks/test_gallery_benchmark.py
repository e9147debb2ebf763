"""`python -m benchmarks.gallery`: what its peers compute, and that what fails is a row. No test looks at a time."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import gallery
from benchmarks.gallery import BAR, Row, error_of, last_row, main, on_cpu, on_gpu, row_line, table
from benchmarks.gallery_peers import FORMULAS, peer_of
from benchmarks.gpu.timing import State
from beside_torch import as_tensors, on_host
from examples.gallery.__main__ import NAMES, entry_of


class Ticks:
    """A clock by which calls take a millisecond each."""

    def time(self, call: Callable[[], object], calls: int, *, state: State = "clean") -> list[float]:
        call()
        return [1e-3] * calls


def rows_of(name: str, torch: Any) -> list[Row]:
    entry, said = entry_of(name), list[Row]()
    on_gpu(name, entry, entry.small, said.append, torch, Ticks(), lambda one: one)
    return said


def test_every_kernel_has_a_peer() -> None:
    assert [name for name in NAMES if peer_of(name) is None] == []
    assert {*FORMULAS} <= {*NAMES}


@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_formulas_are_the_same(name: str) -> None:
    torch: Any = pytest.importorskip("torch")
    entry = entry_of(name)
    arguments = entry.arguments(entry.small)
    made = on_host(FORMULAS[name](torch, *as_tensors(torch, arguments)))
    assert error_of(made, entry.numpys(*arguments)) <= max(entry.tolerance, 1e-5)


def test_a_kernel_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beside_numpy.REST", 0.0)
    entry, said = entry_of("rotary"), list[Row]()
    on_cpu("rotary", entry, entry.small, said.append)
    first, last = said
    assert (first.ours, first.trouble, first.error) == (None, "", 0)
    assert last.best == "NumPy"
    assert last.ratio
    said.clear()
    on_cpu("rotary", replace(entry, numpys=lambda *given: 1 + entry.numpys(*given)), entry.small, said.append)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    (only,) = said
    assert only.trouble.startswith("wrong: an error of")
    assert only.ours is None


def test_beside_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    torch: Any = pytest.importorskip("torch")
    monkeypatch.setattr(torch, "compile", lambda call, dynamic: call)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    checked, timed, eager, both = rows_of("rotary", torch)
    assert (checked.ours, timed.ours, [*timed.peers]) == (None, 1e-3, [])
    assert ([*eager.peers], [*both.peers]) == (["eager"], ["eager", "compile"])
    assert both.ratio == 1
    assert [*rows_of("selective_scan", torch)[-1].peers] == ["eager"], "a loop that takes minutes to compile is not"


def test_a_peer_that_fails_or_is_wrong_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    torch: Any = pytest.importorskip("torch")

    def refused(call: Any, dynamic: bool) -> Any:
        raise RuntimeError("no compiler\nfor C++")

    monkeypatch.setattr(torch, "compile", refused)
    last = rows_of("rotary", torch)[-1]
    assert ([*last.peers], last.troubles) == (["eager"], {"compile": "RuntimeError: no compiler"})
    monkeypatch.setitem(FORMULAS, "rotary", lambda torch, x, cos, sin: -x)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    last = rows_of("rotary", torch)[-1]
    assert last.ours == 1e-3
    assert last.ratio is None
    assert last.troubles["eager"].startswith("wrong: an error of")


def test_errors_of_whole_numbers_are_shares() -> None:
    one = np.array([1, 2, 3, 4])
    assert error_of(np.array([1, 2, 3, 9]), one) == 0.25
    assert error_of((one, np.array([1.0, 2.0])), (one, np.array([1.0, 4.0]))) == 0.5
    assert error_of(np.array([np.nan, 1.0]), np.array([1.0, 1.0])) == float("inf")
    assert error_of((np.zeros(2), np.array([np.nan])), (np.zeros(2), np.ones(1))) == float("inf")
    assert error_of(one[:2], one) == float("inf")


def test_the_table() -> None:
    fast = Row("fast", 8, 0.0, 1e-3, {"eager": 3e-3, "compile": 2e-3})
    slow = Row("slow", 8, 0.0, 1e-3, {"eager": 0.5e-3}, {"compile": "no compiler"})
    text = table([fast, slow, Row("broken", trouble="it crashed")], "cuda")
    _, _, first, second, third, last = text.splitlines()
    assert first.split() == ["fast", "8", "0.0e+00", "1.0000", "compile", "2.0000", "2.00"]
    assert second.endswith(f"0.50   below {BAR}; compile: no compiler")
    assert third.split() == ["broken", "it", "crashed"]
    assert last == "1 of 2 kernels reach 0.9 of the best peer's speed; 1 of 3 could not be compared"


def test_rows_are_read_back() -> None:
    row = Row("fast", 8, 0.0, 1e-3, {"eager": 3e-3}, {"compile": "no"})
    assert last_row(["a warning", row_line(Row("fast")), row_line(row), row_line(row)[:-3]], Row("none")) == row
    assert last_row(["1", "[]"], Row("none")) == Row("none")


@pytest.mark.parametrize(
    ("told", "code", "error", "expected"),
    [
        ([Row("rotary", 8, 0.0)], -11, "", "ended with status -11"),
        (
            [],
            1,
            "a.py:3: TileRuntimeError: out of memory\n  fix: ask for less",
            "a.py:3: TileRuntimeError: out of memory",
        ),
    ],
)
def test_a_process_that_ends_is_a_row(
    told: list[Row], code: int, error: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = "\n".join(map(row_line, told))
    ended = subprocess.CompletedProcess([], code, output, error)
    monkeypatch.setattr(subprocess, "run", lambda *args, **named: ended)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    assert gallery.run_apart("rotary", "cuda", None, 5).trouble == expected


def test_a_process_that_hangs_leaves_what_it_told(monkeypatch: pytest.MonkeyPatch) -> None:
    known = Row("rotary", 8, 0.0, 1e-3, {"eager": 2e-3})

    def late(*args: object, **named: object) -> None:
        raise subprocess.TimeoutExpired("", 5, output=row_line(known).encode())

    monkeypatch.setattr(subprocess, "run", late)
    row = gallery.run_apart("rotary", "cuda", None, 5)
    assert (row.trouble, row.ratio, row.troubles) == ("", 2, {"then": "not done after 5 s"})


def test_it_is_run(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.gallery", "rotary", "top_k", "--size", "20"]
    done = subprocess.run([*command, "--json", str(tmp_path / "rows")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "the gallery on cpu"
    kept = [json.loads(line)["name"] for line in (tmp_path / "rows").read_text(encoding="utf-8").splitlines()]
    assert kept == ["rotary", "top_k"]


def test_without_a_gpu_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    if not importlib.import_module("benchmarks.gpu.device").missing():
        pytest.skip("there is a GPU")
    assert main(["--device", "cuda"]) == 1
    assert "no CUDA device" in capsys.readouterr().err
