"""Conversions in CUDA C, exhaustively from 8 and 16 bits and at every rounding boundary towards them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.gpu_cases.device_cases import cast_cases, packed_cases
from tests.support.gpu_cases.scalar_operands import DTYPES, Array, assert_same, every_value, reinterpreted, samples
from tests.support.gpu_code.device_functions import HostLibrary, compile_for_host, host_compiler
from tiledsl.backend_cuda.functions.casts import cast, pack, per_word, unpack
from tiledsl.backend_cuda.functions.preamble import Preamble
from tiledsl.backend_ref.scalar_functions import cast as reference_cast
from tiledsl.ir.dtypes import BY_NAME, DType, bf16, f8e4m3, f8e5m2, f16, f32, f64, i8, i32, i64, to_numpy, u8, u16, u32

needs_compiler = pytest.mark.skipif(host_compiler() is None, reason="no C compiler: generated C was not run")

PACKED = [dtype for dtype in DTYPES if dtype.bits < 32]
NARROW_FLOATS = (f16, bf16, f8e4m3, f8e5m2)


@pytest.fixture(scope="module", params=[80, 90])
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> HostLibrary:
    """For an architecture without instructions for 8-bit floats, and for one that has some."""
    cases = [case for dtype in DTYPES for case in cast_cases(dtype)]
    cases += [case for dtype in PACKED for case in packed_cases(dtype)]
    return compile_for_host(cases, Preamble(request.param), tmp_path_factory.mktemp("host"))


def converted(host: HostLibrary, array: Array, source: DType, target: DType) -> Array:
    return host.apply(f"cast_{source}_{target}", array)


@needs_compiler
@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_every_pair_agrees_with_the_reference(host: HostLibrary, source: DType) -> None:
    values = samples(source)
    if source.is_float:
        awkward = [
            np.nan,
            np.inf,
            -np.inf,
            -0.5,
            -1,
            -129,
            300,
            40000,
            -70000,
            3e9,
            -3e9,
            1e19,
            -1e19,
            2e19,
            1e30,
            1e200,
        ]
        with np.errstate(over="ignore"):
            values = np.concatenate([values, np.array(awkward).astype(to_numpy(source))])
    for target in DTYPES:
        assert_same(converted(host, values, source, target), reference_cast(values, target))


@needs_compiler
@pytest.mark.parametrize("target", NARROW_FLOATS, ids=str)
def test_f32_bit_patterns_round_as_ml_dtypes(host: HostLibrary, target: DType) -> None:
    upper = np.arange(2**16, dtype=np.uint32) << 16
    lower = [0, 1, 0x0FFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001, 0xFFFF]
    values = reinterpreted(np.concatenate([upper | np.uint32(low) for low in lower]), f32)
    assert_same(converted(host, values, f32, target), reference_cast(values, target))


@needs_compiler
@pytest.mark.parametrize("source", [f32, f64], ids=str)
@pytest.mark.parametrize("target", NARROW_FLOATS, ids=str)
def test_ties_go_to_even_and_all_else_to_the_nearest(host: HostLibrary, source: DType, target: DType) -> None:
    positive = every_value(target)[: 2 ** (target.bits - 1)]
    ordered = positive[np.isfinite(reference_cast(positive, f64))].astype(np.float64)
    middle = ((ordered[:-1] + ordered[1:]) / 2).astype(to_numpy(source))
    values = np.concatenate([middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf)])
    for signed in (values, -values):
        assert_same(converted(host, signed, source, target), reference_cast(signed, target))


@needs_compiler
@pytest.mark.parametrize("dtype", PACKED, ids=str)
def test_words(host: HostLibrary, dtype: DType) -> None:
    values = every_value(dtype)
    values = np.resize(values, -(-len(values) // 4) * 4)
    words = np.frombuffer(values.tobytes(), np.uint32)
    for position in range(per_word(dtype)):
        want = values[position :: per_word(dtype)]
        assert_same(host.apply(f"unpack_{dtype}_{position}", words), want)
        assert_same(host.apply(f"unpack_{dtype}_any", words, np.full(len(words), position)), want)
        if dtype in (i8, u8):
            single = host.apply(f"float_of_byte_{dtype}_case", words, np.full(len(words), position))
            assert_same(single, want.astype(np.float32))


@needs_compiler
@pytest.mark.parametrize("dtype", PACKED, ids=str)
def test_packing_rounds(host: HostLibrary, dtype: DType) -> None:
    if dtype.is_float:
        first = np.random.default_rng(3).normal(0, 20, 1000).astype(np.float32)
        first[:3] = [np.inf, -1e30, 0]
    else:
        first = every_value(dtype)
    other: Array = np.array(first[::-1])
    count = per_word(dtype)
    a, b = reference_cast(first, dtype), reference_cast(other, dtype)
    elements = np.stack([a, *[b] * (count - 2), a], axis=1)
    got = np.frombuffer(host.apply(f"pack_{dtype}_case", first, other).tobytes(), to_numpy(dtype))
    assert_same(got, elements.ravel())


@pytest.mark.parametrize(
    ("source", "target", "text"),
    [
        (f32, f32, "x"),
        (bf16, f32, "x"),
        (f8e5m2, bf16, "x"),
        (f16, f8e5m2, "round_f8e5m2(x)"),
        (f64, bf16, "round_bf16(round_to_odd(x))"),
        (f32, i8, "max(min(f32_to_i32(x), 127), -128)"),
        (f32, u16, "min(f32_to_u32(x), 65535u)"),
        (i64, i8, "(int)(signed char)x"),
        (i32, u8, "((unsigned)x & 0xffu)"),
        (i64, f16, "round_f16((float)x)"),
        (bf16, BY_NAME["bool"], "(x != 0.0f)"),
    ],
)
def test_expressions(source: DType, target: DType, text: str) -> None:
    assert cast("x", source, target, Preamble()) == text


def test_one_conversion_serves_two_elements() -> None:
    preamble = Preamble(90)
    assert unpack("w", 2, f8e4m3, preamble) == "low_f16(pair_f8e4m3(w >> 16))"
    assert unpack("w", 3, f8e4m3, preamble) == "high_f16(pair_f8e4m3(w >> 16))"
    assert unpack("w", 3, f8e4m3, Preamble(80)) == "low_f8e4m3(w >> 24)"


def test_bf16_is_one_instruction_away() -> None:
    preamble = Preamble()
    assert unpack("w", 0, bf16, preamble) == "low_bf16(w)"
    assert unpack("w", "i", bf16, preamble) == "low_bf16(w >> 16 * i)"
    assert "__uint_as_float(word << 16)" in preamble.text()
    assert pack(["a", "b"], bf16, preamble) == "pack_bf16(a, b)"
    assert pack(["a", "b", "c", "d"], i8, preamble) == "pack_bytes(a, b, c, d)"


def test_words_hold_narrow_types_only() -> None:
    with pytest.raises(AssertionError, match="u32 is not packed"):
        per_word(u32)
    assert (per_word(u8), per_word(f16)) == (4, 2)


@needs_compiler
@pytest.mark.parametrize("dtype", [i8, u8], ids=str)
def test_nibbles_as_floats(host: HostLibrary, dtype: DType) -> None:
    words = np.random.default_rng(0).integers(0, 1 << 32, 500, np.uint64).astype(np.uint32)
    for position in range(8):
        want = (words >> np.uint32(4 * position) & np.uint32(15)).astype(np.int32)
        want = (want ^ 8) - 8 if dtype == i8 else want
        given = host.apply(f"float_of_nibble_{dtype}_case", words, np.full(len(words), position))
        assert_same(given, want.astype(np.float32))
