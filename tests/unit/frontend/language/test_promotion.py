"""Dtypes of results, against NumPy's rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tiledsl.frontend.language.promotion import Strength, constant_in, float_for, promote_all, sum_dtype, weak_strength
from tiledsl.ir.dtypes import ALL, DType, bool_, f16, f32, f64, from_numpy, i8, i32, i64, to_numpy, u8

IN_NUMPY = [d for d in ALL if d.bits != 4 and d.name not in ("bf16", "f8e4m3", "f8e5m2")]


def of(dtype: Any) -> DType:
    found = from_numpy(np.dtype(dtype))
    assert found is not None
    return found


@pytest.mark.parametrize("dtype", IN_NUMPY, ids=str)
def test_function_and_sum_dtypes_are_those_of_numpy(dtype: DType) -> None:
    ones = np.ones(1, to_numpy(dtype))
    assert float_for(dtype) == of(np.exp(ones).dtype)
    assert sum_dtype(dtype) == of(ones.sum().dtype)


@pytest.mark.parametrize("number", [True, 2, 2.5])
@pytest.mark.parametrize("dtype", IN_NUMPY, ids=str)
def test_python_numbers_give_way_as_in_numpy(dtype: DType, number: float) -> None:
    expected = of(np.multiply(np.ones(1, to_numpy(dtype)), number).dtype)
    assert promote_all([Strength(dtype, weak=False), weak_strength(number)]) == Strength(expected, weak=False)


def test_python_numbers_alone_stay_weak() -> None:
    assert promote_all([weak_strength(1), weak_strength(True)]) == Strength(i64, weak=True)
    assert promote_all([weak_strength(1), weak_strength(0.5)]) == Strength(f64, weak=True)
    assert promote_all([weak_strength(True)]) == Strength(bool_, weak=True)


def test_several_strong_operands() -> None:
    def strong(*dtypes: DType) -> DType:
        return promote_all([Strength(d, weak=False) for d in dtypes]).dtype

    assert strong(i8, u8, f16) == f32
    assert strong(i32, f32) == f64
    assert strong(f16, f32) == f32


@pytest.mark.parametrize(
    ("number", "dtype", "constant"),
    [
        (127, i8, 127), (128, i8, None), (-128, i8, -128), (-129, i8, None), (255, u8, 255), (-1, u8, None),
        (2.7, i8, 2), (float("inf"), i64, None), (10**400, i64, None), (10**400, f64, None), (10**400, bool_, True),
        (3, f32, 3.0), (float("-inf"), f16, float("-inf")),
    ],
)  # fmt: skip
def test_numbers_as_constants(number: float, dtype: DType, constant: object) -> None:
    assert constant_in(number, dtype) == constant
