"""Functions of each element."""

# traced tensors have no types, nor have the objects of ONNX
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import math
from functools import reduce
from typing import Any

from tiledsl import ops, tile
from tiledsl.importers.onnx.call import Call
from tiledsl.importers.onnx.operators.floats import in_floats, narrowed
from tiledsl.importers.onnx.register import operator


@operator("Add", since=7)
def add(a: Any, b: Any) -> Any:
    return a + b


@operator("Sub", since=7)
def sub(a: Any, b: Any) -> Any:
    return a - b


@operator("Mul", since=7)
def mul(a: Any, b: Any) -> Any:
    return a * b


@operator("Div", since=7)
def div(a: Any, b: Any) -> Any:
    """Integers are cut off towards zero."""
    if a.dtype.is_float:
        return a / b
    quotient = a // b
    if not a.dtype.is_signed:
        return quotient
    return quotient + ((a % b != 0) & ((a < 0) != (b < 0))).to(a.dtype)


@operator("Mod", since=10)
def mod(a: Any, b: Any, *, fmod: int = 0) -> Any:
    """The sign is that of `b`; that of `a` if `fmod`."""
    if not fmod:
        return a % b
    rest = tile.abs(a) % tile.abs(b) if a.dtype.is_signed else a % b
    return tile.where(a < 0, -rest, rest) if a.dtype.is_signed else rest


@operator("Pow", since=7)
def power(x: Any, y: Any) -> Any:
    if x.dtype == y.dtype:
        return x**y
    if x.dtype.is_float or y.dtype.is_integer:
        return x ** y.to(x.dtype)
    return (x.to(tile.f64) ** y.to(tile.f64)).to(x.dtype)


@operator("Neg", since=6)
def neg(x: Any) -> Any:
    return -x


@operator("Abs", since=6)
def absolute(x: Any) -> Any:
    return tile.abs(x) if x.dtype.is_signed else x


@operator("Sign", since=9)
def sign(x: Any) -> Any:
    return tile.sign(x)


@operator("Reciprocal", since=6)
def reciprocal(x: Any) -> Any:
    return 1.0 / x


@operator("Floor", since=6)
def floor(x: Any) -> Any:
    return tile.floor(x)


@operator("Ceil", since=6)
def ceil(x: Any) -> Any:
    return tile.ceil(x)


@operator("Round", since=11)
def rounded(x: Any) -> Any:
    return tile.round(x)


@operator("Sqrt", since=6)
def sqrt(x: Any) -> Any:
    return tile.sqrt(x)


@operator("Exp", since=6)
def exp(x: Any) -> Any:
    return tile.exp(x)


@operator("Log", since=6)
def log(x: Any) -> Any:
    return tile.log(x)


@operator("Erf", since=9)
def erf(x: Any) -> Any:
    return tile.erf(x)


@operator("Sigmoid", since=6)
def sigmoid(x: Any) -> Any:
    return tile.sigmoid(x)


@operator("Tanh", since=6)
def tanh(x: Any) -> Any:
    return tile.tanh(x)


@operator("Sin", since=7)
def sin(x: Any) -> Any:
    return tile.sin(x)


@operator("Cos", since=7)
def cos(x: Any) -> Any:
    return tile.cos(x)


@operator("Tan", since=7)
def tan(x: Any) -> Any:
    return tile.tan(x)


@operator("Sinh", since=9)
def sinh(x: Any) -> Any:
    return in_floats(tile.sinh, x)


@operator("Cosh", since=9)
def cosh(x: Any) -> Any:
    return in_floats(tile.cosh, x)


@operator("Asin", since=7)
def asin(x: Any) -> Any:
    return in_floats(tile.asin, x)


@operator("Acos", since=7)
def acos(x: Any) -> Any:
    return in_floats(tile.acos, x)


@operator("Atan", since=7)
def atan(x: Any) -> Any:
    return in_floats(tile.atan, x)


@operator("Asinh", since=9)
def asinh(x: Any) -> Any:
    return in_floats(tile.asinh, x)


@operator("Acosh", since=9)
def acosh(x: Any) -> Any:
    return in_floats(tile.acosh, x)


@operator("Atanh", since=9)
def atanh(x: Any) -> Any:
    return in_floats(tile.atanh, x)


@operator("Relu", since=6)
def relu(x: Any) -> Any:
    return tile.relu(x)


@operator("LeakyRelu", since=6)
def leaky_relu(x: Any, *, alpha: float = 0.01) -> Any:
    return ops.leaky_relu(x, alpha)


@operator("PRelu", since=7)
def prelu(x: Any, slope: Any) -> Any:
    return tile.where(x < 0, slope * x, x)


@operator("Elu", since=6)
def elu(x: Any, *, alpha: float = 1.0) -> Any:
    return ops.elu(x, alpha)


