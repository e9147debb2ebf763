"""Register types, literals, and expressions as operands."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.gpu_cases.scalar_operands import DTYPES, assert_same
from tests.support.gpu_code.device_functions import Case, compile_for_host, host_compiler
from tiledsl.backend_cuda.functions.preamble import Preamble
from tiledsl.backend_cuda.functions.scalars import c_type, constant, enclosed, is_subset, memory_type, rounded, wrapped
from tiledsl.backend_ref.scalar_functions import constant as reference_constant
from tiledsl.ir.dtypes import ALL, BY_NAME, DType, bf16, f8e4m3, f8e5m2, f16, f32, f64, i4, i8, i32, i64, u4, u16, u64

FLOATS = [dtype for dtype in DTYPES if dtype.is_float]


def test_types() -> None:
    types = {dtype.name: c_type(dtype) for dtype in ALL}
    assert [types[name] for name in ("f64", "bf16", "f8e4m3")] == ["double", "float", "float"]
    assert [types[name] for name in ("i64", "i32", "i8", "i4")] == ["long long", "int", "int", "int"]
    assert [types[name] for name in ("u64", "u16", "bool")] == ["unsigned long long", "unsigned", "bool"]
    assert [memory_type(BY_NAME[n]) for n in ("bf16", "i8", "u8", "bool", "f32")] == [
        "unsigned short", "signed char", "unsigned char", "unsigned char", "float",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (0.1, f32, "0.1f"),
        (0.1, bf16, "0.100097656f"),
        (1, f32, "1.0f"),
        (-0.0, f32, "-0.0f"),
        (1e-45, f32, "1e-45f"),
        (math.inf, f32, "__uint_as_float(0x7f800000u /* inf */)"),
        (1e39, f32, "__uint_as_float(0x7f800000u /* inf */)"),
        (500.0, f8e4m3, "__uint_as_float(0x7fc00000u /* nan */)"),
        (-math.inf, f64, "__longlong_as_double(0xfff0000000000000ull /* -inf */)"),
        (-1, i64, "-1ll"),
        (-1, u64, "18446744073709551615ull"),
        (-(2**31), i32, "(-2147483647 - 1)"),
        (300, i8, "44"),
        (1, BY_NAME["bool"], "true"),
    ],
)
def test_literals(value: float, dtype: DType, text: str) -> None:
    assert constant(value, dtype) == text


@given(st.floats(), st.sampled_from(FLOATS))
def test_rounds_as_the_reference(value: float, dtype: DType) -> None:
    assert_same(np.array([rounded(value, dtype)]), reference_constant(value, dtype).astype(np.float64)[None])


@pytest.mark.skipif(host_compiler() is None, reason="no C compiler: generated C was not run")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_literals_are_exact(dtype: DType, tmp_path: Path) -> None:
    values: list[float] = [0, 1, -1, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 127, -128, 2**64 - 1]
    if dtype.is_float:
        values += [0.1, -0.0, 1 / 3, math.inf, -math.inf, math.nan, 1e-40, 3e38, 1e300, 2.0**-149, 2.0**-9, 448]

    def case(number: int, value: float) -> Case:
        return Case(f"case{number}", (dtype,), dtype, lambda o, p: constant(value, dtype))

    library = compile_for_host([case(n, value) for n, value in enumerate(values)], Preamble(), tmp_path)
    for number, value in enumerate(values):
        want = reference_constant(value, dtype)
        assert_same(library.apply(f"case{number}", want[None]), want[None])


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("x", "x"),
        ("f(a)(b)", "(f(a)(b))"),
        ("f(a, g(b))", "f(a, g(b))"),
        ("(a + b)", "(a + b)"),
        ("(a) + (b)", "((a) + (b))"),
        ("a + b", "(a + b)"),
        ("-1", "(-1)"),
        ("1.5e-05f", "1.5e-05f"),
        ("(int)x", "((int)x)"),
    ],
)
def test_enclosed(expression: str, text: str) -> None:
    assert enclosed(expression) == text


def test_wrapped() -> None:
    assert wrapped("a + b", i8) == "(int)(signed char)(a + b)"
    assert wrapped("a", u16) == "((unsigned)a & 0xffffu)"
    assert wrapped("a", i4) == "((int)((unsigned)a << 28) >> 28)"
    assert wrapped("a", u4) == "((unsigned)a & 0xfu)"
    assert wrapped("a", i64) == "(long long)a"


def test_subsets() -> None:
    pairs = {(a.name, b.name) for a in FLOATS for b in FLOATS if a != b and is_subset(a, b)}
    assert {(f8e4m3.name, f16.name), (f8e4m3.name, bf16.name), (f8e5m2.name, f16.name), (f32.name, f64.name)} <= pairs
    assert not {("f16", "bf16"), ("bf16", "f16"), ("f8e5m2", "f8e4m3"), ("f64", "f32")} & pairs
