"""Loops that change carried tiles element by element: they go within the nest of the tiles, which stay in registers.

    for k, for l:                                 for p, for q four at a time, for c in vectors:
        y[p, q, c] += x[p + k, q + l, c]    =>        for k, for l:
                      * w[k, l, c]                        sums[0..3] += x[p + k, q + 0..3 + l, c] * w[k, l, c]
                                                      y[p, q + 0..3, c] = sums[0..3]

Whether what the loops read lies within its tensors is asked once for the elements that are made together, at both ends
of each loop; where it does not, each read asks (the border of an image).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tiledsl.backend_cpu.llvm import operands as o
from tiledsl.backend_cpu.llvm.writer import VectorType
from tiledsl.backend_cpu.nests.nests import CHEAP, FEW_COPIES, HEAVY, Emission, Nest
from tiledsl.backend_cpu.nests.sinks import Sink
from tiledsl.backend_cpu.values.access import both, write_buffer
from tiledsl.backend_cpu.values.context import Context, Element
from tiledsl.backend_cpu.values.evaluate import evaluate_lanes, index_of, operand_points, subscript_points
from tiledsl.backend_cpu.values.expressions import is_lazy, op_cost
from tiledsl.backend_cpu.values.storage import Point, Storage
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Index, Value
from tiledsl.ir.types import AxisType
from tiledsl.passes.analysis.element_loops import loops_within

ROWS = (4, 2, 1)
"""Elements of the axis before the lanes' that are made together, as many as there are: they share what does not move
with it, and additions to one wait for none to another."""


class LoopTile(Sink):
    """The results of a loop that is elementwise."""

    def __init__(self, loop: ops.Range | ops.For) -> None:
        self.loops = list(loops_within(loop))
        ends = [one.body.terminator for one in self.loops]
        self.changed = tuple(value for end in ends if isinstance(end, ops.Yield) for value in end.values)
        within = tuple(value for one in self.loops[1:] for value in one.initial)
        super().__init__(loop.initial[0].shape, (), (*loop.initial, *self.changed, *within), loop)
        self.loop = loop
        self.targets: list[Storage | None] = [None] * len(loop.results)
        self.cost = sum(op_cost(op) for one in self.loops for op in one.body.ops)

    @property
    def passes(self) -> tuple[Value, ...]:
        return tuple(self.loop.results)

    @property
    def hoisted(self) -> tuple[Value, ...]:
        return tuple(self.loop.initial)

    def visit(self, context: Context, point: Point, copy: int) -> None:
        self.visit_together(context, [point])

    def visit_together(self, context: Context, points: Sequence[Point]) -> None:
        """Makes the elements at several points at once."""
        writer = context.writer
        slots = [[writer.alloca(str(_type(value, point))) for value in self.loop.initial] for point in points]
        for point, places in zip(points, slots):
            for value, slot in zip(self.loop.initial, places):
                writer.line(f"store {_type(value, point)} {evaluate_lanes(context, value, point)}, ptr {slot}")
        self._guarded(context, points, lambda: self._turns(context, self.loop, points, slots))
        for point, places in zip(points, slots):
            for value, slot, target in zip(self.loop.results, places, self.targets):
                operand = writer.emit(f"load {_type(value, point)}, ptr {slot}")
                context.remember(value, point, Element(operand, 1 if point.lane is None else point.lanes))
                if target is not None:
                    write_buffer(context, target, point, operand)

    def _turns(
        self, context: Context, loop: ops.Range | ops.For, points: Sequence[Point], slots: Sequence[Sequence[str]]
    ) -> None:
        writer, (index, *carried) = context.writer, loop.body.arguments
        start, stop = (index_of(context, value) for value in (loop.start, loop.stop))
        with writer.loop(start, stop) as at, context.scope():
            context.scalars[index] = at
            self._read(context, carried, points, slots)
            for op in loop.body.ops:
                match op:
                    case ops.Yield():
                        self._write(context, op.values, points, slots)
                    case ops.Range() | ops.For():
                        inner = [[writer.alloca(str(_type(v, point))) for v in op.initial] for point in points]
                        self._write(context, op.initial, points, inner)
                        self._turns(context, op, points, inner)
                        self._read(context, op.results, points, inner)
                    case ops.Shift():
                        offset = index_of(context, op.offset)
                        before, extent = context.axes[op.axis]
                        context.axes[op.result] = (o.add(writer, before, offset), extent)
                    case _:
                        pass  # evaluated where it is read

    def _read(
        self, context: Context, values: Sequence[Value], points: Sequence[Point], slots: Sequence[Sequence[str]]
    ) -> None:
        for point, places in zip(points, slots):
            for value, slot in zip(values, places):
                operand = context.writer.emit(f"load {_type(value, point)}, ptr {slot}")
                context.remember(value, point, Element(operand, 1 if point.lane is None else point.lanes))

    def _write(
        self, context: Context, values: Sequence[Value], points: Sequence[Point], slots: Sequence[Sequence[str]]
    ) -> None:
        for point, places in zip(points, slots):
            operands = [evaluate_lanes(context, value, point) for value in values]
            for value, operand, slot in zip(values, operands, places):
                context.writer.line(f"store {_type(value, point)} {operand}, ptr {slot}")

    # Whether reads lie within their tensors

    def _guarded(self, context: Context, points: Sequence[Point], write: Callable[[], None]) -> None:
        """Writes the loops: where reads may lie outside of their tensors, once for points at which none does too."""
        writer = context.writer
        if points[0].mask is not None:
            write()
            return
        known, unknown = set[tuple[Value, str]](), set[tuple[Value, str]]()
        condition: str | None = None
        with context.scope():
            for point in points:
                at_an_end = point in (points[0], points[-1])
                for subscript, size, indices in self._unsure(context, point):
                    if indices is None:
                        unknown.add((subscript, size))
                        continue
                    if not at_an_end and (isinstance(subscript.type, AxisType) or not subscript.shape):
                        continue  # least and greatest at the ends
                    known.add((subscript, size))
                    for index in indices:
                        condition = both(writer, condition, writer.emit(f"icmp ult i64 {index}, {size}"), 1)
        known -= unknown
        if condition is None or not known:
            write()
            return
        within, beyond, done = (writer.new_label(hint) for hint in ("within", "beyond", "done"))
        writer.branch_if(condition, within, beyond, likely=True)
        for label, inside in ((within, frozenset(known)), (beyond, frozenset[tuple[Value, str]]())):
            writer.start(label)
            before, context.inside = context.inside, context.inside | inside
            with context.scope():
                write()
            context.inside = before
            writer.branch(done)
        writer.start(done)

    def _unsure(self, context: Context, point: Point) -> Iterator[tuple[Value, str, list[str] | None]]:
        """Subscripts of loads that may lie outside of a size: with the indices that they have at the ends of loops."""
        for op, where in self._loads(context, point):
            sizes = context.tensors[op.tensor].shape
            for axis, (subscript, at) in enumerate(subscript_points(op.indices, where)):
                if axis not in op.in_bounds and isinstance(subscript, Value) and not where.checked:
                    indices = self._ends(context, subscript, at)
                    yield subscript, sizes[axis], indices

    def _loads(self, context: Context, point: Point) -> Iterator[tuple[ops.Load, Point]]:
        """The loads behind what the loops change, with the points of them that are read for the element at `point`."""
        stack, seen = [(value, point) for value in self.changed], set[tuple[Value, Point]]()
        while stack:
            read = value, where = stack.pop()
            if read in seen or value in context.storage or value in context.scalars or value.op is None:
                continue
            seen.add(read)
            if isinstance(value.op, ops.Load) and value.shape:
                yield value.op, where
            elif is_lazy(value.op):
                stack += operand_points(context, value.op, where)

    def _ends(self, context: Context, subscript: Value, where: Point) -> list[str] | None:
        """The least and the greatest index of a subscript over all turns of the loops; None if that is not known."""
        match subscript.op:
            case ops.Shift() as op if op.axis in context.axes:
                start, offset = context.axes[op.axis][0], op.offset
            case _ if isinstance(subscript.type, AxisType):
                return None
            case _ if where.lane is None:
                start, offset = "0", subscript
            case _:
                return None
        moving = [one for one in self.loops if _moves(offset, one.body.arguments[0])]
        if len(moving) > 1 or (moving and not _is_linear(offset, moving[0].body.arguments[0])):
            return None
        ends = [end for one in moving for end in (one.start, one.stop)]
        if any(_moves(end, one.body.arguments[0]) for end in ends for one in self.loops):
            return None
        writer = context.writer
        first = o.add(writer, start, where.indices[0]) if isinstance(subscript.type, AxisType) else "0"
        last = first if where.lane is None else o.add(writer, first, str(where.lanes - 1))
        at = Point(()) if isinstance(subscript.type, AxisType) or not subscript.shape else where
        found: list[str] = []
        for turn in self._turn_ends(context, moving):
            with context.scope():
                if moving:
                    context.scalars[moving[0].body.arguments[0]] = turn
                operand = index_of(context, offset, at)
            found += [o.add(writer, index, operand) for index in dict.fromkeys((first, last))]
        if moving:
            del context.scalars[moving[0].body.arguments[0]]
        return found

    def _turn_ends(self, context: Context, moving: Sequence[ops.Range | ops.For]) -> list[str]:
        """The first and the last index of a loop."""
        if not moving:
            return ["0"]
        start, stop = (index_of(context, value) for value in (moving[0].start, moving[0].stop))
        return [start, o.subtract(context.writer, stop, "1")]


def _type(value: Value, point: Point) -> VectorType:
    return VectorType(value.dtype, 1 if point.lane is None else point.lanes)


def _moves(value: Index, index: Value) -> bool:
    """Whether a value is computed from the index of a loop."""
    if value is index:
        return True
    return isinstance(value, Value) and value.op is not None and any(_moves(v, index) for v in value.op.operands)


def _is_linear(value: Value, index: Value) -> bool:
    """Whether a value is the index of a loop, with what does not move with it added to it or multiplied with it, and so
    least and greatest at the ends of the loop."""
    if value is index:
        return True
    match value.op:
        case ops.Broadcast() as op:
            return _is_linear(op.source, index)
        case ops.Map(fn="add" | "sub" | "mul") as op:
            moving = [v for v in op.inputs if _moves(v, index)]
            return len(moving) == 1 and _is_linear(moving[0], index)
        case _:
            return False


class Elements(Emission):
    """Elements of a few neighbours along the axis before the lanes' are made together."""

    def __init__(self, context: Context, nest: Nest) -> None:
        super().__init__(context, nest)
        self.copies = min(self.copies, FEW_COPIES)
        self.row_axis = max(nest.kept, key=lambda axis: (nest.domain[axis] != 1, axis), default=None)

    def outer(self, axes: list[int], point: Point) -> None:
        others = [axis for axis in axes if axis != self.row_axis]
        if others:
            super().outer([*others, *(axis for axis in axes if axis == self.row_axis)], point)
            return
        row_axis = self.row_axis
        if row_axis is None:
            self.lane_loops([point], self.visit)
            return
        writer, size = self.writer, self.sizes[row_axis]
        done = "0"
        turn = max(sink.cost for sink in self.nest.sinks)
        for rows in ROWS if turn <= 2 * CHEAP and self.nest.cost <= HEAVY else (1,):
            whole = o.multiply(writer, o.divide(writer, size, str(rows)), str(rows))
            if whole != done:
                with writer.loop(done, whole, str(rows)) as first, self.context.scope():
                    starts = [o.add(writer, first, str(row)) for row in range(rows)]
                    self.lane_loops([point.moved(row_axis, start) for start in starts], self.visit)
            done = whole

    def visit(self, points: list[Point]) -> None:
        for sink in self.nest.sinks:
            if isinstance(sink, LoopTile):
                sink.visit_together(self.context, points)
            else:
                for copy, point in enumerate(points):
                    sink.visit(self.context, point, copy)
