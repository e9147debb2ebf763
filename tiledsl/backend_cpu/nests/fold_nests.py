"""Folds of what memory holds: loop nests that read it in the order in which it lies, several streams at a time.

rows: the folded axis is contiguous. A few rows are folded side by side, so that memory delivers several streams at once
and what they share is read once.

    y[m] = sum over k of a[m, k] * x[k]         for i in rows, four at a time:
                                                    for k in vectors: sums[0..3] += a[i + 0..3, k] * x[k]

sweep: the kept axis is contiguous. A strip of a few columns, folded in registers from top to bottom, would touch a page
of memory for each row of it. A sweep takes some rows at a time from end to end, and the results lie in scratch
meanwhile.

    y[n] = sum over k of x[k] * b[k, n]         for k in rows, eight at a time:
                                                    for n in vectors: y[n] += x[k + 0..7] * b[k + 0..7, n]

single: what is folded is gathered. Processors gather a vector's lanes one by one, and take longer than for as many
loads; nor does a vector suit short rows. Elements go one by one, into a few partial results in turn.

    y[i] = sum over j of a[j] * x[c[j]]         for j, two at a time:
                                                    sums[0..1] += a[j + 0..1] * x[c[j + 0..1]]

scan: as a sweep, for sums that run from row to row; one row at a time, since all of them are results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy

from tiledsl.backend_cpu.llvm import operands as o
from tiledsl.backend_cpu.nests.element_loops import Elements, LoopTile
from tiledsl.backend_cpu.nests.fold_sinks import FoldTile
from tiledsl.backend_cpu.nests.nests import CHEAP, FEW_COPIES, Emission, Form, Nest
from tiledsl.backend_cpu.nests.scans import ScanTile
from tiledsl.backend_cpu.nests.sinks import Sink
from tiledsl.backend_cpu.nests.transposed_nests import Transposed
from tiledsl.backend_cpu.values.access import both
from tiledsl.backend_cpu.values.context import Context
from tiledsl.backend_cpu.values.expressions import STRIDED_COST, contiguity, expression_ops, gathers
from tiledsl.backend_cpu.values.storage import Point
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.types import AxisType

STREAMS = 4
"""Rows that are read at a time."""
SWEPT = 8
"""Rows that a sweep reads at a time: each time it reads and writes the sums once more."""


MOST_BESIDE = 4
"""Operations for each gather that are as fast on single elements: 16 lanes of one are gathered in 28 cycles, of which
16 elements' loads take 11, and three operations on single elements take a cycle."""


def emit_nest(context: Context, nest: Nest) -> None:
    """Writes the loops of a nest in its form."""
    kinds: dict[Form, type[Emission]] = {
        "plain": Emission, "rows": FoldedRows, "single": Singles, "sweep": Sweep, "scan": SweepOfScans,
        "transpose": Transposed, "elements": Elements,
    }  # fmt: skip
    kinds[nest.form](context, nest).outer(nest.kept, Point(("0",) * len(nest.domain)))


def fold_form(context: Context, nest: Nest) -> Form:
    """Whether a nest is of one of the forms above: cheap folds of contiguous reads, scans from row to row."""
    folds = [s for s in nest.sinks if s.folded]
    if not folds and nest.lane is not None and any(isinstance(s, LoopTile) for s in nest.sinks):
        return "elements"
    if folds and all(isinstance(s, ScanTile) and not s.in_order for s in folds):
        return "scan" if nest.lane is not None and nest.lane not in nest.folded and _is_wide(context, nest) else "plain"
    if nest.lane is None or not folds or not all(isinstance(s, FoldTile) for s in folds):
        return "plain"
    if _gathers(context, nest):
        return "single"
    if nest.cost > CHEAP:
        return "plain"
    if not any(_streams(context, value, nest.lane) for s in folds for value in s.reads):
        return "plain"
    if nest.lane in nest.folded:
        return "rows" if any(nest.domain[axis] != 1 for axis in nest.kept) else "plain"
    return "sweep" if _sweeps(context, nest) else "plain"


def _streams(context: Context, value: Value, lane: int) -> bool:
    loads = any(isinstance(op, ops.Load) and op.result.shape for op in expression_ops(context, value))
    return loads and contiguity(context, [value], lane) > 0


