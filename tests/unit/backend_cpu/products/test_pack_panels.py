"""Right operands that are packed panel by panel: all rows and columns of them, whatever the sizes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.compare import assert_close
from tests.support.cpu_programs import run_on_cpu
from tests.support.tile_programs import run
from tiledsl.ir.dtypes import BY_NAME, to_numpy
from tiledsl.passes.machine import MACHINES

PRODUCT = """
func @product(%a: tensor<DTYPE, [B, M, K], unit=2>, %b: tensor<DTYPE, [B, K, N], unit=2>) {
  %c = tile.empty() {shape = [B, M, N], dtype = f32}
  %batches = tile.size() {value = B} : i64
  %rows = tile.size() {value = M} : i64
  %columns = tile.size() {value = N} : i64
  tile.grid([%batches, %rows, %columns]) {blocks = [2, auto, auto]} body(%p: axis<2>, %m: axis<m>, %n: axis<n>) {
    %left = tile.load(%a, [%p, %m, :])
    %right = tile.load(%b, [%p, :, %n])
    %wide = WIDER
    %sum = tile.dot(%left, %wide) {dtype = f32}
    tile.store(%c, [%p, %m, %n], %sum)
  }
  tile.return([%c])
}
"""


@pytest.mark.parametrize("machine", ["avx512", "avx2", "generic"])
@settings(max_examples=2)
@given(
    rows=st.integers(18, 40),
    depth=st.integers(1, 21),
    columns=st.sampled_from([17, 24, 47, 48, 49, 64, 75]),
    dtype=st.sampled_from(["f32", "f16"]),
    is_computed=st.booleans(),
)
def test_products(machine: str, rows: int, depth: int, columns: int, dtype: str, is_computed: bool) -> None:
    wider = "tile.map([%right, %right]) {fn = add}" if is_computed else f"tile.cast(%right) {{dtype = {dtype}}}"
    text = PRODUCT.replace("DTYPE", dtype).replace("WIDER", wider)
    random = np.random.default_rng(rows)
    left, right = (
        random.integers(-3, 4, shape).astype(to_numpy(BY_NAME[dtype]))
        for shape in ((4, rows, depth), (4, depth, columns))
    )
    (expected,) = run(text, left, right, block=32)
    (actual,) = run_on_cpu(text, left, right, block=32, machine=MACHINES[machine])
    assert_close(actual, expected, relative=0)
