"""Packs the right operand of a product panel by panel, some rows at a time.

    for k, four at a time:                  b[k + 0..3, :]    read as four runs
      for panel in whole panels:            [panel][k + 0..3][column]    written as one run of 4 x 24 elements
        for step, vector: copy

Row by row, each row would write a vector or three of every panel: where a panel begins would have to be found for each
vector, and panels of 2**n bytes lie in the same sets of the first cache.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiledsl.backend_cpu.functions.convert import convert
from tiledsl.backend_cpu.llvm import operands as o
from tiledsl.backend_cpu.llvm.writer import VectorType
from tiledsl.backend_cpu.values.access import lanes_left, write_buffer
from tiledsl.backend_cpu.values.context import Context
from tiledsl.backend_cpu.values.evaluate import UNKNOWN, evaluate_lanes, hoist
from tiledsl.backend_cpu.values.expressions import contiguity
from tiledsl.backend_cpu.values.storage import PackedRight, Point, dot_product
from tiledsl.ir.core import Value
from tiledsl.ir.symbolic import Dim

ROWS = 4
"""Rows that are read at a time."""


def goes_by_panels(context: Context, value: Value) -> bool:
    """Whether a right operand is read along its columns."""
    rank = len(value.shape)
    if rank < 2:
        return False
    along, across = (contiguity(context, [value], axis) for axis in (rank - 2, rank - 1))
    return across > along


@dataclass(frozen=True)
class PackPanels:
    """Writes `value`, of shape (batch..., k, columns), into `room`."""

    context: Context
    value: Value
    room: PackedRight

    def emit(self) -> None:
        """Writes the loops."""
        self._batches(list(self.value.shape[:-2]), ())

    def _batches(self, axes: list[Dim], indices: tuple[str, ...]) -> None:
        context, writer = self.context, self.context.writer
        if axes:
            with writer.loop("0", context.dim(axes[0])) as index, context.scope():
                self._batches(axes[1:], (*indices, index))
            return
        depth = context.dim(self.value.shape[-2])
        whole = o.multiply(writer, o.divide(writer, depth, str(ROWS)), str(ROWS))
        if whole != "0":
            with writer.loop("0", whole, str(ROWS)) as k, context.scope():
                self._rows(indices, [o.add(writer, k, str(step)) for step in range(ROWS)])
        if whole != depth:
            with writer.loop(whole, depth) as k, context.scope():
                self._rows(indices, [k])

    def _rows(self, batch: tuple[str, ...], rows: list[str]) -> None:
        context, writer, width = self.context, self.context.writer, self.room.width
        for row in rows:
            hoist(context, [self.value], Point((*batch, row, UNKNOWN)))
        columns = context.dim(self.value.shape[-1])
        whole = o.multiply(writer, o.divide(writer, columns, str(width)), str(width))
        if whole != "0":
            with writer.loop("0", whole, str(width)) as first, context.scope():
                self._panel(batch, rows, first)
        if whole == columns:
            return
        with writer.loop(whole, columns, str(context.lanes)) as column, context.scope():
            mask = None
            if not context.whole_vectors(self.value.shape[-1]):
                mask = lanes_left(writer, column, columns, context.lanes)
            for row in rows:
                point = self._point(batch, row, column, mask)
                write_buffer(context, self.room, point, self._elements(point))

    def _panel(self, batch: tuple[str, ...], rows: list[str], first: str) -> None:
        context, writer, room = self.context, self.context.writer, self.room
        start = o.add(writer, o.multiply(writer, first, room.depth), o.multiply(writer, rows[0], str(room.width)))
        start = o.add(writer, start, dot_product(writer, batch, room.batch_strides))
        base = o.element_pointer(writer, room.base, start, room.dtype)
        stored = VectorType(room.dtype, context.lanes)
        for step, row in enumerate(rows):
            for column in range(0, room.width, context.lanes):
                vector = self._elements(self._point(batch, row, o.add(writer, first, str(column)), None))
                pointer = o.element_pointer(writer, base, str(step * room.width + column), room.dtype)
                writer.line(f"store {stored} {vector}, ptr {pointer}, align {room.dtype.bytes}")

    def _point(self, batch: tuple[str, ...], row: str, column: str, mask: str | None) -> Point:
        return Point((*batch, row, column), len(batch) + 1, self.context.lanes, mask)

    def _elements(self, point: Point) -> str:
        """A vector of elements as they are stored."""
        operand = evaluate_lanes(self.context, self.value, point)
        source = VectorType(self.value.dtype, self.context.lanes)
        return convert(self.context.writer, operand, source, source.of(self.room.dtype))
