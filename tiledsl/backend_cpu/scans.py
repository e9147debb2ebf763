"""Scans: running folds along one axis, in order, with vectors across the last of the other axes."""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.backend_cpu import operands as o
from tiledsl.backend_cpu.access import lanes_left, write_buffer
from tiledsl.backend_cpu.context import Context
from tiledsl.backend_cpu.convert import convert
from tiledsl.backend_cpu.evaluate import evaluate_lanes
from tiledsl.backend_cpu.folds import accumulator_dtype, combine, emit_combiner
from tiledsl.backend_cpu.storage import Buffer, Point
from tiledsl.backend_cpu.writer import VectorType
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.dtypes import DType


def emit_scan(context: Context, op: ops.Scan, buffers: Sequence[Buffer]) -> None:
    """Writes the loops of a scan, whose results go to `buffers`."""
    shape = op.sources[0].shape
    others = [a for a, dim in enumerate(shape) if a != op.axis and dim != 1]
    lane = others.pop() if others else None
    _loops(context, op, buffers, others, lane, Point(("0",) * len(shape)))


def _loops(
    context: Context, op: ops.Scan, buffers: Sequence[Buffer], axes: list[int], lane: int | None, point: Point
) -> None:
    writer, shape = context.writer, op.sources[0].shape
    if axes:
        with writer.loop("0", context.dim(shape[axes[0]])) as index, context.scope():
            _loops(context, op, buffers, axes[1:], lane, point.moved(axes[0], index))
        return
    if lane is None:
        _run(context, op, buffers, point)
        return
    size = context.dim(shape[lane])
    with writer.loop("0", size, str(context.lanes)) as index, context.scope():
        mask = lanes_left(writer, index, size, context.lanes)
        vector = Point(point.moved(lane, index).indices, lane, context.lanes, mask)
        _run(context, op, buffers, vector)


def _run(context: Context, op: ops.Scan, buffers: Sequence[Buffer], point: Point) -> None:
    """The loop along the scanned axis, for one element or vector of the others."""
    writer = context.writer
    lanes = point.lanes if point.lane is not None else 1
    types = [VectorType(_carried(op, v.dtype), lanes) for v in op.sources]
    slots = [writer.alloca(str(t)) for t in types]
    for type_, slot in zip(types, slots):
        writer.line(f"store {type_} {writer.splat(type_, o.literal(0, type_.dtype))}, ptr {slot}")
    size = context.dim(op.sources[0].shape[op.axis])
    with writer.loop("0", size) as step, context.scope():
        index = o.subtract(writer, o.subtract(writer, size, "1"), step) if op.reverse else step
        here = point.moved(op.axis, index)
        new = [
            convert(writer, evaluate_lanes(context, v, here), VectorType(v.dtype, lanes), t)
            for v, t in zip(op.sources, types)
        ]
        old = [writer.emit(f"load {t}, ptr {slot}") for t, slot in zip(types, slots)]
        if op.fn == "custom":
            folded = emit_combiner(context, op.combiner, [*old, *new], lanes)
        else:
            folded = [combine(writer, op.fn, types[0], old[0], new[0])]
        first = writer.emit(f"icmp eq i64 {step}, 0")
        for type_, slot, fresh, both, buffer in zip(types, slots, new, folded, buffers):
            value = writer.emit(f"select i1 {first}, {type_} {fresh}, {type_} {both}")
            writer.line(f"store {type_} {value}, ptr {slot}")
            write_buffer(context, buffer, here, convert(writer, value, type_, type_.of(buffer.dtype)))


def _carried(op: ops.Scan, dtype: DType) -> DType:
    return dtype if op.fn == "custom" else accumulator_dtype(dtype)
