"""Folds of what memory holds: loop nests that read it in the order in which it lies, several streams at a time.

rows: the folded axis is contiguous. A few rows are folded side by side, so that memory delivers several streams at once
and what they share is read once.

    y[m] = sum over k of a[m, k] * x[k]         for i in rows, four at a time:
                                                    for k in vectors: sums[0..3] += a[i + 0..3, k] * x[k]

sweep: the kept axis is contiguous. A strip of a few columns, folded in registers from top to bottom, would touch a page
of memory for each row of it. A sweep takes some rows at a time from end to end, and the results lie in scratch
meanwhile.

    y[n] = sum over k of x[k] * b[k, n]         for k in rows, four at a time:
                                                    for n in vectors: y[n] += x[k + 0..3] * b[k + 0..3, n]

scan: as a sweep, for sums that run from row to row; one row at a time, since all of them are results.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from tiledsl.backend_cpu import operands as o
from tiledsl.backend_cpu.context import Context
from tiledsl.backend_cpu.expressions import contiguity, expression_ops
from tiledsl.backend_cpu.fold_sinks import FoldTile
from tiledsl.backend_cpu.nests import CHEAP, FEW_COPIES, Emission, Form, Nest
from tiledsl.backend_cpu.scans import ScanTile
from tiledsl.backend_cpu.sinks import Sink
from tiledsl.backend_cpu.storage import Point
from tiledsl.backend_cpu.turned_nests import Turned
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value

STREAMS = 4
"""Rows that are read at a time."""


def emit_nest(context: Context, nest: Nest) -> None:
    """Writes the loops of a nest in its form."""
    kinds: dict[Form, type[Emission]] = {
        "plain": Emission, "rows": FoldedRows, "sweep": Sweep, "scan": SweepOfScans, "turn": Turned,
    }  # fmt: skip
    kinds[nest.form](context, nest).outer(nest.kept, Point(("0",) * len(nest.domain)))


def fold_form(context: Context, nest: Nest) -> Form:
    """Whether a nest is of one of the forms above: cheap folds of contiguous reads, scans from row to row."""
    folds = [s for s in nest.sinks if s.folded]
    if folds and all(isinstance(s, ScanTile) and not s.in_order for s in folds):
        return "scan" if nest.lane is not None and nest.lane not in nest.folded and _is_wide(context, nest) else "plain"
    if nest.lane is None or not folds or nest.cost > CHEAP or not all(isinstance(s, FoldTile) for s in folds):
        return "plain"
    if not any(_streams(context, value, nest.lane) for s in folds for value in s.reads):
        return "plain"
    if nest.lane in nest.folded:
        return "rows" if any(nest.domain[axis] != 1 for axis in nest.kept) else "plain"
    return "sweep" if _sweeps(context, nest) else "plain"


def _streams(context: Context, value: Value, lane: int) -> bool:
    loads = any(isinstance(op, ops.Load) and op.result.shape for op in expression_ops(context, value))
    return loads and contiguity(context, [value], lane) > 0


def _sweeps(context: Context, nest: Nest) -> bool:
    for sink in nest.sinks:
        # partial results stay where the result goes, in the dtype in which they are summed
        if not isinstance(sink, FoldTile) or sink.target is None or sink.target.dtype != sink.dtype:
            return False
    assert nest.lane is not None
    if not _is_wide(context, nest):
        return False
    rows = [context.static_limit(nest.domain[axis]) for axis in nest.folded]
    return len(rows) > 1 or rows[0] is None or rows[0] > STREAMS


def _is_wide(context: Context, nest: Nest) -> bool:
    """Whether the rows are wider than a strip."""
    assert nest.lane is not None
    columns = context.static_limit(nest.domain[nest.lane])
    return columns is None or columns > FEW_COPIES * context.lanes


class FoldedRows(Emission):
    """Rows that are folded along themselves, `STREAMS` of them side by side."""

    def __init__(self, context: Context, nest: Nest) -> None:
        super().__init__(context, nest)
        self.copies = min(self.copies, FEW_COPIES)
        self.rows: list[tuple[Point, tuple[Sink, ...]]] = []
        """Each row with sinks of its own: their accumulators differ."""
        self.across = max(nest.kept, key=lambda axis: (nest.domain[axis] != 1, axis))

    def outer(self, axes: list[int], point: Point) -> None:
        others = [axis for axis in axes if axis != self.across]
        if others:
            super().outer([*others, self.across], point)
            return
        writer, size = self.writer, self.sizes[self.across]
        whole = o.multiply(writer, o.divide(writer, size, str(STREAMS)), str(STREAMS))
        if whole != "0":
            with writer.loop("0", whole, str(STREAMS)) as first, self.context.scope():
                starts = [o.add(writer, first, str(row)) for row in range(STREAMS)]
                self._together([point.moved(self.across, start) for start in starts])
        if whole != size:
            with writer.loop(whole, size) as row, self.context.scope():
                self._together([point.moved(self.across, row)])

    def _together(self, points: list[Point]) -> None:
        self.rows = [(point, tuple(copy(sink) for sink in self.nest.sinks)) for point in points]
        for _, sinks in self.rows:
            for sink in sinks:
                sink.begin(self.context, self.copies, self.lanes)
        self.folds([axis for axis in self.nest.folded if axis != self.nest.lane], points)
        for point, sinks in self.rows:
            for sink in sinks:
                sink.end(self.context, [point])

    def visit(self, points: list[Point]) -> None:
        """The vectors of each row in turn."""
        each = len(points) // len(self.rows)
        for number, (_, sinks) in enumerate(self.rows):
            for place, point in enumerate(points[number * each : (number + 1) * each]):
                for sink in sinks:
                    sink.visit(self.context, point, place)


class Sweep(Emission):
    """Results along the lane axis, to which `STREAMS` rows at a time are added from end to end."""

    def __init__(self, context: Context, nest: Nest) -> None:
        super().__init__(context, nest)
        self.copies = min(self.copies, FEW_COPIES)

    @property
    def _sinks(self) -> Sequence[FoldTile]:
        return [sink for sink in self.nest.sinks if isinstance(sink, FoldTile)]

    def outer(self, axes: list[int], point: Point) -> None:
        if axes:
            super().outer(axes, point)
            return
        self.lane_loops([point], self._clear)
        self.folds(list(self.nest.folded), [point])

    def _clear(self, points: list[Point]) -> None:
        for sink in self._sinks:
            sink.clear(self.context, points)

    def folds(self, axes: list[int], points: list[Point]) -> None:
        (point,) = points
        if len(axes) > 1:
            with self.writer.loop("0", self.sizes[axes[0]]) as index, self.context.scope():
                self.folds(axes[1:], [point.moved(axes[0], index)])
            return
        writer, size = self.writer, self.sizes[axes[0]]
        whole = o.multiply(writer, o.divide(writer, size, str(STREAMS)), str(STREAMS))
        if whole != "0":
            with writer.loop("0", whole, str(STREAMS)) as first, self.context.scope():
                rows = [o.add(writer, first, str(row)) for row in range(STREAMS)]
                self._across([point.moved(axes[0], row) for row in rows])
        if whole != size:
            with writer.loop(whole, size) as row, self.context.scope():
                self._across([point.moved(axes[0], row)])

    def _across(self, rows: list[Point]) -> None:
        def gather(points: list[Point]) -> None:
            each = len(points) // len(rows)
            for place in range(each):
                for sink in self._sinks:
                    sink.gather(self.context, points[place::each])

        self.lane_loops(rows, gather)


class SweepOfScans(Emission):
    """Rows of a scan from end to end; what came of each column so far lies in scratch."""

    def outer(self, axes: list[int], point: Point) -> None:
        if axes:
            super().outer(axes, point)
            return
        scans = [sink for sink in self.nest.sinks if isinstance(sink, ScanTile)]
        (axis,) = self.nest.folded
        for scan in scans:
            shape = tuple(1 if a == axis else dim for a, dim in enumerate(self.nest.domain))
            scan.row = self.context.allocate(shape, scan.carried(scan.op.sources[0].dtype))

        def clear(points: list[Point]) -> None:
            for scan in scans:
                scan.clear(self.context, points)

        self.lane_loops([point], clear)
        with self.writer.loop("0", self.sizes[axis]) as count, self.context.scope():
            index = self.turned("0", self.sizes[axis], 1, count)
            self.lane_loops([point.moved(axis, index)], self.visit)