@operator("Celu", since=12)
def celu(x: Any, *, alpha: float = 1.0) -> Any:
    def formula(x: Any) -> Any:
        return tile.maximum(x, 0.0) + tile.minimum(alpha * (tile.exp(tile.minimum(x, 0.0) / alpha) - 1.0), 0.0)

    return in_floats(formula, x)


@operator("Selu", since=6)
def selu(x: Any, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875) -> Any:
    def formula(x: Any) -> Any:
        return gamma * tile.where(x > 0, x, alpha * (tile.exp(tile.minimum(x, 0.0)) - 1.0))

    return in_floats(formula, x)


@operator("Gelu", since=20)
def gelu(x: Any, *, approximate: str = "none") -> Any:
    return ops.gelu(x, approximate=approximate)


@operator("Swish", since=24)
def swish(x: Any, *, alpha: float = 1.0) -> Any:
    return in_floats(lambda x: x * tile.sigmoid(alpha * x), x)


@operator("Mish", since=18)
def mish(x: Any) -> Any:
    return in_floats(lambda x: x * tile.tanh(ops.softplus(x)), x)


@operator("Softplus", since=1)
def softplus(x: Any) -> Any:
    return ops.softplus(x)


@operator("Softsign", since=1)
def softsign(x: Any) -> Any:
    return in_floats(lambda x: x / (1.0 + tile.abs(x)), x)


@operator("HardSigmoid", since=6)
def hard_sigmoid(x: Any, *, alpha: float = 0.2, beta: float = 0.5) -> Any:
    return in_floats(lambda x: tile.clip(alpha * x + beta, 0.0, 1.0), x)


@operator("HardSwish", since=14)
def hard_swish(x: Any) -> Any:
    return ops.hardswish(x)


@operator("ThresholdedRelu", since=10)
def thresholded_relu(x: Any, *, alpha: float = 1.0) -> Any:
    return tile.where(x > alpha, x, 0.0)


@operator("Shrink", since=9)
def shrink(x: Any, *, bias: float = 0.0, lambd: float = 0.5) -> Any:
    wide = x.to(tile.f32) if x.dtype.is_integer else x
    return tile.where(wide < -lambd, wide + bias, tile.where(wide > lambd, wide - bias, 0.0)).to(x.dtype)


@operator("Clip", since=6)
def clip_to_numbers(x: Any, *, min: float = -math.inf, max: float = math.inf) -> Any:
    return tile.clip(x, min, max)


@operator("Clip", since=11)
def clip(x: Any, low: Any = None, high: Any = None) -> Any:
    x = x if low is None else tile.maximum(x, low)
    return x if high is None else tile.minimum(x, high)


@operator("Max", since=6)
def maximum(x: Any, *others: Any) -> Any:
    return reduce(tile.maximum, others, x)


@operator("Min", since=6)
def minimum(x: Any, *others: Any) -> Any:
    return reduce(tile.minimum, others, x)


@operator("Sum", since=6)
def total(x: Any, *others: Any) -> Any:
    return narrowed(lambda *xs: reduce(lambda a, b: a + b, xs), x, *others)


@operator("Mean", since=6)
def mean(x: Any, *others: Any) -> Any:
    return narrowed(lambda *xs: reduce(lambda a, b: a + b, xs) / float(len(xs)), x, *others)


@operator("Equal", since=7)
def equal(a: Any, b: Any) -> Any:
    return a == b


@operator("Greater", since=7)
def greater(a: Any, b: Any) -> Any:
    return a > b


@operator("GreaterOrEqual", since=12)
def greater_or_equal(a: Any, b: Any) -> Any:
    return a >= b


@operator("Less", since=7)
def less(a: Any, b: Any) -> Any:
    return a < b


@operator("LessOrEqual", since=12)
def less_or_equal(a: Any, b: Any) -> Any:
    return a <= b


@operator("And", "BitwiseAnd", since=7)
def conjunction(a: Any, b: Any) -> Any:
    return a & b


@operator("Or", "BitwiseOr", since=7)
def disjunction(a: Any, b: Any) -> Any:
    return a | b


@operator("Xor", "BitwiseXor", since=7)
def exclusive(a: Any, b: Any) -> Any:
    return a ^ b


@operator("Not", "BitwiseNot", since=1)
def negation(x: Any) -> Any:
    return ~x


@operator("BitShift", since=11)
def bit_shift(x: Any, y: Any, *, direction: str, node: Call) -> Any:
    if direction not in ("LEFT", "RIGHT"):
        node.refuse("direction", direction, "LEFT or RIGHT")
    return x << y if direction == "LEFT" else x >> y


@operator("Where", since=9)
def where(condition: Any, x: Any, y: Any) -> Any:
    return tile.where(condition, x, y)


@operator("IsNaN", since=9)
def is_nan(x: Any) -> Any:
    return x != x


@operator("IsInf", since=10)
def is_inf(x: Any, *, detect_negative: int = 1, detect_positive: int = 1) -> Any:
    above = x == (math.inf if detect_positive else math.nan)
    return above | (x == -math.inf) if detect_negative else above
