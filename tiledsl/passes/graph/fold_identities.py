"""What folds start from, and how two of their values become one."""

from __future__ import annotations

from tiledsl.ir.core import Number
from tiledsl.ir.dtypes import DType, bool_

LOWEST = -3.0e38
"""Below every score of f32 that matters, but finite: a difference of two of it is 0, of two infinities NaN."""
LOWEST_OF_F64 = -1.0e308

PAIRWISE = {"add": "add", "mul": "mul", "max": "maximum", "min": "minimum", "and": "and", "or": "or"}
"""The function of two values, by that of a fold."""


def identity(fn: str, dtype: DType, followed: bool) -> Number:
    """What a fold starts from. `followed`: others depend on it, and want a number where infinity has no difference."""
    match fn:
        case "add" | "or":
            return False if dtype == bool_ else 0.0 if dtype.is_float else 0
        case "mul" | "and":
            return True if dtype == bool_ else 1.0 if dtype.is_float else (1 if fn == "mul" else -1)
        case _:
            return _extreme(fn, dtype, followed)


def _extreme(fn: str, dtype: DType, followed: bool) -> Number:
    if dtype.is_float:
        bound = float("-inf") if not followed else LOWEST if dtype.bits <= 32 else LOWEST_OF_F64
        return bound if fn == "max" else -bound
    if dtype == bool_:
        return fn == "min"
    low = -(1 << (dtype.bits - 1)) if dtype.is_signed else 0
    high = (1 << (dtype.bits - (1 if dtype.is_signed else 0))) - 1
    return low if fn == "max" else high
