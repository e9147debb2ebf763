"""`tiledsl new`: what it writes runs as it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tiledsl.cli.main import main


def test_all_of_it_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "row_norm", "--folder", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert f"python {tmp_path / 'row_norm.py'}" in out
    bench = subprocess.run([sys.executable, "row_norm.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    difference, times = bench.stdout.splitlines()
    assert float(difference.rpartition(" ")[2]) < 1e-5
    assert times.startswith("row_norm: ")
    command = [sys.executable, "-m", "pytest", "-q", "test_row_norm.py"]
    tests = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert tests.returncode == 0, tests.stdout
    assert "11 passed" in tests.stdout
    specs = ["--spec", "f32[M,N]", "--runs", "5"]
    assert main(["verify", f"{tmp_path / 'row_norm.py'}:row_norm", *specs]) == 0


@pytest.mark.parametrize("name", ["2d", "for", "a-b", "Norm", ""])
def test_what_is_no_name(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", name, "--folder", str(tmp_path)]) == 1
    assert f"`{name}` is no name for a kernel" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "test_norm.py").write_text("mine", encoding="utf-8")
    assert main(["new", "norm", "--folder", str(tmp_path)]) == 1
    assert "`test_norm.py` is there already" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["test_norm.py"]
    assert (tmp_path / "test_norm.py").read_text(encoding="utf-8") == "mine"
