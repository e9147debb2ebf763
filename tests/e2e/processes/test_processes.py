"""Two processes on one artifact cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import sys
import numpy as np
from tests.support.kernels.call_kernels import gemm

a, b = np.ones((20, 30), np.float32), np.ones((30, 40), np.float32)
assert (gemm(a, b) == 30).all()
loaded = ["tiledsl.backend_cpu.compile" in sys.modules, "tiledsl.frontend.kernel.lower" in sys.modules]
print(gemm.recompiles[0].from_disk, *loaded)
"""


def start(cache: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "TILEDSL_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment, text=True, **pipes)


def finished(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out.split("\n")[0]


def test_the_second_process_runs_no_front_end(tmp_path: Path) -> None:
    assert finished(start(tmp_path)).startswith("False")
    assert finished(start(tmp_path)) == "True False False"


def test_processes_at_the_same_time(tmp_path: Path) -> None:
    for process in [start(tmp_path) for _ in range(3)]:
        assert finished(process).split()[0] in ("True", "False")
    assert finished(start(tmp_path)).startswith("True")
    assert [file.name for file in tmp_path.rglob(".new-*")] == []


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    process = start(blocked)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0
    assert out.startswith("False")
    assert err.count("going on without it") == 1


@pytest.mark.parametrize("damage", [b"", b"nonsense"])
def test_a_damaged_cache(tmp_path: Path, damage: bytes) -> None:
    assert finished(start(tmp_path)).startswith("False")
    for file in tmp_path.rglob("*"):
        if file.is_file():
            file.write_bytes(damage)
    assert finished(start(tmp_path)).startswith("False")
    assert finished(start(tmp_path)).startswith("True")