def _gathers(context: Context, nest: Nest) -> bool:
    """Whether gathers along what is folded are so much of a nest that single elements are faster than vectors."""
    if nest.lane not in nest.folded or not all(isinstance(s, FoldTile) for s in nest.sinks):
        return False
    loads = (op for op in expression_ops(context, *(v for s in nest.sinks for v in s.reads)) if gathers(op))
    count = sum(1 for _ in loads)
    return 0 < nest.cost - STRIDED_COST * count <= MOST_BESIDE * count


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
        self.row_axis = max(nest.kept, key=lambda axis: (nest.domain[axis] != 1, axis))

    def outer(self, axes: list[int], point: Point) -> None:
        others = [axis for axis in axes if axis != self.row_axis]
        if others:
            super().outer([*others, self.row_axis], point)
            return
        writer, size = self.writer, self.sizes[self.row_axis]
        whole = o.multiply(writer, o.divide(writer, size, str(STREAMS)), str(STREAMS))
        if whole != "0":
            with writer.loop("0", whole, str(STREAMS)) as first, self.context.scope():
                starts = [o.add(writer, first, str(row)) for row in range(STREAMS)]
                self._together([point.moved(self.row_axis, start) for start in starts])
        if whole != size:
            with writer.loop(whole, size) as row, self.context.scope():
                self._together([point.moved(self.row_axis, row)])

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


class Singles(Emission):
    """Elements that are folded one by one, in turn into two partial results.

    Four would hide more of an addition's latency, but leave a rest of 0 to 3, and so one more branch to guess wrongly
    for each short row: 70 for 61 us of rows of 20, 28 for 24 us of 5, 229 for 236 us of 100.

    Whether what is not gathered lies within its tensors is asked once, and not for each element, where the whole block
    does.
    """

    def __init__(self, context: Context, nest: Nest) -> None:
        super().__init__(context, nest)
        self.lanes, self.copies = 1, 2

    def lane_loops(self, points: list[Point], inside: Callable[[list[Point]], None]) -> None:
        writer, context, lane = self.writer, self.context, self.nest.lane
        assert lane is not None
        self.hoist(points, lane)
        unsure = self._unsure()
        if not unsure:
            self._loops(lane, points, inside)
            return
        within, beyond, done = (writer.new_label(hint) for hint in ("within", "beyond", "done"))
        writer.branch_if(self._are_within(unsure), within, beyond, likely=True)
        for label, known in ((within, frozenset(unsure)), (beyond, frozenset[tuple[Value, str]]())):
            writer.start(label)
            before, context.inside = context.inside, context.inside | known
            with context.scope():
                self._loops(lane, points, inside)
            context.inside = before
            writer.branch(done)
        writer.start(done)

    def _loops(self, lane: int, points: list[Point], inside: Callable[[list[Point]], None]) -> None:
        writer, size = self.writer, self.sizes[lane]
        whole = o.multiply(writer, o.divide(writer, size, "2"), "2")
        with writer.loop("0", whole, "2") as first, self.context.scope():
            pair = first, o.add(writer, first, "1")
            inside([point.moved(lane, index) for point in points for index in pair])
        odd, even = writer.new_label("odd"), writer.new_label("even")
        writer.branch_if(writer.emit(f"icmp slt i64 {whole}, {size}"), odd, even)
        writer.start(odd)
        with self.context.scope():
            inside([point.moved(lane, whole) for point in points])
        writer.branch(even)
        writer.start(even)

    def _unsure(self) -> list[tuple[Value, str]]:
        """Axes that loads go along, with sizes that are not known to hold their blocks."""
        context = self.context
        read = expression_ops(context, *(v for s in self.nest.sinks for v in s.reads))
        pairs = (
            (subscript, size)
            for op in read
            if isinstance(op, ops.Load)
            for axis, (subscript, size) in enumerate(zip(op.indices, context.tensors[op.tensor].shape))
            if isinstance(subscript, Value) and isinstance(subscript.type, AxisType) and axis not in op.in_bounds
        )
        return [pair for pair in dict.fromkeys(pairs) if pair not in context.inside]

    def _are_within(self, pairs: Sequence[tuple[Value, str]]) -> str:
        """Whether the blocks of axes lie within sizes."""
        writer, condition = self.writer, None
        for axis, size in pairs:
            start, extent = self.context.axes[axis]
            before = writer.emit(f"icmp sle i64 {o.add(writer, start, extent)}, {size}")
            behind = writer.emit(f"icmp sge i64 {start}, 0")
            condition = both(writer, condition, both(writer, before, behind, 1), 1)
        assert condition is not None
        return condition


class Sweep(Emission):
    """Results along the lane axis, to which `SWEPT` rows at a time are added from end to end."""

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
        whole = o.multiply(writer, o.divide(writer, size, str(SWEPT)), str(SWEPT))
        if whole != "0":
            with writer.loop("0", whole, str(SWEPT)) as first, self.context.scope():
                rows = [o.add(writer, first, str(row)) for row in range(SWEPT)]
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
            index = self.mirrored("0", self.sizes[axis], 1, count)
            self.lane_loops([point.moved(axis, index)], self.visit)
