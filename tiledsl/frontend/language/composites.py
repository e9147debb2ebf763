"""Functions of the language that are made of others: promotion of operands, activations, folds, softmax.

Each is written once, in steps that tile form and tensor form take each in its own way. Their words are in the tables
at the end; `builtin_math` and `builtin_folds` call them for kernels in tile form, `trace_elementwise` and
`trace_folds` for formulas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tiledsl.frontend.language import math as language
from tiledsl.frontend.language.element_counts import element_count
from tiledsl.frontend.language.promotion import OPERATOR_NAMES, float_for, promote_all, sum_dtype, working_dtype
from tiledsl.frontend.language.steps import Steps, V
from tiledsl.ir.dtypes import bool_, compute_dtype, f64


def apply(steps: Steps[V], fn: str, *operands: V) -> V:
    """A scalar function of operands, without an op where it can be. Raises errors of promotion and of shapes."""
    known = steps.at_once(fn, operands)
    if known is not None:
        return known
    if fn == "abs" and steps.constant(operands[0]) is None and steps.strength(operands[0]).dtype == bool_:
        return steps.tensor(operands[0])
    return elementwise(steps, fn, *operands)


def elementwise(steps: Steps[V], fn: str, *operands: V) -> V:
    """A scalar function of operands as an op, in the dtype that NumPy works in. Raises TileTypeError if it has none."""
    given = [steps.read(x) for x in operands]
    if fn == "pow":
        special = _power_by_number(steps, *given)
        if special is not None:
            return special
    strength = promote_all([steps.strength(x) for x in given])
    works_in = working_dtype(fn, strength)
    if works_in is None:
        names = ", ".join(f"`{steps.text(x)}` is {steps.describe(x)}" for x in given)
        operation = OPERATOR_NAMES.get(fn, f"tile.{fn}")
        steps.fail("dtype-not-taken", *given, operation=operation, names=names, dtype=strength.dtype)
    fn, strength = works_in
    return steps.map(fn, given, [strength.dtype] * len(given), strength.weak)


def _power_by_number(steps: Steps[V], base: V, exponent: V) -> V | None:
    """`x ** 2` is x * x, `x ** 0.5` is sqrt(x), as NumPy has it; small powers are products; None for other powers."""
    power = steps.constant(exponent)
    if power is None:
        return None
    strength = promote_all([steps.strength(base), steps.strength(exponent)])
    if power == 2 and strength.dtype != bool_:
        same = steps.convert(base, strength.dtype, strength.weak)
        return elementwise(steps, "mul", same, same)
    if power in (3, 4) and strength.dtype.is_float:
        return in_compute_dtype(
            steps, steps.convert(base, strength.dtype, strength.weak), partial(_product, steps, power)
        )
    if power == -1 and strength.dtype.is_float:
        base = steps.convert(base, strength.dtype, strength.weak)
        return elementwise(steps, "div", steps.number(base, 1.0), base)
    if power == 0.5:
        return elementwise(steps, "sqrt", steps.convert(base, strength.dtype, strength.weak))
    if isinstance(power, int) and power < 0 and not strength.dtype.is_float:
        if not strength.weak:
            text = steps.text(base)
            steps.fail("negative-power", base, text=text, dtype=strength.dtype, power=power)
        return elementwise(steps, "pow", steps.convert(base, f64, weak=True), exponent)
    return None


def _product(steps: Steps[V], power: float, x: V) -> V:
    """# x * x * x, or (x * x) * (x * x)"""
    square = elementwise(steps, "mul", x, x)
    return elementwise(steps, "mul", square, x if power == 3 else square)


def truth(steps: Steps[V], x: V) -> V:
    """An operand as bool: itself if it is that, else whether it differs from 0."""
    value = steps.tensor(x)
    return value if steps.strength(value).dtype == bool_ else elementwise(steps, "ne", value, steps.number(x, 0))


def where(steps: Steps[V], condition: V, x: V, y: V) -> V:
    """`x` where the condition holds, else `y`, in their common dtype."""
    operands = [truth(steps, condition), steps.read(x), steps.read(y)]
    strength = promote_all([steps.strength(o) for o in operands[1:]])
    return steps.map("where", operands, (bool_, strength.dtype, strength.dtype), strength.weak)


def rounded(fn: str, steps: Steps[V], x: V) -> V:
    """`floor`, `ceil` or `round` of floats; integers and bools are that already."""
    return elementwise(steps, fn, x) if steps.strength(x).dtype.is_float else x


def in_compute_dtype(steps: Steps[V], x: V, formula: Callable[[V], V]) -> V:
    """A formula of several steps, rounded once: narrow floats go through it in f32."""
    given = steps.read(x)
    strength = steps.strength(given)
    dtype = float_for(strength.dtype)
    result = formula(steps.convert(given, compute_dtype(dtype), strength.weak))
    return steps.convert(result, dtype, strength.weak)


def gelu(steps: Steps[V], x: V) -> V:
    """# x * (1 + erf(x / sqrt(2))) / 2"""

    def formula(x: V) -> V:
        def by_number(fn: str, value: V, number: float) -> V:
            return elementwise(steps, fn, value, steps.number(x, number))

        error = elementwise(steps, "erf", by_number("mul", x, math.sqrt(0.5)))
        return elementwise(steps, "mul", x, by_number("mul", by_number("add", error, 1.0), 0.5))

    return in_compute_dtype(steps, x, formula)


