"""Conversions, exhaustively from 8 and 16 bits and at every rounding boundary towards them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.gpu_cases.scalar_operands import DTYPES, assert_same, bits, every_value, reinterpreted, samples
from tests.support.jit import Array, elementwise
from tiledsl.backend_cpu.functions.convert import convert, from_memory, memory_type, to_memory
from tiledsl.backend_cpu.llvm.writer import FunctionWriter, ModuleWriter, VectorType
from tiledsl.backend_ref.scalar_functions import cast
from tiledsl.ir.dtypes import (
    DType,
    bf16,
    bool_,
    f8e4m3,
    f8e5m2,
    f16,
    f32,
    f64,
    i32,
    i64,
    is_narrow_float,
    to_numpy,
)

NARROW = (f16, bf16, f8e4m3, f8e5m2)
INTEGERS = [dtype for dtype in DTYPES if dtype.is_integer]


def converted(array: Array, source: DType, target: DType, lanes: int = 8) -> Array:
    def emit(writer: FunctionWriter, values: list[str]) -> str:
        return convert(writer, values[0], VectorType(source, lanes), VectorType(target, lanes))

    return elementwise(emit, [source], target, lanes)(array)


def small_only(array: Array) -> Array:
    """What every integer type can hold once it is cut off."""
    wide = cast(array, f64)
    return array[(wide >= 0) & (wide < 128)]


@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_every_pair_agrees_with_the_reference(source: DType) -> None:
    values = samples(source)
    for target in DTYPES:
        array = values
        if source == f64 and is_narrow_float(target):
            array = cast(cast(array, f32), f64)  # the reference would round others twice
        assert_same(converted(array, source, target), cast(array, target))


@pytest.mark.parametrize("lanes", [1, 3, 16])
@pytest.mark.parametrize("source", [f32, f8e4m3, bf16, i32, bool_], ids=str)
def test_any_number_of_lanes(source: DType, lanes: int) -> None:
    values = samples(source)
    for target in (f32, f16, f8e5m2, f8e4m3, i64, bool_):
        array = small_only(values)
        assert_same(converted(array, source, target, lanes), cast(array, target))


@pytest.mark.parametrize("target", NARROW, ids=str)
def test_f32_bit_patterns_round_as_ml_dtypes(target: DType) -> None:
    upper = np.arange(2**16, dtype=np.uint32) << 16
    lower = [0, 1, 0x0FFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001, 0xFFFF]
    values = reinterpreted(np.concatenate([upper | np.uint32(low) for low in lower]), f32)
    assert_same(converted(values, f32, target, 16), cast(values, target))


@pytest.mark.parametrize("source", [f32, f64], ids=str)
@pytest.mark.parametrize("target", NARROW, ids=str)
def test_ties_go_to_even_and_all_else_to_the_nearest(source: DType, target: DType) -> None:
    positive = every_value(target)[: 2 ** (target.bits - 1)]
    ordered = positive[np.isfinite(cast(positive, f64))]
    low, high = ordered[:-1], ordered[1:]
    middle = ((low.astype(np.float64) + high.astype(np.float64)) / 2).astype(to_numpy(source))
    even = np.where(bits(low) % 2 == 0, low, high)
    above, below = np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf)
    for values, want in ((middle, even), (above, high), (below, low)):
        assert_same(converted(values, source, target), want)
        assert_same(converted(-values, source, target), (-want.astype(np.float64)).astype(to_numpy(target)))


@pytest.mark.parametrize("target", NARROW, ids=str)
def test_what_is_too_large(target: DType) -> None:
    values = np.array([1e39, -1e39, 1e300, np.inf, -np.inf, np.nan])
    got = converted(values, f64, target).astype(np.float64)
    limit = np.nan if target == f8e4m3 else np.inf
    np.testing.assert_array_equal(got, np.array([limit, -limit, limit, limit, -limit, np.nan]))


@pytest.mark.parametrize("target", INTEGERS, ids=str)
@pytest.mark.parametrize("source", [f32, f64, f16], ids=str)
def test_floats_out_of_range_give_the_nearest_end(source: DType, target: DType) -> None:
    ends = np.iinfo(to_numpy(target))
    edges = [float(ends.max), float(ends.min), np.inf, -np.inf, 1e39, -1e39, 60000.0, -60000.0]
    with np.errstate(over="ignore"):
        values = np.array([np.nan, *edges, *np.nextafter(edges, 0), *np.nextafter(edges, np.inf)])
        values = values.astype(to_numpy(source))
    exact = [0 if np.isnan(v) else ends.max if v == np.inf else ends.min if v == -np.inf else int(v) for v in values]
    want = np.array([min(max(int(value), int(ends.min)), int(ends.max)) for value in exact], to_numpy(target))
    for lanes in (1, 8):
        np.testing.assert_array_equal(converted(values, source, target, lanes), want)


def test_large_floats_in_range_are_exact() -> None:
    values = np.array([2.0**62, -(2.0**63), 2.0**31, -(2.0**31) - 1])
    np.testing.assert_array_equal(converted(values, f64, i64), values.astype(np.int64))
    values = np.array([2**31 - 1, -(2**31), 0.999, -0.999])
    np.testing.assert_array_equal(converted(values, f64, i32), values.astype(np.int32))


def test_bool_is_a_byte_in_memory() -> None:
    assert str(memory_type(VectorType(bool_, 4))) == "<4 x i8>"
    assert memory_type(VectorType(f16, 4)) == VectorType(f16, 4)
    any_byte = reinterpreted(np.array([0, 1, 2, 255], np.uint8), bool_)
    np.testing.assert_array_equal(converted(any_byte, bool_, i32, lanes=4), [0, 1, 1, 1])
    writer = FunctionWriter(ModuleWriter(), "void @f()")
    assert to_memory(writer, "%x", VectorType(f32)) == "%x"
    assert from_memory(writer, "%x", VectorType(f32)) == "%x"
