"""What folds start from: the element that leaves all others as they are, in every element type.

f8e4m3 has no infinity, so that its extremes are its largest numbers; a fold in a wider type that ends in f8e4m3 starts
there too, since what comes of no elements must be a number of that type.
"""

from __future__ import annotations

import math

from tiledsl.ir.core import Number
from tiledsl.ir.dtypes import DType, bool_, f8e4m3

_MOST_OF_F8E4M3 = 448.0
LOWEST = -1.0e38
"""Below every score of f32 that matters, but finite: a difference of two of it is 0, of two infinities NaN."""
LOWEST_OF_F64 = -5.0e307
MOST_SCALE = 3.0
"""What these may be multiplied by, and are finite still."""

PAIRWISE = {"add": "add", "mul": "mul", "max": "maximum", "min": "minimum", "and": "and", "or": "or"}
"""The function of two values, by that of a fold."""


def least(dtype: DType) -> Number:
    """The smallest value there is, -inf where a type has it.

    >>> least(BY_NAME["i8"]), least(BY_NAME["f16"]), least(BY_NAME["f8e4m3"])
    (-128, -inf, -448.0)
    """
    match dtype.kind:
        case "float":
            return -_MOST_OF_F8E4M3 if dtype == f8e4m3 else -math.inf
        case "int":
            return -(1 << dtype.bits - 1)
        case "uint":
            return 0
        case "bool":
            return False


def most(dtype: DType) -> Number:
    """The largest value there is, inf where a type has it."""
    match dtype.kind:
        case "float":
            return _MOST_OF_F8E4M3 if dtype == f8e4m3 else math.inf
        case "int":
            return (1 << dtype.bits - 1) - 1
        case "uint":
            return (1 << dtype.bits) - 1
        case "bool":
            return True


def fold_identity(fn: str, dtype: DType) -> Number:
    """What a fold of elements of `dtype` starts from: it changes none of them. `fn`: a row of REDUCTIONS but `custom`.

    For `argmax` and `argmin` a value that no element is behind of.
    """
    match fn:
        case "add" | "or":
            return _number(0, dtype)
        case "mul":
            return _number(1, dtype)
        case "and":
            return True if dtype == bool_ else -1 if dtype.kind == "int" else most(dtype)
        case "max" | "argmax":
            return least(dtype)
        case "min" | "argmin":
            return most(dtype)
        case _:
            raise AssertionError(fn)


def identity(fn: str, dtype: DType, followed: bool) -> Number:
    """What a fold of elements of `dtype` starts from. `followed`: others depend on it, and want a number where infinity
    has no difference; narrow floats are carried in f32."""
    if followed and dtype.is_float and fn in ("max", "min"):
        bound = LOWEST if dtype.bits <= 32 else LOWEST_OF_F64
        return bound if fn == "max" else -bound
    return fold_identity(fn, dtype)


def _number(value: int, dtype: DType) -> Number:
    return bool(value) if dtype == bool_ else float(value) if dtype.is_float else value
