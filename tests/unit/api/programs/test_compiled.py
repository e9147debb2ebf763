"""Compiled kernels: what can be read of them, what they can be called with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.kernels.call_kernels import add, gemm, power, scale
from tiledsl import tile
from tiledsl.ir.text.parser import parse_module
from tiledsl.support.errors import TileError

F32 = np.float32


def ramp(size: int = 10, dtype: Any = F32) -> Any:
    return np.arange(size).astype(dtype)


def test_specialisation() -> None:
    compiled = scale.compile(tile.spec(("N",), tile.f32), np.float32, 3, arch="reference")
    assert compiled.specialisation == {"x": "f32[N]", "factor": "scalar f32", "offset": "int"}
    assert repr(compiled) == "<scale(x: f32[N], factor: scalar f32, offset: int) for reference>"


def test_named_sizes_are_equal_sizes() -> None:
    square = gemm.compile(tile.spec(("S", "S"), tile.f32), tile.spec(("S", None), tile.f32), arch="reference")
    assert "tensor<f32, [M, M], unit=1>" in square.ir().replace("S", "M")
    with pytest.raises(TileError, match="size"):
        square(np.ones((3, 4), F32), np.ones((4, 3), F32))


def test_known_sizes_are_compiled_in() -> None:
    compiled = add.compile(tile.spec((32,), tile.f32), tile.spec((32,), tile.f32), arch="reference")
    assert "tensor<f32, [32], unit=0>" in compiled.ir()
    np.testing.assert_array_equal(compiled(ramp(32), ramp(32)), ramp(32) * 2)
    with pytest.raises(TileError, match="must be 32, not 33"):
        compiled(ramp(33), ramp(33))


def test_constants_are_not_passed_again() -> None:
    cube = power.compile(tile.spec(("N",), tile.f32), exponent=3, arch="reference")
    np.testing.assert_array_equal(cube(ramp()), ramp() ** 3)
    with pytest.raises(TileError, match="no parameter `exponent`"):
        cube(ramp(), exponent=2)


def test_code_for_any_strides_takes_those_with_unit_stride() -> None:
    strided = np.zeros(4, F32)[::2]
    compiled = add.compile(strided, strided, arch="reference")
    np.testing.assert_array_equal(compiled(ramp(), ramp(20)[::2]), ramp() * 3)
    narrow = add.compile(ramp(), ramp(), arch="reference")
    with pytest.raises(TileError, match="compiled for"):
        narrow(ramp(), ramp(20)[::2])


def test_ir() -> None:
    compiled = add.compile(ramp(), ramp(), arch="reference")
    assert compiled.ir() == compiled.ir("tile") == compiled.ir("tile", stage="front")
    assert parse_module(compiled.ir()).entry.name == "add"
    assert add.ir(ramp(), ramp(), arch="reference") == compiled.ir()


@pytest.mark.parametrize(("level", "stage"), [("gpu", ""), ("graph", ""), ("tile", "nowhere")])
def test_levels_that_there_are_none_of(level: str, stage: str) -> None:
    with pytest.raises(TileError, match="ask for one of `tile"):
        add.compile(ramp(), ramp(), arch="reference").ir(level, stage=stage)


def test_explain() -> None:
    kernel = tile.kernel(gemm.__wrapped__)
    a, b = np.ones((16, 4), F32), np.ones((4, 5), F32)
    compiled = kernel.compile(a, b, arch="reference")
    compiled(a, b)
    compiled(a, b, out=np.zeros((16, 5), F32))
    assert compiled.explain().splitlines() == [
        "gemm, compiled for reference: first use",
        "",
        "specialised on",
        "  a  f32[16*?, ?]",
        "  b  f32[?, ?]",
        "",
        "tensors",
        "  a  f32[M, K] in global memory, read",
        "  b  f32[K, N] in global memory, read",
        "  c  f32[M, N] in global memory, output",
        "",
        "sizes known to divide: M % 16 == 0",
        "",
        "launch 1",
        "  run by NumPy, op by op",
    ]
