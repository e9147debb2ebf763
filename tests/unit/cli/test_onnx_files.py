"""`tiledsl run`, `explain` and `compile` of models in ONNX's format, in process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")

from tests.support.onnx_files.onnx_models import onnx_model
from tiledsl.cli.main import main

X = np.array([[-3, -2, -1, 0], [1, 2, 3, 4]], np.float32)


@pytest.fixture
def model(tmp_path: Path) -> str:
    weights = "<float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}>"
    path = tmp_path / "model.onnx"
    made = onnx_model("(float[B, 4] x) => (float[B, 2] y)", "m = MatMul(x, w) y = Relu(m)", weights=weights)
    path.write_bytes(made.SerializeToString())
    return str(path)


def test_run(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", X)
    assert main(["run", model, "--input", str(tmp_path / "x.npy"), "--output", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out == "y: float32 [2, 2], from 0 to 60\n"
    assert np.load(tmp_path / "out" / "y.npy").shape == (2, 2)
    assert main(["run", model, "--input", f"x={tmp_path / 'x.npy'}"]) == 0


def test_inputs_that_do_not_fit(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", X)
    for inputs in ([], ["--input", f"z={tmp_path / 'x.npy'}"], ["--input", str(tmp_path / "x.npy")] * 2):
        assert main(["run", model, *inputs]) == 1
        assert "TileTypeError" in capsys.readouterr().err


def test_explain(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", model, "--size", "B=2", "--html"]) == 0
    text = capsys.readouterr().out
    page = Path(model).with_suffix(".html")
    assert f"written to {page}" in text
    assert "<html" in page.read_text(encoding="utf-8")


def test_compile(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", model, "--emit", "graph"]) == 0
    assert "graph.contract" in capsys.readouterr().out
    assert main(["compile", model, "--shape", "x=8,4"]) == 0
    assert "tile.store" in capsys.readouterr().out
    assert main(["compile", model, "--size", "B=8", "--arch", "sm_90", "--emit", "explain"]) == 0
    assert "sm_90" in capsys.readouterr().out
    assert main(["compile", model, "--emit", "asm"]) == 1
