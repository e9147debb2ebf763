"""Packs the right operand of a product of narrow elements: those of a group along k beside each other, for each column.

    [panel][k / 4][column][4]                 groups of four bytes; two of bf16 go alike

Where memory has columns of it side by side along k, squares of words are transposed in registers: as many columns as a
vector has lanes, by as many groups.
Behind the last k of a group there are zeros: products of bytes do not count there, whatever the left operand has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tiledsl.backend_cpu.functions.convert import convert
from tiledsl.backend_cpu.functions.squares import transpose
from tiledsl.backend_cpu.llvm import operands as o
from tiledsl.backend_cpu.llvm.writer import VectorType
from tiledsl.backend_cpu.values.access import lanes_left, mask_type, splat_mask
from tiledsl.backend_cpu.values.context import Context
from tiledsl.backend_cpu.values.evaluate import evaluate_lanes
from tiledsl.backend_cpu.values.expressions import contiguity
from tiledsl.backend_cpu.values.storage import PackedRight, Point, dot_product
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import i32
from tiledsl.ir.symbolic import Dim


@dataclass(frozen=True)
class PackGroups:
    """Writes `value`, of shape (batch..., k, columns), into `room`, in groups of `group` along k."""

    context: Context
    value: Value
    room: PackedRight
    group: int

    def emit(self) -> None:
        """Writes the loops."""
        self._batches(list(self.value.shape[:-2]), ())

    def _batches(self, axes: list[Dim], indices: tuple[str, ...]) -> None:
        context, rank = self.context, len(self.value.shape)
        if axes:
            with context.writer.loop("0", context.dim(axes[0])) as index, context.scope():
                self._batches(axes[1:], (*indices, index))
            return
        along, across = (contiguity(context, [self.value], axis) for axis in (rank - 2, rank - 1))
        if along > across:
            self._columns(indices)
        else:
            self._groups(indices)

    @property
    def _type(self) -> VectorType:
        return VectorType(self.room.dtype, self.context.lanes)

    @property
    def _word(self) -> str:
        """What a group is moved as."""
        return f"i{self.group * self.room.dtype.bits}"

    def _elements(self, point: Point) -> str:
        """A vector of elements; zeros where the point's mask is false."""
        operand = evaluate_lanes(self.context, self.value, point)
        type_ = self._type
        operand = convert(self.context.writer, operand, type_.of(self.value.dtype), type_)
        if point.mask is None:
            return operand
        lanes = mask_type(type_.lanes)
        return self.context.writer.emit(f"select {lanes} {point.mask}, {type_} {operand}, {type_} zeroinitializer")

    def _place(self, batch: tuple[str, ...], depth: str, column: str) -> str:
        """A pointer to the group that begins at `depth`, a multiple of its size."""
        writer, room = self.context.writer, self.room
        first = o.multiply(writer, o.divide(writer, column, str(room.width)), str(room.width))
        width = o.smaller(writer, str(room.width), o.subtract(writer, room.columns, first))
        total = o.add(writer, o.multiply(writer, first, room.depth), o.multiply(writer, depth, width))
        total = o.add(writer, total, o.multiply(writer, o.subtract(writer, column, first), str(self.group)))
        total = o.add(writer, total, dot_product(writer, batch, room.batch_strides))
        return o.element_pointer(writer, room.base, total, room.dtype)

    def _groups(self, batch: tuple[str, ...]) -> None:
        """Vectors run along the columns: the rows of a group are interleaved."""
        context, writer = self.context, self.context.writer
        depth, columns = (context.dim(dim) for dim in self.value.shape[-2:])
        whole = o.multiply(writer, o.divide(writer, depth, str(self.group)), str(self.group))
        with writer.loop("0", whole, str(self.group)) as k, context.scope():
            self._across(batch, k, columns, [None] * self.group)
        if whole != depth:
            with writer.loop(whole, depth, str(self.group)) as k, context.scope():
                steps = [o.add(writer, k, str(step)) for step in range(self.group)]
                self._across(batch, k, columns, [writer.emit(f"icmp slt i64 {step}, {depth}") for step in steps])

    def _across(self, batch: tuple[str, ...], k: str, columns: str, exist: Sequence[str | None]) -> None:
        context, writer, lanes = self.context, self.context.writer, self.context.lanes
        whole_columns = o.multiply(writer, o.divide(writer, columns, str(lanes)), str(lanes))
        # single rows of the last group, and the last vector of a row, are read under masks
        loops = [("0", whole_columns, False), (whole_columns, columns, True)]
        for start, stop, ends in loops:
            if start == stop:
                continue
            with writer.loop(start, stop, str(lanes)) as column, context.scope():
                tail = lanes_left(writer, column, columns, lanes) if ends else None
                rows: list[str] = []
                for step, exists in enumerate(exist):
                    mask = tail
                    if exists is not None:
                        mask = splat_mask(writer, exists, lanes)
                        if tail is not None:
                            mask = writer.emit(f"and {mask_type(lanes)} {mask}, {tail}")
                    at = (*batch, o.add(writer, k, str(step)), column)
                    rows.append(self._elements(Point(at, len(at) - 1, lanes, mask)))
                pointer = self._place(batch, k, column)
                stored = VectorType(self.room.dtype, self.group * lanes)
                writer.line(f"store {stored} {self._interleaved(rows)}, ptr {pointer}, align 1")

    def _interleaved(self, rows: list[str]) -> str:
        """The first elements of all rows, then the second ones, and so on."""
        writer, lanes = self.context.writer, self.context.lanes
        while len(rows) > 1:
            joined: list[str] = []
            width = self.group // len(rows)
            type_ = VectorType(self.room.dtype, lanes * width)
            for a, b in zip(rows[::2], rows[1::2]):
                picked = [
                    side * type_.lanes + lane * width + part
                    for lane in range(lanes)
                    for side in range(2)
                    for part in range(width)
                ]
                text = ", ".join(f"i32 {place}" for place in picked)
                joined.append(writer.emit(f"shufflevector {type_} {a}, {type_} {b}, <{len(picked)} x i32> <{text}>"))
            rows = joined
        return rows[0]

    def _columns(self, batch: tuple[str, ...]) -> None:
        """Vectors run along k: squares of whole groups, then what is left of rows and columns by single groups."""
        context, writer, lanes = self.context, self.context.writer, self.context.lanes
        depth, columns = (context.dim(dim) for dim in self.value.shape[-2:])
        side = lanes * self.group
        whole, strips = (
            o.multiply(writer, o.divide(writer, size, str(unit)), str(unit))
            for size, unit in ((depth, side), (columns, lanes))
        )
        if strips != "0":
            with writer.loop("0", strips, str(lanes)) as first, context.scope():
                with writer.loop("0", whole, str(side)) as k, context.scope():
                    self._square(batch, k, first)
                with writer.loop("0", str(lanes)) as number, context.scope():
                    self._column(batch, o.add(writer, first, number), whole)
        if strips != columns:
            with writer.loop(strips, columns) as column, context.scope():
                self._column(batch, column, "0")

    def _square(self, batch: tuple[str, ...], k: str, first: str) -> None:
        writer, lanes = self.context.writer, self.context.lanes
        words = VectorType(i32, lanes)
        rows: list[str] = []
        for number in range(lanes):
            column = o.add(writer, first, str(number))
            parts: list[str] = []
            for part in range(self.group):
                at = (*batch, o.add(writer, k, str(part * lanes)), column)
                elements = self._elements(Point(at, len(at) - 2, lanes))
                parts.append(writer.emit(f"bitcast {self._type} {elements} to {VectorType(i32, lanes // self.group)}"))
            rows.append(self._joined(parts, lanes // self.group))
        for number, vector in enumerate(transpose(writer, words, rows)):
            pointer = self._place(batch, o.add(writer, k, str(number * self.group)), first)
            writer.line(f"store {words} {vector}, ptr {pointer}, align 1")

    def _joined(self, parts: list[str], lanes: int) -> str:
        """Vectors of so many words as one, behind each other."""
        writer = self.context.writer
        while len(parts) > 1:
            type_ = VectorType(i32, lanes)
            picked = ", ".join(f"i32 {place}" for place in range(2 * lanes))
            parts = [
                writer.emit(f"shufflevector {type_} {a}, {type_} {b}, <{2 * lanes} x i32> <{picked}>")
                for a, b in zip(parts[::2], parts[1::2])
            ]
            lanes *= 2
        return parts[0]

    def _column(self, batch: tuple[str, ...], column: str, begin: str) -> None:
        """One column from a k on, by single groups."""
        context, writer, lanes = self.context, self.context.writer, self.context.lanes
        depth = context.dim(self.value.shape[-2])
        whole = o.multiply(writer, o.divide(writer, depth, str(lanes)), str(lanes))
        groups = f"<{lanes // self.group} x {self._word}>"
        for start, stop, ends in ((begin, whole, False), (whole, depth, True)):
            if start == stop:
                continue
            with writer.loop(start, stop, str(lanes)) as k, context.scope():
                mask = lanes_left(writer, k, depth, lanes) if ends else None
                at = (*batch, k, column)
                vector = self._elements(Point(at, len(at) - 2, lanes, mask))
                words = writer.emit(f"bitcast {self._type} {vector} to {groups}")
                for number in range(lanes // self.group):
                    self._store_group(batch, o.add(writer, k, str(self.group * number)), column, words, number, ends)

    def _store_group(self, batch: tuple[str, ...], k: str, column: str, words: str, number: int, ends: bool) -> None:
        context, writer = self.context, self.context.writer
        done = ""
        if ends:
            inside, done = writer.new_label("group"), writer.new_label("grouped")
            exists = writer.emit(f"icmp slt i64 {k}, {context.dim(self.value.shape[-2])}")
            writer.branch_if(exists, inside, done)
            writer.start(inside)
        word = writer.emit(f"extractelement <{context.lanes // self.group} x {self._word}> {words}, i64 {number}")
        writer.line(f"store {self._word} {word}, ptr {self._place(batch, k, column)}, align 1")
        if ends:
            writer.branch(done)
            writer.start(done)
