"""Bounds of integers in a loop: sums of its number, of scalars from outside, and of a constant.

    %start = tile.map([%number, %64]) {fn = mul}
    %left = tile.map([%stop, %start]) {fn = sub}
    %size = tile.map([%left, %64]) {fn = minimum}          at least the less of `stop - 64 * number` and 64

What is said of a tile holds for all of its elements, padding too.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.passes.analysis.sizes import constant_of

MOST_SUMS = 16
"""Of which a bound is the greatest."""
MOST_STEPS = 256
"""Ops on the way from a value to what it is made of."""
_MOVES = (ops.Broadcast, ops.Reshape, ops.Transpose, gpu.Convert)


@dataclass(frozen=True)
class Sum:
    """constant + turns * number of the turn + each of the scalars so many times."""

    constant: int = 0
    turns: int = 0
    scalars: dict[Value, int] = field(default_factory=dict[Value, int])

    def plus(self, other: Sum) -> Sum:
        """Both together."""
        scalars = dict(self.scalars)
        for value, times in other.scalars.items():
            scalars[value] = scalars.get(value, 0) + times
        kept = {value: times for value, times in scalars.items() if times}
        return Sum(self.constant + other.constant, self.turns + other.turns, kept)

    @property
    def is_constant(self) -> bool:
        """Whether it is one number, in every turn of every run."""
        return not self.turns and not self.scalars


Bound = tuple[Sum, ...]
"""Nothing is above the greatest of these."""


class TurnBounds:
    """What is known of values in the body of one loop."""

    def __init__(self, loop: ops.For) -> None:
        self.number = loop.body.arguments[0]
        self._inside = {*loop.body.arguments, *(result for op in loop.body.ops for result in op.results)}
        self._steps = 0

    def unless_positive(self, condition: Value) -> Bound | None:
        """All elements of a condition are true where none of these sums is positive; None if there are none such."""
        op = condition.op
        while isinstance(op, _MOVES):
            op = op.source.op
        if not isinstance(op, ops.Map):
            return None
        match op.fn:
            case "and":
                first, second = (self.unless_positive(value) for value in op.inputs)
                return None if first is None or second is None else (*first, *second)
            case "le" | "lt" | "ge" | "gt":
                left, right = op.inputs if op.fn in ("le", "lt") else op.inputs[::-1]
                apart = 1 if op.fn in ("lt", "gt") else 0
                return self.difference(left, right, apart) if left.dtype.is_integer else None
            case _:
                return None

    def is_never_positive(self, one: Sum, first: int) -> bool:
        """Whether a sum is at most 0 in every turn from number `first` on, whatever the scalars from outside are: of
        these it is known how they are computed, so that `row - maximum(row - 9, 0)` is at most 9."""
        return one.turns <= 0 and _is_at_most_zero(Sum(one.constant + one.turns * first, 0, one.scalars), MOST_SUMS)

    def difference(self, left: Value, right: Value, more: int) -> Bound | None:
        """A bound of `left - right + more`."""
        self._steps = 0
        return _added(_added(self._above(left, 1), self._above(right, -1)), (Sum(more),))

    def shortfall(self, value: Value, room: int) -> Bound | None:
        """A bound of `room - value`."""
        self._steps = 0
        return _added(self._above(value, -1), (Sum(room),))

    def _above(self, value: Value, times: int, constant: bool = False) -> Bound | None:
        """A bound of `times * value`. `constant`: one that is a number is wanted, where there is a choice."""
        self._steps += 1
        known, op = constant_of(value), value.op
        if known is not None:
            return (Sum(times * known),)
        if value is self.number:
            return (Sum(turns=times),)
        if not value.shape and value.dtype.is_integer and (value not in self._inside or isinstance(op, ops.Size)):
            return (Sum(scalars={value: times}),)
        if self._steps > MOST_STEPS:
            return None
        match op:
            case gpu.Arange():
                assert isinstance(op.layout, RegisterLayout)
                return (Sum(max(0, times) * (op.layout.shape[0] - 1)),)
            case ops.Broadcast() | ops.Reshape() | ops.Transpose() | gpu.Convert():
                return self._above(op.source, times, constant)
            case ops.Cast():
                return self._cast(op, times, constant)
            case ops.Map():
                return self._map(op, times, constant)
            case _:
                return None

    def _cast(self, cast: ops.Cast, times: int, constant: bool) -> Bound | None:
        """An integer that is made narrower has to have a bound on the other side: the one that is asked for is compared
        with numbers, so that the integer lies between where this comes out well."""
        given, made = cast.source.dtype, cast.dtype
        if not given.is_integer or not made.is_integer or made.name.startswith("u"):
            return None
        if made.bits < given.bits:
            other_side = self._above(cast.source, -1 if times > 0 else 1, True)
            most = 1 << (made.bits - 1)
            if other_side is None or not all(one.is_constant and abs(one.constant) < most for one in other_side):
                return None
        return self._above(cast.source, times, constant)

    def _map(self, op: ops.Map, times: int, constant: bool) -> Bound | None:
        match op.fn:
            case "add" | "sub":
                left, right = op.inputs
                sign = times if op.fn == "add" else -times
                return _added(self._above(left, times, constant), self._above(right, sign, constant))
            case "mul":
                factors = [constant_of(value) for value in op.inputs]
                for factor, other in zip(factors, op.inputs[::-1]):
                    if factor is not None:
                        return self._above(other, times * factor, constant)
                return None
            case "minimum" | "maximum":
                bounds = [self._above(value, times, constant) for value in op.inputs]
                if (op.fn == "maximum") == (times > 0):
                    first, second = bounds
                    return None if first is None or second is None else (*first, *second)[: MOST_SUMS + 1]
                there = [bound for bound in bounds if bound is not None]  # either is one
                there.sort(key=lambda bound: all(one.is_constant for one in bound), reverse=constant)
                return there[0] if there else None
            case _:
                return None


def _is_at_most_zero(one: Sum, steps: int) -> bool:
    """`steps`: so many scalars at most are replaced by what they are made of, one after the other."""
    if one.is_constant:
        return one.constant <= 0
    for value, times in one.scalars.items() if steps else ():
        op = value.op
        known = constant_of(value)
        rest = one.plus(Sum(scalars={value: -times}))
        if known is not None:
            return _is_at_most_zero(rest.plus(Sum(times * known)), steps - 1)
        if not isinstance(op, ops.Map):
            continue
        each = [Sum(scalars={operand: times}) for operand in op.inputs]
        match op.fn:
            case "add":
                return _is_at_most_zero(rest.plus(each[0]).plus(each[1]), steps - 1)
            case "sub":
                return _is_at_most_zero(rest.plus(each[0]).plus(Sum(scalars={op.inputs[1]: -times})), steps - 1)
            case "minimum" | "maximum":
                found = (_is_at_most_zero(rest.plus(side), steps - 1) for side in each)
                return all(found) if (op.fn == "maximum") == (times > 0) else any(found)
            case _:
                pass
    return False


def _added(first: Bound | None, second: Bound | None) -> Bound | None:
    if first is None or second is None or len(first) * len(second) > MOST_SUMS:
        return None
    return tuple(one.plus(other) for one in first for other in second)
