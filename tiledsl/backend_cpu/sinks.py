"""What loop nests are made for: stores, folds, tiles to be kept. A sink reads expressions and consumes their elements.

A nest calls a sink in three places: `begin` where the kept indices are fixed and the folded loops have not begun,
`visit` for every element or vector, and `end` behind the folded loops. Vectors are visited in `copies` interleaved
streams, which gives folds independent accumulators.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from tiledsl.backend_cpu import operands as o
from tiledsl.backend_cpu.access import (
    all_lanes,
    lane_numbers,
    mask_type,
    splat_index,
    write,
    write_buffer,
    write_scattered,
)
from tiledsl.backend_cpu.context import Context
from tiledsl.backend_cpu.convert import convert, memory_type, to_memory
from tiledsl.backend_cpu.evaluate import Address, evaluate, evaluate_lanes, subscript_points
from tiledsl.backend_cpu.folds import accumulator_dtype, collapse, combine, emit_combiner, identity
from tiledsl.backend_cpu.frame import PROGRAM_UNIT
from tiledsl.backend_cpu.storage import Place, Point, Storage
from tiledsl.backend_cpu.vector_math import emit_map
from tiledsl.backend_cpu.writer import VectorType
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import i64
from tiledsl.ir.types import AxisType, Shape


class Sink(ABC):
    """One consumer of a nest over `domain`; `folded` are the axes that it reduces, `reads` what it evaluates."""

    vectorises = True
    """False: one element at a time, in order."""

    def __init__(self, domain: Shape, folded: tuple[int, ...], reads: Sequence[Value]) -> None:
        self.domain = domain
        self.folded = folded
        self.reads = tuple(reads)

    @property
    def produces(self) -> tuple[Value, ...]:
        """The values that exist only behind the nest."""
        return ()

    def begin(self, context: Context, copies: int, lanes: int) -> None:  # noqa: B027 (most have nothing to set up)
        """Sets accumulators up."""

    @abstractmethod
    def visit(self, context: Context, point: Point, copy: int) -> None:
        """Consumes the element or vector at `point`."""

    def end(self, context: Context, kept: Sequence[Point]) -> None:  # noqa: B027 (most have nothing to deliver)
        """Delivers accumulators: `kept` has one point per copy, or a single one into which the lanes collapse."""


class Keep(Sink):
    """Stores a tile into one or more places in scratch."""

    def __init__(self, value: Value, targets: Sequence[Storage]) -> None:
        super().__init__(value.shape, (), (value,))
        self.value = value
        self.targets = tuple(targets)

    def visit(self, context: Context, point: Point, copy: int) -> None:
        operand = evaluate_lanes(context, self.value, point)
        lanes = point.lanes if point.lane is not None else 1
        source = VectorType(self.value.dtype, lanes)
        for target in self.targets:
            stored = convert(context.writer, operand, source, source.of(target.dtype))
            write_buffer(context, target, point, stored)


class StoreTile(Sink):
    """Writes a tile to a tensor."""

    def __init__(self, op: ops.Store) -> None:
        gathered = [s for s in op.indices if isinstance(s, Value) and not isinstance(s.type, AxisType)]
        super().__init__(op.value.shape, (), (op.value, *gathered))
        self.op = op

    def visit(self, context: Context, point: Point, copy: int) -> None:
        value = evaluate_lanes(context, self.op.value, point)
        address = address_of(context, self.op, point)
        writer, dtype = context.writer, self.op.value.dtype
        if address.lanes == 1 or (address.offsets is None and address.varies):
            place = Place(address.offset, "1" if address.lanes == 1 else address.lane_stride)
            write(writer, address.tensor.base, place, dtype, address.lanes, value, address.full_mask())
            return
        type_ = VectorType(dtype, address.lanes)
        stored = to_memory(writer, value, type_)
        write_scattered(writer, address.pointers(), memory_type(type_), stored, address.full_mask())


def address_of(context: Context, op: ops.Store | ops.Atomic, point: Point) -> Address:
    """The address that an op writes to for the element at `point`."""
    elements = [
        evaluate(context, subscript, where)
        for subscript, where in subscript_points(op.indices, point)
        if isinstance(subscript, Value) and not isinstance(subscript.type, AxisType)
    ]
    return Address(context, context.tensors[op.tensor], op.indices, op.in_bounds, point, elements)


class AtomicTile(Sink):
    """Combines a tile into a tensor, element by element."""

    vectorises = False

    def __init__(self, op: ops.Atomic, old: Storage | None) -> None:
        gathered = [s for s in op.indices if isinstance(s, Value) and not isinstance(s.type, AxisType)]
        super().__init__(op.value.shape, (), (op.value, *gathered))
        self.op = op
        self.old = old

    @property
    def produces(self) -> tuple[Value, ...]:
        return (self.op.result,)

    def visit(self, context: Context, point: Point, copy: int) -> None:
        writer = context.writer
        value = evaluate(context, self.op.value, point).operand
        address = address_of(context, self.op, point)
        dtype = self.op.value.dtype
        type_ = VectorType(dtype)
        slot = writer.alloca(str(type_))
        writer.line(f"store {type_} {o.literal(0, dtype)}, ptr {slot}")
        done = writer.new_label("done")
        condition = address.full_mask()
        if condition is not None:
            inside = writer.new_label("inside")
            writer.branch_if(condition, inside, done)
            writer.start(inside)
        pointer = o.element_pointer(writer, address.tensor.base, address.offset, dtype)
        writer.line(f"store {type_} {self._exchange(context, pointer, value)}, ptr {slot}")
        writer.branch(done)
        writer.start(done)
        old = writer.emit(f"load {type_}, ptr {slot}")
        if self.old is not None:
            write_buffer(context, self.old, point, old)
        elif not self.op.result.shape:
            context.scalars[self.op.result] = old

    def _exchange(self, context: Context, pointer: str, value: str) -> str:
        """A compare-and-swap loop, which serves every dtype and function. Gives the old value."""
        writer, fn, dtype = context.writer, self.op.fn, self.op.value.dtype
        type_, word = VectorType(dtype), f"i{dtype.bytes * 8}"
        again, done = writer.new_label("again"), writer.new_label("swapped")
        seen = writer.alloca(word)
        first = writer.emit(f"load atomic {word}, ptr {pointer} monotonic, align {dtype.bytes}")
        writer.line(f"store {word} {first}, ptr {seen}")
        writer.branch(again)
        writer.start(again)
        before = writer.emit(f"load {word}, ptr {seen}")
        old = self._from_word(context, before)
        functions = {"max": "maximum", "min": "minimum"}
        new = value if fn == "exchange" else emit_map(writer, functions.get(fn, fn), type_, [old, value])
        swap = f"cmpxchg ptr {pointer}, {word} {before}, {word} {self._to_word(context, new)} monotonic monotonic"
        pair = writer.emit(f"{swap}, align {dtype.bytes}")
        writer.line(f"store {word} {writer.emit(f'extractvalue {{ {word}, i1 }} {pair}, 0')}, ptr {seen}")
        writer.branch_if(writer.emit(f"extractvalue {{ {word}, i1 }} {pair}, 1"), done, again)
        writer.start(done)
        return old

    def _from_word(self, context: Context, word: str) -> str:
        type_ = VectorType(self.op.value.dtype)
        bits = f"i{type_.dtype.bytes * 8}"
        if type_.element in ("float", "double", "half"):
            return context.writer.emit(f"bitcast {bits} {word} to {type_}")
        return word if type_.element == bits else context.writer.emit(f"trunc {bits} {word} to {type_}")

    def _to_word(self, context: Context, value: str) -> str:
        type_ = VectorType(self.op.value.dtype)
        bits = f"i{type_.dtype.bytes * 8}"
        if type_.element in ("float", "double", "half"):
            return context.writer.emit(f"bitcast {type_} {value} to {bits}")
        return value if type_.element == bits else context.writer.emit(f"zext {type_} {value} to {bits}")


class FoldTile(Sink):
    """A reduction by a named function."""

    def __init__(self, op: ops.Reduce, target: Storage | None) -> None:
        (source,) = op.sources
        super().__init__(source.shape, op.axes, (source,))
        self.op = op
        self.source = source
        self.target = target
        self.dtype = accumulator_dtype(source.dtype)
        self.slots: list[str] = []
        self.type = VectorType(self.dtype)

    @property
    def produces(self) -> tuple[Value, ...]:
        return self.op.results

    def begin(self, context: Context, copies: int, lanes: int) -> None:
        writer = context.writer
        self.type = VectorType(self.dtype, lanes)
        self.slots = [writer.alloca(str(self.type)) for _ in range(copies)]
        start = writer.splat(self.type, identity(self.op.fn, self.dtype))
        for slot in self.slots:
            writer.line(f"store {self.type} {start}, ptr {slot}")

    def visit(self, context: Context, point: Point, copy: int) -> None:
        writer, fn, type_ = context.writer, self.op.fn, self.type
        operand = evaluate_lanes(context, self.source, point)
        operand = convert(writer, operand, type_.of(self.source.dtype), type_)
        if point.mask is not None and point.lane in self.folded:
            rest = writer.splat(type_, identity(fn, self.dtype))
            operand = writer.emit(f"select {mask_type(type_.lanes)} {point.mask}, {type_} {operand}, {type_} {rest}")
        slot = self.slots[copy]
        before = writer.emit(f"load {type_}, ptr {slot}")
        writer.line(f"store {type_} {combine(writer, fn, type_, before, operand)}, ptr {slot}")

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
    kept: list[str] = []
    lane: int | None = None
    for axis, index in enumerate(point.indices):
        if axis in op.axes and not op.keepdims:
            continue
        if axis == point.lane:
            lane = len(kept)
        kept.append("0" if axis in op.axes else index)
    stored = convert(context.writer, operand, type_, type_.of(target.dtype))
    write_buffer(context, target, point.at(tuple(kept), lane), stored)


class FindTile(Sink):
    """argmax or argmin: the first index of the extremum; a NaN counts as one."""

    def __init__(self, op: ops.Reduce, target: Storage | None) -> None:
        (source,) = op.sources
        super().__init__(source.shape, op.axes, (source,))
        self.op = op
        self.source = source
        self.target = target
        self.dtype = accumulator_dtype(source.dtype)
        self.type = VectorType(self.dtype)
        self.slots: list[tuple[str, str]] = []

    @property
    def produces(self) -> tuple[Value, ...]:
        return self.op.results

    def begin(self, context: Context, copies: int, lanes: int) -> None:
        writer = context.writer
        self.type = VectorType(self.dtype, lanes)
        index = self.type.of(i64)
        self.slots = [(writer.alloca(str(self.type)), writer.alloca(str(index))) for _ in range(copies)]
        # index -1 says that nothing was seen: the first element, whatever it is, takes its place
        for best, where in self.slots:
            writer.line(f"store {self.type} {writer.splat(self.type, identity(self.op.fn, self.dtype))}, ptr {best}")
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
        """The winner among all lanes of all copies; of equals, the one of least index."""
        writer, lanes = context.writer, self.type.lanes
        scalar, index = VectorType(self.dtype), VectorType(i64)
        candidates = found if lanes == 1 else [
            (
                writer.emit(f"extractelement {self.type} {best}, i64 {lane}"),
                writer.emit(f"extractelement {self.type.of(i64)} {where}, i64 {lane}"),
            )
            for best, where in found
            for lane in range(lanes)
        ]  # fmt: skip
        best, where = candidates[0]
        for other, at in candidates[1:]:
            better = self._beats(context, other, best, scalar)
            worse = self._beats(context, best, other, scalar)
            earlier = writer.emit(f"icmp ult i64 {at}, {where}")  # -1, nothing seen, is the last of all
            equal = writer.emit(f"xor i1 {writer.emit(f'or i1 {better}, {worse}')}, true")
            takes = writer.emit(f"or i1 {better}, {writer.emit(f'and i1 {equal}, {earlier}')}")
            takes = writer.emit(f"and i1 {takes}, {writer.emit(f'icmp sge i64 {at}, 0')}")
            takes = writer.emit(f"or i1 {takes}, {writer.emit(f'icmp slt i64 {where}, 0')}")
            best = writer.emit(f"select i1 {takes}, {scalar} {other}, {scalar} {best}")
            where = writer.emit(f"select i1 {takes}, {index} {at}, {index} {where}")
        return best, where


def _zero(lanes: int) -> str:
    return "0" if lanes == 1 else "zeroinitializer"


class FoldCustom(Sink):
    """A reduction by a user's combiner, along one axis, in order; lanes run across another axis."""

    def __init__(self, op: ops.Reduce, targets: Sequence[Storage | None]) -> None:
        super().__init__(op.sources[0].shape, op.axes, op.sources)
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


