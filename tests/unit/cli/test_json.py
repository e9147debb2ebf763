"""What commands print with `--json`: one value that any reader of JSON takes, on standard output and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.fakes.table_runner import started_by_searches
from tests.support.fakes.tuning_records import TEXT, search, trial
from tests.support.kernels import call_kernels
from tests.support.mutants.racy_programs import RACE
from tiledsl.autotune.records.database import Database, Writer
from tiledsl.cli.as_json import array_data, json_text
from tiledsl.cli.main import main, make_parser
from tiledsl.cli.parser import described

KERNELS = str(Path(call_kernels.__file__))
VECTORS = ["--spec", "f32[N]", "--spec", "f32[N]"]
SIZED = [*VECTORS, "--size", "N=40"]
TEXT_ONLY = {"new", "opt", "completion", "db"}
"""Commands that write files or text that other programs read; `db` has commands of its own."""


def told(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> Any:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    assert main([*map(str, arguments), "--json"]) == code
    return json.loads(capsys.readouterr().out, parse_constant=refuse)


def test_every_command_with_facts_has_it() -> None:
    commands = described(make_parser())
    without = {one.name for one in commands if not any("--json" in option.names for option in one.options)}
    assert without == TEXT_ONLY


def test_compile(capsys: pytest.CaptureFixture[str]) -> None:
    data = told(capsys, "compile", f"{KERNELS}:add", *VECTORS)
    assert (data["arch"], data["emit"]) == ("cpu", "tile")
    assert data["text"].startswith("func @add(")
    data = told(capsys, "compile", f"{KERNELS}:add", *VECTORS, "--arch", "sm_90", "--emit", "resources")
    assert data["resources"]["add"]["registers"] > 0


def test_emulate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = told(capsys, "emulate", f"{KERNELS}:add", *SIZED, "--seeds", "2")
    assert (data["ok"], data["arch"]) == (True, "sm_90")
    assert [(run["plan"], run["seed"], run["ok"], run["fault"]) for run in data["runs"]] == [
        (0, 0, True, None),
        (0, 1, True, None),
    ]
    file = tmp_path / "race.tir"
    file.write_text(RACE)
    data = told(capsys, "emulate", file, code=1)
    (run,) = data["runs"]
    assert (data["ok"], run["what"], run["programs"]) == (False, "@f", 1)
    assert run["error"]["place"] == f"{file}:9:5"
    assert "put a barrier" in run["error"]["fix"]


def test_verify(capsys: pytest.CaptureFixture[str]) -> None:
    data = told(capsys, "verify", f"{KERNELS}:add", *VECTORS, "--runs", "3")
    assert data == {"ok": True, "calls": 3, "refused": 0, "wrong": None}


def test_models_of_onnx(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnx")
    from tests.support.onnx_files.onnx_models import onnx_model  # it needs the package

    weights = "<float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}>"
    path = tmp_path / "model.onnx"
    made = onnx_model("(float[B, 4] x) => (float[B, 2] y)", "m = MatMul(x, w) y = Relu(m)", weights=weights)
    path.write_bytes(made.SerializeToString())
    np.save(tmp_path / "x.npy", np.array([[-3, -2, -1, 0], [1, 2, 3, 4]], np.float32))
    data = told(capsys, "run", path, "--input", tmp_path / "x.npy", "--output", tmp_path / "out")
    (output,) = data["outputs"]
    assert output == {
        "name": "y", "dtype": "float32", "shape": [2, 2], "least": 0.0, "most": 60.0,
        "file": str(tmp_path / "out" / "y.npy"),
    }  # fmt: skip
    data = told(capsys, "explain", path, "--size", "B=2", "--html", tmp_path / "page.html")
    assert data["page"] == str(tmp_path / "page.html")
    (launch,) = data["launches"]
    assert launch["origin"] is None, "of a CPU plans are chosen when it runs"
    assert (launch["reads"], len(launch["writes"])) == (["x", "w"], 1)
    assert data["moved_bytes"] == launch["read_bytes"] + launch["written_bytes"] == 4 * (8 + 8 + 4)
    assert told(capsys, "compile", path, "--emit", "graph")["text"].startswith("func @")
    assert told(capsys, "compile", path, "--size", "B=2", "--emit", "explain")["module"]["launches"] == [launch]


def test_searches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    started_by_searches(monkeypatch)
    sized = ["--spec", "f32[M,64]", "--spec", "f32[64,64]", "--size", "M=64"]
    data = told(capsys, "tune", f"{KERNELS}:gemm", *sized, "--db", tmp_path / "db", "--trials", "3")
    (found,) = data["searches"]
    assert (data["finished"], found["kernel"], found["known"]) == (True, "gemm", False)
    assert found["gain"] >= 1
    assert len(found["trials"]) >= 3


def test_databases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "db"
    with Writer(Database(folder)) as writer:
        for entry in (TEXT, trial("m=0", 0.9), trial("m=1", 0.95), trial("bad", state="wrong"), search("m=0")):
            writer.add(entry)
    (shown,) = told(capsys, "db", "show", folder)
    assert (shown["kernel"], shown["sizes"], shown["tried"], shown["failed"]) == ("gemm", {"M": 64, "N": 32}, 3, 1)
    assert shown["search"]["winner"] == "m=0"
    (best,) = told(capsys, "db", "top", folder, "--count", "1")
    assert [(plan["plan"], plan["ratio"]["median"]) for plan in best["plans"]] == [("m=0", 0.9)]
    (folder / "old.jsonl").write_bytes(b"what is this\n")
    data = told(capsys, "db", "check", folder, code=1)
    assert data == {"entries": 5, "files": 2, "skipped": [{"file": "old.jsonl", "line": 1, "fault": "damaged"}]}


def test_numbers_that_are_none_are_null() -> None:
    data = array_data("y", np.array([1, np.nan, np.inf]))
    assert json.loads(json_text([data, (float("-inf"), 1)])) == [
        {"name": "y", "dtype": "float64", "shape": [3], "least": None, "most": None},
        [None, 1],
    ]
    assert array_data("s", [1, 2]) == {"name": "s", "dtype": None, "elements": 2}
