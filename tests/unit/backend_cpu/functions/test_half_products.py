"""Products of bf16 in pairs: as near as sums in f32, whatever lies behind the end of an odd depth."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.compare import assert_close
from tests.support.cpu_programs import Array, CompiledForCpu, compiled_for_cpu
from tiledsl.backend_cpu.emit.emit_program import emit_program
from tiledsl.backend_cpu.functions.half_products import half_product_for
from tiledsl.ir.dtypes import bf16, f16, f32, f64, to_numpy
from tiledsl.ir.text.parser import parse_module
from tiledsl.passes.machine import MACHINES, CpuMachine, host

BF16 = to_numpy(bf16)
WIDE = replace(MACHINES["avx512"], features=MACHINES["avx512"].features | {"avx512bf16"})
NARROW = replace(MACHINES["avx2"], features=MACHINES["avx2"].features | {"avx512bf16", "avx512vl"})
HAS = {"avx512bf16", "avx512vl"} <= host().features
USABLE = [host(), MACHINES["avx2"], *([WIDE, NARROW] if HAS else [])]


def product(units: tuple[int, int], blocks: str, fn: str = "") -> str:
    """c = fn(a) @ b of two batches, in blocks along every axis."""
    left = f"%left = tile.map([%at]) {{fn = {fn}}}" if fn else "%left = tile.cast(%at) {dtype = bf16}"
    return f"""
    func @f(%a: tensor<bf16, [B, M, K], unit={units[0]}>, %b: tensor<bf16, [B, K, N], unit={units[1]}>) {{
      %c = tile.empty() {{shape = [B, M, N], dtype = f32}}
      %M = tile.size() {{value = M}}
      %N = tile.size() {{value = N}}
      tile.grid([%M, %N]) {{blocks = [{blocks}, {blocks}]}} body(%m: axis<m>, %n: axis<n>) {{
        %zero = tile.constant() {{value = 5.0, dtype = f32}}
        %acc = tile.broadcast(%zero) {{shape = [B, m, n]}}
        %start = tile.constant() {{value = 0, dtype = i64}}
        %K = tile.size() {{value = K}}
        %total = tile.range(%start, %K, [%acc]) {{blocks = [{blocks}]}}
            body(%k: axis<k>, %partial: tile<f32, [B, m, n]>) {{
          %at = tile.load(%a, [:, %m, %k])
          {left}
          %bt = tile.load(%b, [:, %k, %n])
          %next = tile.dot(%left, %bt, %partial) {{dtype = f32}}
          tile.yield([%next])
        }}
        tile.store(%c, [:, %m, %n], %total)
      }}
      tile.return([%c])
    }}
    """


@cache
def compiled(text: str, machine: CpuMachine) -> CompiledForCpu:
    return compiled_for_cpu(parse_module(text), machine=machine)


def drawn(shape: tuple[int, int, int], seed: int, unit: int) -> Array:
    """Integers of few bits, so that every sum of them is exact; `unit` is the axis along which they are neighbours."""
    numbers: Array = np.random.default_rng(seed).integers(-9, 10, shape).astype(BF16)
    if unit == 1:
        columns: Array = np.ascontiguousarray(np.swapaxes(numbers, 1, 2))
        numbers = np.swapaxes(columns, 1, 2)
    return numbers


def expected(a: Array, b: Array) -> Array:
    wide: tuple[Array, Array] = (a.astype(np.float32), b.astype(np.float32))
    result: Array = wide[0] @ wide[1] + 5
    return result


@pytest.mark.parametrize("units", [(2, 2), (1, 1), (2, 1)])
@pytest.mark.parametrize("blocks", ["40", "upto(512, 16)"])
def test_every_orientation(units: tuple[int, int], blocks: str) -> None:
    text = product(units, blocks)
    for machine in USABLE[:: 1 if blocks == "40" else 2]:
        for rows, depth, columns in [(17, 1, 17), (19, 3, 50), (40, 17, 33), (33, 70, 49), (20, 301, 65), (1, 7, 3)]:
            a, b = drawn((2, rows, depth), 0, units[0]), drawn((2, depth, columns), 1, units[1])
            (got,) = compiled(text, machine).run(a, b)
            np.testing.assert_array_equal(got, expected(a, b))


@given(
    st.integers(0, 45), st.integers(0, 90), st.integers(0, 60), st.sampled_from([(2, 2), (1, 1)]), st.integers(0, 99)
)
def test_any_size(rows: int, depth: int, columns: int, units: tuple[int, int], seed: int) -> None:
    a, b = drawn((2, rows, depth), seed, units[0]), drawn((2, depth, columns), seed + 1, units[1])
    (got,) = compiled(product(units, "upto(512, 16)"), host()).run(a, b)
    np.testing.assert_array_equal(got, expected(a, b))


def test_sums_are_of_f32() -> None:
    random = np.random.default_rng(3)
    a, b = (random.standard_normal(shape).astype(BF16) for shape in ((2, 50, 1001), (2, 1001, 70)))
    (got,) = compiled(product((2, 2), "upto(512, 16)"), host()).run(a, b)
    exact = a.astype(np.float64) @ b.astype(np.float64) + 5
    assert_close(got, exact.astype(np.float32), terms=1001)


@pytest.mark.parametrize("depth", [1, 5, 33, 257])
def test_what_is_computed_behind_an_end_does_not_count(depth: int) -> None:
    # the logarithm of what is not there is infinite, and 0 times that is no number
    a, b = np.ones((2, 20, depth), BF16), drawn((2, depth, 40), 0, 2)
    (got,) = compiled(product((2, 2), "upto(512, 16)", "log"), host()).run(a, b)
    np.testing.assert_array_equal(got, np.full((2, 20, 40), 5, np.float32))


def test_infinities_and_no_numbers_go_through() -> None:
    a, b = np.ones((2, 20, 5), BF16), np.ones((2, 5, 40), BF16)
    a[0, 3, 4], b[1, 2, 7] = np.inf, np.nan
    (got,) = compiled(product((2, 2), "upto(512, 16)"), host()).run(a, b)
    assert np.isinf(got[0, 3]).all()
    assert np.isnan(got[1, :, 7]).all()
    assert np.isfinite(got).sum() == got.size - 40 - 20


def test_the_instruction_is_used_where_it_is() -> None:
    text = product((2, 2), "upto(512, 16)")
    for machine, name in [(WIDE, "dpbf16ps.512"), (NARROW, "dpbf16ps.256")]:
        assert name in emit_program(parse_module(text).entry, machine).text
    assert "dpbf16ps" not in emit_program(parse_module(text).entry, MACHINES["avx512"]).text


def test_only_bf16_with_sums_of_f32() -> None:
    assert half_product_for(WIDE, f32, bf16, bf16) is not None
    assert half_product_for(WIDE, f64, bf16, bf16) is None
    assert half_product_for(WIDE, f32, f16, f16) is None
    assert half_product_for(WIDE, f32, bf16, f32) is None
    assert half_product_for(MACHINES["avx512"], f32, bf16, bf16) is None
