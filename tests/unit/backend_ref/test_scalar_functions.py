"""The NumPy meaning of each elementwise function, at the places where meanings differ."""

import math
import warnings
from typing import Any

import numpy as np
import pytest

from tiledsl.backend_ref.scalar_functions import FUNCTIONS, Array, apply, cast, constant
from tiledsl.ir import dtypes
from tiledsl.ir.dtypes import BY_NAME, DType, to_numpy
from tiledsl.ir.fold_identities import fold_identity
from tiledsl.ir.scalar_functions import SCALAR_FUNCTIONS, ScalarFunction

STORED = [dtype for dtype in dtypes.ALL if dtype.bits >= 8]
NUMBERS = {
    "float": [0.0, -0.0, 1.0, -1.5, 2.5, math.inf, -math.inf, math.nan],
    "int": [0, 1, -1, 3, -128, 127, 2, 5],
    "uint": [0, 1, 2, 3, 128, 255, 31, 200],
    "bool": [False, True] * 4,
}


def array(values: Any, dtype: DType) -> Array:
    return np.asarray(values).astype(to_numpy(dtype))


def test_every_function_has_a_meaning() -> None:
    assert set(FUNCTIONS) == set(SCALAR_FUNCTIONS)


@pytest.mark.parametrize("row", SCALAR_FUNCTIONS.values(), ids=lambda row: row.name)
def test_takes_every_dtype_of_its_domain_without_warnings(row: ScalarFunction) -> None:
    for dtype in STORED:
        if not row.accepts(dtype):
            continue
        numbers = array(NUMBERS[dtype.kind], dtype)
        operands = [numbers[:, None], numbers[None, :], numbers[::-1, None]][: row.arity]
        if row.name == "where":
            operands[0] = array(NUMBERS["bool"], dtypes.bool_)[:, None]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = apply(row.name, *operands)
            scalars = apply(row.name, *(x.ravel()[3] for x in operands))
        assert result.dtype == to_numpy(row.result(dtype)), dtype
        assert result.shape == np.broadcast_shapes(*(x.shape for x in operands))
        assert isinstance(scalars, np.ndarray)
        assert scalars.shape == ()


INTEGER_CASES = [
    ("floordiv", "i32", [7, -7, 7, -7, 5, -(2**31)], [2, 2, -2, -2, 0, -1], [3, -4, -4, 3, 0, -(2**31)]),
    ("mod", "i32", [7, -7, 7, -7, 5, -(2**31)], [2, 2, -2, -2, 0, -1], [1, 1, -1, -1, 0, 0]),
    ("floordiv", "u8", [7, 255, 9], [2, 16, 0], [3, 15, 0]),
    ("add", "i8", [127, -128], [1, -1], [-128, 127]),
    ("mul", "i32", [2**30], [4], [0]),
    ("pow", "i32", [2, -2, 3, 1, -1, -1, 2, 0], [10, 3, 0, -4, -3, -2, -1, -1], [1024, -8, 1, 1, -1, 1, 0, 0]),
    ("pow", "u8", [2, 3], [9, 2], [0, 9]),
    ("shl", "i32", [1, 1, -1, 1], [31, 32, 4, 33], [-(2**31), 0, -16, 0]),
    ("shr", "i32", [-16, 16, -1, 5], [2, 2, 40, 40], [-4, 4, -1, 0]),
    ("shr", "u32", [2**31, 2**31], [31, 32], [1, 0]),
    ("minimum", "i64", [3, -4], [-3, 4], [-3, -4]),
    ("xor", "u16", [0xFF00], [0x0FF0], [0xF0F0]),
]


@pytest.mark.parametrize(("name", "dtype", "left", "right", "expected"), INTEGER_CASES)
def test_integers(name: str, dtype: str, left: list[int], right: list[int], expected: list[int]) -> None:
    kind = BY_NAME[dtype]
    assert apply(name, array(left, kind), array(right, kind)).tolist() == expected


