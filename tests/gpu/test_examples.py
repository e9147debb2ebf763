"""Every example on the device against the reference, at odd and even sizes; and with arrays of every framework."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.compare import assert_close
from tests.support.gpu_cases.gpu_cases import Case
from tests.support.gpu_cases.gpu_example_cases import EXAMPLE_CASES
from tests.support.gpu_cases.run_on_gpu import check
from tests.support.gpu_code.cuda_arrays import Framework, framework
from vector_add import vector_add

ROOT = Path(__file__).resolve().parents[2]
FOUND_IN = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
"""Where a process of its own looks for tiledsl, which need not be installed."""
SCRIPTS = ["attention", "gemm", "layer_norm", "rms_norm", "softmax", "sums", "swiglu", "transpose", "vector_add"]


@pytest.mark.parametrize("case", EXAMPLE_CASES, ids=str)
def test_example(case: Case, cuda: Framework) -> None:
    check(case, cuda)


@pytest.mark.parametrize("name", ["torch", "cupy"])
def test_outputs_are_of_the_framework_of_the_inputs(name: str) -> None:
    found = framework(name)
    if isinstance(found, str):
        pytest.skip(found)
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    mine, other = found.put(x), found.put(y)
    z = vector_add(mine, other)
    assert type(z) is type(mine)
    assert_close(found.take(z), x + y)
    assert vector_add(z, other, out=mine) is mine
    assert_close(found.take(mine), x + 2)


@pytest.mark.parametrize("name", SCRIPTS)
def test_script(name: str) -> None:
    found = framework("torch")
    if isinstance(found, str):
        pytest.skip(found)
    command = [sys.executable, f"examples/{name}.py", "--size", "256", "--device", "cuda"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": FOUND_IN}
    )
    assert done.returncode == 0, done.stderr
    assert "x PyTorch's speed" in done.stdout
