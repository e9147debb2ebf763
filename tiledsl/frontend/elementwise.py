"""Elementwise operations on operands: promotion, broadcasting, then one `tile.map`.

What involves compile-time numbers and sizes only is computed here and now.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from tiledsl.frontend import promotion
from tiledsl.frontend.lowering import Lowering
from tiledsl.frontend.operands import (
    as_tile,
    broadcast,
    coerce,
    common_shape,
    operand_like,
    read,
    strength_of,
)
from tiledsl.frontend.promotion import OPERATOR_NAMES, Strength, promote_all
from tiledsl.frontend.values import (
    FrontValue,
    Operand,
    Size,
    Static,
    Tile,
    Tuple,
    describe,
    dim_value,
    size_of,
    static_integer,
)
from tiledsl.ir import symbolic
from tiledsl.ir.dtypes import DType, bool_, f64
from tiledsl.ir.symbolic import Dim

_operator: Any = operator  # its functions are declared with parts left open
_PYTHON: dict[str, Callable[..., Any]] = {
    "add": _operator.add, "sub": _operator.sub, "mul": _operator.mul, "div": _operator.truediv,
    "floordiv": _operator.floordiv, "mod": _operator.mod, "pow": _operator.pow, "and": _operator.and_,
    "or": _operator.or_, "xor": _operator.xor, "shl": _operator.lshift, "shr": _operator.rshift, "eq": _operator.eq,
    "ne": _operator.ne, "lt": _operator.lt, "le": _operator.le, "gt": _operator.gt, "ge": _operator.ge,
    "neg": _operator.neg, "not": _operator.invert, "abs": abs,
}  # fmt: skip
_SIZES: dict[str, Callable[[Dim, Dim], Dim]] = {
    "add": _operator.add, "sub": _operator.sub, "mul": _operator.mul, "floordiv": symbolic.floordiv,
    "mod": symbolic.mod, "minimum": symbolic.minimum, "maximum": symbolic.maximum,
}  # fmt: skip
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def apply(low: Lowering, fn: str, *operands: Operand) -> FrontValue:
    """A scalar function of operands, at compile time where it can be. Raises errors of promotion and of shapes."""
    folded = _fold(low, fn, operands)
    return elementwise(low, fn, *operands) if folded is None else folded


def _fold(low: Lowering, fn: str, operands: Sequence[Operand]) -> FrontValue | None:
    """The result at compile time, if all operands are known or are sizes."""
    values = [o.value for o in operands]
    if fn in _PYTHON and all(isinstance(v, Static) for v in values):
        return _fold_constants(low, fn, operands)
    if fn == "add" and all(isinstance(v, Tuple) for v in values):
        return Tuple(tuple(item for v in values if isinstance(v, Tuple) for item in v.items))
    sizes = [size_of(v) for v in values]
    if len(sizes) == 2 and sizes[0] is not None and sizes[1] is not None:
        return _fold_sizes(low, fn, operands, low.sizes.resolve(sizes[0]), low.sizes.resolve(sizes[1]))
    return None


def _fold_constants(low: Lowering, fn: str, operands: Sequence[Operand]) -> FrontValue:
    values: list[Any] = [o.value.value for o in operands if isinstance(o.value, Static)]
    try:
        result = _PYTHON[fn](*values)
        if isinstance(result, complex):  # (-8.0) ** 0.5
            raise ValueError("the result is a complex number")
        return Static(result)
    except (TypeError, ValueError, ArithmeticError) as error:
        low.fail("compile-time-error", text=_text(fn, operands), error=f"{type(error).__name__}: {error}")


def _inverted(value: Any) -> Any:
    """`~`: of a bool its opposite, as everywhere in a kernel; Python's `~True` is -2."""
    return not value if isinstance(value, bool) else ~value


