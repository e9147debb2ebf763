"""One case for each message of `support/catalogue/modules.py`."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.fakes.fake_cuda import FakeCuda, fake_cuda
from tests.support.graph_texts import CALLEES, LINEAR
from tiledsl.api.modules.build_module import build_module
from tiledsl.api.modules.module import Module
from tiledsl.ir.text.parser import parse_module
from tiledsl.support.catalogue.modules import ENTRIES
from tiledsl.support.errors import TileError

F32 = np.float32

DEVICE_NUMBER = f"""
func @model(%x: tensor<f32, [4, 6]>, %by: tensor<f32, []>) {{
  %y = graph.call([%x, %by]) {{callee = shift}} : tensor<f32, [4, 6]>
  graph.return([%y])
}}
{CALLEES}
"""


def build(arch: str | None, **weights: Any) -> Module:
    """Builds `LINEAR`."""
    arrays = {"w": np.zeros((8, 6), F32), "b": np.zeros(6, F32), **weights}
    return build_module(parse_module(LINEAR), {k: v for k, v in arrays.items() if v is not None}, ["x"], arch)


def linear(x: Any = None, **weights: Any) -> object:
    """Builds and calls `LINEAR`."""
    return build("cpu", **weights)(np.zeros((5, 8), F32) if x is None else x)


def on_device(act: Callable[[FakeCuda], object]) -> object:
    with fake_cuda() as cuda:
        return act(cuda)


def changed(change: Callable[[bytes], bytes]) -> object:
    """Loads a file in which a few bytes of the header are others."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "module"
        build("cpu").save(file)
        with zipfile.ZipFile(file) as old:
            contents = {name: old.read(name) for name in old.namelist()}
        damaged = change(contents["header.json"])
        if len(damaged) == len(contents["header.json"]) and b'"format": 0' not in damaged:
            file.write_bytes(change(file.read_bytes()))  # the checksum is no longer right
        else:
            with zipfile.ZipFile(file, "w") as new:
                for name, content in {**contents, "header.json": damaged}.items():
                    new.writestr(name, content)
        return tiledsl.load(file)


def every_other_row(cuda: FakeCuda) -> object:
    made = cuda.array(np.zeros((10, 8), F32))
    made.host = made.host[::2]
    return made


CASES: dict[str, tuple[Callable[[], object], str]] = {
    "module-dtype": (
        lambda: linear(np.zeros((5, 8), np.float16)),
        "`x` has dtype f16, but `model` was built for f32",
    ),
    "module-shape": (
        lambda: linear(np.zeros((6, 8), F32)),
        "`x` has shape [6, 8], but `model` was built for [5, 8]",
    ),
    "weight-missing": (lambda: linear(b=None), "`model` reads the weight `b`, f32[6], and was given none"),
    "weight-dtype": (
        lambda: linear(w=np.zeros((8, 6), np.int8)),
        "the weight `w` has dtype i8, but `model` reads it as f32",
    ),
    "weight-shape": (
        lambda: linear(b=np.zeros(5, F32)),
        "the weight `b` has shape [5], but `model` reads it as [6]",
    ),
    "module-place": (
        lambda: on_device(lambda cuda: build("cpu")(cuda.tensor(np.zeros((5, 8), F32)))),
        "`model` was built for `cpu`, but its arrays are on CUDA device 0, whose architecture is `sm_90`",
    ),
    "module-strided": (
        lambda: on_device(lambda cuda: build(None)(every_other_row(cuda))),
        "`x` of `model` is not row-major (strides (64, 4))",
    ),
    "module-not-built": (lambda: build(None).save("nowhere"), "`model` is built for wherever the arrays of its first"),
    "saved-damaged": (lambda: changed(lambda data: data[:200] + b"?" + data[201:]), "is no saved module, or a damaged"),
    "saved-version": (
        lambda: changed(lambda data: data.replace(b'"format": 3', b'"format": 0')),
        "was saved by tiledsl 0.1.0 (format 0), and this is 0.1.0 (format 3)",
    ),
    "saved-machine": (
        lambda: changed(lambda data: data.replace(b'"identity": "', b'"identity": "other ')),
        "was saved for another machine: other ",
    ),
    "module-number": (
        lambda: build_module(parse_module(DEVICE_NUMBER), {}, ["x", "by"], "sm_90"),
        "`shift` takes a number, and in `model` gets `by`, which is known on the device alone",
    ),
}


@pytest.mark.parametrize("code", list(CASES))
def test_messages(code: str) -> None:
    act, words = CASES[code]
    with pytest.raises(TileError) as caught:
        act()
    assert caught.value.code == code
    assert words in caught.value.message
    assert caught.value.fix


def test_every_message_has_a_case() -> None:
    assert CASES.keys() == ENTRIES.keys()
