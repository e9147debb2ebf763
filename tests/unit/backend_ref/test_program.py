"""The reference executor behind the interface of a back end."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tiledsl.backend_ref.program import ReferenceProgram
from tiledsl.ir.compare import same_module
from tiledsl.ir.text.parser import parse_module
from tiledsl.support.errors import TileRuntimeError

TEXT = """
func @f(%x: tensor<bf16, [M, N]>, %s: bf16) {
  %unused = tile.empty() {shape = [M], dtype = i64}
  %c = tile.empty() {shape = [N, M], dtype = bf16}
  %t = tile.load(%x, [:, :])
  %scaled = tile.map([%t, %s]) {fn = mul}
  %u = tile.transpose(%scaled) {permutation = [1, 0]}
  tile.store(%c, [:, :], %u)
  tile.return([%c])
}
"""


def address(array: Any) -> int:
    return array.ctypes.data


def test_strides_and_new_tensors() -> None:
    whole: Any = np.empty((5, 8), ml_dtypes.bfloat16)
    whole.flat = range(40)
    x, unused, c = whole[::2, ::-2], np.zeros(3, np.int64), np.zeros((4, 3), ml_dtypes.bfloat16)
    bound = ReferenceProgram(parse_module(TEXT)).load().bind({"M": 3, "N": 4}, [(16, -2), (1,), (3, 1)], 1)
    bound([address(x), address(unused), address(c)], [2.0])
    np.testing.assert_array_equal(c, x.T * 2)
    assert bound.description == "run by NumPy, op by op"


def test_empty_tensors_are_not_touched() -> None:
    bound = ReferenceProgram(parse_module(TEXT)).load().bind({"M": 0, "N": 4}, [(4, 1), (1,), (1, 1)], 1)
    bound([0, 0, 0], [2.0])


def test_round_trip() -> None:
    program = ReferenceProgram(parse_module(TEXT))
    again = ReferenceProgram.from_bytes(program.to_bytes())
    assert same_module(again.module, program.module, locations=False)


def test_failed_assertion_keeps_its_place() -> None:
    text = 'func @f(%c: bool) { tile.assert(%c) {text = "c holds"} tile.return([]) }'
    program = ReferenceProgram.from_bytes(ReferenceProgram(parse_module(text, "kernel.tir")).to_bytes())
    with pytest.raises(TileRuntimeError, match="c holds") as caught:
        program.load().bind({}, [], 1)([], [False])
    assert caught.value.location is not None
    assert caught.value.location.file == "kernel.tir"
