"""`tiledsl bench`, and `tiledsl check` of models, in process. Times are whatever they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tiledsl.cli.bench_runs import FEWEST, Runner, Timed, timed
from tiledsl.cli.main import main

MODELS = """
import numpy as np
import tiledsl
from tiledsl import tile

W = np.ones((8, 8), np.float32) / 8


@tile.kernel
def layer(x, w, scale: float):
    return tile.softmax(x @ w * scale, axis=-1)


@tile.kernel
def doubled(x):
    y = tile.empty(x.shape[0], x.dtype)
    for n in tile.grid(x.shape[0]):
        y[n] = x[n] * 2
    return y


graph = tiledsl.trace(lambda x: tile.softmax(x @ W, axis=-1), tile.spec(("B", 8), tile.f32))
fused = tiledsl.fuse(graph)
built = fused.build("cpu")
"""
TORCH = """
import torch

net = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU())
"""


@pytest.fixture
def models(tmp_path: Path) -> str:
    file = tmp_path / "models.py"
    file.write_text(MODELS, encoding="utf-8")
    return str(file)


def rows(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[list[str]]:
    assert main(["bench", *arguments, "--seconds", "0"]) == 0
    _, head, *lines = capsys.readouterr().out.splitlines()
    assert head.split("  ")[1:3] == ["batch", "dtype"]
    return [line.split() for line in lines]


def test_a_row_for_each_batch_and_dtype(models: str, capsys: pytest.CaptureFixture[str]) -> None:
    specs = ["--spec", "f32[B,8]", "--spec", "f32[8,8]", "--spec", "0.5"]
    found = rows(capsys, f"{models}:layer", *specs, "--batch", "1", "8", "--dtype", "f32", "f16")
    assert [row[:3] for row in found] == [[b, d, "tiledsl"] for b in ("1", "8") for d in ("f32", "f16")]
    assert all(row[-2:] == ["1", "-"] for row in found), "kernels, and no floor on a CPU"


def test_json(models: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", f"{models}:graph", "--batch", "1", "16", "--seconds", "0", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["device"], data["failed"]) == ("cpu", [])
    assert [(row["batch"], row["run_by"]) for row in data["timed"]] == [(1, "tiledsl"), (16, "tiledsl")]
    assert all(row["median"] <= row["slow"] for row in data["timed"])


@pytest.mark.parametrize("name", ["graph", "fused", "built"])
def test_graphs(models: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = rows(capsys, f"{models}:{name}", "--batch", "1", "16")
    assert [row[0] for row in found] == ["1", "16"]
    assert all("256 B" in " ".join(row) or "KiB" in " ".join(row) for row in found)


def test_a_kernel_in_tile_form(models: str, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = rows(capsys, f"{models}:doubled", "--spec", "f32[N]", "--batch", "7")
    assert row[:2] == ["7", "tiledsl"]


def test_a_saved_module(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    exec(MODELS.replace("@tile.kernel", "@staticmethod"), names)
    names["fused"].build("cpu", B=4).save(tmp_path / "model.tile")
    (row,) = rows(capsys, str(tmp_path / "model.tile"))
    assert row[0] == "tiledsl"
    assert main(["bench", str(tmp_path / "model.tile"), "--batch", "2"]) == 1
    assert "is a saved module" in capsys.readouterr().err
    assert main(["check", str(tmp_path / "model.tile")]) == 1
    assert "but no formula that its results could be compared with" in capsys.readouterr().err


def test_models_of_pytorch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    file = tmp_path / "nets.py"
    file.write_text(TORCH, encoding="utf-8")
    given = [f"{file}:net", "--spec", "f32[B,8]"]
    found = rows(capsys, *given, "--batch", "3", "--against", "eager")
    assert [row[1] for row in found] == ["tiledsl", "eager"]
    assert main(["check", *given, "--size", "B=3"]) == 0
    out = capsys.readouterr().out
    assert "1 launch, beside the reference" in out
    assert "1 launch, beside PyTorch" in out
    assert main(["check", f"{file}:net"]) == 1
    assert "does not say what it is called with" in capsys.readouterr().err
    assert main(["bench", *given, "--against", "onnxruntime", "--batch", "2"]) == 1
    assert "cannot be run by `onnxruntime`: it is no file of ONNX" in capsys.readouterr().err


def test_models_of_onnx(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx: Any = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    node = helper.make_node("Softmax", ["x"], ["y"], axis=-1)
    x, y = (helper.make_tensor_value_info(name, kind, ["N", 8]) for name in "xy")
    model = helper.make_model(helper.make_graph([node], "small", [x], [y]), opset_imports=[helper.make_opsetid("", 17)])
    file = str(tmp_path / "small.onnx")
    onnx.save(model, file)
    assert main(["check", file, "--size", "N=5"]) == 0
    assert "nothing differs" in capsys.readouterr().out
    (row,) = rows(capsys, file, "--batch", "4")
    assert row[:2] == ["4", "tiledsl"]


def test_a_model_that_is_right(models: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", f"{models}:graph", "--size", "B=5"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "nothing differs"
    assert main(["check", f"{models}:nothing"]) == 1
    assert "name one of those that it has: `layer`, `doubled`, `graph`, `fused`, `built`" in capsys.readouterr().err


def test_calls_are_timed_until_the_time_is_over() -> None:
    now = [0.0]

    def run() -> None:
        now[0] += 0.25

    runner = Runner(run, lambda: ("1 B", "2", 0.05))
    found = timed(lambda: runner, 2.0, lambda: now[0])
    assert found == Timed(0.25, 0.25, 8, "1 B", "2", "20%")
    assert isinstance(found := timed(lambda: runner, 0.0, lambda: now[0]), Timed)
    assert found.calls == FEWEST


def test_what_fails_in_another_library_is_told() -> None:
    def prepare() -> Runner:
        raise ImportError("no compiler\nfor C++")

    assert timed(prepare, 0.0) == "ImportError: no compiler"


def test_batches_need_a_size(models: str, capsys: pytest.CaptureFixture[str]) -> None:
    two = ["--spec", "f32[M,K]", "--spec", "f32[K,8]", "--spec", "1.0"]
    assert main(["bench", f"{models}:layer", *two, "--batch", "2"]) == 1
    assert "the sizes of" in capsys.readouterr().err
    assert main(["bench", f"{models}:layer", *two, "--batch", "2", "--size", "K=8", "--seconds", "0"]) == 0
