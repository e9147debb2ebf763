"""How rows are aligned."""

from __future__ import annotations

import pytest

from tiledsl.runtime.alignment import lowest_bit, stride_bits


@pytest.mark.parametrize(
    ("shape", "strides", "bits"),
    [((4, 8), (8, 1), 32), ((4, 6), (6, 1), 24), ((1, 6), (6, 1), 0), ((2, 3, 6), (18, -6, 1), 72 | 24), ((), (), 0)],
)
def test_stride_bits(shape: tuple[int, ...], strides: tuple[int, ...], bits: int) -> None:
    assert stride_bits(shape, strides, 4) == bits


@pytest.mark.parametrize(("number", "bit"), [(0, 16), (1, 1), (24, 8), (32, 16), (6, 2)])
def test_lowest_bit(number: int, bit: int) -> None:
    assert lowest_bit(number) == bit
