"""One case for each message of `support/catalogue/onnx_models.py`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

import tiledsl
from tests.support.onnx_files.onnx_models import onnx_model
from tiledsl.cli.commands.onnx_files import add_explain_command, add_run_command
from tiledsl.importers.onnx import backend
from tiledsl.support.catalogue.onnx_models import ENTRIES
from tiledsl.support.errors import TileError

X = np.ones((2, 4), np.float32)
SIMPLE = "(float[2, 4] x) => (float[2, 4] y)"


def read(signature: str, body: str, **options: Any) -> Callable[[], object]:
    return lambda: tiledsl.from_onnx(onnx_model(signature, body, **options))


def missing() -> object:
    saved = sys.modules.get("onnx")
    sys.modules["onnx"] = None  # pyright: ignore[reportArgumentType] - what makes an import fail
    try:
        return tiledsl.from_onnx("model.onnx")
    finally:
        if saved is not None:
            sys.modules["onnx"] = saved


def explain(*options: str) -> object:
    return command("explain", *options)


def run(*options: str) -> object:
    return command("run", *options)


def command(name: str, *options: str) -> object:
    """The error of a command, which only prints it."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(onnx_model("(float[B, 4] x) => (float[B, 4] y)", "y = Relu(x)").SerializeToString())
        parser = argparse.ArgumentParser()
        commands = parser.add_subparsers()
        add_run_command(commands)
        add_explain_command(commands)
        parsed = parser.parse_args([name, str(path), *options])
        return parsed.run(parsed)


CASES: dict[str, Callable[[], object]] = {
    "onnx-absent": missing,
    "onnx-file": lambda: tiledsl.from_onnx(str(Path(__file__).parent / "nothing.onnx")),
    "onnx-no-model": lambda: tiledsl.from_onnx(3),
    "onnx-invalid": read(SIMPLE, "z = Relu(x) y = Add(z)"),
    "onnx-opset": read(SIMPLE, "y = Relu(x)", opset=99),
    "onnx-operator": read(SIMPLE, "y = own.Sparkle(x)"),
    "onnx-version": read(SIMPLE, "y = Add<axis = 0>(x, x)", opset=6),
    "onnx-attribute": read(SIMPLE, 'y = Pad<mode = "mirror">(x, p)', weights="<int64[4] p = {0, 0, 0, 0}>"),
    "onnx-formula": read(
        "(float[2, 3, 8] x) => (float[2, 3, 8] y)",
        "y = Attention<q_num_heads = 0, kv_num_heads = 0>(x, x, x)",
        opset=23,
    ),
    "onnx-node": read(SIMPLE, "s = SequenceConstruct(x) y = Relu(s)"),
    "onnx-dtype": lambda: backend.run_model(
        onnx_model("(string[2] x) => (string[2] y)", "y = Add(x, x)"), [np.array(["a", "b"], object)]
    ),
    "onnx-data-shape": read("(float[2, 4] x, int64[2] s) => (float[2, 4] y)", "y = Reshape(x, s)"),
    "onnx-host-part": read("(float[2, 4] x) => (int64[2, N] y)", "y = NonZero(x)"),
    "onnx-call": lambda: backend.run_model(onnx_model(SIMPLE, "y = Relu(x)"), [X, X]),
    "onnx-no-input": lambda: tiledsl.from_onnx(onnx_model(SIMPLE, "y = Relu(x)"), shapes={"z": (1,)}),
    "onnx-input": read("(string[2] x) => (string[2] y)", "y = Identity(x)"),
    "onnx-output": read("(float[2, 4] x) => (seq(float[N]) y)", "y = SequenceConstruct(x)"),
    "onnx-shape": lambda: tiledsl.from_onnx(onnx_model(SIMPLE, "y = Relu(x)"), shapes={"x": (1,)}),
    "onnx-open-sizes": lambda: explain("--shape", "x=B,4"),
    "onnx-option": lambda: explain("--size", "4"),
    "onnx-array": lambda: run("--input", "nowhere.npy"),
    "onnx-device": lambda: backend.prepare(onnx_model(SIMPLE, "y = Relu(x)"), "TPU"),
}


@pytest.mark.parametrize("code", CASES)
def test_the_message_names_what_is_wrong(code: str) -> None:
    with pytest.raises(TileError) as caught:
        CASES[code]()
    assert caught.value.code == code
    assert isinstance(caught.value, ENTRIES[code].kind)
    assert caught.value.fix


def test_a_node_is_shown_as_text_with_its_number() -> None:
    body = "a = Relu(x) [mm] y = MatMul(a, x)"
    with pytest.raises(TileError) as caught:
        read("(float[2, 4] x) => (float[2, 4] y)", body)()
    text = str(caught.value)
    assert "<model>:2:1" in text
    assert "y = MatMul(a, x)" in text
    assert "this is node `mm` (MatMul)" in text
