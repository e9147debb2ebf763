"""Dots with few rows or few columns: the other operand, the *wide* one, is read once, where and in the order it lies.

To pack an operand pays where each of its elements is multiplied many times. With few rows the product takes as long as
reading the wide operand does, so it is evaluated inside of the loops of the product, together with what is computed
from it (a cast, a scale), and goes from memory into multiply-adds. The few rows are kept in scratch, along k.

    wide operand contiguous along k              wide operand contiguous along its rows or columns
    for i in wide, four at a time:               for k, eight at a time:
      for j in few, four at a time:                for i in vectors of wide:
        for k in vectors:                            for j in few:
          sums[i][j] += wide[i, k] * few[j, k]         c[j, i] += few[j, k + 0..7] * wide[k + 0..7, i]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from tiledsl.backend_cpu.functions.convert import convert
from tiledsl.backend_cpu.llvm import operands as o
from tiledsl.backend_cpu.llvm.writer import VectorType
from tiledsl.backend_cpu.products.microkernel import multiply_add
from tiledsl.backend_cpu.values.access import lanes_left, mask_type, read_buffer, write_buffer
from tiledsl.backend_cpu.values.context import Context
from tiledsl.backend_cpu.values.evaluate import UNKNOWN, evaluate_lanes, hoist
from tiledsl.backend_cpu.values.expressions import contiguity
from tiledsl.backend_cpu.values.folds import collapse
from tiledsl.backend_cpu.values.storage import Buffer, Point
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import DType, compute_dtype
from tiledsl.ir.symbolic import Dim

STREAMS = 4
"""Rows of the wide operand that are read at a time."""
SWEPT = 8
"""The same where they are read from end to end, and there are registers for two vectors of each: 0.98 of NumPy's speed
for 0.91 with four."""
TOGETHER = 4
"""Rows of the few that share what is read."""
COPIES = 2
"""Vectors at a time."""
Side = Literal["left", "right"]


def few_side(context: Context, op: ops.Dot) -> Side | None:
    """Which operand has few rows (the left one) or columns (the right one); None: the operands are packed."""
    if context.is_few(op.a.shape[-2]):
        return "left"
    return "right" if context.is_few(op.b.shape[-1]) else None


def runs_along_depth(context: Context, op: ops.Dot, side: Side) -> bool:
    """Whether the wide operand is contiguous along the axis that is summed, rather than along its other one."""
    wide = op.b if side == "left" else op.a
    rank = len(wide.shape)
    depth, free = (rank - 2, rank - 1) if side == "left" else (rank - 1, rank - 2)
    return contiguity(context, [wide], depth) > contiguity(context, [wide], free)


def allocate_few(context: Context, value: Value, side: Side, dtype: DType) -> Buffer:
    """Room for the operand with few rows or columns, contiguous along k."""
    if side == "right":
        return allocate_transposed(context, value, dtype)
    return context.allocate(value.shape, dtype, row_unit=2)


def allocate_transposed(context: Context, value: Value, dtype: DType) -> Buffer:
    """Room for a tile whose columns, along the last axis but one, are contiguous."""
    *batch, rows, columns = value.shape
    room = context.allocate((*batch, columns, rows), dtype, row_unit=2)
    *outer, across, along = room.strides
    return replace(room, strides=(*outer, along, across))


@dataclass(frozen=True)
class StreamedDot:
    """A dot that adds to `target`, or overwrites it where the i1 `fresh` says so. `few` has the operand of `side`."""

    context: Context
    op: ops.Dot
    side: Side
    few: Buffer
    target: Buffer
    fresh: str

    @property
    def wide(self) -> Value:
        return self.op.b if self.side == "left" else self.op.a

    @property
    def dtype(self) -> DType:
        return compute_dtype(self.op.dtype)

    @property
    def type(self) -> VectorType:
        return VectorType(self.dtype, self.context.lanes)

    def emit(self) -> None:
        """Writes the loops, batch by batch."""
        self._batches(list(self.op.a.shape[:-2]), ())

    def _batches(self, axes: list[Dim], indices: tuple[str, ...]) -> None:
        context = self.context
        if axes:
            with context.writer.loop("0", context.dim(axes[0])) as index, context.scope():
                self._batches(axes[1:], (*indices, index))
        elif runs_along_depth(context, self.op, self.side):
            self._rows(indices)
        else:
            self._sweep(indices)

    # Sizes, places, elements

    @property
    def _sizes(self) -> tuple[str, str, str]:
        """How many there are of the few, of the wide operand's other axis, and along k."""
        *_, rows, depth = self.op.a.shape
        columns = self.op.b.shape[-1]
        few, wide = (rows, columns) if self.side == "left" else (columns, rows)
        return self.context.dim(few), self.context.dim(wide), self.context.dim(depth)

    def _wide_point(self, batch: tuple[str, ...], at: str, depth: str) -> Point:
        return Point((*batch, depth, at) if self.side == "left" else (*batch, at, depth))

    def _few_point(self, batch: tuple[str, ...], at: str, depth: str) -> Point:
        return Point((*batch, at, depth) if self.side == "left" else (*batch, depth, at))

    def _target_point(self, batch: tuple[str, ...], few: str, wide: str) -> Point:
        return Point((*batch, few, wide) if self.side == "left" else (*batch, wide, few))

    @property
    def _depth_lane(self) -> int:
        """The axis of the wide operand that runs along k."""
        rank = len(self.wide.shape)
        return rank - 2 if self.side == "left" else rank - 1

    @property
    def _free_lane(self) -> int:
        """The other axis of the wide operand."""
        return 2 * len(self.wide.shape) - 3 - self._depth_lane

    def _along(self, point: Point, lane: int, mask: str | None) -> Point:
        return Point(point.indices, lane, self.context.lanes, mask)

    def _element(self, point: Point) -> str:
        """A vector of the wide operand, as numbers of the sum."""
        operand = evaluate_lanes(self.context, self.wide, point)
        return convert(self.context.writer, operand, self.type.of(self.wide.dtype), self.type)

    def _steps(self, stop: str, step: int, inside: Callable[[str, int], None]) -> None:
        """`inside(first, count)` for whole groups of `step`, then one by one."""
        writer = self.context.writer
        whole = o.multiply(writer, o.divide(writer, stop, str(step)), str(step))
        if whole != "0" and step > 1:
            with writer.loop("0", whole, str(step)) as first, self.context.scope():
                inside(first, step)
        if whole != stop or step == 1:
            with writer.loop(whole if step > 1 else "0", stop) as first, self.context.scope():
                inside(first, 1)

    def _vectors(self, size: Dim, copies: int, inside: Callable[[list[str], str | None], None]) -> None:
        """`inside(starts, mask)` for groups of `copies` whole vectors (0: no groups), then for single ones."""
        context, writer, lanes = self.context, self.context.writer, self.context.lanes
        stop, step = context.dim(size), lanes * max(1, copies)
        whole = o.multiply(writer, o.divide(writer, stop, str(step)), str(step)) if copies else "0"
        if whole != "0":
            with writer.loop("0", whole, str(step)) as first, context.scope():
                inside([o.add(writer, first, str(copy * lanes)) for copy in range(copies)], None)
        if whole == stop or (copies and context.facts.divisible(size, step)):
            return
        with writer.loop(whole, stop, str(lanes)) as first, context.scope():
            mask = None if context.whole_vectors(size) else lanes_left(writer, first, stop, lanes)
            inside([first], mask)

    # Contiguous along the free axis

    def _sweep(self, batch: tuple[str, ...]) -> None:
        writer, (few, _, depth) = self.context.writer, self._sizes
        size = self.wide.shape[self._free_lane]
        self._clear(batch, size)

        def some(first: str, count: int) -> None:
            steps = [o.add(writer, first, str(step)) for step in range(count)]
            for step in steps:
                hoist(self.context, [self.wide], self._wide_point(batch, UNKNOWN, step))

            def across(starts: list[str], mask: str | None) -> None:
                elements = [
                    [
                        self._element(self._along(self._wide_point(batch, start, k), self._free_lane, mask))
                        for k in steps
                    ]
                    for start in starts
                ]
                with writer.loop("0", few) as row, self.context.scope():
                    self._add(batch, row, steps, starts, elements, mask)

            self._vectors(size, COPIES if count > 1 else 0, across)

        wide = self.context.machine.vector_registers >= 4 * SWEPT
        self._steps(depth, SWEPT if wide else STREAMS, some)

    def _add(
        self,
        batch: tuple[str, ...],
        row: str,
        steps: list[str],
        starts: list[str],
        elements: list[list[str]],
        mask: str | None,
    ) -> None:
        """One row of the few times some vectors of each step."""
        context, writer = self.context, self.context.writer
        factors = [
            writer.splat(self.type, read_buffer(context, self.few, self._few_point(batch, row, k))) for k in steps
        ]
        for start, column in zip(starts, elements):
            place = self._along(self._target_point(batch, row, start), self._target_lane, mask)
            total = read_buffer(context, self.target, place)
            for factor, element in zip(factors, column):
                total = multiply_add(writer, self.type, factor, element, total)
            write_buffer(context, self.target, place, total)

    @property
    def _target_lane(self) -> int:
        """The axis of the target that the wide operand's free axis becomes."""
        rank = len(self.target.strides)
        return rank - 1 if self.side == "left" else rank - 2

    def _clear(self, batch: tuple[str, ...], size: Dim) -> None:
        if self.fresh == "false":
            return
        context, writer = self.context, self.context.writer
        clear, done = writer.new_label("clear"), writer.new_label("cleared")
        writer.branch_if(self.fresh, clear, done)
        writer.start(clear)

        def across(starts: list[str], mask: str | None) -> None:
            for start in starts:
                place = self._along(self._target_point(batch, row, start), self._target_lane, mask)
                write_buffer(context, self.target, place, "zeroinitializer")

        with writer.loop("0", self._sizes[0]) as row, context.scope():
            self._vectors(size, 1, across)
        writer.branch(done)
        writer.start(done)

    # Contiguous along k

    def _rows(self, batch: tuple[str, ...]) -> None:
        few, wide, _ = self._sizes

        def some(first: str, count: int) -> None:
            starts = [o.add(self.context.writer, first, str(row)) for row in range(count)]
            for start in starts:
                hoist(self.context, [self.wide], self._wide_point(batch, start, UNKNOWN))
            self._steps(
                few, TOGETHER if count > 1 and few != "1" else 1, lambda at, n: self._tile(batch, starts, at, n)
            )

        self._steps(wide, STREAMS, some)

    def _tile(self, batch: tuple[str, ...], wide: list[str], first: str, count: int) -> None:
        """The sums of some rows of the wide operand with `count` of the few."""
        writer, type_ = self.context.writer, self.type
        few = [o.add(writer, first, str(row)) for row in range(count)]
        copies = COPIES if count == 1 and len(wide) > 1 else 1
        slots = [[[writer.alloca(str(type_)) for _ in range(copies)] for _ in few] for _ in wide]
        for slot in (slot for rows in slots for columns in rows for slot in columns):
            writer.line(f"store {type_} zeroinitializer, ptr {slot}")

        def across(starts: list[str], mask: str | None) -> None:
            for copy, start in enumerate(starts):
                factors = [self._factor(batch, j, start, mask) for j in few]
                for i, row in zip(wide, slots):
                    element = self._element(self._along(self._wide_point(batch, i, start), self._depth_lane, mask))
                    if mask is not None:  # what is computed of nothing may be anything
                        lanes = mask_type(type_.lanes)
                        element = writer.emit(f"select {lanes} {mask}, {type_} {element}, {type_} zeroinitializer")
                    for factor, columns in zip(factors, row):
                        before = writer.emit(f"load {type_}, ptr {columns[copy]}")
                        total = multiply_add(writer, type_, factor, element, before)
                        writer.line(f"store {type_} {total}, ptr {columns[copy]}")

        self._vectors(self.wide.shape[self._depth_lane], copies if len(wide) > 1 else 0, across)
        for i, row in zip(wide, slots):
            for j, columns in zip(few, row):
                parts = [writer.emit(f"load {type_}, ptr {slot}") for slot in columns]
                total = parts[0] if len(parts) == 1 else self._sum(type_, *parts)
                self._deliver(self._target_point(batch, j, i), collapse(writer, "add", type_, total))

    def _factor(self, batch: tuple[str, ...], few: str, start: str, mask: str | None) -> str:
        point = self._few_point(batch, few, start)
        lane = len(point.indices) - (1 if self.side == "left" else 2)
        # beyond the end there must be zeros: the padding of the room has whatever was there
        return read_buffer(self.context, replace(self.few, padded=False), self._along(point, lane, mask))

    def _sum(self, type_: VectorType, a: str, b: str) -> str:
        return self.context.writer.emit(f"{'fadd' if type_.dtype.is_float else 'add'} {type_} {a}, {b}")

    def _deliver(self, place: Point, total: str) -> None:
        context, writer, scalar = self.context, self.context.writer, VectorType(self.dtype)
        if self.fresh != "true":
            old = read_buffer(context, self.target, place)
            if self.fresh != "false":
                zero = o.literal(0, self.dtype)
                old = writer.emit(f"select i1 {self.fresh}, {scalar} {zero}, {scalar} {old}")
            total = self._sum(scalar, old, total)
        write_buffer(context, self.target, place, total)
