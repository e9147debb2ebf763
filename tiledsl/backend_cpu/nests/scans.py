"""Scans: running folds along one axis, as sinks of loop nests. What reads the result joins the nest.

The scanned axis is the vectors' own where memory is contiguous along it. A vector is folded within itself by shifted
copies of itself, and what all before it came to is added on top, so that only one addition waits for another:

    1 2 3 4 | 5 6 7 8        shifted by 1: 1 3 5 7 | 5 11 13 15        by 2: 1 3 6 10 | 5 11 18 26        10 + ...

Otherwise vectors run across another axis, each lane on its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tiledsl.backend_cpu.functions.convert import convert
from tiledsl.backend_cpu.llvm import operands as o
from tiledsl.backend_cpu.llvm.writer import FunctionWriter, VectorType
from tiledsl.backend_cpu.nests.sinks import Sink
from tiledsl.backend_cpu.values.access import mask_type, read_buffer, write_buffer
from tiledsl.backend_cpu.values.context import Context, Element
from tiledsl.backend_cpu.values.evaluate import evaluate_lanes
from tiledsl.backend_cpu.values.folds import accumulator_dtype, combine, emit_combiner, identity
from tiledsl.backend_cpu.values.storage import Buffer, Point, Storage
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import DType


class ScanTile(Sink):
    """A scan. Its elements are known to sinks of the same nest that come after it, at the point at hand."""

    row: Buffer | None = None
    """Where a sweep keeps what came of each lane so far."""

    def __init__(self, op: ops.Scan) -> None:
        super().__init__(op.sources[0].shape, (op.axis,), op.sources, op)
        self.op = op
        self.targets: list[Storage | None] = [None] * len(op.results)
        """Where results go that are read elsewhere too."""
        self.slots: list[list[str]] = []
        self.types = [VectorType(self.carried(v.dtype)) for v in op.sources]

    @property
    def passes(self) -> tuple[Value, ...]:
        return self.op.results

    @property
    def in_order(self) -> bool:
        """Whether elements have to come one by one: a user's combiner has no neutral element to fill vectors with."""
        return self.op.fn == "custom"

    def carried(self, dtype: DType) -> DType:
        return dtype if self.in_order else accumulator_dtype(dtype)

    def begin(self, context: Context, copies: int, lanes: int) -> None:
        writer = context.writer
        self.types = [VectorType(self.carried(v.dtype), lanes) for v in self.op.sources]
        self.slots = [[writer.alloca(str(t)) for t in self.types] for _ in range(copies)]
        for slots in self.slots:
            for type_, slot in zip(self.types, slots):
                writer.line(f"store {type_} {writer.splat(type_, self.start(type_.dtype))}, ptr {slot}")

    def start(self, dtype: DType) -> str:
        """What running folds begin with: -0.0 for sums of floats, as 0.0 would change the sign of a zero."""
        if self.in_order:
            return o.literal(0, dtype)
        return o.literal(-0.0, dtype) if self.op.fn == "add" and dtype.is_float else identity(self.op.fn, dtype)

    def clear(self, context: Context, points: Sequence[Point]) -> None:
        """Sets what a sweep keeps to the beginning."""
        assert self.row is not None
        for point in points:
            start = context.writer.splat(self._type(point), self.start(self.row.dtype))
            write_buffer(context, self.row, point.moved(self.op.axis, "0"), start)

    def visit(self, context: Context, point: Point, copy: int) -> None:
        if self.in_order:
            values = self._combined(context, point, copy)
        elif point.lane == self.op.axis:
            values = [self._prefix(context, point)]
        else:
            values = [self._next(context, point, copy)]
        for result, value, target in zip(self.op.results, values, self.targets):
            type_ = self._type(point, self.carried(result.dtype))
            element = convert(context.writer, value, type_, type_.of(result.dtype))
            context.remember(result, point, Element(element, type_.lanes))
            if target is not None:
                write_buffer(context, target, point, convert(context.writer, value, type_, type_.of(target.dtype)))

    def _type(self, point: Point, dtype: DType | None = None) -> VectorType:
        return VectorType(dtype or self.types[0].dtype, 1 if point.lane is None else point.lanes)

    def _read(self, context: Context, source: Value, point: Point) -> str:
        type_ = self._type(point, source.dtype)
        return convert(
            context.writer, evaluate_lanes(context, source, point), type_, type_.of(self.carried(source.dtype))
        )

    def _next(self, context: Context, point: Point, copy: int) -> str:
        """One more element of each lane."""
        writer, type_ = context.writer, self._type(point)
        new = self._read(context, self.op.sources[0], point)
        if self.row is not None:
            place = point.moved(self.op.axis, "0")
            value = combine(writer, self.op.fn, type_, read_buffer(context, self.row, place), new)
            write_buffer(context, self.row, place, value)
            return value
        slot = self.slots[copy][0]
        value = combine(writer, self.op.fn, type_, writer.emit(f"load {type_}, ptr {slot}"), new)
        writer.line(f"store {type_} {value}, ptr {slot}")
        return value

    def _prefix(self, context: Context, point: Point) -> str:
        """The elements of one vector. The first lane of the first slot has what came before."""
        writer, fn, type_ = context.writer, self.op.fn, self._type(point)
        one, lanes, slot = replace(type_, lanes=1), type_.lanes, self.slots[0][0]
        value = self._read(context, self.op.sources[0], point)
        neutral = writer.splat(type_, self.start(type_.dtype))
        if point.mask is not None:
            value = writer.emit(f"select {mask_type(lanes)} {point.mask}, {type_} {value}, {type_} {neutral}")
        step = 1
        while step < lanes:
            value = combine(writer, fn, type_, _shifted(writer, type_, value, neutral, self._towards(step)), value)
            step *= 2
        last = writer.emit(f"extractelement {type_} {value}, i64 {0 if self.op.reverse else lanes - 1}")
        before = writer.emit(f"load {one}, ptr {slot}")
        writer.line(f"store {one} {combine(writer, fn, one, before, last)}, ptr {slot}")
        return combine(writer, fn, type_, writer.splat(type_, before), value)

    def _towards(self, step: int) -> int:
        return -step if self.op.reverse else step

    def _combined(self, context: Context, point: Point, copy: int) -> list[str]:
        """One more element of each lane, by a user's combiner."""
        writer = context.writer
        types = [self._type(point, t.dtype) for t in self.types]
        index, size = point.indices[self.op.axis], context.dim(self.domain[self.op.axis])
        new = [self._read(context, v, point) for v in self.op.sources]
        old = [writer.emit(f"load {t}, ptr {slot}") for t, slot in zip(types, self.slots[copy])]
        folded = emit_combiner(context, self.op.combiner, [*old, *new], types[0].lanes)
        first = o.subtract(writer, size, "1") if self.op.reverse else "0"
        is_first = writer.emit(f"icmp eq i64 {index}, {first}")
        values: list[str] = []
        for type_, slot, fresh, both in zip(types, self.slots[copy], new, folded):
            values.append(writer.emit(f"select i1 {is_first}, {type_} {fresh}, {type_} {both}"))
            writer.line(f"store {type_} {values[-1]}, ptr {slot}")
        return values


def _shifted(writer: FunctionWriter, type_: VectorType, value: str, neutral: str, step: int) -> str:
    """Lane i has what lane i - step had, or the neutral element."""
    lanes = type_.lanes
    places = [i - step if 0 <= i - step < lanes else lanes + i for i in range(lanes)]
    mask = ", ".join(f"i32 {place}" for place in places)
    return writer.emit(f"shufflevector {type_} {value}, {type_} {neutral}, <{lanes} x i32> <{mask}>")
