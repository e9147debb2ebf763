"""How values in the body of a loop change with an extremum that the loop carries: by factors e^(c m).

    p = exp2(s * c - top_new * c)              e^(-c' top_new), c' = c ln 2
    rescale = exp2((top_old - top_new) * c)     e^(c' top_old - c' top_new)

A sum of such p, each relative to the largest element so far, is one relative to another maximum once it is multiplied
by the rescale from the one to the other. `weight_of` says which factors a value has, and raises NotSplitError where it
has no such form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.passes.analysis.sizes import is_scalar
from tiledsl.passes.analysis.splats import number_of, splat_of

Places = tuple["int | None", ...]
LOG_2 = math.log(2)
CLOSE = 1e-5
"""Two numbers that differ by no more of themselves are the same factor, rounded differently."""


class NotSplitError(Exception):
    """Why the sums of a loop are not split, in words that follow "because"."""


class Key(NamedTuple):
    """One factor: of which extremum, before a turn or after it. `places`: for each axis of the value, which axis of the
    extremum it is. `scalars`: what the exponent is multiplied by, as well."""

    extremum: int
    old: bool
    places: Places
    scalars: tuple[Value, ...]


Weight = Mapping[Key, float]
"""The exponents' coefficients, in base e."""


def product(weights: Iterable[Weight]) -> dict[Key, float]:
    """The weight of a product of values of these weights; factors that cancel are left out."""
    total: dict[Key, float] = {}
    largest: dict[Key, float] = {}
    for weight in weights:
        for key, number in weight.items():
            total[key] = total.get(key, 0.0) + number
            largest[key] = max(largest.get(key, 0.0), abs(number))
    return {key: number for key, number in total.items() if abs(number) > CLOSE * largest[key]}


def same(a: Weight, b: Weight) -> bool:
    """Whether two weights are one, but for rounding."""
    return a.keys() == b.keys() and all(math.isclose(a[key], b[key], rel_tol=CLOSE) for key in a)


