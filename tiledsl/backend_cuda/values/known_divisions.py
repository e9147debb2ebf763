"""Divisions of small integers by a known number: nothing is infinite, NaN or too small there, so that one correction of
the product with the inverse rounds as a division does.

x.to(f32) / 255, x of u8:   first = x * inverse;   fma(fma(first, 255, -x), -inverse, first)
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import DType, f32
from tiledsl.ir.tile_ops import Broadcast, Cast, Constant

MOST_BITS = 16
"""Of integers all of which are tried."""


def is_known_division(op: Any) -> bool:
    """Whether a map divides what was an integer of few bits by a number that is known, and one correction is enough."""
    numerator, divisor = op.inputs
    number = divisor.op.source.op if isinstance(divisor.op, Broadcast) else divisor.op
    if op.fn != "div" or op.result.dtype != f32 or not isinstance(number, Constant):
        return False
    integers = _integers(numerator)
    return integers is not None and rounds_as_division(integers, float(number.value))


def _integers(value: Value) -> DType | None:
    """The type of the integers that a value was, if there are few of them."""
    while isinstance(value.op, Broadcast):
        value = value.op.source
    source = value.op.source.dtype if isinstance(value.op, Cast) else None
    return source if source is not None and source.is_integer and source.bits <= MOST_BITS else None


@lru_cache(maxsize=256)
def rounds_as_division(dtype: DType, number: float) -> bool:
    """Whether all integers of a type, divided so by a number, are what a division gives."""
    by: Any = np.float32(number)
    if not 2.0**-60 < abs(float(by)) < 2.0**60:
        return False
    low = 0 if dtype.name.startswith("u") else -(1 << dtype.bits - 1)
    all_of: Any = np.arange(low, low + (1 << dtype.bits), dtype=np.float64)
    inverse = np.float64(np.float32(1) / by)
    first = (all_of * inverse).astype(np.float32).astype(np.float64)
    rest = (first * np.float64(by) - all_of).astype(np.float32).astype(np.float64)
    found: Any = (first - rest * inverse).astype(np.float32)
    return bool(np.array_equal(found, all_of.astype(np.float32) / by))
