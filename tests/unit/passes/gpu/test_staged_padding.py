"""What stands in the padding of an operand in shared memory."""

from __future__ import annotations

import numpy as np

from tests.support.gpu_code.gpu_lowering import run_as_launched, variants
from tiledsl.ir.text.parser import parse_module

SQUARE = """
func @square(%x: tensor<f16, [N, K], unit=1>) {
  %one = tile.constant() {value = 1, dtype = i64}
  %y = tile.empty() {shape = [N, N], dtype = f32}
  tile.grid([%one]) {blocks = [1]} body(%i: i64) {
    %other = tile.constant() {value = 1.0, dtype = f16}
    %a = tile.load(%x, [:, :], %other)
    %b = tile.transpose(%a) {permutation = [1, 0]}
    %c = tile.dot(%a, %b) {dtype = f32}
    tile.store(%y, [:, :], %c)
  }
  tile.return([%y])
}
"""


def test_what_stands_for_elements_outside_is_not_added_up_as_padding() -> None:
    x = np.ones((5, 20), np.float16)
    for plan, module in variants(parse_module(SQUARE), [x]):
        (y,) = run_as_launched(module.entry, [x])
        assert y.tolist() == [[20.0] * 5] * 5, plan
