"""Products of tiles of another shape: they are packed from what they are of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.compare import assert_close
from tests.support.cpu_programs import run_on_cpu
from tests.support.tile_programs import run
from tiledsl.backend_cpu.values.storage import groups_of
from tiledsl.ir.dtypes import BY_NAME, to_numpy
from tiledsl.ir.symbolic import symbol
from tiledsl.passes.machine import MACHINES

JOINED = """
func @joined(%x: tensor<DTYPE, LEFT>, %w: tensor<DTYPE, RIGHT>) {
  %y = tile.empty() {shape = [M, N], dtype = f32}
  %rows = tile.size() {value = M} : i64
  %columns = tile.size() {value = N} : i64
  tile.grid([%rows, %columns]) {blocks = [auto, auto]} body(%m: axis<m>, %n: axis<n>) {
    %a = tile.load(%x, [AT_LEFT])
    %a_1 = tile.reshape(%a) {shape = [m, DEPTH]}
    %b = tile.load(%w, [AT_RIGHT])
    %b_1 = TURNED
    %b_2 = tile.reshape(%b_1) {shape = [DEPTH, n]}
    %c = tile.dot(%a_1, %b_2) {dtype = f32}
    tile.store(%y, [%m, %n], %c)
  }
  tile.return([%y])
}
"""


def numbers(seed: int, shape: tuple[int, ...], dtype: str) -> Any:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(to_numpy(BY_NAME[dtype]))


DTYPES, KINDS = ("f32", "f16", "i8"), ("avx512", "avx2", "generic")
AXES = [(3, 21), (7, 7, 3), (2, 32), (3, 1, 5), (40, 20)]
CASES = [
    pytest.param(axes, turned, machine, dtype, marks=() if (i + j + k + turned) % 3 == 0 else (pytest.mark.slow,))
    for i, axes in enumerate(AXES)
    for turned in (True, False)
    for j, machine in enumerate(KINDS)
    for k, dtype in enumerate(DTYPES)
]
"""The ordinary run takes a third: each two of these four together."""


@pytest.mark.parametrize(("axes", "is_turned", "machine", "dtype"), CASES)
def test_products(axes: tuple[int, ...], is_turned: bool, machine: str, dtype: str) -> None:
    depth, inner = int(np.prod(axes)), ", ".join(map(str, axes))
    names, whole = ("N", f"[N, {inner}]"), ", ".join(":" for _ in axes)
    right, at = (whole, f"%n, {whole}") if is_turned else (whole, f"{whole}, %n")
    order = ", ".join(map(str, [*range(1, len(axes) + 1), 0]))
    turned = f"tile.transpose(%b) {{permutation = [{order}]}}" if is_turned else "tile.cast(%b) {dtype = DTYPE}"
    right = names[1] if is_turned else f"[{inner}, N]"
    text = JOINED.replace("LEFT", f"[M, {inner}]", 1).replace("RIGHT", right, 1).replace("AT_LEFT", f"%m, {whole}")
    text = text.replace("AT_RIGHT", at).replace("TURNED", turned).replace("DEPTH", str(depth)).replace("DTYPE", dtype)
    if dtype == "i8":
        text = text.replace("dtype = f32", "dtype = i32")
    x = numbers(0, (19, *axes), dtype)
    w = numbers(1, (37, *axes) if is_turned else (*axes, 37), dtype)
    for block in (8, 16):
        (expected,) = run(text, x, w, block=block)
        (actual,) = run_on_cpu(text, x, w, block=block, machine=MACHINES[machine])
        assert_close(actual, expected, terms=depth)


def test_groups() -> None:
    m = symbol("m")
    assert groups_of((m, 3, 21), (m, 63)) == ((0,), (1, 2))
    assert groups_of((3, 7, m), (21, m)) == ((0, 1), (2,))
    assert groups_of((m, 12), (m, 3, 4)) is None
    assert groups_of((4, 6), (6, 4)) is None
