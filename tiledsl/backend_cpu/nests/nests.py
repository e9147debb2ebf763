"""Loop nests: one pass over a domain of elements that serves all of its sinks.

The last loop, or the one just outside the folded loops, runs over vectors along the lane axis:

    lane axis folded (sum over the columns of a row)      lane axis kept (sum over the rows of a column)
    for i in rows:                                        for j in columns, several vectors at a time:
        begin                                                 begin
        for j in columns, several vectors at a time:          for i in rows:
            visit(i, j)                                           visit(i, j)
        end(i)                                                end(j)

In front of each innermost loop, whatever does not move with it is evaluated once (`hoist`). The rest of a row that
fills no vector is visited under a mask.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tiledsl.backend_cpu.llvm import operands as o
from tiledsl.backend_cpu.nests.sinks import Sink
from tiledsl.backend_cpu.values.access import lanes_left
from tiledsl.backend_cpu.values.context import Context
from tiledsl.backend_cpu.values.evaluate import UNKNOWN, hoist
from tiledsl.backend_cpu.values.storage import Point
from tiledsl.ir.types import Shape

MANY_COPIES, FEW_COPIES = 4, 2
CHEAP = 10
"""Nests whose bodies cost no more than this (in vector operations) are unrolled further: enough independent
accumulators to hide the latency of an addition. Heavier bodies hide it by themselves."""
HEAVY = 100
"""Nests whose bodies cost more than this have one body, for all vectors: what it takes to compile it counts."""
Form = Literal["plain", "rows", "single", "sweep", "scan", "transpose", "elements"]
"""How the loops of a nest go: `transposed_nests` and `element_loops` have the last two, `fold_nests` all others but the
first."""


@dataclass(frozen=True)
class Nest:
    """A domain, its consumers, the axes that they fold, and the axis along which vectors run (None: no vectors)."""

    domain: Shape
    sinks: tuple[Sink, ...]
    folded: tuple[int, ...]
    lane: int | None
    cost: int
    form: Form = "plain"
    written: int | None = None
    """Of a nest that transposes squares: the axis along which it writes."""
    reverse: bool = False
    """Whether folded axes are gone through from their ends."""

    @property
    def kept(self) -> list[int]:
        """The axes of the outer loops."""
        return [a for a in range(len(self.domain)) if a not in self.folded and a != self.lane]


class Emission:
    """Writes the loops of a nest, as the head of this file has them."""

    def __init__(self, context: Context, nest: Nest) -> None:
        self.context = context
        self.writer = context.writer
        self.nest = nest
        self.sizes = [context.dim(dim) for dim in nest.domain]
        self.lanes = context.lanes
        self.copies = self._copies()

    def _copies(self) -> int:
        nest = self.nest
        if nest.lane is None or nest.cost > HEAVY:
            return 1
        copies = MANY_COPIES if nest.cost <= CHEAP else FEW_COPIES
        size = nest.domain[nest.lane]
        while isinstance(size, int) and copies > 1 and size < copies * self.lanes:
            copies //= 2
        return copies

    def outer(self, axes: list[int], point: Point) -> None:
        """The loops over kept axes, then what is inside of them."""
        nest = self.nest
        if axes:
            with self.writer.loop("0", self.sizes[axes[0]]) as index, self.context.scope():
                self.outer(axes[1:], point.moved(axes[0], index))
        elif nest.lane is None:
            self.begin(1, 1)
            self.folds(list(nest.folded), [point])
            self.end([point])
        elif nest.lane in nest.folded:
            self.begin(self.copies, self.lanes)
            self.folds([a for a in nest.folded if a != nest.lane], [point])
            self.end([point])
        else:
            self.lane_loops([point], self.chunk)

    def chunk(self, points: list[Point]) -> None:
        """Neighbouring vectors along a kept lane axis: everything that is folded into them."""
        self.begin(len(points), self.lanes)
        self.folds(list(self.nest.folded), points)
        self.end(points)

    def folds(self, axes: list[int], points: list[Point]) -> None:
        """The loops over the folded axes other than the lane axis, with all points moving together."""
        nest = self.nest
        if axes:
            if len(axes) == 1:
                self.hoist(points, axes[0])
            size = self.sizes[axes[0]]
            with self.writer.loop("0", size) as count, self.context.scope():
                index = self.mirrored("0", size, 1, count)
                self.folds(axes[1:], [p.moved(axes[0], index) for p in points])
        elif nest.lane is not None and nest.lane in nest.folded:
            self.lane_loops(points, self.visit)
        else:
            self.visit(points)

    def lane_loops(self, points: list[Point], inside: Callable[[list[Point]], None]) -> None:
        """Whole groups of vectors along the lane axis, then single vectors, the last of them under a mask.

        `inside` gets the vectors of each point in turn.
        """
        writer, lane, lanes = self.writer, self.nest.lane, self.lanes
        assert lane is not None
        self.hoist(points, lane)
        size, step = self.sizes[lane], lanes * self.copies
        rest, grouped = "0", self.nest.cost <= HEAVY
        if grouped:
            rest = str(int(size) // step * step) if o.is_literal(size) else writer.emit(f"and i64 {size}, {-step}")
        backwards = self.nest.reverse and lane in self.nest.folded

        def groups() -> None:
            if rest == "0":
                return
            with writer.loop("0", rest, str(step)) as count, self.context.scope():
                index = self.mirrored("0", rest, step, count) if backwards else count
                starts = [o.add(writer, index, str(copy * lanes)) for copy in range(self.copies)]
                starts = starts[::-1] if backwards else starts
                inside([Point(p.moved(lane, start).indices, lane, lanes) for p in points for start in starts])

        def single() -> None:
            if grouped and (rest == size or self.context.facts.divisible(self.nest.domain[lane], step)):
                return
            with writer.loop(rest, size, str(lanes)) as count, self.context.scope():
                index = self.mirrored(rest, size, lanes, count) if backwards else count
                mask = None
                if not self.context.whole_vectors(self.nest.domain[lane]):
                    mask = lanes_left(writer, index, size, lanes)
                inside([Point(p.moved(lane, index).indices, lane, lanes, mask) for p in points])

        for part in (single, groups) if backwards else (groups, single):
            part()

    def mirrored(self, start: str, stop: str, step: int, index: str) -> str:
        """The index that a loop has where it goes the way of the nest: the last one instead of the first."""
        if not self.nest.reverse:
            return index
        writer = self.writer
        count = o.divide(writer, o.subtract(writer, o.subtract(writer, stop, "1"), start), str(step))
        last = o.add(writer, start, o.multiply(writer, count, str(step)))
        return o.subtract(writer, o.add(writer, last, start), index)

    def hoist(self, points: list[Point], axis: int) -> None:
        """Evaluates what does not move with the loop over `axis`."""
        values = [value for sink in self.nest.sinks for value in sink.hoisted if value.shape == self.nest.domain]
        for point in points:
            hoist(self.context, values, point.moved(axis, UNKNOWN))

    def begin(self, copies: int, lanes: int) -> None:
        for sink in self.nest.sinks:
            sink.begin(self.context, copies, lanes)

    def visit(self, points: list[Point]) -> None:
        for copy, point in enumerate(points):
            for sink in self.nest.sinks:
                sink.visit(self.context, point, copy)

    def end(self, points: list[Point]) -> None:
        for sink in self.nest.sinks:
            sink.end(self.context, points)
