"""`tiledsl profile`, in process. Times are whatever they are."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.unit.cli.test_bench import MODELS
from tiledsl.cli.gpu_state import clocks, counters
from tiledsl.cli.main import main


@pytest.fixture
def models(tmp_path: Path) -> str:
    file = tmp_path / "models.py"
    file.write_text(MODELS, encoding="utf-8")
    return str(file)


LAYER = ["--spec", "f32[32,8]", "--spec", "f32[8,8]", "--spec", "0.5"]


@pytest.mark.parametrize(
    ("name", "arguments", "kernel"),
    [
        ("doubled", ["--spec", "f32[N]", "--size", "N=100"], "doubled"),
        ("layer", LAYER, "layer"),
        ("graph", ["--size", "B=16"], "graph"),
        ("built", ["--size", "B=16"], "graph"),
    ],
)
def test_what_is_timed(
    models: str, name: str, arguments: list[str], kernel: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", f"{models}:{name}", *arguments, "--seconds", "0"]) == 0
    _, head, row, *_ = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["kernel", "runs", "time"]
    assert row.split()[0].startswith(kernel)
    assert main(["profile", f"{models}:{name}", *arguments, "--seconds", "0", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["arch"] == "cpu"
    assert data["seconds"] == pytest.approx(sum(one["runs"] * one["seconds"] for one in data["kernels"]))
    assert {one["limit"] for one in data["kernels"]} <= {"launch", "memory", "products"}


def test_models_of_onnx(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnx")
    from tests.support.onnx_files.onnx_models import onnx_model  # it needs the package

    path = tmp_path / "model.onnx"
    path.write_bytes(onnx_model("(float[B, 4] x) => (float[B, 4] y)", "y = Softmax(x)").SerializeToString())
    assert main(["profile", str(path), "--size", "B=3", "--seconds", "0"]) == 0
    assert "launch" in capsys.readouterr().out
    assert main(["profile", str(path), "--seconds", "0"]) == 1
    assert "leaves open how much `B` is" in capsys.readouterr().err


def test_models_of_pytorch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    file = tmp_path / "nets.py"
    file.write_text("import torch\n\nnet = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU())\n")
    assert main(["profile", f"{file}:net", "--spec", "f32[3,8]", "--seconds", "0"]) == 0
    assert "limit" in capsys.readouterr().out


def test_without_a_gpu_it_says_what_to_do(models: str, capsys: pytest.CaptureFixture[str]) -> None:
    from tiledsl.cli.commands.doctor import examined

    if any(finding.subject == "GPU 0" for finding in examined()):
        pytest.skip("there is a GPU")
    assert main(["profile", f"{models}:graph", "--size", "B=16", "--device", "cuda"]) == 1
    error = capsys.readouterr().err
    assert "there is no GPU here whose kernels could be timed" in error
    assert "`tiledsl audit` says without a GPU" in error


def test_a_saved_module_is_for_one_place(
    models: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import tiledsl
    from tiledsl import tile

    file = str(tmp_path / "model.tile")
    graph = tiledsl.trace(tile.relu, tile.spec((8, 8), tile.f32))
    tiledsl.fuse(graph).build("cpu").save(file)
    assert main(["profile", file, "--seconds", "0"]) == 0
    assert "floors are those of its bytes alone" in " ".join(capsys.readouterr().out.split())
    monkeypatch.setattr("tiledsl.cli.commands.profile.device_arch", lambda: "sm_90")
    assert main(["profile", file, "--device", "cuda"]) == 1
    assert "was built for `cpu`, and cannot be timed on `cuda`" in capsys.readouterr().err


def test_clocks_are_told_where_they_are_known() -> None:
    asked: list[Sequence[str]] = []

    def ask(command: Sequence[str]) -> str:
        asked.append(command)
        return "1755 MHz, 1980 MHz, 2619 MHz, 41, 301.20 W"

    assert clocks(1, ask) == (
        "clocks after the last launch: 1755 MHz of at most 1980 MHz, memory 2619 MHz; 41 degrees, 301.20 W"
    )
    assert asked[0][-1] == "--id=1"

    def absent(command: Sequence[str]) -> str:
        raise FileNotFoundError(command[0])

    def failing(command: Sequence[str]) -> str:
        raise subprocess.CalledProcessError(9, list(command))

    def strange(command: Sequence[str]) -> str:
        return "what is this"

    for other in (absent, failing, strange):
        assert clocks(0, other).startswith("clocks are not known")


def test_whether_counters_are_permitted_is_told(tmp_path: Path) -> None:
    file = tmp_path / "params"
    assert "not known here" in counters(file)
    file.write_text("ModifyDeviceFiles: 1\nRmProfilingAdminOnly: 1\n")
    assert "not permitted here" in counters(file)
    file.write_text("ModifyDeviceFiles: 1\nRmProfilingAdminOnly: 0\n")
    assert "`ncu`" in counters(file)
