"""Functions that only exponents are made of, by fewer instructions: absolute errors count there, not relative ones.

    %t = tile.map([%x]) {fn = tanh}                 %y = tile.map([%x, %c]) {fn = mul}        %c: 2 log2(e)
    %s = tile.map([%t, %cap]) {fn = mul}     =>     %g = tile.map([%y]) {fn = sigmoid2}       1 / (1 + 2**-y)
    %top_new = max of %top and %s                   %s = tile.map([%g, %a, %b]) {fn = fma}    %a: 2 cap, %b: -cap
    %p = exp2(%s - %top_new)

A tanh that is accurate near 0 takes a polynomial, a comparison and a selection beside. `sigmoid2` has an absolute
error of 2**-22, and is two instructions of the slow unit and a sum. What is made of it must be, in a loop that carries
the largest so far and sums relative to that (`carried_folds`):

- exponents of weights: a relative error of a weight is the absolute one of its exponent, at most 2**-14 (`MOST`), an
  eighth of what f16 keeps. Weights are rounded to 16 bits or fewer, or added up, and of their sums nothing is made but
  floats of 16 bits or fewer;
- the extremum, and rescales from one extremum to another. In exact arithmetic no result depends on what the extremum
  is, as long as weights and rescales have the same one: sums are relative to it, quotients of sums are not.

Everywhere, tanh(log(1 + e)) of an exponential e is a quotient (`tanh_of_log.py`), which is not far from it but nearer.

Factors and divisors of the operand become one with %c, again when a plan has made numbers of sizes (`d**-0.5`).
Infinities and NaN give what tanh gives.

Before: any TILE form without levels. After: the same form. Results differ by what a rounding to 16 bits hides, but
where the exact result lies almost half way between two numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Module, Op, Value
from tiledsl.ir.dtypes import f32, is_narrow_float
from tiledsl.ir.verifier import Form
from tiledsl.passes.analysis.effects import tensors_written
from tiledsl.passes.analysis.scalars.approximate_numbers import approximate_number
from tiledsl.passes.analysis.splats import number_of, splat_of
from tiledsl.passes.manager import PassContext
from tiledsl.passes.tile.loops.carried_folds import EXTREMA, CarriedFold, carried_folds
from tiledsl.passes.tile.loops.carried_values import yielded
from tiledsl.passes.tile.loops.follow_weights import NotSplitError
from tiledsl.passes.tile.tanh_of_log import TANH_RULES

ERROR = 2.0**-22
"""Of `sigmoid2`, absolutely."""
MOST = 2.0**-14
"""The largest relative error that a weight may have of that."""
LOG2_E = 1 / math.log(2)
EXPONENTIALS = {"exp": 1.0, "exp2": math.log(2)}
"""By which factor an absolute error of the operand is a relative one of the result."""
_AS_SIGMOID = {"tanh": (2 * LOG2_E, 2.0, -1.0), "sigmoid": (LOG2_E, 1.0, 0.0)}
"""A function of x as a sigmoid2(c x) + b: c, a, b."""
_LARGEST, _LEAST = 2.0**60, 2.0**-60
"""Constants beyond are left as they are."""
_MOVES = (ops.Broadcast, ops.Reshape, ops.Transpose)


@dataclass(frozen=True)
class NearFunctions:
    """Writes tanh and sigmoid by `sigmoid2` where only exponents are made of them, tanh of logarithms by quotients."""

    name: ClassVar[str] = "near-functions"
    requires: ClassVar[Form] = Form.TILE
    gives: ClassVar[Form] = Form.TILE

    def run(self, module: Module, context: PassContext) -> Module:
        for function in module.functions:
            TANH_RULES.apply(function)
            for grid in [op for op in function.walk() if isinstance(op, ops.Grid)]:
                for loop in [op for op in grid.body.walk() if isinstance(op, ops.Range)]:
                    _rewrite(grid, loop)
                for op in [op for op in grid.body.walk() if isinstance(op, ops.Map) and op.fn == "sigmoid2"]:
                    _scale_once(op)
        return module


def _rewrite(grid: ops.Grid, loop: ops.Range) -> None:
    found = [op for op in loop.body.ops if isinstance(op, ops.Map) and op.fn in _AS_SIGMOID and op.result.dtype == f32]
    if not found:
        return
    try:
        folds = carried_folds(loop, tensors_written([grid]))
    except NotSplitError:
        return
    for op in found:
        largest = _Exponents(loop, folds).largest(op.result)
        if largest is not None and largest * _AS_SIGMOID[op.fn][1] * ERROR <= MOST:
            _as_sigmoid(loop.body, op)


# What is made of a function


class _NotAnExponentError(Exception):
    """Something else is made of a value."""


@dataclass
class _Exponents:
    """What is made of a value in a loop, whose carried values are these folds."""

    loop: ops.Range
    folds: list[CarriedFold]
    _seen: set[Value] = field(default_factory=set[Value])
    _weighed: set[Value] = field(default_factory=set[Value])
    _largest: float = 0.0

    def largest(self, value: Value) -> float | None:
        """The largest factor of a value in an exponent of base e; None if other things are made of it."""
        try:
            self._exponent(value, 1.0)
            for fold, result in zip(self.folds, self.loop.results):
                if fold.rescales:
                    self._weight(result)
        except _NotAnExponentError:
            return None
        return self._largest

    def _exponent(self, value: Value, factor: float) -> None:
        if value in self._seen:
            return
        self._seen.add(value)
        for user in value.users:
            match user:
                case ops.Map() if user.fn in EXPONENTIALS:
                    self._largest = max(self._largest, factor * EXPONENTIALS[user.fn])
                    self._weight(user.result)
                case ops.Map():
                    self._exponent(user.result, factor * _slope(user, value))
                case ops.Reduce() if user.fn in EXTREMA:
                    self._exponent(user.results[0], factor)
                case ops.Yield():
                    for number in self._places(user, value):
                        if self.folds[number].fn not in EXTREMA or self.loop.results[number].users:
                            raise _NotAnExponentError
                        self._exponent(self.loop.body.arguments[1 + number], factor)
                case _ if isinstance(user, _MOVES):
                    self._exponent(user.result, factor)
                case _:
                    raise _NotAnExponentError

    def _places(self, end: Op, value: Value) -> list[int]:
        if end.parent is not self.loop.body:
            raise _NotAnExponentError
        return [number for number, one in enumerate(yielded(self.loop.body)) if one is value]

    def _weight(self, value: Value) -> None:
        """Raises if something is made of a weight, or of a sum of weights, that 16 bits do not round."""
        if value in self._weighed or any(value in fold.rescales for fold in self.folds):
            return
        self._weighed.add(value)
        for user in value.users:
            match user:
                case ops.Cast() if is_narrow_float(user.dtype):
                    pass
                case ops.Map(fn="mul" | "div"):
                    self._weight(user.result)
                case ops.Map(fn="add") if all(self._is_positive(v) for v in user.inputs):
                    self._weight(user.result)
                case ops.Reduce(fn="add") if self._is_positive(value):
                    self._weight(user.results[0])
                case ops.Yield():
                    for number in self._places(user, value):
                        self._weight(self.loop.body.arguments[1 + number])
                        self._weight(self.loop.results[number])
                case _ if isinstance(user, _MOVES):
                    self._weight(user.result)
                case _:
                    raise _NotAnExponentError

    def _is_positive(self, value: Value, within: frozenset[Value] = frozenset()) -> bool:
        """Whether a value is never below 0: a weight, or a sum of weights."""
        number = number_of(value)
        if number is not None:
            return number >= 0
        if value in within:
            return True
        within |= {value}
        op = value.op
        match op:
            case None:
                arguments = self.loop.body.arguments
                if value not in arguments[1:]:
                    return False
                place = arguments.index(value) - 1
                return all(
                    self._is_positive(v, within) for v in (self.loop.initial[place], yielded(self.loop.body)[place])
                )
            case ops.Map():
                if op.fn in EXPONENTIALS:
                    return True
                return op.fn in ("mul", "div", "add") and all(self._is_positive(v, within) for v in op.inputs)
            case ops.Reduce():
                return op.fn in ("add", "max") and self._is_positive(op.sources[0], within)
            case _:
                return isinstance(op, _MOVES) and self._is_positive(op.operands[0], within)


def _slope(op: ops.Map, value: Value) -> float:
    """By how much an error of an operand is multiplied at most. Raises where that is not known."""
    match op.fn:
        case "add" | "sub" | "neg" | "maximum" | "minimum":
            return 1.0 if op.inputs.count(value) == 1 else 2.0
        case "where" if op.inputs[0] is not value:
            return 1.0
        case "mul" | "div":
            numbers = [number_of(v) for v in op.inputs if v is not value]
            if len(numbers) == 1 and numbers[0] and (op.fn == "mul" or op.inputs[0] is value):
                size = abs(float(numbers[0]))
                return size if op.fn == "mul" else 1 / size
        case _:
            pass
    raise _NotAnExponentError


# The same by other functions


def _as_sigmoid(body: Block, op: ops.Map) -> None:
    inner, outer, offset = _AS_SIGMOID[op.fn]
    source, (operand, factor) = op.inputs[0], _scaled(op.inputs[0])
    last, by = op, 1.0
    users = list(op.result.users)
    if len(users) == 1 and isinstance(users[0], ops.Map) and users[0].fn == "mul" and users[0].parent is body:
        scale = _factor(users[0], op.result)
        if scale is not None:
            last, by = users[0], scale
    builder = Builder(Block(), op.location)
    result = op.result
    for fn, numbers in (("mul", (inner * factor,)), ("sigmoid2", ()), ("fma", (outer * by, offset * by))):
        inputs = (operand if fn == "mul" else result, *(builder.constant(number, f32) for number in numbers))
        result = builder.emit(ops.Map, types=[op.result.type], fn=fn, inputs=inputs).result
    for made in list(builder.block.ops):
        builder.block.ops.remove(made)
        body.insert_before(last, made)
    result.name = last.result.name
    last.result.replace_with(result)
    last.erase()
    if last is not op:
        op.erase()
    while source is not operand and not source.users:
        assert isinstance(source.op, ops.Map)
        scaling = source.op
        source = next(v for v in scaling.inputs if _factor(scaling, v) is not None)
        scaling.erase()


def _scale_once(op: ops.Map) -> None:
    """Makes two factors of an operand one: those that were no numbers before there was a plan."""
    scaling = op.inputs[0].op
    if not isinstance(scaling, ops.Map) or scaling.fn != "mul" or dict(scaling.result.users) != {op: 1}:
        return
    operand, factor = _scaled(scaling.result)
    if operand in scaling.inputs or operand is scaling.result or scaling.parent is None:
        return
    constant = ops.Constant(op.location, value=factor, dtype=f32)
    scaling.parent.insert_before(scaling, constant)
    scaling.set_field("inputs", (operand, constant.result))


def _scaled(value: Value) -> tuple[Value, float]:
    """A value as another one times a constant."""
    factor = 1.0
    while isinstance(value.op, ops.Map) and value.op.fn in ("mul", "div"):
        op = value.op
        found = next(((v, n) for v in op.inputs if (n := _factor(op, v)) is not None), None)
        if found is None or not _LEAST < abs(factor * found[1]) < _LARGEST:
            break
        value, factor = found[0], factor * found[1]
    return value, factor


def _factor(op: ops.Map, value: Value) -> float | None:
    """The constant that an operand is multiplied by."""
    others = [v for v in op.inputs if v is not value]
    scalar = splat_of(others[0]) if len(others) == 1 else None
    number = approximate_number(scalar) if scalar is not None else None
    if number is None or not math.isfinite(number) or not _LEAST < abs(number) < _LARGEST:
        return None
    if op.fn == "div":
        return 1 / float(number) if op.inputs[0] is value else None
    return float(number)
