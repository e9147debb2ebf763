"""What folds of streams start from, and how two of their values become one."""

from __future__ import annotations

from tiledsl.ir.core import Number
from tiledsl.ir.dtypes import DType
from tiledsl.ir.fold_identities import fold_identity

LOWEST = -1.0e38
"""Below every score of f32 that matters, but finite: a difference of two of it is 0, of two infinities NaN."""
LOWEST_OF_F64 = -5.0e307
MOST_SCALE = 3.0
"""What these may be multiplied by, and are finite still."""

PAIRWISE = {"add": "add", "mul": "mul", "max": "maximum", "min": "minimum", "and": "and", "or": "or"}
"""The function of two values, by that of a fold."""


def identity(fn: str, dtype: DType, followed: bool) -> Number:
    """What a fold of elements of `dtype` starts from. `followed`: others depend on it, and want a number where infinity
    has no difference; narrow floats are carried in f32."""
    if followed and dtype.is_float and fn in ("max", "min"):
        bound = LOWEST if dtype.bits <= 32 else LOWEST_OF_F64
        return bound if fn == "max" else -bound
    return fold_identity(fn, dtype)
