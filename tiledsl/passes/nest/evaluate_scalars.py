"""Integers of a nest as numbers, where one program of the grid and the turns of its loops are given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.symbolic import evaluate


class Place(NamedTuple):
    """Where a block lies: its first coordinate, and how many it has. An index of a loop has one."""

    start: int
    extent: int


class ScalarValues:
    """Integer scalars at given places; None for what only the running program knows."""

    def __init__(self, sizes: Mapping[str, int], places: Mapping[Value, Place]) -> None:
        self.sizes = sizes
        self.places = places
        self._known: dict[Value, int | None] = {}

    def of(self, value: Value) -> int | None:
        """A scalar; of a block that is one coordinate, that."""
        if value not in self._known:
            self._known[value] = self._value(value)
        return self._known[value]

    def _value(self, value: Value) -> int | None:
        match value.op:
            case None:
                return self.places[value].start if value in self.places else None
            case ops.Constant() as op:
                return int(op.value)
            case ops.Size() as op:
                return evaluate(op.value, self.sizes)
            case ops.Start() as op:
                place = self.place(op.axis)
                return None if place is None else place.start
            case ops.Extent() as op:
                place = self.place(op.axis)
                return None if place is None else place.extent
            case ops.Cast() as op:
                return self.of(op.source)
            case ops.Map() as op:
                inputs = [self.of(v) for v in op.inputs]
                known = [v for v in inputs if v is not None]
                return _mapped(op.fn, known) if len(known) == len(inputs) else None
            case _:
                return None

    def place(self, axis: Value) -> Place | None:
        """Where a block lies, perhaps shifted."""
        if axis in self.places:
            return self.places[axis]
        if isinstance(axis.op, ops.Shift):
            place, offset = self.place(axis.op.axis), self.of(axis.op.offset)
            return None if place is None or offset is None else Place(place.start + offset, place.extent)
        return None


class GuessedScalars(ScalarValues):
    """Integer scalars where what data say is as large as the program lets it be: `lengths[b]` is N if the program has
    minimum(lengths[b], N) anywhere. None for other data."""

    def _value(self, value: Value) -> int | None:
        known = super()._value(value)
        return self._bound(value) if known is None else known

    def _bound(self, value: Value) -> int | None:
        apart = ScalarValues(self.sizes, self.places)
        return next((bound for one in limits_of(value) if (bound := apart.of(one)) is not None), None)


def limits_of(value: Value) -> Iterator[Value]:
    """What a program says that an integer is at most: N of minimum(lengths[b], N), wherever that is."""
    for user in value.users:
        if isinstance(user, ops.Cast):
            yield from limits_of(user.result)
        elif isinstance(user, ops.Map) and user.fn == "minimum":
            yield from (one for one in user.inputs if one is not value)


def _mapped(fn: str, inputs: list[int]) -> int | None:
    match fn:
        case "add":
            return inputs[0] + inputs[1]
        case "sub":
            return inputs[0] - inputs[1]
        case "mul":
            return inputs[0] * inputs[1]
        case "floordiv":
            return inputs[0] // inputs[1] if inputs[1] else 0
        case "mod":
            return inputs[0] % inputs[1] if inputs[1] else 0
        case "and":
            return inputs[0] & inputs[1]
        case "or":
            return inputs[0] | inputs[1]
        case "minimum":
            return min(inputs)
        case "maximum":
            return max(inputs)
        case "neg":
            return -inputs[0]
        case "where":
            return inputs[1] if inputs[0] else inputs[2]
        case "eq" | "ne" | "lt" | "le" | "gt" | "ge":
            a, b = inputs
            return int({"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[fn])
        case _:
            return None
