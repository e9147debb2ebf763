"""What a random program's writer knows of a value: how large it is, and how far two right implementations may differ.

Implementations may add in another order, and differ by some units in the last place in functions such as `exp`.
The estimates are generous, but never too small: a comparison within them does not fail by chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import DType, f8e4m3
from tiledsl.ir.types import AxisType, Shape

UNIT = {"f64": 2.0**-53, "f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8, "f8e4m3": 2.0**-4, "f8e5m2": 2.0**-3}
"""The relative error of one rounding."""
SMALLEST = {"f64": 0.0, "f32": 0.0, "f16": 2.0**-25, "bf16": 0.0, "f8e4m3": 2.0**-10, "f8e5m2": 2.0**-17}
"""The absolute error of rounding a number too small for that."""

ROUNDED_ALIKE = {"add", "sub", "mul", "div", "neg", "abs", "minimum", "maximum", "sqrt", "where"}
"""Functions of floats that have one right result to the last bit."""
JUMPS = {"floor", "ceil", "round", "floordiv", "mod", "eq", "ne", "lt", "le", "gt", "ge"}
"""Functions that turn a small difference into a large one. Their results, too, are right to the last bit."""


@dataclass(frozen=True, eq=False)
class Known:
    """A value whose elements are at most `bound` in magnitude.

    Two implementations differ by at most `error` in an element; integers never differ.
    """

    value: Value
    bound: float
    error: float = 0.0

    @property
    def exact(self) -> bool:
        """Whether every implementation gets the same bits."""
        return self.error == 0

    @property
    def dtype(self) -> DType:
        assert not isinstance(self.value.type, AxisType)
        return self.value.type.dtype

    @property
    def shape(self) -> Shape:
        assert not isinstance(self.value.type, AxisType)
        return self.value.type.shape

    def is_useful(self) -> bool:
        """Whether a wrong result would still stand out."""
        return self.error <= 0.02 * max(1.0, self.bound)


def limit(dtype: DType) -> float:
    """The largest magnitude that a generated value may have."""
    match dtype.kind:
        case "float":
            return 200 if dtype == f8e4m3 else 10_000
        case "bool":
            return 1
        case "int" | "uint":
            return float(2**dtype.bits)


def rounding(dtype: DType, magnitude: float, roundings: int = 4) -> float:
    """The error of some roundings to `dtype` of numbers of that magnitude; 0 for integers."""
    if not dtype.is_float:
        return 0.0
    return roundings * (UNIT[dtype.name] * magnitude + SMALLEST[dtype.name])


def bound_of(fn: str, bounds: Sequence[float]) -> float:
    """How large `fn` of floats within these bounds gets; infinity where that would be too much."""
    first = bounds[0]
    match fn:
        case "add" | "sub":
            return sum(bounds)
        case "mul":
            return math.prod(bounds)
        case "fma":
            return first * bounds[1] + bounds[2]
        case "exp" | "exp2":
            return math.exp(first) if first <= 8 else math.inf
        case "pow":
            return first ** bounds[1] if first <= 100 and bounds[1] <= 3 else math.inf
        case "tanh" | "sigmoid" | "erf" | "sin" | "cos" | "rsqrt":
            return 1.0 if first <= 1000 else math.inf
        case "minimum" | "maximum":
            return max(bounds)
        case "where":
            return max(bounds[1:])
        case "mod":
            return bounds[1]
        case _:
            return first + 1


def error_of(fn: str, inputs: Sequence[Known], bound: float, dtype: DType) -> float:
    """How far implementations may differ in `fn` of floats; `bound` is that of the result.

    Divisors, and what a root or logarithm is taken of, are at least 1.
    """
    if all(known.exact for known in inputs) and (fn in ROUNDED_ALIKE or fn in JUMPS):
        return 0.0
    errors = [known.error for known in inputs]
    first = inputs[0]
    match fn:
        case "add" | "sub":
            passed_on = sum(errors)
        case "mul" | "fma":
            second = inputs[1]
            passed_on = (first.bound + first.error) * second.error + second.bound * first.error
            passed_on += errors[2] if fn == "fma" else 0
        case "div":
            passed_on = errors[0] + (first.bound + first.error) * errors[1]
        case "exp" | "exp2":
            passed_on = bound * math.expm1(min(1.0, errors[0]))
        case "pow":
            passed_on = bound * math.expm1(min(1.0, 3 * errors[0] + 5 * errors[1]))
        case _:
            passed_on = 2 * max(errors)
    return passed_on + rounding(dtype, bound)
