"""Sinks that fold: reductions by a name, searches for an extremum, reductions by a user's combiner."""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.backend_cpu.functions.convert import convert
from tiledsl.backend_cpu.functions.vector_math import emit_map
from tiledsl.backend_cpu.llvm import operands as o
from tiledsl.backend_cpu.llvm.writer import VectorType
from tiledsl.backend_cpu.nests.sinks import Sink
from tiledsl.backend_cpu.values.access import lane_numbers, mask_type, read_buffer, splat_index, write_buffer
from tiledsl.backend_cpu.values.context import Context
from tiledsl.backend_cpu.values.evaluate import evaluate_lanes
from tiledsl.backend_cpu.values.folds import accumulator_dtype, collapse, combine, emit_combiner, halves, identity
from tiledsl.backend_cpu.values.storage import Point, Storage
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import i64


class _FoldOne(Sink):
    """A reduction of one source, carried in `dtype`."""

    def __init__(self, op: ops.Reduce, target: Storage | None) -> None:
        """`target` is where the result goes; None for a scalar, which becomes an operand."""
        (source,) = op.sources
        super().__init__(source.shape, op.axes, (source,), op)
        self.op = op
        self.source = source
        self.target = target
        self.dtype = accumulator_dtype(source.dtype)
        self.type = VectorType(self.dtype)

    @property
    def produces(self) -> tuple[Value, ...]:
        return self.op.results


class FoldTile(_FoldOne):
    """A reduction by a named function."""

    slots: list[str]
    """An accumulator for each copy."""

    def begin(self, context: Context, copies: int, lanes: int) -> None:
        writer = context.writer
        self.type = VectorType(self.dtype, lanes)
        self.slots = [writer.alloca(str(self.type)) for _ in range(copies)]
        start = writer.splat(self.type, identity(self.op.fn, self.source.dtype))
        for slot in self.slots:
            writer.line(f"store {self.type} {start}, ptr {slot}")

    def visit(self, context: Context, point: Point, copy: int) -> None:
        writer, fn, type_ = context.writer, self.op.fn, self.type
        operand = evaluate_lanes(context, self.source, point)
        operand = convert(writer, operand, type_.of(self.source.dtype), type_)
        if point.mask is not None and point.lane in self.folded:
            rest = writer.splat(type_, identity(fn, self.source.dtype))
            operand = writer.emit(f"select {mask_type(type_.lanes)} {point.mask}, {type_} {operand}, {type_} {rest}")
        slot = self.slots[copy]
        before = writer.emit(f"load {type_}, ptr {slot}")
        writer.line(f"store {type_} {combine(writer, fn, type_, before, operand)}, ptr {slot}")

    def clear(self, context: Context, points: Sequence[Point]) -> None:
        """Sets the results of these points to the identity."""
        assert self.target is not None
        for point in points:
            lanes = 1 if point.lane is None else point.lanes
            start = context.writer.splat(VectorType(self.dtype, lanes), identity(self.op.fn, self.dtype))
            write_buffer(context, self.target, _kept_point(self.op, point), start)

    def gather(self, context: Context, points: Sequence[Point]) -> None:
        """Folds elements (or vectors) of one and the same result into it, where it is."""
        assert self.target is not None
        place = _kept_point(self.op, points[0])
        total = read_buffer(context, self.target, place)
        for point in points:
            type_ = VectorType(self.dtype, 1 if point.lane is None else point.lanes)
            operand = evaluate_lanes(context, self.source, point)
            operand = convert(context.writer, operand, type_.of(self.source.dtype), type_)
            total = combine(context.writer, self.op.fn, type_, total, operand)
        write_buffer(context, self.target, place, total)

    def end(self, context: Context, kept: Sequence[Point]) -> None:
        writer, fn, type_ = context.writer, self.op.fn, self.type
        partial = [writer.emit(f"load {type_}, ptr {slot}") for slot in self.slots]
        if kept[0].lane is None:
            while len(partial) > 1:
                partial = [combine(writer, fn, type_, *pair) for pair in zip(partial[::2], partial[1::2])]
            partial = [collapse(writer, fn, type_, partial[0])]
        for point, operand in zip(kept, partial):
            lanes = 1 if point.lane is None else point.lanes
            deliver(context, self.op, self.op.result, self.target, point, operand, VectorType(self.dtype, lanes))


