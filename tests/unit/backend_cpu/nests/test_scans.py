"""Scans along what is contiguous and across it, with readers of all kinds, against the reference executor."""

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

SIZES = [(1, 1), (2, 0), (5, 16), (17, 3), (4, 131), (40, 70)]
READERS = {
    "stored": "tile.store(%y, [%a, :, :], %r)",
    "computed with": """
        %sum = tile.map([%r, %t]) {fn = add}
        tile.store(%y, [%a, :, :], %sum)""",
    "scanned again": """
        %twice = tile.scan([%r]) {axis = 1, fn = max, reverse = REVERSE}
        tile.store(%y, [%a, :, :], %twice)""",
    "scanned the other way": """
        %back = tile.scan([%r]) {axis = 1, fn = add, reverse = OTHER}
        tile.store(%y, [%a, :, :], %back)""",
    "folded too": """
        %most = tile.reduce([%r]) {axes = [2], fn = max, keepdims = true}
        %all = tile.broadcast(%most) {shape = [a, B, C]}
        %less = tile.map([%r, %all]) {fn = sub}
        tile.store(%y, [%a, :, :], %less)""",
    "read behind a loop": """
        %start = tile.constant() {value = 0, dtype = i64}
        %stop = tile.constant() {value = 2, dtype = i64}
        %kept = tile.range(%start, %stop, [%t]) {blocks = [1]} body(%i: i64, %part: tile<DTYPE, [a, B, C]>) {
          %next = tile.map([%part, %r]) {fn = add}
          tile.yield([%next])
        }
        tile.store(%y, [%a, :, :], %kept)""",
    "over what it is of": """
        tile.store(%x, [%a, :, :], %r)
        %again = tile.load(%x, [%a, :, :])
        tile.store(%y, [%a, :, :], %again)""",
}


def scan(dtype: str, fn: str, axis: int, unit: int, reverse: bool, reader: str = "stored") -> str:
    flag, other = ("true", "false") if reverse else ("false", "true")
    body = READERS[reader].replace("REVERSE", flag).replace("OTHER", other).replace("DTYPE", dtype)
    return f"""
    func @f(%x: tensor<{dtype}, [A, B, C], unit={unit}>) {{
      %y = tile.empty() {{shape = [A, B, C], dtype = {dtype}}}
      %A = tile.size() {{value = A}}
      tile.grid([%A]) {{blocks = [auto]}} body(%a: axis<a>) {{
        %t = tile.load(%x, [%a, :, :])
        %r = tile.scan([%t]) {{axis = {axis}, fn = {fn}, reverse = {flag}}}
        {body}
      }}
      tile.return([%y])
    }}
    """


def drawn(shape: tuple[int, ...], dtype: str, unit: int) -> Array:
    generator = np.random.default_rng(sum(shape))
    values: Array = generator.integers(-3, 4, shape)
    order = [axis for axis in range(3) if axis != unit] + [unit]
    laid_out: Array = np.ascontiguousarray(np.transpose(np.asarray(values, to_numpy(BY_NAME[dtype])), order))
    return np.transpose(laid_out, [order.index(axis) for axis in range(3)])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("unit", [1, 2])
@pytest.mark.parametrize("axis", [1, 2])
def test_scans_in_every_orientation(axis: int, unit: int, reverse: bool) -> None:
    text = scan("f32", "add", axis, unit, reverse)
    for sizes in SIZES:
        x = drawn((3, *sizes), "f32", unit)
        (got,), (want,) = run_on_cpu(text, x, block=2), run(text, x, block=2)
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("fn", ["add", "mul", "max", "min"])
@pytest.mark.parametrize("dtype", ["f64", "i64", "f16", "bf16", "i8", "u16"])
def test_other_dtypes_and_functions(dtype: str, fn: str) -> None:
    for axis, reverse in ((1, False), (2, True), (2, False)):
        x = drawn((2, 5, 37), dtype, 2)
        text = scan(dtype, fn, axis, 2, reverse)
        (got,), (want,) = run_on_cpu(text, x, block=2), run(text, x, block=2)
        assert_close(got, want, terms=37)


@pytest.mark.parametrize("reader", READERS)
def test_readers(reader: str) -> None:
    for axis, unit, reverse in ((1, 2, False), (2, 2, True), (2, 1, False)):
        x = drawn((3, 19, 35), "i64", unit)
        text = scan("i64", "add", axis, unit, reverse, reader)
        (got,), (want,) = run_on_cpu(text, np.array(x, order="K"), block=2), run(text, np.array(x, order="K"), block=2)
        np.testing.assert_array_equal(got, want)


def test_zeros_keep_their_signs() -> None:
    x = np.full((1, 1, 20), -0.0, np.float32)
    (got,) = run_on_cpu(scan("f32", "add", 2, 2, False), x, block=2)
    assert np.signbit(got).all()


def test_what_reads_a_scan_at_once_needs_no_scratch() -> None:
    """The result goes from registers to where it is stored."""

    def scratch_of(reader: str) -> str:
        text = scan("f32", "add", 2, 2, False, reader).replace("auto", "upto(1024, 16)")
        emitted = emit_program(parse_module(text).entry, MACHINES["avx2"]).text
        return next(line for line in emitted.splitlines() if "ret i64" in line)

    assert scratch_of("stored").split() == ["ret", "i64", "0"]
    assert scratch_of("computed with").split() == ["ret", "i64", "0"]
    assert scratch_of("folded too").split() != ["ret", "i64", "0"]