class WeightRules:
    """The weights of values in a loop's body. `olds` and `news`: extrema before and after the turn, by number.
    `follows`: which carried values something depends on. `fixed`: whether it is from outside of the loop, the same in
    all turns."""

    def __init__(
        self,
        olds: Mapping[Value, int],
        news: Mapping[Value, int],
        follows: Callable[[Value], frozenset[Value]],
        fixed: Callable[[Value], bool],
    ) -> None:
        self.olds, self.news, self.follows, self.fixed = olds, news, follows, fixed

    def weight_of(self, value: Value) -> Weight:
        """The factors of a value; what depends on nothing carried has none. Raises NotSplitError."""
        if not self.follows(value):
            return {}
        op = value.op
        match op:
            case ops.Cast() if op.source.dtype.is_float and op.dtype.is_float:
                return self.weight_of(op.source)
            case ops.Broadcast() | ops.Reshape() | ops.Transpose():
                return _moved(self.weight_of(op.source), op)
            case ops.Map(fn="neg"):
                return self.weight_of(op.inputs[0])
            case ops.Map(fn="mul"):
                return product(self.weights_of(op, op.inputs))
            case ops.Map(fn="div") if not self.follows(op.inputs[1]):
                return _spread(self.weight_of(op.inputs[0]), op.inputs[0], value)
            case ops.Map(fn="where") if not self.follows(op.inputs[0]):
                return self._alike(op, [v for v in op.inputs[1:] if number_of(v) != 0])
            case ops.Map(fn="add" | "sub"):
                return self._alike(op, [v for v in op.inputs if number_of(v) != 0])
            case ops.Map(fn="exp" | "exp2"):
                exponent, _ = self._exponent(op.inputs[0])
                return {key: number * (LOG_2 if op.fn == "exp2" else 1.0) for key, number in exponent.items()}
            case ops.Reduce(fn="add"):
                return _folded(self.weight_of(op.sources[0]), op)
            case ops.Dot() if op.acc is None or number_of(op.acc) == 0:
                return self.weight_of_product(op)
            case _:
                raise self._no_rule(value)

    def weight_of_product(self, op: ops.Dot) -> Weight:
        """That of what a dot adds to its accumulator. Raises NotSplitError."""
        return _contracted(self.weight_of(op.a), self.weight_of(op.b), op)

    def is_rescale(self, weight: Weight) -> bool:
        """Whether a weight leads from the old extrema to the new ones: from one to the next, and so from one to any."""
        old = {key._replace(old=False): -number for key, number in weight.items() if key.old}
        return bool(old) and same(old, {key: number for key, number in weight.items() if not key.old})

    def rescale_of(self, value: Value, result: Value) -> Weight:
        """The weight of a factor of `result` that is a function of extrema before and after a turn alone. Raises
        NotSplitError."""
        weight = _spread(self.weight_of(value), value, result)
        if not (self.is_rescale(weight) and self._is_pure(value)):
            raise NotSplitError("a sum is multiplied by what is no e^(c (m - m')), m and m' an extremum of the loop")
        return weight

    def _is_pure(self, value: Value) -> bool:
        """Whether a product of exponentials has nothing else as a factor, or in an exponent."""
        match value.op:
            case ops.Cast() | ops.Broadcast() | ops.Reshape() | ops.Transpose() as op:
                return self._is_pure(op.source)
            case ops.Map(fn="mul") as op:
                return all(map(self._is_pure, op.inputs))
            case ops.Map(fn="exp" | "exp2") as op:
                return self.follows(value) != frozenset() and self._exponent(op.inputs[0])[1]
            case _:
                return False

    def _exponent(self, value: Value) -> tuple[Weight, bool]:
        """The coefficients of extrema in a sum, and whether it has nothing else. Raises NotSplitError."""
        if not self.follows(value):
            return {}, number_of(value) == 0
        for values, old in ((self.olds, True), (self.news, False)):
            if value in values:
                places = tuple(None if dim == 1 else axis for axis, dim in enumerate(value.shape))
                return {Key(values[value], old, places, ()): 1.0}, True
        op = value.op
        match op:
            case ops.Cast() if op.source.dtype.is_float and op.dtype.is_float:
                return self._exponent(op.source)
            case ops.Broadcast() | ops.Reshape() | ops.Transpose():
                weight, pure = self._exponent(op.source)
                return _moved(weight, op), pure
            case ops.Map(fn="neg"):
                weight, pure = self._exponent(op.inputs[0])
                return _times(weight, -1.0), pure
            case ops.Map(fn="add" | "sub"):
                first, second = (self._exponent(v) for v in op.inputs)
                one, other = (_spread(w, v, value) for (w, _), v in zip((first, second), op.inputs))
                return product([one, _times(other, -1.0 if op.fn == "sub" else 1.0)]), first[1] and second[1]
            case ops.Map(fn="mul"):
                return self._scaled(op, *self._scale(op))
            case ops.Map(fn="div") if number_of(op.inputs[1]):
                weight, pure = self._exponent(op.inputs[0])
                return _times(weight, 1 / float(number_of(op.inputs[1]) or 1)), pure
            case ops.Map(fn="fma") if not self.follows(op.inputs[2]):
                weight, _ = self._scaled(op, *self._scale(op))
                return weight, False
            case ops.Map(fn="fma"):
                last, pure = self._exponent(op.inputs[2])
                terms = [_spread(last, op.inputs[2], value)]
                if self.follows(op.inputs[0]) | self.follows(op.inputs[1]):
                    weight, also = self._scaled(op, *self._scale(op))
                    terms, pure = [*terms, weight], pure and also
                else:
                    pure = False
                return product(terms), pure
            case ops.Map(fn="where") if not self.follows(op.inputs[0]) and number_of(op.inputs[2]) == -math.inf:
                return _spread(self._exponent(op.inputs[1])[0], op.inputs[1], value), False
            case _:
                raise self._no_rule(value)

    def _scale(self, op: ops.Map) -> tuple[Value, Value]:
        """What follows an extremum of two factors, and the other one. Raises NotSplitError."""
        a, b = op.inputs[:2]
        if self.follows(a) and not self.follows(b):
            return a, b
        if self.follows(b) and not self.follows(a):
            return b, a
        raise self._no_rule(op.result)

    def _scaled(self, op: ops.Map, value: Value, factor: Value) -> tuple[Weight, bool]:
        weight, pure = self._exponent(value)
        weight, number, scalar = _spread(weight, value, op.result), number_of(factor), splat_of(factor)
        if number is not None and number != 0:
            return _times(weight, float(number)), pure
        if scalar is None or not self.fixed(scalar):
            raise NotSplitError("an exponent has a factor that is no scalar from outside of the loop")
        more = {key._replace(scalars=tuple(sorted((*key.scalars, scalar), key=id))): c for key, c in weight.items()}
        return more, pure

    def weights_of(self, op: ops.Map, inputs: Sequence[Value]) -> list[Weight]:
        """The weights of inputs of a map, as those of tiles of its shape. Raises NotSplitError."""
        return [_spread(self.weight_of(v), v, op.result) for v in inputs]

    def _alike(self, op: ops.Map, inputs: Sequence[Value]) -> Weight:
        first, *others = self.weights_of(op, inputs)
        if not all(same(first, other) for other in others):
            raise self._no_rule(op.result)
        return first

    def _no_rule(self, value: Value) -> NotSplitError:
        if value.op is None:
            return NotSplitError(f"`{value.name}` is used for more than one sum")
        what = value.op.fn if isinstance(value.op, ops.Map) else value.op.name
        return NotSplitError(f"there is no rule for how `{what}` follows what the loop carries")


