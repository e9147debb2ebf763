"""Elementwise words of the language."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tiledsl.frontend import language_math as language
from tiledsl.frontend.builtin_table import Arguments, Handler, lowers
from tiledsl.frontend.elementwise import apply, cast, choose, elementwise, truth
from tiledsl.frontend.lowering import Lowering
from tiledsl.frontend.operands import coerce, operand_like, read, strength_of
from tiledsl.frontend.promotion import float_for
from tiledsl.frontend.values import FrontValue, Operand, Static, Tile
from tiledsl.ir.dtypes import bool_, compute_dtype

FUNCTIONS: dict[Callable[..., Any], str] = {
    language.exp: "exp", language.exp2: "exp2", language.log: "log", language.log2: "log2", language.sqrt: "sqrt",
    language.rsqrt: "rsqrt", language.tanh: "tanh", language.sigmoid: "sigmoid", language.erf: "erf",
    language.sin: "sin", language.cos: "cos", language.pow: "pow", language.minimum: "minimum",
    language.maximum: "maximum", language.fma: "fma",
}  # fmt: skip
"""Words that are one scalar function."""


def _scalar_function(fn: str) -> Handler:
    def handler(low: Lowering, arguments: Arguments) -> FrontValue:
        return apply(low, fn, *arguments.operands.values())

    return handler


for _stub, _fn in FUNCTIONS.items():
    lowers(_stub)(_scalar_function(_fn))


@lowers(language.abs)
def absolute(low: Lowering, arguments: Arguments) -> FrontValue:
    x = arguments.read("x")
    dtype = None if isinstance(x.value, Static) else strength_of(x).dtype
    return x.value if dtype == bool_ else apply(low, "abs", x)


def _rounding(fn: str) -> Handler:
    def handler(low: Lowering, arguments: Arguments) -> FrontValue:
        x = arguments.read("x")
        return elementwise(low, fn, x) if strength_of(x).dtype.is_float else x.value

    return handler


lowers(language.floor)(_rounding("floor"))
lowers(language.ceil)(_rounding("ceil"))
lowers(language.round)(_rounding("round"))


@lowers(language.where)
def where(low: Lowering, arguments: Arguments) -> FrontValue:
    condition = operand_like(arguments["condition"], truth(low, arguments.read("condition")))
    return choose(low, condition, arguments.read("x"), arguments.read("y"))


def in_compute_dtype(low: Lowering, x: Operand, formula: Callable[[Operand], FrontValue]) -> Tile:
    """A formula of several steps, rounded once: narrow floats go through it in f32."""
    x = read(low, x)
    strength = strength_of(x)
    dtype = float_for(strength.dtype)
    start = operand_like(x, Tile(coerce(low, x, compute_dtype(dtype)), strength.weak))
    result = cast(low, operand_like(x, formula(start)), dtype)
    return Tile(result.value, strength.weak)


@lowers(language.gelu)
def gelu(low: Lowering, arguments: Arguments) -> FrontValue:
    """# x * (1 + erf(x / sqrt(2))) / 2"""

    def formula(x: Operand) -> FrontValue:
        def step(fn: str, value: FrontValue, number: float) -> FrontValue:
            return apply(low, fn, operand_like(x, value), operand_like(x, Static(number)))

        error = apply(low, "erf", operand_like(x, step("mul", x.value, math.sqrt(0.5))))
        half = step("mul", step("add", error, 1.0), 0.5)
        return apply(low, "mul", x, operand_like(x, half))

    return in_compute_dtype(low, arguments["x"], formula)


@lowers(language.silu)
def silu(low: Lowering, arguments: Arguments) -> FrontValue:
    def formula(x: Operand) -> FrontValue:
        return apply(low, "mul", x, operand_like(x, apply(low, "sigmoid", x)))

    return in_compute_dtype(low, arguments["x"], formula)


@lowers(language.relu)
def relu(low: Lowering, arguments: Arguments) -> FrontValue:
    x = arguments.read("x")
    return apply(low, "maximum", x, operand_like(x, Static(0)))


@lowers(language.clip)
def clip(low: Lowering, arguments: Arguments) -> FrontValue:
    x = arguments.read("x")
    above = apply(low, "maximum", x, arguments["low"])
    return apply(low, "minimum", operand_like(x, above), arguments["high"])


@lowers(language.cast)
def cast_to(low: Lowering, arguments: Arguments) -> FrontValue:
    return cast(low, arguments["x"], arguments.dtype("dtype"))
