"""Products of bytes are exact modulo 2**32, with and without an instruction for them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from tests.support.cpu_programs import Array, CompiledForCpu, compiled_for_cpu
from tiledsl.backend_cpu.emit.emit_program import emit_program
from tiledsl.backend_cpu.functions.byte_products import byte_product_for
from tiledsl.ir.dtypes import BY_NAME, i8, i32, i64, to_numpy, u8
from tiledsl.ir.text.parser import parse_module
from tiledsl.passes.machine import MACHINES, CpuMachine, host

SIGNS = ["i8", "u8"]
WIDE = replace(MACHINES["avx512"], features=MACHINES["avx512"].features | {"avx512vnni"})
NARROW = replace(MACHINES["avx2"], features=MACHINES["avx2"].features | {"avx512vnni", "avx512vl"})
HAS = {"avx512vnni", "avx512vl"} <= host().features
USABLE = [host(), MACHINES["avx2"], *([WIDE, NARROW] if HAS else [])]


def product(dtype: str, units: tuple[int, int], blocks: str) -> str:
    """c = a @ b of two batches, in blocks along every axis."""
    return f"""
    func @f(%a: tensor<{dtype}, [B, M, K], unit={units[0]}>, %b: tensor<{dtype}, [B, K, N], unit={units[1]}>) {{
      %c = tile.empty() {{shape = [B, M, N], dtype = i32}}
      %M = tile.size() {{value = M}}
      %N = tile.size() {{value = N}}
      tile.grid([%M, %N]) {{blocks = [{blocks}, {blocks}]}} body(%m: axis<m>, %n: axis<n>) {{
        %zero = tile.constant() {{value = 5, dtype = i32}}
        %acc = tile.broadcast(%zero) {{shape = [B, m, n]}}
        %start = tile.constant() {{value = 0, dtype = i64}}
        %K = tile.size() {{value = K}}
        %total = tile.range(%start, %K, [%acc]) {{blocks = [{blocks}]}}
            body(%k: axis<k>, %partial: tile<i32, [B, m, n]>) {{
          %at = tile.load(%a, [:, %m, %k])
          %bt = tile.load(%b, [:, %k, %n])
          %next = tile.dot(%at, %bt, %partial) {{dtype = i32}}
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


def drawn(shape: tuple[int, int, int], dtype: str, seed: int, unit: int) -> Array:
    """Bytes over their whole range, the ends often; `unit` is the axis along which they are neighbours."""
    low, high = (-128, 127) if dtype == "i8" else (0, 255)
    generator = np.random.default_rng(seed)
    numbers: Array = generator.integers(low, high + 1, shape)
    ends: Array = generator.integers(0, 4, shape)
    numbers = np.where(ends == 0, low, np.where(ends == 1, high, numbers)).astype(to_numpy(BY_NAME[dtype]))
    if unit == 1:
        columns: Array = np.ascontiguousarray(np.swapaxes(numbers, 1, 2))
        numbers = np.swapaxes(columns, 1, 2)
    return numbers


@pytest.mark.parametrize("dtype", SIGNS)
@pytest.mark.parametrize("units", [(2, 2), (1, 1)])
@pytest.mark.parametrize("blocks", ["40", "upto(512, 16)"])
def test_every_sign_and_orientation(dtype: str, units: tuple[int, int], blocks: str) -> None:
    text = product(dtype, units, blocks)
    for machine in USABLE[:: 1 if blocks == "40" else 2]:
        for rows, depth, columns in [(17, 1, 17), (19, 3, 50), (40, 17, 33), (33, 70, 49), (20, 300, 65), (1, 7, 3)]:
            a, b = drawn((2, rows, depth), dtype, 0, units[0]), drawn((2, depth, columns), dtype, 1, units[1])
            (got,) = compiled(text, machine).run(a, b)
            wide: tuple[Array, Array] = (a.astype(np.int32), b.astype(np.int32))
            np.testing.assert_array_equal(got, wide[0] @ wide[1] + 5)


def test_sums_wrap() -> None:
    a, b = np.full((2, 17, 140_000), 255, np.uint8), np.full((2, 140_000, 17), 255, np.uint8)
    (got,) = compiled(product("u8", (2, 2), "upto(4096, 16)"), host()).run(a, b)
    assert (got == (255 * 255 * 140_000 + 5) - (1 << 32) * 2).all()


def test_the_instruction_is_used_where_it_is() -> None:
    text = product("i8", (2, 2), "upto(512, 16)")
    for machine, name in [(WIDE, "vpdpbusd.512"), (NARROW, "vpdpbusd.256")]:
        assert name in emit_program(parse_module(text).entry, machine).text
    assert "vpdpbusd" not in emit_program(parse_module(text).entry, MACHINES["avx512"]).text


def test_only_bytes_with_sums_of_32_bits() -> None:
    assert byte_product_for(WIDE, i32, u8, u8) is not None
    assert byte_product_for(WIDE, i64, i8, i8) is None
    assert byte_product_for(WIDE, i32, i32, i8) is None
    assert byte_product_for(MACHINES["neon"], i32, i8, i8) is None
