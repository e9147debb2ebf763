"""Folds of what memory holds, in rows and in sweeps, against the reference executor."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.compare import assert_close
from tests.support.cpu_programs import Array, run_on_cpu
from tests.support.tile_programs import run
from tiledsl.backend_cpu.emit.emit_program import emit_program
from tiledsl.ir.dtypes import BY_NAME, to_numpy
from tiledsl.ir.text.parser import parse_module
from tiledsl.passes.machine import MACHINES

SIZES = [(1, 1), (3, 7), (17, 3), (7, 40), (70, 17), (9, 130), (37, 259)]


def fold(dtype: str, fn: str, axis: int, unit: int) -> str:
    """y = fold of x * v over an axis of x [M, N]; v runs along that axis."""
    kept, folded, bound = ("m", "%n", "%N") if axis == 1 else ("n", "%m", "%M")
    size, vector = ("M", "[m, n]") if axis == 1 else ("N", "[n, m]")
    turned = "" if axis == 1 else "%xs = tile.transpose(%xt) {permutation = [1, 0]}"
    return f"""
    func @f(%x: tensor<{dtype}, [M, N], unit={unit}>, %v: tensor<{dtype}, [{"N" if axis == 1 else "M"}]>) {{
      %y = tile.empty() {{shape = [{size}], dtype = {dtype}}}
      %M = tile.size() {{value = M}}
      %N = tile.size() {{value = N}}
      %start = tile.constant() {{value = 0, dtype = i64}}
      tile.grid([%{size}]) {{blocks = [auto]}} body(%{kept}: axis<{kept}>) {{
        %first = tile.constant() {{value = {1 if fn == "mul" else 0}, dtype = {dtype}}}
        %acc = tile.broadcast(%first) {{shape = [{kept}]}}
        %all = tile.range(%start, {bound}, [%acc]) {{blocks = [auto]}}
            body({folded}: axis<{folded[1:]}>, %part: tile<{dtype}, [{kept}]>) {{
          %xt = tile.load(%x, [%m, %n])
          {turned}
          %vt = tile.load(%v, [{folded}])
          %vs = tile.broadcast(%vt) {{shape = {vector}}}
          %product = tile.map([%{"xt" if axis == 1 else "xs"}, %vs]) {{fn = mul}}
          %folded = tile.reduce([%product]) {{axes = [1], fn = {fn}}}
          %next = tile.map([%part, %folded]) {{fn = {"maximum" if fn == "max" else fn}}}
          tile.yield([%next])
        }}
        tile.store(%y, [%{kept}], %all)
      }}
      tile.return([%y])
    }}
    """


def drawn(shape: tuple[int, ...], dtype: str, seed: int, *, turned: bool = False) -> Array:
    generator = np.random.default_rng(seed)
    floats = BY_NAME[dtype].is_float
    values: Array = generator.standard_normal(shape) if floats else generator.integers(-9, 9, shape)
    return np.asarray(values, to_numpy(BY_NAME[dtype]), order="F" if turned else "C")


@pytest.mark.parametrize("unit", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("block", [5, 64])
@pytest.mark.parametrize("sizes", SIZES)
def test_weighted_sums_in_every_orientation(sizes: tuple[int, int], block: int, axis: int, unit: int) -> None:
    x, v = drawn(sizes, "f32", 0, turned=unit == 0), drawn((sizes[axis],), "f32", 1)
    text = fold("f32", "add", axis, unit)
    (got,), (want,) = run_on_cpu(text, x, v, block=block), run(text, x, v, block=block)
    assert_close(got, want, terms=sizes[axis])


@pytest.mark.parametrize(
    ("dtype", "fn"), [("f64", "add"), ("i32", "add"), ("f16", "add"), ("bf16", "max"), ("i8", "max")]
)
@pytest.mark.parametrize("axis", [0, 1])
def test_other_dtypes_and_functions(dtype: str, fn: str, axis: int) -> None:
    x, v = drawn((19, 83), dtype, 0), drawn(((19, 83)[axis],), dtype, 1)
    text = fold(dtype, fn, axis, 1)
    (got,), (want,) = run_on_cpu(text, x, v, block=48), run(text, x, v, block=48)
    assert_close(got, want, terms=83)


def test_a_sweep_reads_rows_from_end_to_end() -> None:
    """The loop over the columns is inside of that over four rows, whose elements go into one sum."""
    text = fold("f32", "add", 0, 1).replace("auto", "upto(1024, 16)")
    emitted = emit_program(parse_module(text).entry, MACHINES["avx2"]).text
    wide = [line for line in emitted.splitlines() if "load <8 x float>, ptr" in line and "align 4" in line]
    # two vectors of four rows and their sums, two of a row that is left over and its sums, and what ends each row
    assert len(wide) >= 2 * (4 + 1) + 2 * (1 + 1) + (1 + 1)
