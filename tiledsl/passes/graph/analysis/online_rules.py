"""How a sum over a stream follows a fold of the same stream that it depends on.

    m = max(s, axis)          g = sum(exp(s - m) * v, axis)

After each block m may have risen. What was summed so far was in terms of the old m; `exp(m_old - m_new)` times it is
the same sum in terms of the new one. So both stream in one pass. A rule says of a map how its result changes with m:

| the summed value | what it is multiplied by when u, a function of m, goes from u to u' |
| --- | --- |
| does not depend on m | 1 |
| exp(x - u), exp2(x - u), x does not depend on m; if m is a maximum, it is the one of x | exp(u - u'), exp2(u - u') |
| a * b | the product of both |
| a / b, b does not depend on m | that of a |
| -a, cast(a), broadcast(a), transposed a | that of a |
| where(c, a, 0), c does not depend on m | that of a |
| sum(a), contract(a, b) | that of the operands |

| sum((x - u)^2), u the mean of x, m its sum | see `Moments`: something is added |

Everything else has no rule, and what it is part of is not fused.
"""

from __future__ import annotations

from typing import NamedTuple

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.passes.graph.analysis.shapes import volume

LINEAR_FOLDS = ("add",)
"""Folds whose result is multiplied where all operands are."""


class Factor(NamedTuple):
    """Multiply by `fn(u - u')` where `u` is what `exponent` was and `u'` what it is now."""

    fn: str
    exponent: Value


class Moments(NamedTuple):
    """Of sum((x - mean)^2): the fold `total` that the mean is made of, and `source`, which is x.

    Around the mean of what has come so far, that sum grows by the squares of the block around the mean of the block,
    and by delta^2 * n_a * n_b / (n_a + n_b): n_a elements came before, n_b are in the block, their means are delta
    apart (`stream_moments`).
    """

    total: Value
    source: Value


class RuleError(Exception):
    """An op that the table has no rule for, with the reason in words."""

    def __init__(self, op: Op, reason: str) -> None:
        super().__init__(reason)
        self.op = op
        self.reason = reason


class Dependence:
    """Which values are computed from any of `moving`."""

    def __init__(self, moving: frozenset[Value]) -> None:
        self.moving = moving
        self._known: dict[Value, bool] = {}

    def of(self, value: Value) -> bool:
        """Whether the value depends on one that moves (or is one)."""
        if value in self.moving:
            return True
        if value not in self._known:
            operands = value.op.operands if value.op is not None else ()
            self._known[value] = any(self.of(operand) for operand in operands)
        return self._known[value]


def factors_of(op: ops.Reduce | ops.Contract, dependence: Dependence) -> list[Factor]:
    """What the fold's result so far is multiplied by when the values that it depends on move. Raises RuleError."""
    if isinstance(op, ops.Contract):
        return [*_factors(op.a, op, dependence), *_factors(op.b, op, dependence)]
    if not dependence.of(op.source):
        return []
    if op.fn not in LINEAR_FOLDS:
        raise RuleError(op, f"`{op.fn}` of what depends on another fold of the same axis")
    return _factors(op.source, op, dependence)


def _factors(value: Value, user: Op, dependence: Dependence) -> list[Factor]:
    if not dependence.of(value):
        return []
    op = value.op
    if value in dependence.moving or op is None:
        raise RuleError(user, "it sums what another fold of the same axis gives")
    match op:
        case ops.Cast() | ops.Broadcast() | ops.Transpose() | ops.Reshape():
            return _factors(op.source, op, dependence)
        case ops.Map(fn="neg"):
            return _factors(op.inputs[0], op, dependence)
        case ops.Map(fn="mul"):
            return [factor for operand in op.inputs for factor in _factors(operand, op, dependence)]
        case ops.Map(fn="div") if not dependence.of(op.inputs[1]):
            return _factors(op.inputs[0], op, dependence)
        case ops.Map(fn="where") if not dependence.of(op.inputs[0]) and is_constant(op.inputs[2], 0):
            return _factors(op.inputs[1], op, dependence)
        case ops.Map(fn="exp" | "exp2"):
            difference = op.inputs[0].op
            if not isinstance(difference, ops.Map) or difference.fn != "sub" or dependence.of(difference.inputs[0]):
                raise RuleError(op, f"`{op.fn}` of something else than x - m, where m is a fold of the same axis")
            if not _stays_finite(difference.inputs[1], difference.inputs[0], 1.0, dependence):
                raise RuleError(op, f"`{op.fn}` of x - m, where x may be far above what m is so far")
            return [Factor(op.fn, difference.inputs[1])]
        case ops.Map():
            raise RuleError(op, f"`{op.fn}` of what depends on a fold of the same axis has no rule")
        case _:
            raise RuleError(op, f"`{op.name}` of what depends on a fold of the same axis has no rule")


