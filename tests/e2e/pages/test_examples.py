"""The examples as a user runs them, at small sizes; and that they notice a wrong result."""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from beside_numpy import check_and_time, compare, largest_error, least_times, median_times, relative_error
from beside_torch import time_on_cpu

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = [
    "attention", "gemm", "layer_norm", "rms_norm", "softmax", "sums", "swiglu", "transpose", "vector_add",
]  # fmt: skip

NO_GPU: Any = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False))


def test_no_example_is_forgotten() -> None:
    scripts = {path.stem for path in (ROOT / "examples").glob("*.py")}
    models = {"minilm", "minilm_numpy", "minilm_tokens", "minilm_weights"}  # tests/e2e/pages/test_minilm.py
    models |= {"onnx_model", "torch_model"}
    models |= {"decoder", "decoder_numpy"}  # tests/e2e/pages/test_decoder.py
    assert scripts == {*EXAMPLES, *models, "beside_numpy", "beside_torch", "__init__"}


def test_examples_are_imported_from_the_root() -> None:
    script = "from examples.gemm import gemm; from examples.attention import attention; print(gemm.__name__)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "gemm\n", done.stderr


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str) -> None:
    command = [sys.executable, f"examples/{name}.py", "--size", "97"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "max error" in done.stdout
    assert "x NumPy's speed" in done.stdout


def test_a_model_of_onnx() -> None:
    pytest.importorskip("onnx")
    command = [sys.executable, "examples/onnx_model.py", "--width", "16"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "max error" in done.stdout


def test_a_model_of_pytorch_is_trained_and_served() -> None:
    command = [sys.executable, "examples/torch_model.py", "--steps", "20"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "by the saved module" in done.stdout or "PyTorch is not installed" in done.stdout


def test_a_gpu_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for seen, message in [(None, "PyTorch, which is not installed"), (NO_GPU, "PyTorch sees no GPU")]:
        monkeypatch.setitem(sys.modules, "torch", seen)
        with pytest.raises(SystemExit, match=message):
            compare("copy", np.copy, np.copy, np.copy, [np.ones(3, np.float32)], tolerance=0, device="cuda")


def test_a_wrong_result_ends_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    right, wrong = np.ones(3, np.float32), np.array([1, 1, 1.1], np.float32)
    with pytest.raises(SystemExit, match="sum: the results differ"):
        check_and_time("sum", lambda: wrong, lambda: right, tolerance=1e-2)
    assert "max error 1.0e-01" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        check_and_time("nan", lambda: right * np.nan, lambda: right, tolerance=1e-2)


def test_relative_error() -> None:
    assert relative_error(np.array([1.0, 4.5]), np.array([1.0, 5.0])) == pytest.approx(0.1)
    assert relative_error(np.zeros(3), np.zeros(3)) == 0
    assert relative_error(np.zeros((0, 3)), np.zeros((0, 3))) == 0
    assert relative_error(np.zeros(3), np.zeros(4)) == float("inf")


def test_of_tuples_the_largest_error_counts() -> None:
    one, other = np.array([1.0, 5.0]), np.array([1.0, 4.5])
    assert largest_error((one, other), (one, one)) == pytest.approx(0.1)
    assert largest_error(one, other) == relative_error(one, other)
    with pytest.raises(ValueError, match="zip"):
        largest_error((one,), (one, one))


def test_pytorch_on_the_cpu(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = [np.ones(3, np.float32), 2.0]

    def ours(x: Any, factor: float) -> Any:
        return x * factor, x

    def same(torch: Any, x: Any, factor: float) -> Any:
        return torch.mul(x, factor), x

    def wrong(torch: Any, x: Any, factor: float) -> Any:
        return torch.mul(x, factor), torch.mul(x, factor)

    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(from_numpy=np.copy, mul=np.multiply))
    time_on_cpu("pair", ours, same, arrays, tolerance=0)
    assert "x PyTorch's speed" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="the results differ"):
        time_on_cpu("pair", ours, wrong, arrays, tolerance=0)
    monkeypatch.setitem(sys.modules, "torch", None)
    time_on_cpu("pair", ours, wrong, arrays, tolerance=0)  # not installed: nothing is compared


def test_computations_take_turns() -> None:
    calls: list[str] = []

    def work(name: str) -> None:
        calls.append(name)
        time.sleep(0.01)

    times = median_times(partial(work, "a"), partial(work, "b"), rounds=2)
    assert len(times) == 2
    assert all(seconds >= 0.01 for seconds in times)
    spells = [name for name, before in zip(calls, ["", *calls]) if name != before]
    assert spells == ["a", "b", "a", "b"]
    least = least_times(partial(work, "a"), partial(work, "b"), rounds=1)
    assert min(least) >= 0.01
