"""Tiles that are stored across the order in which they are read: squares of them are transposed in registers.

    packed[k, n] = w[n, k], w row-major      for n and k, a vector's lanes at a time:
                                                 rows = lanes x w[n + 0.., k ...]
                                                 packed[k + 0.., n ...] = the rows, transposed

Otherwise either the reads or the writes would go element by element, the reads down a column of memory at that, whose
lines fall into few sets of a cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tiledsl.backend_cpu.functions.convert import convert
from tiledsl.backend_cpu.llvm import operands as o
from tiledsl.backend_cpu.llvm.writer import FunctionWriter, VectorType
from tiledsl.backend_cpu.nests.nests import CHEAP, Emission, Nest
from tiledsl.backend_cpu.nests.sinks import Keep
from tiledsl.backend_cpu.values.access import lanes_left, write_buffer
from tiledsl.backend_cpu.values.context import Context
from tiledsl.backend_cpu.values.evaluate import evaluate_lanes
from tiledsl.backend_cpu.values.expressions import contiguity, expression_ops
from tiledsl.backend_cpu.values.storage import Buffer, Point, Storage
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import bool_


def transposed(context: Context, nest: Nest) -> Nest | None:
    """The nest as one that transposes squares, where all it does is to store tiles across the order of their reads."""
    keeps = [sink for sink in nest.sinks if isinstance(sink, Keep)]
    if len(keeps) != len(nest.sinks) or nest.lane is None or nest.cost > CHEAP:
        return None
    along = {_written_along(target, len(nest.domain)) for keep in keeps for target in keep.targets}
    read = {_read_along(context, keep.value) for keep in keeps}
    if len(along) != 1 or len(read) != 1 or along == read or any(keep.value.dtype == bool_ for keep in keeps):
        return None
    (written,), (lane,) = along, read
    if written is None or lane is None:
        return None
    for axis in (written, lane):
        size = context.static_limit(nest.domain[axis])
        if size is not None and size < context.lanes:
            return None
    return replace(nest, form="transpose", lane=lane, written=written)


def _written_along(target: Storage, rank: int) -> int | None:
    if not isinstance(target, Buffer):
        return rank - 1
    return target.strides.index("1") if "1" in target.strides else None


def _read_along(context: Context, value: Value) -> int | None:
    """The axis along which memory is read contiguously, if reads go down another one otherwise."""
    if not any(isinstance(op, ops.Load) and op.result.shape for op in expression_ops(context, value)):
        return None
    scores = [contiguity(context, [value], axis) for axis in range(len(value.shape))]
    best = max(range(len(scores)), key=lambda axis: (scores[axis], axis))
    return best if scores[best] > 0 else None


class Transposed(Emission):
    """Squares first, then what is left of rows and columns, element by element on the side of the writes."""

    def outer(self, axes: list[int], point: Point) -> None:
        others = [axis for axis in axes if axis != self.nest.written]
        if others:
            with self.writer.loop("0", self.sizes[others[0]]) as index, self.context.scope():
                self.outer(others[1:], point.moved(others[0], index))
            return
        lane, written = self.nest.lane, self.nest.written
        assert lane is not None
        assert written is not None
        whole, columns = self._whole(self.sizes[written]), self._whole(self.sizes[lane])
        with self.writer.loop("0", whole, str(self.lanes)) as first, self.context.scope():
            with self.writer.loop("0", columns, str(self.lanes)) as start, self.context.scope():
                self._square(point.moved(written, first).moved(lane, start), lane, written)
            if columns != self.sizes[lane]:
                with self.writer.loop("0", str(self.lanes)) as row, self.context.scope():
                    self._rest(point.moved(written, o.add(self.writer, first, row)), columns, lane)
        if whole != self.sizes[written]:
            with self.writer.loop(whole, self.sizes[written]) as row, self.context.scope():
                self._rest(point.moved(written, row), "0", lane)

    def _whole(self, size: str) -> str:
        lanes = str(self.lanes)
        return o.multiply(self.writer, o.divide(self.writer, size, lanes), lanes)

    def _rest(self, point: Point, start: str, lane: int) -> None:
        """A row from `start` on."""
        writer, size = self.writer, self.sizes[lane]
        with writer.loop(start, size, str(self.lanes)) as index, self.context.scope():
            whole = self.context.whole_vectors(self.nest.domain[lane])
            mask = None if whole else lanes_left(writer, index, size, self.lanes)
            self.visit([Point(point.moved(lane, index).indices, lane, self.lanes, mask)])

    def _square(self, corner: Point, lane: int, written: int) -> None:
        writer = self.writer
        for keep in self.nest.sinks:
            assert isinstance(keep, Keep)
            source = VectorType(keep.value.dtype, self.lanes)
            rows = [o.add(writer, corner.indices[written], str(row)) for row in range(self.lanes)]
            points = [Point(corner.moved(written, row).indices, lane, self.lanes) for row in rows]
            vectors = [evaluate_lanes(self.context, keep.value, point) for point in points]
            for target in keep.targets:
                type_ = source.of(target.dtype)
                stored = transpose(writer, type_, [convert(writer, vector, source, type_) for vector in vectors])
                for column, vector in enumerate(stored):
                    place = corner.moved(lane, o.add(writer, corner.indices[lane], str(column)))
                    write_buffer(self.context, target, Point(place.indices, written, self.lanes), vector)


def transpose(writer: FunctionWriter, type_: VectorType, rows: Sequence[str]) -> list[str]:
    """The columns of a square of vectors: halves change places across the diagonal, then halves of those."""
    vectors, lanes = list(rows), type_.lanes
    distance = lanes // 2
    while distance:
        low = [lane if not lane & distance else lanes + lane - distance for lane in range(lanes)]
        high = [lane + distance if not lane & distance else lanes + lane for lane in range(lanes)]
        for first in (row for row in range(lanes) if not row & distance):
            a, b = vectors[first], vectors[first + distance]
            vectors[first] = _shuffle(writer, type_, a, b, low)
            vectors[first + distance] = _shuffle(writer, type_, a, b, high)
        distance //= 2
    return vectors


def _shuffle(writer: FunctionWriter, type_: VectorType, a: str, b: str, lanes: Sequence[int]) -> str:
    picked = ", ".join(f"i32 {lane}" for lane in lanes)
    return writer.emit(f"shufflevector {type_} {a}, {type_} {b}, <{len(lanes)} x i32> <{picked}>")
