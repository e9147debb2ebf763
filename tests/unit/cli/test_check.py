"""`tiledsl check`, in process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.kernels import call_kernels
from tiledsl.cli.main import main

FILE = Path(call_kernels.__file__)


def test_a_sound_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["check", f"{FILE}:gemm", "--spec", "f32[M,24]", "--spec", "f32[24,20]", "--size", "M=30"]
    assert main(arguments) == 0
    assert capsys.readouterr().out == "nothing wrong was found\n"


def test_constants(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", f"{FILE}:power", "--spec", "f32[9]", "--constexpr", "exponent=3", "--seed", "4"]) == 0
    assert capsys.readouterr().out == "nothing wrong was found\n"


def test_what_is_found(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "racy.py"
    file.write_text("""
from tiledsl import tile


@tile.kernel
def scatter(x):
    N = x.shape[0]
    y = tile.zeros(N, x.dtype)
    for n in tile.grid(N):
        y[(x[n] * 0).to(tile.i64)] = x[n]
    return y


@tile.kernel
def refused(x):
    for n in tile.grid(x.shape[0]):
        x[n] = x[n + 1]
""")
    assert main(["check", f"{file}:scatter", "--spec", "f32[9]"]) == 1
    out = capsys.readouterr().out
    assert "TileRaceError: race: one store of program (n = 0:3) has several values for element [0] of `y`" in out
    assert main(["check", f"{file}:scatter", "--spec", "f32[9]", "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert (data["ok"], data["errors"][0]["kind"]) == (False, "TileRaceError")
    assert data["errors"][0]["place"].startswith(f"{file}:10:")
    assert main(["check", f"{file}:refused", "--spec", "f32[9]"]) == 1
    assert "other programs along `n` store to" in capsys.readouterr().err


def test_a_graph_as_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "models.py"
    file.write_text(
        "import tiledsl\nfrom tiledsl import tile\n"
        "graph = tiledsl.trace(lambda x: x * 2 + 1, tile.spec(('B', 8), tile.f32))\n"
    )
    assert main(["check", f"{file}:graph", "--size", "B=2", "--json"]) == 0
    (data,) = json.loads(capsys.readouterr().out)
    assert (data["ok"], data["launches"], data["launch_at_fault"]) == (True, 1, None)
    assert [(result["wrong"], result["elements"]) for result in data["results"]] == [(0, 16)]
