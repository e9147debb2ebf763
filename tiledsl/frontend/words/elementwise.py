"""Elementwise operations on operands: promotion, broadcasting, then one `tile.map`.

What involves compile-time numbers and sizes only is computed here and now. The rules are those of `composites`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from tiledsl.frontend.language import composites
from tiledsl.frontend.language.promotion import OPERATOR_NAMES, Strength
from tiledsl.frontend.words.lowering import Lowering
from tiledsl.frontend.words.operands import (
    as_tile,
    broadcast,
    coerce,
    common_shape,
    operand_like,
    read,
    reshape,
    shape_of,
    strength_of,
)
from tiledsl.frontend.words.values import (
    FrontValue,
    Operand,
    Static,
    Tile,
    Tuple,
    describe,
    dim_value,
    size_of,
    static_number,
)
from tiledsl.ir import symbolic
from tiledsl.ir.dtypes import DType
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.tile_ops import Reduce
from tiledsl.ir.types import Shape

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


class TileSteps:
    """The steps of composites in tile form: `tile.map` and `tile.reduce` where the lowering is."""

    def __init__(self, low: Lowering) -> None:
        self.low = low

    def read(self, x: Operand) -> Operand:
        return read(self.low, x)

    def tensor(self, x: Operand) -> Operand:
        return operand_like(x, as_tile(self.low, x))

    def number(self, like: Operand, number: float) -> Operand:
        return operand_like(like, Static(number))

    def size(self, like: Operand, size: Dim) -> Operand:
        return operand_like(like, dim_value(size))

    def constant(self, x: Operand) -> float | None:
        return static_number(x.value)

    def strength(self, x: Operand) -> Strength:
        return strength_of(x)

    def shape(self, x: Operand) -> Shape:
        return shape_of(x)

    def at_once(self, fn: str, operands: Sequence[Operand]) -> Operand | None:
        folded = _fold(self.low, fn, operands)
        return None if folded is None else operand_like(operands[0], folded)

    def convert(self, x: Operand, dtype: DType, weak: bool = False) -> Operand:
        return operand_like(x, Tile(coerce(self.low, x, dtype), weak))

    def map(self, fn: str, operands: Sequence[Operand], dtypes: Sequence[DType], weak: bool) -> Operand:
        shape = common_shape(self.low, operands)
        values = [coerce(self.low, x, dtype) for x, dtype in zip(operands, dtypes)]
        values = [broadcast(self.low, v, shape) if v.shape else v for v in values]
        return operand_like(operands[0], Tile(self.low.builder.map(fn, *values), weak))

    def reduce(self, fn: str, x: Operand, axes: Sequence[int], keepdims: bool, weak: bool = False) -> Operand:
        source = as_tile(self.low, x).value
        op = self.low.builder.emit(Reduce, sources=[source], axes=tuple(axes), fn=fn, keepdims=keepdims)
        return operand_like(x, Tile(op.result, weak))

    def reshape(self, x: Operand, shape: Shape) -> Operand:
        return operand_like(x, Tile(reshape(self.low, as_tile(self.low, x).value, shape)))

    def text(self, x: Operand) -> str:
        return x.text

    def describe(self, x: Operand) -> str:
        return describe(x.value)

    def fail(self, code: str, *operands: Operand, **names: Any) -> NoReturn:
        self.low.fail(code, **names)


def apply(low: Lowering, fn: str, *operands: Operand) -> FrontValue:
    """A scalar function of operands, at compile time where it can be. Raises errors of promotion and of shapes."""
    return composites.apply(TileSteps(low), fn, *operands).value


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


def choose(low: Lowering, condition: Operand, x: Operand, y: Operand) -> FrontValue:
    """`x` where `condition` holds, else `y`."""
    return composites.where(TileSteps(low), condition, x, y).value


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
    return as_tile(low, composites.truth(TileSteps(low), operand))


def cast(low: Lowering, operand: Operand, dtype: DType) -> Tile:
    """The operand as a strong value of `dtype`."""
    return Tile(coerce(low, read(low, operand), dtype))
