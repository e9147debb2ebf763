"""What a loop folds into the values that it carries: parts of it may be folded apart from each other, and merged.

for k in tile.range(K):
    acc = tile.dot(a[m, k], b[k, n], acc)                  a sum
    most = tile.maximum(most, tile.max(s, axis=1))          an extremum
    total = total * tile.exp(before - most) + tile.sum(tile.exp(s - most), axis=1)
                                                           a rescaled sum: of what is relative to an extremum

Parts of a rescaled sum are multiplied by the rescale from the extremum of the part to that of all, and added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tiledsl.ir.core import Block, Op, Value
from tiledsl.ir.fold_identities import PAIRWISE
from tiledsl.ir.tile_ops import Dot, Load, Map, Range
from tiledsl.passes.analysis.effects import has_effect
from tiledsl.passes.analysis.splats import number_of
from tiledsl.passes.tile.loops.carried_values import yielded
from tiledsl.passes.tile.loops.follow_weights import NotSplitError, Weight, WeightRules, product, same

FOLDS = {function: fold for fold, function in PAIRWISE.items() if fold != "add"}
"""The fold of many values, by the function of two; beside sums, which may be rescaled."""
EXTREMA = ("max", "min")
IDEMPOTENT = (*EXTREMA, "and", "or")
"""Folds in which it does not matter how often an element comes."""


@dataclass(frozen=True)
class CarriedFold:
    """What a carried value is. `fn`: the fold of parts of it, as `tile.reduce` has it. `rescales`: what a sum is
    multiplied by in each turn, functions of extrema before and after. `followed`: whether sums are relative to it."""

    fn: str
    rescales: tuple[Value, ...] = ()
    followed: bool = False


def carried_folds(loop: Range, written: frozenset[Value]) -> list[CarriedFold]:
    """The folds of a loop, one for each carried value. Raises NotSplitError if one is none, or the loop does more.
    `written`: the tensors that the grid around it writes."""
    if not loop.initial:
        raise NotSplitError("the loop carries nothing")
    check_reads(loop, written)
    if has_effect(loop):
        raise NotSplitError("the loop writes, prints or checks")
    return _Recogniser(loop).folds()


def check_reads(op: Op, written: frozenset[Value]) -> None:
    """Raises NotSplitError where an op, or one in its bodies, reads one of the tensors."""
    for nested in op.walk():
        if isinstance(nested, Load) and nested.tensor in written:
            raise NotSplitError(f"`{nested.tensor.name}` is read and written by the same grid")


class _Recogniser:
    def __init__(self, loop: Range) -> None:
        self.loop, self.body = loop, loop.body
        self.carried, self.last = loop.body.arguments[1:], yielded(loop.body)
        self._follows: dict[Value, frozenset[Value]] = {one: frozenset([one]) for one in self.carried}

    def folds(self) -> list[CarriedFold]:
        plain = [self._plain_fold(one, last) for one, last in zip(self.carried, self.last)]
        extrema = [n for n, fn in enumerate(plain) if fn in EXTREMA and self.carried[n].dtype.is_float]
        olds, news = ({values[n]: n for n in extrema} for values in (self.carried, self.last))
        rules = WeightRules(olds, news, self.follows, self._is_fixed)
        found: list[CarriedFold] = []
        followed: set[int] = set()
        for fn, one, last in zip(plain, self.carried, self.last):
            if fn is not None:
                found.append(CarriedFold(fn))
                continue
            rescales, scale = self._sum(one, last, rules)
            followed |= {key.extremum for key in scale}
            found.append(CarriedFold("add", rescales))
        for number in followed:
            self._check_start(number)
        return [CarriedFold(one.fn, one.rescales, n in followed) for n, one in enumerate(found)]

    def follows(self, value: Value) -> frozenset[Value]:
        """The carried values that a value of the body is computed of."""
        if value not in self._follows:
            op = value.op
            inside = op is not None and op.parent is not None and _is_inside(op.parent, self.body)
            operands = {v for nested in op.walk() for v in nested.operands} if inside and op is not None else ()
            self._follows[value] = frozenset[Value]().union(*map(self.follows, operands))
        return self._follows[value]

    def _is_fixed(self, value: Value) -> bool:
        """Whether a value is from outside of the loop."""
        block = value.owner if isinstance(value.owner, Block) else None if value.op is None else value.op.parent
        return block is None or not _is_inside(block, self.body)

    def _plain_fold(self, one: Value, last: Value) -> str | None:
        """The fold by one function of two values of what depends on nothing carried; None if it is none, or a sum."""
        fn, value = None, last
        while value is not one:
            op = value.op
            if not isinstance(op, Map) or op.fn not in FOLDS or fn not in (None, op.fn):
                return None
            before = [v for v in op.inputs if self.follows(v)]
            if len(before) != 1 or self.follows(before[0]) - {one}:
                return None
            fn, value = op.fn, before[0]
        return None if fn is None else FOLDS[fn]

    def _sum(self, one: Value, last: Value, rules: WeightRules) -> tuple[tuple[Value, ...], Weight]:
        """By what a sum is multiplied in each turn, and the weight of that. Raises NotSplitError."""
        if not (one.dtype.is_float or one.dtype.is_integer):
            raise NotSplitError(f"`{one.name}` is no number")
        scale: Weight = {}
        rescales: list[Value] = []
        terms: list[Weight] = []
        value = last
        while value is not one:
            op = value.op
            if op is None or op.parent is not self.body:
                raise NotSplitError(f"`{one.name}` is no fold")
            before, terms_here, factor = self._step(op, one, rules)
            terms += [product([scale, term]) for term in terms_here]
            if factor is not None:
                rescales.append(factor)
                scale = product([scale, rules.rescale_of(factor, op.results[0])])
            value = before
        relative = {key: number for key, number in scale.items() if not key.old}
        if not all(same(term, relative) for term in terms):
            raise NotSplitError(f"what is added to `{one.name}` is not relative to the extremum that it is rescaled by")
        return tuple(rescales), scale

    def _step(self, op: Op, one: Value, rules: WeightRules) -> tuple[Value, list[Weight], Value | None]:
        """Of an op on the way of a sum: the sum before it, the weights of what it adds, and what it multiplies by."""
        reached = [one in self.follows(v) for v in op.operands]
        if sum(reached) > 1:
            raise NotSplitError(f"the loop does more with `{one.name}` than to add to it")
        match op:
            case Dot() if op.acc is not None and one in self.follows(op.acc):
                return op.acc, [rules.weight_of_product(op)], None
            case Map(fn="add"):
                a, b = op.inputs if reached[0] else op.inputs[::-1]
                return a, rules.weights_of(op, [b]), None
            case Map(fn="sub") if reached[0]:
                return op.inputs[0], rules.weights_of(op, [op.inputs[1]]), None
            case Map(fn="fma") if reached[2]:
                return op.inputs[2], [product(rules.weights_of(op, op.inputs[:2]))], None
            case Map(fn="fma"):
                a, b = op.inputs[:2] if reached[0] else op.inputs[1::-1]
                return a, rules.weights_of(op, [op.inputs[2]]), b
            case Map(fn="mul"):
                a, b = op.inputs if reached[0] else op.inputs[::-1]
                return a, [], b
            case _:
                raise NotSplitError(f"`{one.name}` is no fold")

    def _check_start(self, number: int) -> None:
        """Parts start from a number where the whole starts from infinity: there has to be one."""
        start = number_of(self.loop.initial[number])
        dtype = self.carried[number].dtype
        if start is not None and math.isinf(start) and dtype.name not in ("f32", "f64"):
            raise NotSplitError(f"`{self.carried[number].name}` starts from infinity, in a narrow dtype")


def _is_inside(block: Block, outer: Block) -> bool:
    while block is not outer:
        if block.parent is None or block.parent.parent is None:
            return False
        block = block.parent.parent
    return True