def silu(steps: Steps[V], x: V) -> V:
    """# x * sigmoid(x)"""
    return in_compute_dtype(steps, x, lambda x: elementwise(steps, "mul", x, elementwise(steps, "sigmoid", x)))


def relu(steps: Steps[V], x: V) -> V:
    """# max(x, 0), of integers too"""
    return apply(steps, "maximum", x, steps.number(x, 0))


def clip(steps: Steps[V], x: V, low: V, high: V) -> V:
    """# min(max(x, low), high)"""
    return apply(steps, "minimum", apply(steps, "maximum", x, low), high)


def summed(steps: Steps[V], x: V) -> V:
    """What sums and products take: integers are widened."""
    value = steps.tensor(x)
    strength = steps.strength(value)
    return steps.convert(value, sum_dtype(strength.dtype), strength.weak)


def fold(steps: Steps[V], fn: str, x: V, axes: Sequence[int], keepdims: bool) -> V:
    """Folds some axes of a value in its dtype; without any axes it is the value itself."""
    if not axes:
        return x
    strength = steps.strength(x)
    if strength.dtype == bool_:
        fn = {"max": "or", "min": "and"}.get(fn, fn)
    return steps.reduce(fn, x, axes, keepdims, strength.weak)


def fold_of(fn: str, steps: Steps[V], x: V, axes: Sequence[int], keepdims: bool) -> V:
    """A word that folds: sums and products widen integers, `any` and `all` look at truth."""
    source = truth(steps, x) if fn in ("or", "and") else summed(steps, x) if fn in ("add", "mul") else x
    return fold(steps, fn, source, axes, keepdims)


def mean(steps: Steps[V], x: V, axes: Sequence[int], keepdims: bool) -> V:
    """# sum(x) / n, of integers in f64"""
    source = x if steps.strength(x).dtype.is_float else steps.convert(x, f64)
    shape = steps.shape(source)
    count = element_count(tuple(shape[i] for i in axes))

    def formula(x: V) -> V:
        return elementwise(steps, "div", fold(steps, "add", x, axes, keepdims), steps.size(x, count))

    return in_compute_dtype(steps, source, formula)


def softmax(steps: Steps[V], x: V, axis: int) -> V:
    """# e / sum(e) with e = exp(x - max(x))"""

    def formula(x: V) -> V:
        largest = fold(steps, "max", x, (axis,), keepdims=True)
        exponential = elementwise(steps, "exp", elementwise(steps, "sub", x, largest))
        return elementwise(steps, "div", exponential, fold(steps, "add", exponential, (axis,), keepdims=True))

    return in_compute_dtype(steps, x, formula)


def extremum_index(fn: str, steps: Steps[V], x: V, axis: int | None, keepdims: bool) -> V:
    """`argmax` or `argmin`: along an axis, or (None) in the order of all elements."""
    if axis is not None:
        return steps.reduce(fn, x, (axis,), keepdims)
    shape = steps.shape(x)
    index = steps.reduce(fn, steps.reshape(x, (element_count(shape),)), (0,), keepdims=False)
    return steps.reshape(index, (1,) * len(shape)) if keepdims else index


SCALAR_WORDS: dict[Callable[..., Any], str] = {
    language.exp: "exp", language.exp2: "exp2", language.log: "log", language.log2: "log2", language.sqrt: "sqrt",
    language.rsqrt: "rsqrt", language.tanh: "tanh", language.sigmoid: "sigmoid", language.erf: "erf",
    language.sin: "sin", language.cos: "cos", language.pow: "pow", language.minimum: "minimum",
    language.maximum: "maximum", language.fma: "fma", language.abs: "abs",
    language.nibble: "nibble", language.float_bits: "float_bits",
}  # fmt: skip
"""Words that are one scalar function."""

ELEMENTWISE_WORDS: dict[Callable[..., Any], Callable[..., Any]] = {
    language.gelu: gelu, language.silu: silu, language.relu: relu, language.clip: clip, language.where: where,
    language.floor: partial(rounded, "floor"), language.ceil: partial(rounded, "ceil"),
    language.round: partial(rounded, "round"),
}  # fmt: skip
"""Words of several steps, elementwise: called with the steps and the word's operands."""

FOLDS: dict[Callable[..., Any], str] = {
    language.sum: "add", language.prod: "mul", language.max: "max", language.min: "min", language.any: "or",
    language.all: "and",
}  # fmt: skip
"""Words that are one fold."""

FOLD_WORDS: dict[Callable[..., Any], Callable[..., Any]] = {
    **{stub: partial(fold_of, fn) for stub, fn in FOLDS.items()}, language.mean: mean,
}  # fmt: skip
"""Words that fold some axes or all: called with the steps, a value, the axes and `keepdims`."""

INDEX_WORDS: dict[Callable[..., Any], Callable[..., Any]] = {
    language.argmax: partial(extremum_index, "argmax"), language.argmin: partial(extremum_index, "argmin"),
}  # fmt: skip
"""Words that say where the extremum is: called with the steps, a value, an axis or None, and `keepdims`."""
