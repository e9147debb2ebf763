"""Which calls share code, and the words for those that do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tiledsl import tile
from tiledsl.ir.dtypes import f16, f32, i64
from tiledsl.runtime.calls.specialise import (
    ConstantKey,
    ScalarKey,
    TensorKey,
    constant_key,
    difference,
    scalar_key,
    tensor_key,
)


def zeros(*shape: int, dtype: Any = np.float32) -> Any:
    return np.zeros(shape, dtype)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (zeros(30, 40), zeros(7, 9)),
        (zeros(32, 16), zeros(16, 160)),
        (zeros(30, 40), zeros(30, 80)[:, 3:44]),
        (zeros(30, 1), zeros(30, 7)[:, 2:3]),
        (zeros(1, 30), np.asfortranarray(zeros(1, 30))),
        (zeros(0, 3), zeros(16, 3)),
    ],
)
def test_arrays_that_share_code(a: Any, b: Any) -> None:
    assert tensor_key(a) == tensor_key(b)


@pytest.mark.parametrize(
    ("array", "key"),
    [
        (zeros(32, 5), TensorKey(f32, (None, None), 1, (True, False))),
        (zeros(32, 5).T, TensorKey(f32, (None, None), 0, (False, True))),
        (zeros(32, 10)[:, ::2], TensorKey(f32, (None, None), None, (True, False))),
        (zeros(dtype=np.float16), TensorKey(f16, (), None, ())),
    ],
)
def test_tensor_key(array: Any, key: TensorKey) -> None:
    assert tensor_key(array) == key


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (1, ScalarKey("int")),
        (True, ScalarKey("bool")),
        (1.5, ScalarKey("float")),
        (np.float32(1), ScalarKey("float", f32)),
        (np.float64(1), ScalarKey("float", tile.f64)),
        (np.int64(1), ScalarKey("int", i64)),
        (np.bool_(True), ScalarKey("bool", tile.bool)),
        (1j, None),
        (np.complex64(1), None),
    ],
)
def test_scalar_key(value: object, key: ScalarKey | None) -> None:
    assert scalar_key(value) == key


def test_constants_are_told_apart_by_type_and_sign() -> None:
    values = [1, 1.0, True, "1", (1,), (True,), 0.0, -0.0, None, tile.f32, tile.auto]
    assert len({constant_key(value, "x") for value in values}) == len(values)


@pytest.mark.parametrize(
    ("given", "plain"), [(np.int32(3), 3), (np.float32, tile.f32), (np.dtype("int8"), tile.i8), ((np.int8(1),), (1,))]
)
def test_numpy_constants_are_plain_ones(given: object, plain: object) -> None:
    assert constant_key(given, "x") == constant_key(plain, "x")


F32_16 = TensorKey(f32, (None, None), 1, (True, True))


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (F32_16, TensorKey(f16, (None, None), 1, (True, True)), "`x`: dtype f32 became f16"),
        (F32_16, TensorKey(f32, (None, None), 0, (True, True)), "`x`: unit stride moved from axis 1 to axis 0"),
        (
            F32_16,
            TensorKey(f32, (None, None), 1, (True, False)),
            "`x`: the size of axis 1 is no longer a multiple of 16",
        ),
        (
            F32_16,
            TensorKey(f32, (None, 64), 1, (True, True)),
            "`x`: the size of axis 1, None before, is specified as 64",
        ),
        (F32_16, TensorKey(f32, (None,), 0, (True,)), "`x`: f32[16*?, 16*?] became f32[16*?]"),
        (F32_16, ScalarKey("float"), "`x`: f32[16*?, 16*?] became float"),
        (ConstantKey("64", 64), ConstantKey("128", 128), "`x`: 64 became 128"),
        (ScalarKey("int"), ScalarKey("int", i64), "`x`: int became scalar i64"),
    ],
)
def test_difference(old: Any, new: Any, text: str) -> None:
    assert difference(["x"], [old], [new]) == [text]


def test_what_is_the_same_is_not_mentioned() -> None:
    keys = (F32_16, ScalarKey("int"))
    assert difference(["x", "n"], keys, keys) == []
