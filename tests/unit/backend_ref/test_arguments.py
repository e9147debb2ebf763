"""Sizes read from shapes, and scalars made of Python and NumPy numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tiledsl.backend_ref.arguments import bind_arguments
from tiledsl.ir.text.parser import parse_module


def test_sizes_come_from_bare_symbols() -> None:
    text = "func @f(%a: tensor<f32, [2 * M, 3]>, %b: tensor<f32, [M, N]>) facts [N % 4 == 0] { tile.return([]) }"
    sizes, values = bind_arguments(
        parse_module(text).entry, [np.zeros((10, 3), np.float32), np.zeros((5, 8), np.float32)]
    )
    assert sizes == {"M": 5, "N": 8}
    assert [v.shape for v in values] == [(10, 3), (5, 8)]


@pytest.mark.parametrize(
    ("dtype", "argument", "expected"),
    [
        ("i64", 3, 3),
        ("i32", np.int64(-3), -3),
        ("u32", -1, 2**32 - 1),
        ("f32", 2, 2.0),
        ("f32", 0.1, float(np.float32(0.1))),
        ("f16", np.float64(0.5), 0.5),
        ("bool", True, True),
        ("bool", np.bool_(False), False),
        ("f64", np.asarray(1.25, np.float32), 1.25),
    ],
)
def test_scalars_take_the_dtype_of_their_parameter(dtype: str, argument: Any, expected: float) -> None:
    function = parse_module(f"func @f(%x: {dtype}) {{ tile.return([]) }}").entry
    _, (value,) = bind_arguments(function, [argument])
    assert value.shape == ()
    assert value.tolist() == expected