def _stays_finite(exponent: Value, x: Value, scale: float, dependence: Dependence) -> bool:
    """Whether x * scale - exponent * scale is never far above 0 before all of a stream has come.

    Extrema start from the least number there is, so that their own elements alone may follow them.
    """
    exponent = unspread(exponent)
    op = exponent.op
    if not dependence.of(exponent):
        return True
    match op:
        case ops.Reduce(fn="max" | "min"):
            return op.fn == "max" and _is_among(x, op.source, scale)
        case ops.Reduce() | ops.Contract():
            return True
        case ops.Map(fn="mul") if (scaled := times_positive(op)) is not None:
            return _stays_finite(scaled[0], x, scale * scaled[1], dependence)
        case ops.Map(fn="maximum"):
            return any(dependence.of(v) and _stays_finite(v, x, scale, dependence) for v in op.inputs)
        case ops.Map() | ops.Cast() | ops.Transpose():
            return all(_stays_finite(v, x, scale, dependence) for v in op.operands)
        case _:
            return False


def _is_among(x: Value, source: Value, scale: float) -> bool:
    """Whether x is `source * scale`, or hides some of it."""
    x, source = _plain(x), _plain(source)
    if abs(scale - 1) < 1e-6 and is_same(x, source):
        return True
    match x.op:
        case ops.Map(fn="where") as op:
            shown = [v for v in op.inputs[1:] if not is_constant(v, float("-inf"))]
            return len(shown) == 1 and _is_among(shown[0], source, scale)
        case ops.Map(fn="mul") as op if (scaled := times_positive(op)) is not None:
            return _is_among(scaled[0], source, scale / scaled[1])
        case _:
            return False


def _plain(value: Value) -> Value:
    """What a value rounds, repeats or reindexes."""
    while isinstance(value.op, (ops.Broadcast, ops.Reshape, ops.Transpose, ops.Cast)):
        value = value.op.source
    return value


def times_positive(op: ops.Map) -> tuple[Value, float] | None:
    """x and c where a map is x * c for a positive number c."""
    if op.fn != "mul":
        return None
    for x, factor in (op.inputs, op.inputs[::-1]):
        constant = unspread(factor).op
        if isinstance(constant, ops.Constant) and 0 < constant.value < float("inf"):
            return x, float(constant.value)
    return None


def moments_of(op: Op) -> Moments | None:
    """The parts of a fold that sums squares around the mean over the same axes, if it is one."""
    if not isinstance(op, ops.Reduce) or op.fn != "add":
        return None
    square = op.source.op
    if not isinstance(square, ops.Map) or square.fn not in ("mul", "pow"):
        return None
    centred, other = square.inputs
    if not (other is centred if square.fn == "mul" else is_constant(other, 2)):
        return None
    difference = centred.op
    if not isinstance(difference, ops.Map) or difference.fn != "sub":
        return None
    source, mean = difference.inputs[0], unspread(difference.inputs[1]).op
    if not isinstance(mean, ops.Map) or mean.fn not in ("mul", "div"):
        return None
    total, number = (unspread(value) for value in mean.inputs)
    fold = total.op
    if not isinstance(fold, ops.Reduce) or fold.fn != "add" or not isinstance(number.op, ops.Constant):
        return None
    count = volume(source) / max(1, volume(total))
    share = number.op.value if mean.fn == "mul" else 1 / (number.op.value or 1)
    if not is_same(fold.source, source) or set(fold.axes) != set(op.axes) or abs(share * count - 1) > 1e-5:
        return None
    return Moments(total, source)


def is_same(a: Value, b: Value) -> bool:
    """Whether two values are computed alike from the same ones: what is repeated in each reader is written twice."""
    if a is b:
        return True
    one, other = a.op, b.op
    if one is None or type(one) is not type(other) or other is None:
        return False
    if not one.operands and not isinstance(one, ops.Constant):
        return False
    alike = repr(one.attributes) == repr(other.attributes) and len(one.operands) == len(other.operands)
    return alike and len(one.results) == 1 and all(map(is_same, one.operands, other.operands))


def unspread(value: Value) -> Value:
    """What a value repeats along other axes."""
    while isinstance(value.op, (ops.Broadcast, ops.Reshape)):
        value = value.op.source
    return value


def is_constant(value: Value, number: float) -> bool:
    """Whether a value is that number everywhere."""
    op = value.op
    while isinstance(op, (ops.Broadcast, ops.Cast)):
        op = op.source.op
    return isinstance(op, ops.Constant) and op.value == number