def _times(weight: Weight, number: float) -> dict[Key, float]:
    return {key: number * each for key, each in weight.items()}


def _placed(weight: Weight, places: Callable[[Places], Places]) -> dict[Key, float]:
    return product({key._replace(places=places(key.places)): number} for key, number in weight.items())


def _spread(weight: Weight, value: Value, result: Value) -> Weight:
    """The weight of a scalar that goes with all elements of a tile; else as it is."""
    if not is_scalar(value) or is_scalar(result):
        return weight
    return _placed(weight, lambda _: (None,) * len(result.shape))


def _moved(weight: Weight, op: ops.Broadcast | ops.Reshape | ops.Transpose) -> Weight:
    before, after = op.source.shape, op.result.shape
    match op:
        case ops.Transpose():
            return _placed(weight, lambda places: tuple(places[axis] for axis in op.permutation))
        case ops.Broadcast():
            return _placed(weight, lambda places: (*(None,) * (len(after) - len(before)), *places))
        case ops.Reshape():
            from_, to = ([axis for axis, dim in enumerate(shape) if dim != 1] for shape in (before, after))
            kept = [before[axis] for axis in from_] == [after[axis] for axis in to]

            def places(old: Places) -> Places:
                if not kept and any(place is not None for place in old):
                    raise NotSplitError("axes along which an extremum differs are merged or split")
                new: list[int | None] = [None] * len(after)
                for source, axis in zip(from_, to) if kept else ():
                    new[axis] = old[source]
                return tuple(new)

            return _placed(weight, places)


def _folded(weight: Weight, op: ops.Reduce) -> Weight:
    def places(old: Places) -> Places:
        _require_same_along(old[axis] for axis in op.axes)
        if op.keepdims:
            return old
        return tuple(place for axis, place in enumerate(old) if axis not in op.axes)

    return _placed(weight, places)


def _contracted(left: Weight, right: Weight, op: ops.Dot) -> Weight:
    rank = len(op.result.shape)

    def of_left(old: Places) -> Places:
        _require_same_along(old[rank - 1 :])
        return (*old[: rank - 1], None)

    def of_right(old: Places) -> Places:
        _require_same_along(old[rank - 2 : rank - 1])
        return (*old[: rank - 2], None, old[rank - 1])

    return product([_placed(left, of_left), _placed(right, of_right)])


def _require_same_along(places: Iterable[int | None]) -> None:
    if any(place is not None for place in places):
        raise NotSplitError("elements that are summed are relative to different extrema")
