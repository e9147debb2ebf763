"""`tiledsl audit` of a kernel and of whole files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tiledsl.cli.main import main

MODELS = """
import tiledsl
from tiledsl import tile
from tiledsl.ops import softmax


@tile.kernel
def doubled(x):
    return x * 2


@tile.kernel
def row_sums(x, w):
    M, N = x.shape
    y = tile.empty(M, tile.f32)
    for m in tile.grid(M):
        y[m] = tile.sum(x[m, :] * w[:], axis=1)
    return y


again = doubled
graph = tiledsl.trace(lambda x, w: x @ w, tile.spec((64, 100000), tile.f16), tile.spec((100000, 64), tile.f16))
module = tiledsl.fuse(tiledsl.trace(lambda x: x + 1, tile.spec((4096, 4096), tile.f16))).build()
"""


@pytest.fixture
def models(tmp_path: Path) -> str:
    file = tmp_path / "models.py"
    file.write_text(MODELS, encoding="utf-8")
    return str(file)


def test_a_whole_file_worst_first(models: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", models, "--spec", "f16[2048,4096]"]) == 0
    summary, *audits = capsys.readouterr().out.strip().split("\n\n")
    _, head, *rows = summary.splitlines()
    assert head.split() == ["what", "kernels", "predicted", "floor", "ratio", "lost"]
    assert [row.split()[0] for row in rows[:3]] == ["graph", "module", "doubled"]
    assert rows[3:] == ["  left out: row_sums: `row_sums` was called without `w`"]
    assert [audit.split(", predicted")[0] for audit in audits] == ["graph", "module: graph", "doubled"]


def test_kernels_may_have_arguments_of_their_own(models: str, capsys: pytest.CaptureFixture[str]) -> None:
    own = ["--spec", "row_sums:f16[8192,4096]", "--spec", "row_sums:f16[4096]"]
    assert main(["audit", models, "--spec", "f16[64,64]", *own]) == 0
    out = capsys.readouterr().out
    assert "left out" not in out
    assert "row_sums, predicted for sm_90" in out
    assert main(["audit", models, "--spec", "row_sum:f16[8192,4096]"]) == 1
    assert "has no kernel `row_sum`" in capsys.readouterr().err


def test_a_file_with_nothing_to_audit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "numbers_only.py"
    file.write_text("x = 1\n", encoding="utf-8")
    assert main(["audit", str(file)]) == 1
    assert "can be audited: it has no kernel, formula, graph or module" in capsys.readouterr().err
    file.write_text(MODELS.split("again =")[0], encoding="utf-8")
    assert main(["audit", str(file)]) == 1
    error = capsys.readouterr().err
    assert "`doubled`: `doubled` was called without `x`; `row_sums`: `row_sums` was called without `x`" in error
    assert '`--spec "doubled:f16[4096,4096]"` for one alone' in error


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "models.py"
    file.write_text(MODELS)
    assert main(["audit", f"{file}:doubled", "--spec", "f32[4096,4096]", "--json"]) == 0
    one = json.loads(capsys.readouterr().out)
    assert (one["name"], one["arch"]) == ("doubled", "sm_90")
    assert one["must_bytes"] == 2 * 4 * 4096**2
    assert 0 < one["floor"] <= one["predicted"]
    assert one["kernels"][0]["runs"] == 1
    assert main(["audit", str(file), "--spec", "f32[4096,4096]", "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    assert whole["audits"]["doubled"] == one
    assert "row_sums" in whole["left_out"]
