"""Every scalar function of the IR on every dtype it takes, against the reference; those of f32 to their last bits."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tests.support.gpu_cases.scalar_operands import DTYPES, RANGES, in_range, operands_of, ulps_apart
from tests.support.jit import Array, elementwise
from tiledsl.backend_cpu.functions.vector_math import EMITTERS, emit_map
from tiledsl.backend_cpu.llvm.writer import FunctionWriter, VectorType
from tiledsl.backend_ref.scalar_functions import FUNCTIONS, apply, cast
from tiledsl.ir.dtypes import DType, bool_, f8e4m3, f16, f32, f64, i32, i64
from tiledsl.ir.scalar_functions import SCALAR_FUNCTIONS

ULPS = {
    "exp": 2.0, "exp2": 2.0, "log": 1.5, "log2": 1.5, "sin": 2.0, "cos": 2.0, "rsqrt": 1.5, "pow": 1.0,
    "tanh": 4.0, "sigmoid": 4.0, "sigmoid2": 4.0, "erf": 4.0,
}  # fmt: skip
"""How far results may be from the true ones, in units of the last place; all other functions are exact."""


def applied(name: str, dtype: DType, operands: list[Array], lanes: int) -> Array:
    """The function's emitter on arrays; the last operand has the given dtype."""
    function = SCALAR_FUNCTIONS[name]
    inputs = [dtype] * function.arity
    if name == "where":
        inputs[0] = bool_

    def emit(writer: FunctionWriter, values: list[str]) -> str:
        return emit_map(writer, name, VectorType(dtype, lanes), values)

    return elementwise(emit, inputs, function.result(dtype), lanes)(*operands)


@pytest.mark.parametrize("name", SCALAR_FUNCTIONS)
def test_agrees_with_the_reference(name: str) -> None:
    assert name in EMITTERS, f"no emitter for {name}"
    for lanes, dtype in zip(itertools.cycle((8, 1, 16, 5)), DTYPES):
        if SCALAR_FUNCTIONS[name].accepts(dtype):
            operands = operands_of(name, dtype)
            assert_agrees(applied(name, dtype, operands, lanes), name, operands, dtype)


def assert_agrees(got: Array, name: str, operands: list[Array], dtype: DType) -> None:
    want = apply(name, *operands)
    assert got.dtype == want.dtype
    if not SCALAR_FUNCTIONS[name].result(dtype).is_float:
        wrong = got != want
    elif name in ULPS:
        # NumPy's own f64 functions may be off by one; narrow floats are rounded from f32
        wrong = ulps_apart(got, cast(want, f64), dtype) > ULPS[name] + 1
    else:
        wrong = ulps_apart(got, cast(want, f64), dtype) > 0.5
    where = np.flatnonzero(wrong)[:3]
    arguments = [tuple(operand[i] for operand in operands) for i in where]
    assert not wrong.any(), f"{name} of {dtype} {arguments} gives {got[where]} instead of {want[where]}"


@pytest.mark.parametrize("lanes", [1, 8, 16])
@pytest.mark.parametrize(("name", "dtype"), [("floordiv", i32), ("pow", i64), ("exp", f32), ("cos", f32), ("fma", f16)])
def test_any_number_of_lanes(name: str, dtype: DType, lanes: int) -> None:
    operands = operands_of(name, dtype)
    np.testing.assert_array_equal(applied(name, dtype, operands, lanes), applied(name, dtype, operands, 4))


@pytest.mark.parametrize("name", RANGES)
def test_f32_is_accurate_to_its_last_bits(name: str) -> None:
    x = in_range(name)
    with np.errstate(all="ignore"):
        want = np.asarray(FUNCTIONS[name](x), np.float64)
    if name == "sigmoid":
        x, want = x[want > 2.0**-126], want[want > 2.0**-126]  # results below may be 0
    apart = ulps_apart(applied(name, f32, [x], 16), want, f32)
    worst = int(apart.argmax())
    assert apart[worst] <= ULPS[name], f"{name}({x[worst]!r}) is {apart[worst]} units in the last place off"


@pytest.mark.parametrize(("name", "low", "high"), [("exp", -740, 709), ("exp2", -1070, 1020), ("tanh", -20, 20)])
def test_f64_exponentials(name: str, low: float, high: float) -> None:
    x = np.random.default_rng(6).uniform(low, high, 20_000)
    with np.errstate(all="ignore"):
        want = np.asarray(FUNCTIONS[name](x), np.float64)
    assert ulps_apart(applied(name, f64, [x], 8), want, f64).max() <= ULPS[name] + 1


@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
def test_logarithms_of_all_sizes(dtype: DType) -> None:
    lowest = -149 if dtype == f32 else -1074
    exponents = np.arange(lowest, 128 if dtype == f32 else 1024)
    powers = cast(2.0**exponents, dtype)
    np.testing.assert_array_equal(applied("log2", dtype, [powers], 8), cast(exponents, dtype))
    got = applied("log", dtype, [powers], 8)
    assert ulps_apart(got, exponents * math.log(2), dtype).max() <= ULPS["log"]


@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
def test_the_ends_of_exp(dtype: DType) -> None:
    end = 88.72 if dtype == f32 else 709.78
    x = cast(np.array([end, end + 0.02, 1e30, np.inf, -np.inf, -1e30, -1000, 0, -0.0, np.nan]), dtype)
    got = applied("exp", dtype, [x], 8)
    assert np.isfinite(got[0])
    np.testing.assert_array_equal(got[1:], np.array([np.inf, np.inf, np.inf, 0, 0, 0, 1, 1, np.nan], got.dtype))


def test_signed_zeros() -> None:
    zeros = np.array([0.0, -0.0], np.float32)
    for name in ("neg", "abs", "tanh", "erf", "sin", "floor", "ceil", "round", "sqrt"):
        got, want = applied(name, f32, [zeros], 8), apply(name, zeros)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want), err_msg=name)
    eighths = cast(zeros, f8e4m3)
    np.testing.assert_array_equal(np.signbit(cast(applied("neg", f8e4m3, [eighths], 8), f32)), [True, False])
