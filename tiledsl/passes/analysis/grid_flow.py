"""What the values of one grid depend on: which of its axes, and where subscripts lie as far as that is known.

for m, n in grid(M, N):
    row = sum(x[m, n])        depends on m and n
    y[m] = row                its place: the block of m; what it stores depends on n too
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tiledsl.ir.core import Block, Function, Op, Value
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.tile_ops import (
    Arange,
    Atomic,
    Broadcast,
    Cast,
    Coordinates,
    For,
    Grid,
    If,
    Load,
    Map,
    Range,
    Reshape,
    Shift,
    Start,
    Store,
    Transpose,
    While,
)
from tiledsl.ir.types import AxisType, Slice, TileType
from tiledsl.passes.analysis.effects import tensors_written
from tiledsl.passes.analysis.sizes import constant_of, size_of
from tiledsl.passes.analysis.splats import splat_of

Axes: TypeAlias = "frozenset[int]"
"""Axes of the grid, by their position."""
NO_AXES: Axes = frozenset()


@dataclass(frozen=True)
class Stretch:
    """All coordinates from `low` to `high`, both included. With an `axis` of the grid they count from where the block
    of the program starts; `high` from its last coordinate, if it goes `to_end`. `loops`: blocks or indices of the
    loops that it takes to come to all of them.
    """

    low: Dim
    high: Dim
    axis: int | None = None
    to_end: bool = False
    loops: frozenset[Value] = frozenset()

    @property
    def exact(self) -> Dim | None:
        """The only coordinate, if it is the same in all programs."""
        return self.low if self.axis is None and not self.loops and self.low == self.high else None


class GridFlow:
    """The flow of values into one grid of a function. Found once, in a few sweeps over its ops.

    `may` has the axes that a value may depend on, with all of what other programs could do to it; `sure` those that
    it does depend on, in so far as different data are different values.
    """

    def __init__(self, function: Function, grid: Grid) -> None:
        self.grid = grid
        self.all_axes: Axes = frozenset(range(len(grid.body.arguments)))
        self.written = tensors_written([grid])
        self.may: dict[Value, Axes] = {}
        self.sure: dict[Value, Axes] = {}
        self.stretches: dict[Value, Stretch] = {}
        self.numbers: dict[Value, int] = {}
        """Equal for values that are computed alike, so are one value within a program."""
        self._known: dict[object, int] = {}
        self._contents: dict[Value, Axes] = {}
        self._changed = True
        for op in function.body.ops:
            if op is grid:
                break
            self._place(op)
        for position, argument in enumerate(grid.body.arguments):
            self.may[argument] = self.sure[argument] = frozenset((position,))
            whole = isinstance(argument.type, AxisType)
            self.stretches[argument] = Stretch(0, 0, position, to_end=whole)
        ops = list(grid.body.walk())
        for op in ops:
            self._place(op)
        while self._changed:  # values go around loops, and through tensors
            self._changed = False
            for op in ops:
                self._flow(op)

    def may_of(self, values: Sequence[Value]) -> Axes:
        return NO_AXES.union(*(self.may.get(value, NO_AXES) for value in values))

    def sure_of(self, values: Sequence[Value]) -> Axes:
        return NO_AXES.union(*(self.sure.get(value, NO_AXES) for value in values))

    # Dependence

    def _flow(self, op: Op) -> None:
        may, sure = self.may_of(op.operands), self.sure_of(op.operands)
        match op:
            case If():
                self._join(op.results, may, sure)
                for branch in (op.then, op.otherwise):
                    self._yielded(branch, op.results)
            case Range() | For():
                carried = op.body.arguments[1:]
                bounds = op.operands[: -len(op.initial)] if op.initial else op.operands
                self._join(op.body.arguments[:1], self.may_of(bounds), self.sure_of(bounds))
                self._carry(op.initial, carried, op.results)
                self._yielded(op.body, carried)
                self._yielded(op.body, op.results)
                self._join(op.results, self.may_of(bounds), self.sure_of(bounds))
            case While():
                carried = op.body.arguments
                self._carry(op.initial, carried, op.results)
                self._carry(op.initial, op.condition.arguments, ())
                for targets in (carried, op.condition.arguments, op.results):
                    self._yielded(op.body, targets)
                last = op.condition.terminator
                if last is not None:
                    self._join(op.results, self.may_of(last.operands), self.sure_of(last.operands))
            case Load():
                if op.tensor in self.written:
                    may, sure = self.all_axes, sure | self._contents.get(op.tensor, NO_AXES)
                self._join(op.results, may, sure)
            case Atomic():
                self._join(op.results, self.all_axes, self.all_axes)
                self._store(op.tensor, self.all_axes)
            case Store():
                self._store(op.tensor, self.sure_of([op.value]))
            case _:
                self._join(op.results, may, sure)

    def _carry(self, initial: Sequence[Value], carried: Sequence[Value], results: Sequence[Value]) -> None:
        for position, value in enumerate(initial):
            targets = [carried[position], *([results[position]] if results else [])]
            self._join(targets, self.may_of([value]), self.sure_of([value]))

    def _yielded(self, body: Block, targets: Sequence[Value]) -> None:
        last = body.terminator
        for target, value in zip(targets, last.operands if last is not None else ()):
            self._join([target], self.may_of([value]), self.sure_of([value]))

    def _join(self, values: Sequence[Value], may: Axes, sure: Axes) -> None:
        for value in values:
            for known, more in ((self.may, may), (self.sure, sure)):
                before = known.get(value, NO_AXES)
                if not more <= before:
                    known[value] = before | more
                    self._changed = True

    def _store(self, tensor: Value, sure: Axes) -> None:
        before = self._contents.get(tensor, NO_AXES)
        if not sure <= before:
            self._contents[tensor] = before | sure
            self._changed = True

    # Places

    def _place(self, op: Op) -> None:
        if isinstance(op, (Range, For)):
            self._place_loop(op)
        stretch = self._stretch(op)
        if stretch is not None:
            self.stretches[op.result] = stretch
        if not op.bodies and (op.effect == "pure" or (isinstance(op, Load) and op.tensor not in self.written)):
            operands = tuple(self._number(value) for value in op.operands)
            key = (type(op), operands, *op.attributes.items(), *_slices(op))
            for position, result in enumerate(op.results):
                self.numbers[result] = self._known.setdefault((*key, position), len(self._known))

    def _number(self, value: Value) -> int:
        if value not in self.numbers:
            self.numbers[value] = self._known.setdefault(value, len(self._known))
        return self.numbers[value]

    def number(self, value: Value) -> int:
        """Equal for two values that are the same in a program."""
        return self._number(value)

    def _place_loop(self, op: Range | For) -> None:
        argument = op.body.arguments[0]
        start, stop = self._exact(op.start), self._exact(op.stop)
        step = 1 if isinstance(op, Range) else constant_of(op.step)
        if start is not None and stop is not None and step == 1:
            self.stretches[argument] = Stretch(start, stop - 1, loops=frozenset((argument,)))

    def _exact(self, value: Value) -> Dim | None:
        size = size_of(value)
        if size is not None:
            return size
        stretch = self.stretches.get(value)
        return None if stretch is None else stretch.exact

    def _stretch(self, op: Op) -> Stretch | None:
        """Where the integers that an op gives lie, all of them and no others."""
        match op:
            case Arange():
                return Stretch(0, op.extent - 1)
            case Coordinates():
                return self.stretches.get(op.axis)
            case Start():
                block = self.stretches.get(op.axis)
                return None if block is None or block.loops else Stretch(block.low, block.low, block.axis)
            case Shift():
                return _sum(self.stretches.get(op.axis), self._of(op.offset))
            case Broadcast() | Reshape() | Transpose():
                return self.stretches.get(op.source)
            case Cast():
                integers = op.source.dtype.is_integer and op.dtype.is_integer and op.dtype.bits >= 32
                return self._of(op.source) if integers else None
            case Map() if op.fn in ("add", "sub") and any(splat_of(value) is not None for value in op.inputs):
                left, right = map(self._of, op.inputs)
                return _sum(left, right if op.fn == "add" else _negated(right))
            case Map() if op.fn == "neg":
                return _negated(self._of(op.inputs[0]))
            case _:
                size = size_of(op.result) if len(op.results) == 1 and isinstance(op.result.type, TileType) else None
                return None if size is None else Stretch(size, size)

    def _of(self, value: Value) -> Stretch | None:
        return self.stretches.get(value)


def _slices(op: Op) -> list[object]:
    """What an op's subscripts say besides values: equal subscripts of equal values are of equal elements."""
    found: list[object] = []
    for field in op.fields.values():
        for item in field if isinstance(field, tuple) else ():
            found.append(item if isinstance(item, Slice) else isinstance(item, Value))
    return found


def _sum(left: Stretch | None, right: Stretch | None) -> Stretch | None:
    """All sums of a coordinate of one and a coordinate of the other, which do not go together."""
    if left is None or right is None or left.loops & right.loops:
        return None
    if left.axis is not None and right.axis is not None:
        return None
    low, high, loops = left.low + right.low, left.high + right.high, left.loops | right.loops
    axis = right.axis if left.axis is None else left.axis
    return Stretch(low, high, axis, left.to_end or right.to_end, loops)


def _negated(stretch: Stretch | None) -> Stretch | None:
    if stretch is None or stretch.axis is not None:
        return None
    return Stretch(-stretch.high, -stretch.low, loops=stretch.loops)