def deliver(
    context: Context,
    op: ops.Reduce,
    result: Value,
    target: Storage | None,
    point: Point,
    operand: str,
    type_: VectorType,
) -> None:
    """Puts a finished element of a reduction where its readers look: in scratch, or in an operand if it is a scalar."""
    if target is None:
        context.scalars[result] = convert(context.writer, operand, type_, type_.of(result.dtype))
        return
    stored = convert(context.writer, operand, type_, type_.of(target.dtype))
    write_buffer(context, target, _kept_point(op, point), stored)


def _kept_point(op: ops.Reduce, point: Point) -> Point:
    """The point of the result that an element of the source goes into."""
    kept: list[str] = []
    lane: int | None = None
    for axis, index in enumerate(point.indices):
        if axis in op.axes and not op.keepdims:
            continue
        if axis == point.lane:
            lane = len(kept)
        kept.append("0" if axis in op.axes else index)
    return point.at(tuple(kept), lane)


class FindTile(_FoldOne):
    """argmax or argmin: the first index of the extremum; a NaN counts as one."""

    cost = 12

    slots: list[tuple[str, str]]
    """The best value and its index, for each copy."""

    def begin(self, context: Context, copies: int, lanes: int) -> None:
        writer = context.writer
        self.type = VectorType(self.dtype, lanes)
        index = self.type.of(i64)
        self.slots = [(writer.alloca(str(self.type)), writer.alloca(str(index))) for _ in range(copies)]
        # index -1 says that nothing was seen: the first element, whatever it is, takes its place
        start = writer.splat(self.type, identity(self.op.fn, self.source.dtype))
        for best, where in self.slots:
            writer.line(f"store {self.type} {start}, ptr {best}")
            writer.line(f"store {index} {writer.splat(index, '-1')}, ptr {where}")

    def visit(self, context: Context, point: Point, copy: int) -> None:
        writer, type_ = context.writer, self.type
        index_type, lanes = type_.of(i64), type_.lanes
        operand = convert(writer, evaluate_lanes(context, self.source, point), type_.of(self.source.dtype), type_)
        (axis,) = self.op.axes
        index = point.indices[axis]
        if lanes > 1:
            index = splat_index(writer, index, lanes)
            if point.lane == axis:
                index = writer.emit(f"add <{lanes} x i64> {index}, {lane_numbers(lanes)}")
        best_slot, where_slot = self.slots[copy]
        best = writer.emit(f"load {type_}, ptr {best_slot}")
        where = writer.emit(f"load {index_type}, ptr {where_slot}")
        unseen = writer.emit(f"icmp slt {index_type} {where}, {_zero(lanes)}")
        takes = writer.emit(f"or {mask_type(lanes)} {unseen}, {self._beats(context, operand, best)}")
        if point.mask is not None:
            takes = writer.emit(f"and {mask_type(lanes)} {takes}, {point.mask}")
        self._store(context, copy, takes, (operand, index), (best, where))

    def _store(self, context: Context, copy: int, takes: str, new: tuple[str, str], old: tuple[str, str]) -> None:
        writer = context.writer
        for slot, type_, yes, no in zip(self.slots[copy], (self.type, self.type.of(i64)), new, old):
            chosen = writer.emit(f"select {mask_type(type_.lanes)} {takes}, {type_} {yes}, {type_} {no}")
            writer.line(f"store {type_} {chosen}, ptr {slot}")

    def _beats(self, context: Context, left: str, right: str, type_: VectorType | None = None) -> str:
        """left > right (for argmax), or left is NaN and right is not."""
        writer = context.writer
        type_ = self.type if type_ is None else type_
        relation = "gt" if self.op.fn == "argmax" else "lt"
        beats = emit_map(writer, relation, type_, [left, right])
        if not self.dtype.is_float:
            return beats
        nan = writer.emit(f"fcmp uno {type_} {left}, {left}")
        number = writer.emit(f"fcmp ord {type_} {right}, {right}")
        return writer.emit(
            f"or {mask_type(type_.lanes)} {beats}, {writer.emit(f'and {mask_type(type_.lanes)} {nan}, {number}')}"
        )

    def end(self, context: Context, kept: Sequence[Point]) -> None:
        writer, type_ = context.writer, self.type
        found = [
            (writer.emit(f"load {type_}, ptr {best}"), writer.emit(f"load {type_.of(i64)}, ptr {where}"))
            for best, where in self.slots
        ]
        if kept[0].lane is None:
            found = [self._first(context, found)]
        for point, (_, where) in zip(kept, found):
            lanes = 1 if point.lane is None else point.lanes
            found_one = context.writer.emit(f"icmp sge {VectorType(i64, lanes)} {where}, {_zero(lanes)}")
            type_ = VectorType(i64, lanes)
            index = writer.emit(f"select {mask_type(lanes)} {found_one}, {type_} {where}, {type_} {_zero(lanes)}")
            deliver(context, self.op, self.op.result, self.target, point, index, type_)

    def _first(self, context: Context, found: list[tuple[str, str]]) -> tuple[str, str]:
        """The winner among all lanes of all copies, by halves; of equals, the one of least index."""
        type_ = self.type
        while len(found) > 1:
            found = [self._winner(context, type_, *pair) for pair in zip(found[::2], found[1::2])]
        winner = found[0]
        while type_.lanes > 1:
            half = VectorType(type_.dtype, type_.lanes // 2)
            low, high = halves(context.writer, type_, winner[0]), halves(context.writer, type_.of(i64), winner[1])
            winner = self._winner(context, half, *zip(low, high))
            type_ = half
        return winner

    def _winner(
        self, context: Context, type_: VectorType, one: tuple[str, str], other: tuple[str, str]
    ) -> tuple[str, str]:
        """Of two candidates, element by element: the better one; of equals, that of lesser index."""
        writer, lanes = context.writer, type_.lanes
        mask, index = mask_type(lanes), type_.of(i64)
        (best, where), (value, at) = one, other
        better, worse = self._beats(context, value, best, type_), self._beats(context, best, value, type_)
        earlier = writer.emit(f"icmp ult {index} {at}, {where}")  # -1, nothing seen, is the last of all
        tied = writer.emit(f"select {mask} {worse}, {mask} {_zero(lanes, 'false')}, {mask} {earlier}")
        takes = writer.emit(f"or {mask} {better}, {tied}")
        takes = writer.emit(f"and {mask} {takes}, {writer.emit(f'icmp sge {index} {at}, {_zero(lanes)}')}")
        takes = writer.emit(f"or {mask} {takes}, {writer.emit(f'icmp slt {index} {where}, {_zero(lanes)}')}")
        return (
            writer.emit(f"select {mask} {takes}, {type_} {value}, {type_} {best}"),
            writer.emit(f"select {mask} {takes}, {index} {at}, {index} {where}"),
        )


def _zero(lanes: int, scalar: str = "0") -> str:
    return scalar if lanes == 1 else "zeroinitializer"


class FoldCustom(Sink):
    """A reduction by a user's combiner, along one axis, in order; lanes run across another axis."""

    def __init__(self, op: ops.Reduce, targets: Sequence[Storage | None]) -> None:
        super().__init__(op.sources[0].shape, op.axes, op.sources, op)
        self.op = op
        self.targets = tuple(targets)
        self.slots: list[list[str]] = []
        self.flags: list[str] = []
        self.lanes = 1

    @property
    def produces(self) -> tuple[Value, ...]:
        return self.op.results

    def begin(self, context: Context, copies: int, lanes: int) -> None:
        writer = context.writer
        self.lanes = lanes
        self.flags = [writer.alloca("i1") for _ in range(copies)]
        self.slots = []
        for flag in self.flags:
            writer.line(f"store i1 true, ptr {flag}")
            slots: list[str] = []
            for source in self.op.sources:
                type_ = VectorType(source.dtype, lanes)
                slots.append(writer.alloca(str(type_)))
                writer.line(f"store {type_} {writer.splat(type_, o.literal(0, source.dtype))}, ptr {slots[-1]}")
            self.slots.append(slots)

    def visit(self, context: Context, point: Point, copy: int) -> None:
        writer = context.writer
        types = [VectorType(v.dtype, self.lanes) for v in self.op.sources]
        new = [evaluate_lanes(context, v, point) for v in self.op.sources]
        old = [writer.emit(f"load {t}, ptr {slot}") for t, slot in zip(types, self.slots[copy])]
        combined = emit_combiner(context, self.op.combiner, [*old, *new], self.lanes)
        first = writer.emit(f"load i1, ptr {self.flags[copy]}")
        for type_, slot, fresh, both in zip(types, self.slots[copy], new, combined):
            writer.line(
                f"store {type_} {writer.emit(f'select i1 {first}, {type_} {fresh}, {type_} {both}')}, ptr {slot}"
            )
        writer.line(f"store i1 false, ptr {self.flags[copy]}")

    def end(self, context: Context, kept: Sequence[Point]) -> None:
        for point, slots in zip(kept, self.slots):
            for source, result, slot, target in zip(self.op.sources, self.op.results, slots, self.targets):
                type_ = VectorType(source.dtype, self.lanes)
                operand = context.writer.emit(f"load {type_}, ptr {slot}")
                deliver(context, self.op, result, target, point, operand, type_)
