"""Dots with few rows or columns, whose other operand is read where it lies, against the reference executor."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.support.compare import assert_close
from tests.support.cpu_programs import Array, CompiledForCpu, compiled_for_cpu
from tests.support.tile_programs import run
from tiledsl.backend_cpu.compile import compile_module
from tiledsl.ir.dtypes import BY_NAME, to_numpy
from tiledsl.ir.text.parser import parse_module
from tiledsl.passes.machine import MACHINES

SIZES = (1, 3, 7, 17, 33)


def gemm(units: tuple[int, int], dtypes: tuple[str, str, str], blocks: str = "auto", producer: str = "") -> str:
    """c = a @ b over a grid. `dtypes`: of a, b and the sums. `producer` computes %w from %bt; then b is what %w is."""
    a, b, c = dtypes
    columns, depth, rows = ("auto", "auto", "auto") if blocks == "auto" else ("upto(64, 16)", "upto(64, 8)", blocks)
    return f"""
    func @gemm(%a: tensor<{a}, [M, K], unit={units[0]}>, %b: tensor<{b}, [K, N], unit={units[1]}>) {{
      %c = tile.empty() {{shape = [M, N], dtype = {c}}}
      %M = tile.size() {{value = M}}
      %N = tile.size() {{value = N}}
      tile.grid([%M, %N]) {{blocks = [{rows}, {columns}]}} body(%m: axis<m>, %n: axis<n>) {{
        %zero = tile.constant() {{value = 0, dtype = {c}}}
        %acc = tile.broadcast(%zero) {{shape = [m, n]}}
        %start = tile.constant() {{value = 0, dtype = i64}}
        %K = tile.size() {{value = K}}
        %total = tile.range(%start, %K, [%acc]) {{blocks = [{depth}]}}
            body(%k: axis<k>, %partial: tile<{c}, [m, n]>) {{
          %at = tile.load(%a, [%m, %k])
          %bt = tile.load(%b, [%k, %n])
          {producer or ""}
          %next = tile.dot(%at, {"%w" if producer else "%bt"}, %partial) {{dtype = {c}}}
          tile.yield([%next])
        }}
        tile.store(%c, [%m, %n], %total)
      }}
      tile.return([%c])
    }}
    """


def drawn(shape: tuple[int, ...], dtype: str, seed: int, unit: int = 1) -> Array:
    generator = np.random.default_rng(seed)
    floats = BY_NAME[dtype].is_float
    values: Array = generator.standard_normal(shape) if floats else generator.integers(-99, 99, shape)
    return np.asarray(values, to_numpy(BY_NAME[dtype]), order="F" if unit == 0 else "C")


@cache
def compiled(text: str, block: int) -> CompiledForCpu:
    return compiled_for_cpu(parse_module(text), block)


def check(text: str, plain: str, *arguments: Array, block: int = 16, terms: int = 1, threads: int = 1) -> None:
    (got,) = compiled(text, block).run(*arguments, threads=threads)
    (want,) = run(plain, *arguments, block=512)  # it does not depend on blocks, and takes its time over many
    assert_close(got, want, terms=terms)


ORIENTATIONS = [(0, 0), (0, 1), (1, 0), (1, 1)]


@pytest.mark.parametrize("units", ORIENTATIONS)
@pytest.mark.parametrize("depth", [1, 17, 70])
def test_few_rows_or_columns_in_every_orientation(units: tuple[int, int], depth: int) -> None:
    text, plain = gemm(units, ("f32", "f32", "f32"), "upto(64, 8)"), gemm(units, ("f32", "f32", "f32"))
    module = parse_module(text)
    assert compile_module(module, MACHINES["avx2"]).llvm_ir.count("label %few") >= 2, "rows and columns may be few"
    for rows, columns in [(1, 1), (1, 40), (3, 17), (7, 70), (16, 33), (40, 1), (33, 3), (70, 7), (17, 17), (20, 70)]:
        a, b = drawn((rows, depth), "f32", 0, units[0]), drawn((depth, columns), "f32", 1, units[1])
        check(text, plain, a, b, terms=depth)


@pytest.mark.parametrize("dtypes", [("f64",) * 3, ("f16", "f16", "f32"), ("bf16", "bf16", "f32"), ("i8", "i8", "i32")])
@pytest.mark.parametrize("units", ORIENTATIONS)
def test_other_dtypes(dtypes: tuple[str, str, str], units: tuple[int, int]) -> None:
    for rows, columns in [(3, 37), (37, 5)]:
        a, b = drawn((rows, 19), dtypes[0], 0, units[0]), drawn((19, columns), dtypes[1], 1, units[1])
        check(gemm(units, dtypes), gemm(units, dtypes), a, b, terms=19)


@pytest.mark.parametrize("units", ORIENTATIONS)
@pytest.mark.parametrize("block", [1, 5, 16, 48])
def test_weights_that_are_widened_and_scaled_where_they_are_read(units: tuple[int, int], block: int) -> None:
    producer = """
          %wide = tile.cast(%bt) {dtype = f32}
          %e = tile.map([%wide]) {fn = exp}
          %one = tile.constant() {value = 1.0, dtype = f32}
          %w = tile.map([%one, %e]) {fn = div}"""  # 1 / exp(0) is not 0: what is read of nothing must not count
    text = gemm(units, ("f32", "i8", "f32"), producer=producer)
    a = drawn((6, 35), "f32", 0, units[0])
    b = np.asarray(drawn((35, 50), "i8", 1) // 40, np.int8, order="F" if units[1] == 0 else "C")
    check(text, text, a, b, block=block, terms=35)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("few", SIZES)
def test_batches(few: int, turned: bool) -> None:
    """scores of a few queries, and what they weigh: both dots of an attention, heads as batches of one program."""
    kt = "%kt = tile.transpose(%k) {permutation = [0, 2, 1]}"
    text = f"""
    func @f(%q: tensor<f32, [H, {few}, D]>, %keys: tensor<f32, [H, S, D]>, %v: tensor<f32, [H, S, D]>) {{
      %o = tile.empty() {{shape = [H, {few}, D], dtype = f32}}
      %one = tile.constant() {{value = 1, dtype = i64}}
      tile.grid([%one]) {{blocks = [1]}} body(%g: i64) {{
        %qt = tile.load(%q, [:, :, :])
        %k = tile.load(%keys, [:, :, :])
        %vt = tile.load(%v, [:, :, :])
        {kt}
        %s = tile.dot(%qt, %kt) {{dtype = f32}}
        %e = tile.map([%s]) {{fn = tanh}}
        %r = tile.dot(%e, %vt, %{"s2" if turned else "qt"}) {{dtype = f32}}
        tile.store(%o, [:, :, :], %r)
      }}
      tile.return([%o])
    }}
    """.replace("%r = ", "%s2 = tile.map([%qt, %qt]) {fn = add}\n        %r = " if turned else "%r = ")
    q, k, v = (drawn((2, rows, 21), "f32", seed) for seed, rows in enumerate((few, 45, 45)))
    check(text, text, q, k, v, terms=21 * 45)


def test_threads_and_blocks_of_the_launch() -> None:
    text = gemm((1, 1), ("f32", "f32", "f32"), "upto(64, 8)")
    a, b = drawn((3, 300), "f32", 0), drawn((300, 700), "f32", 1)
    check(text, gemm((1, 1), ("f32", "f32", "f32")), a, b, terms=300, threads=3)


def test_scratch_is_that_of_the_version_that_runs() -> None:
    text = gemm((1, 1), ("f32", "f32", "f32"), "upto(4096, 8)").replace("upto(64, 8)]", "upto(4096, 8)]")
    text = text.replace("upto(64, 16)", "upto(4096, 16)")
    program = compile_module(parse_module(text), MACHINES["avx2"]).load()
    bound = program.bind({"M": 1, "N": 4096, "K": 4096}, ((4096, 1), (4096, 1), (4096, 1)), 1)
    assert bound.description.scratch_bytes[0] < 1 << 20, "the wide operand of 64 MiB is not copied"
