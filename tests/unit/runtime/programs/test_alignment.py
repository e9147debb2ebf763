"""How rows are aligned."""

from __future__ import annotations

import pytest

from tiledsl.ir.dtypes import f16, f32
from tiledsl.ir.symbolic import symbol
from tiledsl.ir.types import TensorType
from tiledsl.runtime.programs.alignment import lowest_bit, row_alignment, stride_bits


@pytest.mark.parametrize(
    ("shape", "strides", "unit", "bits"),
    [
        ((4, 8), (8, 1), 1, 32),
        ((4, 6), (6, 1), 1, 24),
        ((1, 6), (6, 1), 1, 0),
        ((2, 3, 6), (18, -6, 1), 2, 72 | 24),
        ((), (), None, 0),
        ((8, 3, 6), (8, 1, 1), 2, 32 | 4),  # windows that overlap
        ((3, 1), (1, 1), 1, 4),  # rows of one element
        ((3, 1), (1, 1), 0, 0),
        ((8, 8), (8, 1), None, 32 | 4),
    ],
)
def test_stride_bits(shape: tuple[int, ...], strides: tuple[int, ...], unit: int | None, bits: int) -> None:
    assert stride_bits(shape, strides, 4, unit) == bits


@pytest.mark.parametrize(("number", "bit"), [(0, 16), (1, 1), (24, 8), (32, 16), (6, 2)])
def test_lowest_bit(number: int, bit: int) -> None:
    assert lowest_bit(number) == bit


M, N = symbol("M"), symbol("N")


@pytest.mark.parametrize(
    ("type_", "sizes", "alignment"),
    [
        (TensorType(f32, (30, 100), 1), {}, 16),
        (TensorType(f16, (30, 100), 1), {}, 8),
        (TensorType(f16, (30, 100), 0), {}, 4),
        (TensorType(f32, (M, N), 1), {"M": 7}, 16),
        (TensorType(f32, (M, N), 1), {"M": 7, "N": 7}, 4),
        (TensorType(f32, (M, N * 2), 1), {"M": 7, "N": 7}, 8),
        (TensorType(f32, (2, 3, 5), 1), {}, 4),
        (TensorType(f32, (2, 1, 8), 2), {}, 16),
        (TensorType(f32, (1, 7), 1), {}, 16),
        (TensorType(f32, (7,), 0), {}, 16),
        (TensorType(f32, (7, 7), None), {}, 16),
        (TensorType(f32, (), None), {}, 16),
    ],
)
def test_rows_of_known_sizes(type_: TensorType, sizes: dict[str, int], alignment: int) -> None:
    assert row_alignment(type_, sizes) == alignment
