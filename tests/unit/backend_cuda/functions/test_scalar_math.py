"""Every scalar function in CUDA C on every dtype it takes, run by the host's C compiler, against the reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.gpu_cases.device_cases import bound, errors, scalar_cases
from tests.support.gpu_cases.scalar_operands import DTYPES, in_range, operands_of, reinterpreted, ulps_apart
from tests.support.gpu_code.device_functions import Case, HostLibrary, compile_for_host, host_compiler
from tiledsl.backend_cuda.functions.preamble import Preamble
from tiledsl.backend_cuda.functions.scalar_math import ROWS, scalar_function
from tiledsl.backend_cuda.values.known_divisions import rounds_as_division
from tiledsl.backend_ref.scalar_functions import FUNCTIONS, apply, cast
from tiledsl.ir.dtypes import DType, bf16, f8e4m3, f16, f32, f64, i8, i16, i32, i64, u8
from tiledsl.ir.scalar_functions import SCALAR_FUNCTIONS

needs_compiler = pytest.mark.skipif(host_compiler() is None, reason="no C compiler: generated C was not run")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> HostLibrary:
    cases = [case for dtype in DTYPES for case in scalar_cases(dtype)]
    return compile_for_host(cases, Preamble(), tmp_path_factory.mktemp("host"))


def test_every_function_has_a_row() -> None:
    assert set(ROWS) == set(SCALAR_FUNCTIONS)


@needs_compiler
@pytest.mark.parametrize("fn", SCALAR_FUNCTIONS)
def test_agrees_with_the_reference(host: HostLibrary, fn: str) -> None:
    for dtype in DTYPES:
        if SCALAR_FUNCTIONS[fn].accepts(dtype):
            operands = operands_of(fn, dtype)
            got, want = host.apply(f"{fn}_of_{dtype}", *operands), apply(fn, *operands)
            assert got.dtype == want.dtype
            exact = cast(want, f64) if SCALAR_FUNCTIONS[fn].result(dtype).is_float else want
            apart = errors(fn, dtype, got, exact)
            # NumPy's own f64 functions may be off by one
            wrong = np.flatnonzero(apart > bound(fn, dtype) + (fn in ("pow", "sigmoid") and dtype == f64))[:3]
            arguments = [tuple(operand[i] for operand in operands) for i in wrong]
            assert not len(wrong), f"{fn} of {dtype} {arguments} gives {got[wrong]} instead of {want[wrong]}"


@needs_compiler
@pytest.mark.parametrize(("function", "units"), [("div_by_repeated", 2), ("div_f32", 4)])
def test_division_without_branches(function: str, units: int, tmp_path: Path) -> None:
    case = Case("quotients", (f32, f32), f32, lambda o, p: f"{p.use(function)}({o[0]}, {o[1]})")
    host, random = compile_for_host([case], Preamble(), tmp_path), np.random.default_rng(3)
    halves = reinterpreted(np.arange(2**16, dtype=np.uint16), f16).astype(np.float32)
    integers = random.integers(-(2**31), 2**31, 2**17).astype(np.float32)
    floats = reinterpreted(random.integers(0, 2**32, 2**19, np.uint32), f32)
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 1e-38, 3.4e38, 1, 2.0**96], np.float32)
    a = np.concatenate([np.tile(halves, 4), integers, floats, np.tile(special, 10)])
    bits: npt.NDArray[np.uint32] = random.integers(0, 2**32, a.size, np.uint32)
    bits[::3] = 0x3F7FFF00 + bits[::3] % 0x300  # about 1, with the mantissa of all ones among them
    b = np.concatenate([reinterpreted(bits, f32)[: -special.size * 10], np.repeat(special, 10)])
    with np.errstate(all="ignore"):
        got, want = host.apply("quotients", a, b), a / b
        exact = a.astype(np.float64) / b
        usual = (np.abs(a) > 2.0**-100) & (np.abs(exact) > 2.0**-126) & (np.abs(exact) < 2.0**127)
        near = np.abs(got - exact) <= np.maximum(units * np.spacing(np.abs(want)), 2.0**-148)
        near |= np.isinf(got) & (np.abs(exact) >= 2.0**127)
    same = (got == want) & (np.signbit(got) == np.signbit(want))
    wrong = ~same & ~(np.isnan(got) & np.isnan(want)) & (usual | ~near)
    assert not wrong.any(), f"{a[wrong][:3]} / {b[wrong][:3]} gives {got[wrong][:3]}"


@needs_compiler
def test_square_roots_are_rounded_once(tmp_path: Path) -> None:
    case = Case("roots", (f32,), f32, lambda o, p: f"{p.use('sqrt_f32')}({o[0]})")
    host = compile_for_host([case], Preamble(), tmp_path)
    bits = np.random.default_rng(4).integers(0, 2**32, 2**19, np.uint32)
    x = np.concatenate([reinterpreted(bits, f32), np.array([0, -0.0, np.inf, -np.inf, 1e-45, 3.4e38], np.float32)])
    with np.errstate(all="ignore"):
        got, want = host.apply("roots", x), np.sqrt(x)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))


@needs_compiler
@pytest.mark.parametrize("fn", ["sin", "cos"])
def test_angles_of_all_sizes(host: HostLibrary, fn: str) -> None:
    sizes = np.ldexp(np.random.default_rng(2).uniform(1, 2, 60_000), np.arange(60_000) % 128)
    quarters = np.arange(-30_000, 30_000) * (np.pi / 2)  # where a result is next to nothing
    # the float next to a multiple of pi / 2 that is nearest to one
    others = np.concatenate([sizes, -sizes, quarters, [16367173.0 * 2.0**72]]).astype(np.float32)
    x = np.concatenate([in_range(fn), others])
    with np.errstate(all="ignore"):
        want = np.asarray(FUNCTIONS[fn](x), np.float64)
    apart = ulps_apart(host.apply(f"{fn}_of_f32", x), want, f32)
    worst = int(apart.argmax())
    assert apart[worst] <= 1.6, f"{fn}({x[worst]!r}) is {apart[worst]} units in the last place off"


@needs_compiler
def test_sigmoid_is_accurate(host: HostLibrary) -> None:
    x = in_range("sigmoid")
    with np.errstate(all="ignore"):
        want = np.asarray(FUNCTIONS["sigmoid"](x), np.float64)
    assert errors("sigmoid", f32, host.apply("sigmoid_of_f32", x), want).max() <= 3


@needs_compiler
@pytest.mark.parametrize("dtype", [f32, f64, f16, bf16, f8e4m3], ids=str)
def test_signed_zeros(host: HostLibrary, dtype: DType) -> None:
    zeros = cast(np.array([0.0, -0.0]), dtype)
    for fn in ("neg", "abs", "tanh", "erf", "sin", "floor", "ceil", "round", "sqrt"):
        got, want = host.apply(f"{fn}_of_{dtype}", zeros), apply(fn, zeros)
        np.testing.assert_array_equal(np.signbit(cast(got, f32)), np.signbit(cast(want, f32)), err_msg=fn)


@needs_compiler
@pytest.mark.parametrize("fn", ["add", "sub", "mul", "floordiv", "mod", "pow", "shl", "shr"])
@pytest.mark.parametrize("dtype", [i8, u8], ids=str)
def test_bytes_exhaustively(host: HostLibrary, fn: str, dtype: DType) -> None:
    every = np.arange(256).astype(np.int8 if dtype == i8 else np.uint8)
    a, b = (axis.ravel() for axis in np.meshgrid(every, every))
    np.testing.assert_array_equal(host.apply(f"{fn}_of_{dtype}", a, b), apply(fn, a, b))


@pytest.mark.parametrize(
    ("fn", "dtype", "operands", "text"),
    [
        ("add", f32, ("a", "b * c"), "(a + (b * c))"),
        ("add", i32, ("a", "b"), "add_i32(a, b)"),
        ("add", i8, ("a", "b"), "(int)(signed char)(a + b)"),
        ("mul", bf16, ("a", "b"), "round_bf16((a * b))"),
        ("maximum", bf16, ("a", "f(b)"), "max_f32(a, f(b))"),
        ("exp", f32, ("a - b",), "expf(a - b)"),
        ("exp", f16, ("a",), "round_f16(exp_approx(a))"),
        ("neg", i64, ("a",), "neg_i64(a)"),
        ("neg", f32, ("-a",), "(-(-a))"),
        ("where", f64, ("a < b", "a", "b"), "((a < b) ? a : b)"),
    ],
)
def test_expressions(fn: str, dtype: DType, operands: tuple[str, ...], text: str) -> None:
    assert scalar_function(fn, dtype, operands, Preamble()) == text


def test_narrow_results_may_stay_unrounded() -> None:
    assert scalar_function("mul", bf16, ["a", "b"], Preamble(), rounded=False) == "(a * b)"


@needs_compiler
def test_small_integers_by_known_numbers(tmp_path: Path) -> None:
    case = Case("quotients", (f32, f32), f32, lambda o, p: f"{p.use('div_by_known')}({o[0]}, {o[1]})")
    host = compile_for_host([case], Preamble(), tmp_path)
    numbers = [255.0, 127.0, 3.0, 0.1, -7.5, 32767.0, 1e-3, 1.9999999]
    for dtype in (u8, i8, i16):
        for number in filter(lambda n: rounds_as_division(dtype, n), numbers):
            low = 0 if dtype == u8 else -(1 << dtype.bits - 1)
            a = np.arange(low, low + (1 << dtype.bits)).astype(np.float32)
            b = np.full_like(a, number)
            np.testing.assert_array_equal(host.apply("quotients", a, b), a / b)
    assert rounds_as_division(u8, 255.0)
    assert not rounds_as_division(u8, 1e-30)
