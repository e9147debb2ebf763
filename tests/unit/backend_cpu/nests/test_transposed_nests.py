"""Tiles that are packed across the order in which memory holds them, against the reference executor."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest

from tests.support.compare import assert_close
from tests.support.cpu_programs import Array, CompiledForCpu, compiled_for_cpu
from tests.support.tile_programs import run
from tiledsl.backend_cpu.emit.emit_program import emit_program
from tiledsl.backend_cpu.functions.squares import transpose
from tiledsl.backend_cpu.llvm.writer import FunctionWriter, ModuleWriter, VectorType
from tiledsl.ir.dtypes import BY_NAME, f32, to_numpy
from tiledsl.ir.text.parser import parse_module
from tiledsl.passes.machine import MACHINES


def product(dtype: str, total: str) -> str:
    """a @ b.mT of matrices in two batches, both transposed: a is stored by columns."""
    return f"""
    func @f(%a: tensor<{dtype}, [B, M, K], unit=1>, %b: tensor<{dtype}, [B, N, K], unit=2>) {{
      %c = tile.empty() {{shape = [B, M, N], dtype = {total}}}
      %one = tile.constant() {{value = 1, dtype = i64}}
      tile.grid([%one]) {{blocks = [1]}} body(%g: i64) {{
        %at = tile.load(%a, [:, :, :])
        %bt = tile.load(%b, [:, :, :])
        %transposed = tile.transpose(%bt) {{permutation = [0, 2, 1]}}
        %product = tile.dot(%at, %transposed) {{dtype = {total}}}
        tile.store(%c, [:, :, :], %product)
      }}
      tile.return([%c])
    }}
    """


@cache
def compiled(text: str, machine: str | None) -> CompiledForCpu:
    return compiled_for_cpu(parse_module(text), machine=MACHINES[machine] if machine else None)


def drawn(shape: tuple[int, ...], dtype: str, seed: int, *, transposed: bool = False) -> Array:
    """Numbers; `transposed`: each matrix is stored by columns."""
    generator = np.random.default_rng(seed)
    floats = BY_NAME[dtype].is_float
    values: Array = generator.standard_normal(shape) if floats else generator.integers(-99, 99, shape)
    stored: Array = np.asarray(values, to_numpy(BY_NAME[dtype]))
    if transposed:
        columns: Array = np.ascontiguousarray(np.swapaxes(stored, 1, 2))
        stored = np.swapaxes(columns, 1, 2)
    return stored


@pytest.mark.parametrize("sizes", [(17, 17, 17), (33, 16, 50), (20, 37, 1), (64, 5, 300), (18, 90, 31), (40, 3, 530)])
@pytest.mark.parametrize("machine", [None, "avx2"])
def test_products_of_transposed_matrices(sizes: tuple[int, int, int], machine: str | None) -> None:
    rows, columns, depth = sizes
    a = drawn((2, rows, depth), "f32", 0, transposed=True)
    b = drawn((2, columns, depth), "f32", 1)
    text = product("f32", "f32")
    (got,), (want,) = compiled(text, machine).run(a, b), run(text, a, b)
    assert_close(got, want, terms=depth)


@pytest.mark.parametrize(("dtype", "total"), [("f64", "f64"), ("f16", "f32"), ("bf16", "f32"), ("i8", "i32")])
def test_other_dtypes(dtype: str, total: str) -> None:
    a, b = drawn((2, 39, 45), dtype, 0, transposed=True), drawn((2, 50, 45), dtype, 1)
    text = product(dtype, total)
    (got,), (want,) = compiled(text, None).run(a, b), run(text, a, b)
    assert_close(got, want, terms=45)


def test_nothing_is_gathered_for_a_square() -> None:
    text = emit_program(parse_module(product("f32", "f32")).entry, MACHINES["avx2"]).text
    assert len(re.findall(r"shufflevector <8 x float> %[tv]", text)) >= 3 * 8


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_a_square_is_transposed_by_halves(lanes: int) -> None:
    """As many steps as the lanes have bits, a shuffle for each vector in each: read back by playing them."""
    writer = FunctionWriter(ModuleWriter(), "void @f()")
    known = {f"%row{row}": [(row, column) for column in range(lanes)] for row in range(lanes)}
    columns = transpose(writer, VectorType(f32, lanes), list(known))
    writer.line("ret void")
    writer.finish()
    shuffles = [line for line in writer.module.functions[-1].splitlines() if "shufflevector" in line]
    assert len(shuffles) == lanes * (lanes.bit_length() - 1)
    for line in shuffles:
        made, _, rest = line.strip().partition(" = shufflevector ")
        a, b = (word for word in rest.replace(",", " ").split() if word.startswith("%"))
        picked = [int(word) for word in rest.rpartition("<")[2].rstrip(">").replace("i32", "").split(",")]
        known[made] = [(known[a] + known[b])[place] for place in picked]
    assert [known[name] for name in columns] == [[(r, c) for r in range(lanes)] for c in range(lanes)]