def _extremum(fn: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """The smaller or larger of two numbers as at run time: NaN if one is, a float if one is."""

    def extremum(left: Any, right: Any) -> Any:
        if left != left or right != right:
            return math.nan
        return fn(left, right) + (0.0 if isinstance(left, float) or isinstance(right, float) else 0)

    return extremum


_PYTHON |= {"not": _inverted, "minimum": _extremum(min), "maximum": _extremum(max)}


def _fold_sizes(low: Lowering, fn: str, operands: Sequence[Operand], left: Dim, right: Dim) -> FrontValue | None:
    if fn in ("floordiv", "mod") and right == 0:
        low.fail("compile-time-error", text=_text(fn, operands), error="ZeroDivisionError: division by zero")
    if fn in _SIZES:
        return dim_value(_SIZES[fn](left, right))
    difference = left - right
    if fn in _COMPARISONS and isinstance(difference, int):
        return Static(_PYTHON[fn](difference, 0))
    return None


def _text(fn: str, operands: Sequence[Operand]) -> str:
    sign = OPERATOR_NAMES.get(fn, fn)
    return f" {sign} ".join(o.text for o in operands) if len(operands) > 1 else f"{sign}({operands[0].text})"


def elementwise(low: Lowering, fn: str, *operands: Operand) -> Tile:
    """A scalar function of operands as IR."""
    read_operands = [read(low, o) for o in operands]
    special = _power_by_constant(low, fn, read_operands)
    if special is not None:
        return special
    strength = promote_all([strength_of(o) for o in read_operands])
    fn, strength = working_dtype(low, fn, strength, read_operands)
    shape = common_shape(low, read_operands)
    values = [coerce(low, o, strength.dtype) for o in read_operands]
    values = [broadcast(low, v, shape) if v.shape else v for v in values]
    result = low.builder.map(fn, *values)
    return Tile(result, strength.weak)


def choose(low: Lowering, condition: Operand, x: Operand, y: Operand) -> Tile:
    """`x` where the bool `condition` holds, else `y`."""
    strength = promote_all([strength_of(x), strength_of(y)])
    shape = common_shape(low, [condition, x, y])
    values = [coerce(low, o, d) for o, d in ((condition, bool_), (x, strength.dtype), (y, strength.dtype))]
    values = [broadcast(low, v, shape) if v.shape else v for v in values]
    return Tile(low.builder.map("where", *values), strength.weak)


def working_dtype(low: Lowering, fn: str, strength: Strength, operands: Sequence[Operand]) -> tuple[str, Strength]:
    """The function and dtype that NumPy uses for operands of a common dtype. Raises TileTypeError if it has none."""
    works_in = promotion.working_dtype(fn, strength)
    if works_in is None:
        names = ", ".join(f"`{o.text}` is {describe(o.value)}" for o in operands)
        low.fail("dtype-not-taken", operation=OPERATOR_NAMES.get(fn, f"tile.{fn}"), names=names, dtype=strength.dtype)
    return works_in


def _power_by_constant(low: Lowering, fn: str, operands: Sequence[Operand]) -> Tile | None:
    """`x ** 2` is x * x, `x ** 0.5` is sqrt(x), as NumPy has it; None for other powers."""
    if fn != "pow" or not isinstance(operands[1].value, (Static, Size)):
        return None
    base, exponent = operands
    strength = promote_all([strength_of(base), strength_of(exponent)])
    if isinstance(exponent.value, Static):
        if exponent.value.value == 2 and strength.dtype != bool_:
            same = operand_like(base, Tile(coerce(low, base, strength.dtype), strength.weak))
            return elementwise(low, "mul", same, same)
        if exponent.value.value == 0.5:
            return elementwise(low, "sqrt", operand_like(base, Tile(coerce(low, base, strength.dtype), strength.weak)))
    power = static_integer(exponent.value)
    if power is not None and power < 0 and not strength.dtype.is_float:
        if not strength.weak:
            low.fail("negative-power", text=base.text, dtype=strength.dtype, power=power)
        as_float = operand_like(base, Tile(coerce(low, base, f64), weak=True))
        return elementwise(low, "pow", as_float, exponent)
    return None


def compare(low: Lowering, fn: str, left: Operand, right: Operand) -> FrontValue:
    """A comparison. `==` and `!=` compare any compile-time values."""
    if fn in ("eq", "ne") and isinstance(left.value, Tuple) and isinstance(right.value, Tuple):
        equal = _tuples_equal(low, left, left.value, right.value)
        return equal if fn == "eq" else _negated(low, operand_like(left, equal))
    if fn in ("eq", "ne") and not _is_numeric(left) and not _is_numeric(right):
        return Static((left.value == right.value) == (fn == "eq"))
    return apply(low, fn, left, right)


def _tuples_equal(low: Lowering, place: Operand, left: Tuple, right: Tuple) -> FrontValue:
    """Whether two tuples are equal: known now, or a run-time `and` over sizes and scalars."""
    if len(left.items) != len(right.items):
        return Static(False)
    result: FrontValue = Static(True)
    for a, b in zip(left.items, right.items):
        same = compare(low, "eq", operand_like(place, a), operand_like(place, b))
        if same == Static(False):
            return same
        if same != Static(True):
            both = (operand_like(place, result), operand_like(place, same))
            result = same if result == Static(True) else apply(low, "and", *both)
    return result


def _negated(low: Lowering, value: Operand) -> FrontValue:
    return Static(not value.value.value) if isinstance(value.value, Static) else apply(low, "not", value)


def _is_numeric(operand: Operand) -> bool:
    if isinstance(operand.value, Static):
        return isinstance(operand.value.value, (int, float))
    return not isinstance(operand.value, Tuple)


def truth(low: Lowering, operand: Operand) -> Tile:
    """An operand as bool: itself if it is that, else whether it differs from 0."""
    value = as_tile(low, operand)
    if value.value.dtype == bool_:
        return value
    return elementwise(low, "ne", operand_like(operand, value), Operand(Static(0), "0", operand.location))


def cast(low: Lowering, operand: Operand, dtype: DType) -> Tile:
    """The operand as a strong value of `dtype`."""
    return Tile(coerce(low, read(low, operand), dtype))