def test_unary_integers() -> None:
    assert apply("neg", array([-128, 5], dtypes.i8)).tolist() == [-128, -5]
    assert apply("abs", array([-128, -5], dtypes.i8)).tolist() == [-128, 5]
    assert apply("not", array([0, 5], dtypes.i32)).tolist() == [-1, -6]
    assert apply("not", array([True, False], dtypes.bool_)).tolist() == [False, True]


@pytest.mark.parametrize("name", ["f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2"])
def test_nan_propagates_through_extrema_and_fails_comparisons(name: str) -> None:
    dtype = BY_NAME[name]
    left, right = array([math.nan, 1.0, 1.0], dtype), array([1.0, math.nan, 2.0], dtype)
    for fn, last in (("minimum", 1.0), ("maximum", 2.0)):
        result = cast(apply(fn, left, right), dtypes.f64)
        assert np.isnan(result[:2]).all()
        assert result[2] == last
    assert apply("eq", left, left).tolist() == [False, True, True]
    assert apply("ne", left, left).tolist() == [True, False, False]
    assert apply("lt", left, right).tolist() == [False, False, True]


def test_float_division_rounds_down_like_python() -> None:
    left, right = [7.5, -7.5, 7.5, 1.0], [2.0, 2.0, -2.0, 0.1]
    assert apply("floordiv", np.array(left), np.array(right)).tolist() == [a // b for a, b in zip(left, right)]
    assert apply("mod", np.array(left), np.array(right)).tolist() == [a % b for a, b in zip(left, right)]


def test_narrow_floats_are_computed_in_f32_and_rounded_once() -> None:
    for dtype in (dtypes.f16, dtypes.bf16):
        numbers = array(np.linspace(0.1, 3, 57), dtype)
        expected = array(np.exp(numbers.astype(np.float64)), dtype)
        np.testing.assert_array_equal(apply("exp", numbers), expected)
    # 2049 is halfway between two numbers of f16; the even one is 2048
    assert float(apply("add", array(2048, dtypes.f16), array(1, dtypes.f16))) == 2048
    # 300 * 300 is too large for f16, but not inside of fma
    fused = apply("fma", array(300, dtypes.f16), array(300, dtypes.f16), array(-60000, dtypes.f16))
    assert float(fused) == 30000


def test_erf_matches_the_c_library() -> None:
    x = np.linspace(-4, 4, 33)
    np.testing.assert_array_equal(apply("erf", x), [math.erf(v) for v in x])
    single = apply("erf", x.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_array_max_ulp(single, np.array([math.erf(v) for v in x], np.float32), 1)


def test_fma_rounds_once() -> None:
    a = np.array([1 + 2.0**-30])
    lost = (a * a - 1) - 2.0**-29  # what two roundings leave
    assert apply("fma", a, a, np.array([-1 - 2.0**-29])).tolist() == [2.0**-60]
    assert lost.tolist() != [2.0**-60]
    extremes = apply("fma", np.array([math.inf, 1e308, 0.0]), np.array([1.0, 10.0, -1.0]), np.array([1.0, 1.0, -0.0]))
    assert extremes.tolist() == [math.inf, math.inf, 0.0]
    assert math.copysign(1, extremes[2]) == -1


def test_functions_at_their_edges() -> None:
    edges = np.array([math.inf, -math.inf, 0.0, -800.0])
    assert apply("sigmoid", edges).tolist() == [1.0, 0.0, 0.5, 0.0]
    assert apply("rsqrt", np.array([4.0, 0.0, math.inf])).tolist() == [0.5, math.inf, 0.0]
    assert apply("round", np.array([0.5, 1.5, -2.5])).tolist() == [0.0, 2.0, -2.0]
    assert apply("exp2", np.array([3.0, -1.0], np.float32)).tolist() == [8.0, 0.5]
    assert apply("log", np.array([0.0, 1.0])).tolist() == [-math.inf, 0.0]
    assert apply("pow", np.array([2.0, 9.0], np.float32), np.array([-1.0, 0.5], np.float32)).tolist() == [0.5, 3.0]


@pytest.mark.parametrize("name", ["f64", "f32", "f16", "bf16"])
def test_where_picks_by_condition(name: str) -> None:
    dtype = BY_NAME[name]
    picked = apply("where", np.array([True, False]), array([1, 2], dtype), array([3, 4], dtype))
    assert picked.dtype == to_numpy(dtype)
    assert cast(picked, dtypes.f64).tolist() == [1, 4]


def test_cast() -> None:
    assert cast(np.array([1.9, -1.9]), dtypes.i32).tolist() == [1, -1]
    assert cast(np.array([0.0, -0.5, math.nan]), dtypes.bool_).tolist() == [False, True, True]
    assert cast(array([0, 0.5], dtypes.bf16), dtypes.bool_).tolist() == [False, True]
    assert cast(np.array([300, -1]), dtypes.u8).tolist() == [44, 255]
    assert float(cast(np.asarray(1 + 2.0**-8), dtypes.bf16)) == 1.0  # a tie goes to even
    assert cast(np.array([True, False]), dtypes.f16).tolist() == [1.0, 0.0]
    same = np.arange(3)
    assert cast(same, dtypes.i64) is same


@pytest.mark.parametrize("source", [dtypes.f64, dtypes.f32, dtypes.bf16], ids=str)
def test_floats_out_of_range_give_the_nearest_integer_and_nan_gives_0(source: DType) -> None:
    floats = array([math.nan, math.inf, -math.inf, 1e30, -1e30, -0.5], source)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for target in (dtypes.i64, dtypes.i32, dtypes.i8, dtypes.u64, dtypes.u8):
            limits = np.iinfo(to_numpy(target))
            expected = [0, limits.max, limits.min, limits.max, limits.min, 0]
            assert cast(floats, target).tolist() == expected
            assert cast(floats[1], target).tolist() == limits.max


def test_f64_is_rounded_once() -> None:
    # just above a tie, by less than f32 can hold: through f32 it would round to even, down
    assert float(cast(np.asarray(1 + 2.0**-8 + 2.0**-40), dtypes.bf16)) == 1 + 2.0**-7
    assert float(cast(np.asarray(1 + 2.0**-8 - 2.0**-40), dtypes.bf16)) == 1
    assert math.isnan(float(cast(np.asarray(math.nan), dtypes.bf16)))
    random = np.random.default_rng(0)
    numbers = np.ldexp(random.standard_normal(20_000), random.integers(-30, 20, 20_000))
    ties = np.arange(0.5, 300, 0.5) * 2.0**-24
    with np.errstate(over="ignore"), warnings.catch_warnings():
        for source in (numbers, ties, np.array([math.inf, -math.inf, 1e300, 65519.99, 65520, 1e-300])):
            expected = source.astype(np.float16)
            warnings.simplefilter("error")
            np.testing.assert_array_equal(cast(source, dtypes.f16), expected)


@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_every_dtype_casts_to_every_other(dtype: DType) -> None:
    source = array([0, 1], dtype)
    for target in STORED:
        result = cast(source, target)
        assert result.dtype == to_numpy(target)
        assert cast(result, dtypes.f64).tolist() == [0.0, 1.0]


def test_constants_wrap_and_round() -> None:
    assert constant(-1, dtypes.u32).tolist() == 2**32 - 1
    assert constant(2**63, dtypes.i64).tolist() == -(2**63)
    assert constant(True, dtypes.bool_).tolist() is True
    assert float(constant(0.1, dtypes.f32)) == float(np.float32(0.1))
    assert float(constant(-math.inf, dtypes.bf16)) == -math.inf


@pytest.mark.parametrize("dtype", STORED, ids=str)
@pytest.mark.parametrize(
    ("fold", "function"),
    [("add", "add"), ("mul", "mul"), ("max", "maximum"), ("min", "minimum"), ("and", "and"), ("or", "or")],
)
def test_identity_changes_nothing(dtype: DType, fold: str, function: str) -> None:
    if not SCALAR_FUNCTIONS[function].accepts(dtype):
        return
    numbers = array([v for v in NUMBERS[dtype.kind] if not math.isinf(v)], dtype)
    start = constant(fold_identity(fold, dtype), dtype)
    assert start.dtype == to_numpy(dtype)
    np.testing.assert_array_equal(
        cast(apply(function, start, numbers), dtypes.f64), cast(numbers, dtypes.f64), strict=True
    )
