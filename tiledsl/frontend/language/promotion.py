"""Which dtype an operation works in: NumPy's rules, with Python numbers and sizes giving way to tiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tiledsl.ir.core import Number
from tiledsl.ir.dtypes import DType, Kind, bool_, f16, f32, f64, i8, i64, promote, promote_weak, u64
from tiledsl.ir.scalar_functions import SCALAR_FUNCTIONS

OPERATOR_NAMES = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "pow": "**", "and": "&", "or": "|",
    "xor": "^", "shl": "<<", "shr": ">>", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "neg": "unary -", "not": "~",
}  # fmt: skip

WEAK_DTYPES: dict[Kind, DType] = {"float": f64, "int": i64, "uint": i64, "bool": bool_}
"""The dtype in which a Python number is held at run time."""
_RANK: dict[Kind, int] = {"bool": 0, "uint": 1, "int": 1, "float": 2}


@dataclass(frozen=True)
class Strength:
    """The dtype of an operand, and whether it is weak: only its kind counts then."""

    dtype: DType
    weak: bool


def weak_strength(number: float) -> Strength:
    """The strength of a Python number. A bool is as good as a strong one, for nothing is below it."""
    if isinstance(number, bool):
        return Strength(bool_, weak=True)
    return Strength(i64 if isinstance(number, int) else f64, weak=True)


def constant_in(number: float, dtype: DType) -> Number | None:
    """A Python number as a constant of a dtype. None for an int that the dtype cannot hold, or no float can."""
    if dtype == bool_:
        return bool(number)
    if dtype.is_float:
        try:
            return float(number)
        except OverflowError:
            return None
    if isinstance(number, float) and not math.isfinite(number):
        return None
    value = int(number)
    low, high = (-(1 << (dtype.bits - 1)), 1 << (dtype.bits - 1)) if dtype.is_signed else (0, 1 << dtype.bits)
    return value if low <= value < high else None


def promote_all(strengths: Sequence[Strength]) -> Strength:
    """The common dtype of operands; weak if all of them are."""
    kinds: list[Kind] = [s.dtype.kind for s in strengths if s.weak]
    weak: Kind | None = max(kinds, key=lambda kind: _RANK[kind]) if kinds else None
    strong: DType | None = None
    for strength in strengths:
        if not strength.weak:
            strong = strength.dtype if strong is None else promote(strong, strength.dtype)
    if strong is None:
        assert weak is not None, "nothing to promote"
        return Strength(WEAK_DTYPES[weak], weak=True)
    return Strength(strong if weak is None else promote_weak(strong, weak), weak=False)


def float_for(dtype: DType) -> DType:
    """What NumPy's float functions (exp, sqrt ...) give for a dtype."""
    if dtype.is_float:
        return dtype
    return f16 if dtype.bits <= 8 else f32 if dtype.bits == 16 else f64


def working_dtype(fn: str, strength: Strength) -> tuple[str, Strength] | None:
    """The function and dtype that NumPy uses for operands of a common dtype; None if it has none."""
    dtype, weak = strength.dtype, strength.weak
    if fn in ("floor", "ceil", "round"):
        pass
    elif (only := SCALAR_FUNCTIONS[fn].only) is not None and weak:
        return fn, Strength(only, weak=False)
    elif only is not None:
        pass
    elif fn == "div" and not dtype.is_float:
        return fn, Strength(f64, weak)
    elif SCALAR_FUNCTIONS[fn].domain == "float":
        return fn, Strength(WEAK_DTYPES["float"] if weak else float_for(dtype), weak)
    elif weak and dtype == bool_ and SCALAR_FUNCTIONS[fn].domain in ("number", "integer"):
        return fn, Strength(WEAK_DTYPES["int"], weak)  # Python: True + True is 2
    elif dtype == bool_ and fn in ("add", "mul"):
        return {"add": "or", "mul": "and"}[fn], strength  # NumPy: the sum of two bools is their `or`
    elif dtype == bool_ and fn in ("floordiv", "mod", "pow", "shl", "shr"):
        return fn, Strength(i8, weak=False)  # NumPy
    return (fn, strength) if SCALAR_FUNCTIONS[fn].accepts(dtype) else None


def sum_dtype(dtype: DType) -> DType:
    """What NumPy's sum and prod give for a dtype: integers widen to 64 bits."""
    if dtype.is_float:
        return dtype
    return u64 if dtype.kind == "uint" else i64


def fill_dtype(strength: Strength) -> DType:
    """The dtype of what is filled with a number, unless the user says it: a Python float gives f32."""
    return f32 if strength.weak and strength.dtype.is_float else strength.dtype