class AssertTile(Sink):
    """Notes the number of an assertion in the first word of the state where an element is false."""

    def __init__(self, op: ops.Assert, number: int) -> None:
        super().__init__(op.condition.shape, (), (op.condition,))
        self.op = op
        self.number = number

    def visit(self, context: Context, point: Point, copy: int) -> None:
        writer = context.writer
        lanes = point.lanes if point.lane is not None else 1
        failed = writer.emit(
            f"xor {mask_type(lanes)} {evaluate_lanes(context, self.op.condition, point)}, "
            + ("true" if lanes == 1 else all_lanes(lanes))
        )
        if point.mask is not None:
            failed = writer.emit(f"and {mask_type(lanes)} {failed}, {point.mask}")
        if lanes > 1:
            failed = writer.call(f"llvm.vector.reduce.or.v{lanes}i1", "i1", [(mask_type(lanes), failed)])
        wrong, done = writer.new_label("wrong"), writer.new_label("right")
        writer.branch_if(failed, wrong, done)
        writer.start(wrong)
        where = o.multiply(writer, context.program, str(PROGRAM_UNIT))
        status = o.add(writer, where, str(self.number + 1))
        writer.emit(f"cmpxchg ptr %state, i64 0, i64 {status} monotonic monotonic")
        writer.branch(done)
        writer.start(done)
