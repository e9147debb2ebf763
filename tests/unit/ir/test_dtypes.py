"""Element types beside those of NumPy and ml_dtypes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tiledsl.ir.dtypes import (
    ALL,
    BY_NAME,
    DType,
    Kind,
    bf16,
    bool_,
    compute_dtype,
    f8e4m3,
    f8e5m2,
    f16,
    f32,
    f64,
    from_numpy,
    i4,
    i8,
    i32,
    i64,
    promote,
    promote_weak,
    to_numpy,
    u4,
    u8,
    u64,
)

IN_NUMPY = [dtype for dtype in ALL if dtype not in (i4, u4)]
EXTENSIONS = (bf16, f8e4m3, f8e5m2)


def numpy_result(a: DType, b: DType) -> DType | None:
    """The dtype of a sum of two arrays, by NumPy and ml_dtypes themselves."""
    return from_numpy((np.zeros(1, to_numpy(a)) + np.zeros(1, to_numpy(b))).dtype)


@pytest.mark.parametrize("a", IN_NUMPY, ids=str)
def test_promotion_is_that_of_an_addition(a: DType) -> None:
    for b in IN_NUMPY:
        assert promote(a, b) == numpy_result(a, b), f"{a} + {b}"


def test_promotion_commutes_and_keeps_equals() -> None:
    for a in IN_NUMPY:
        assert promote(a, a) == a
        for b in IN_NUMPY:
            assert promote(a, b) == promote(b, a)


@pytest.mark.parametrize(
    ("a", "b", "expected"), [(f16, bf16, f32), (f8e4m3, bf16, f32), (bf16, i8, bf16), (bf16, i32, f64)]
)
def test_promotion_of_bfloat16_and_8_bit_floats(a: DType, b: DType, expected: DType) -> None:
    assert promote(a, b) == expected


PYTHON_SCALARS: dict[Kind, int | float | bool] = {"float": 1.5, "int": 3, "bool": True}


@pytest.mark.parametrize("kind", PYTHON_SCALARS)
def test_weak_scalars_give_way_as_in_numpy(kind: Kind) -> None:
    for strong in IN_NUMPY:
        if strong in EXTENSIONS:
            continue  # ml_dtypes leave weak scalars to NumPy's rules for unknown types
        expected = from_numpy((np.zeros(1, to_numpy(strong)) + PYTHON_SCALARS[kind]).dtype)
        assert promote_weak(strong, kind) == expected, f"{strong} with a Python {kind}"


@pytest.mark.parametrize(("strong", "kind"), [(bf16, "float"), (f8e4m3, "int"), (f8e5m2, "bool")])
def test_weak_scalars_do_not_widen_narrow_floats(strong: DType, kind: Kind) -> None:
    assert promote_weak(strong, kind) == strong


def test_numpy_round_trip() -> None:
    for dtype in IN_NUMPY:
        assert from_numpy(to_numpy(dtype)) == dtype
        assert to_numpy(dtype).itemsize == dtype.bytes
    assert to_numpy(bf16) == np.dtype(ml_dtypes.bfloat16)
    for dtype in (i4, u4):
        with pytest.raises(KeyError):
            to_numpy(dtype)


@pytest.mark.parametrize("name", ["complex64", "object", "longdouble", "datetime64[s]", ">f4", "S3"])
def test_foreign_dtypes(name: str) -> None:
    assert from_numpy(np.dtype(name)) is None


def test_kinds() -> None:
    assert f32.is_float
    assert not f32.is_integer
    assert u8.is_integer
    assert not u8.is_signed
    assert not bool_.is_integer
    assert [str(compute_dtype(d)) for d in (f16, bf16, f8e5m2, f32, f64, i8)] == [
        "f32",
        "f32",
        "f32",
        "f32",
        "f64",
        "i8",
    ]
    assert BY_NAME["u64"] == u64
    assert repr(i64) == "tile.i64"
    assert promote(i32, f32) == f64
