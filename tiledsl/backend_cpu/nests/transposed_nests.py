"""Tiles that are stored across the order in which they are read: squares of them are transposed in registers.

    packed[k, n] = w[n, k], w row-major      for n and k, a vector's lanes at a time:
                                                 rows = lanes x w[n + 0.., k ...]
                                                 packed[k + 0.., n ...] = the rows, transposed

Otherwise either the reads or the writes would go element by element, the reads down a column of memory at that, whose
lines fall into few sets of a cache. At the ends of both axes squares have rows and columns that do not exist: rows are
read once more, columns are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from tiledsl.backend_cpu.functions.convert import convert
from tiledsl.backend_cpu.functions.squares import transpose
from tiledsl.backend_cpu.llvm import operands as o
from tiledsl.backend_cpu.llvm.writer import VectorType
from tiledsl.backend_cpu.nests.nests import CHEAP, Emission, Nest
from tiledsl.backend_cpu.nests.sinks import Keep, Sink, StoreTile, store_tile
from tiledsl.backend_cpu.values.access import lanes_left, write_buffer
from tiledsl.backend_cpu.values.context import Context
from tiledsl.backend_cpu.values.evaluate import evaluate_lanes
from tiledsl.backend_cpu.values.expressions import contiguity, expression_ops
from tiledsl.backend_cpu.values.storage import Buffer, Point, Storage
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import bool_
from tiledsl.passes.cpu.grid_work import contiguous_dim


def transposed(context: Context, nest: Nest) -> Nest | None:
    """The nest as one that transposes squares, where all it does is to store tiles across the order of their reads."""
    if not nest.sinks or nest.lane is None or nest.cost > CHEAP:
        return None
    along: set[int | None] = set()
    read: set[int | None] = set()
    for sink in nest.sinks:
        match sink:
            case Keep():
                value = sink.value
                along |= {_written_along(target, len(nest.domain)) for target in sink.targets}
            case StoreTile():
                value = sink.op.value
                along.add(contiguous_dim(sink.op))
            case _:
                return None
        read.add(_read_along(context, value))
        if value.dtype == bool_:
            return None
    if len(along) != 1 or len(read) != 1 or along == read:
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
    """Whole squares, and those at the ends of rows and columns."""

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
        for start, stop, ends in self._parts(whole, self.sizes[written]):
            with self.writer.loop(start, stop, str(self.lanes)) as first, self.context.scope():
                for left, right, last in self._parts(columns, self.sizes[lane]):
                    with self.writer.loop(left, right, str(self.lanes)) as column, self.context.scope():
                        corner = point.moved(written, first).moved(lane, column)
                        self._square(corner, lane, written, ends or last)

    def _whole(self, size: str) -> str:
        lanes = str(self.lanes)
        return o.multiply(self.writer, o.divide(self.writer, size, lanes), lanes)

    def _parts(self, whole: str, size: str) -> list[tuple[str, str, bool]]:
        """Where an axis has whole vectors, and where one that is none."""
        parts = [("0", whole, False), (whole, size, True)]
        return [part for part in parts if part[0] != part[1]]

    def _square(self, corner: Point, lane: int, written: int, at_an_end: bool) -> None:
        writer, context, lanes = self.writer, self.context, self.lanes
        mask = kept = None
        rows = [o.add(writer, corner.indices[written], str(row)) for row in range(lanes)]
        columns = [o.add(writer, corner.indices[lane], str(column)) for column in range(lanes)]
        if at_an_end:
            mask = lanes_left(writer, corner.indices[lane], self.sizes[lane], lanes)
            kept = lanes_left(writer, corner.indices[written], self.sizes[written], lanes)
            last = o.subtract(writer, self.sizes[written], "1")
            rows = [rows[0], *(o.smaller(writer, row, last) for row in rows[1:])]
        made: list[tuple[Sink, list[str]]] = []
        for sink in self.nest.sinks:
            assert isinstance(sink, (Keep, StoreTile))
            value = sink.value if isinstance(sink, Keep) else sink.op.value
            points = [Point(corner.moved(written, row).indices, lane, lanes, mask) for row in rows]
            made.append((sink, [evaluate_lanes(context, value, point) for point in points]))
        stores = [store for sink, vectors in made for store in self._stores(sink, vectors)]
        for column, index in enumerate(columns):
            point = Point(corner.moved(lane, index).indices, written, lanes, kept)
            after = ""
            if at_an_end and column:
                exists, after = writer.new_label("column"), writer.new_label("behind")
                writer.branch_if(writer.emit(f"icmp slt i64 {index}, {self.sizes[lane]}"), exists, after)
                writer.start(exists)
            with context.scope():
                for store, turned in stores:
                    store(point, turned[column])
            if after:
                writer.branch(after)
                writer.start(after)

    def _stores(self, sink: Sink, vectors: Sequence[str]) -> Iterator[tuple[Callable[[Point, str], None], list[str]]]:
        """What stores each column, and the columns."""
        writer, context, lanes = self.writer, self.context, self.lanes
        if isinstance(sink, StoreTile):
            op = sink.op
            turned = transpose(writer, VectorType(op.value.dtype, lanes), vectors)
            yield lambda point, vector: store_tile(context, op, point, vector), turned
            return
        assert isinstance(sink, Keep)
        source = VectorType(sink.value.dtype, lanes)
        for target in sink.targets:
            type_ = source.of(target.dtype)
            turned = transpose(writer, type_, [convert(writer, vector, source, type_) for vector in vectors])
            yield partial(write_buffer, context, target), turned
