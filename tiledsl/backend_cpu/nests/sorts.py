"""Sorts rows of a tile in place, by the comparisons of Batcher's merge exchange (Knuth, volume 3, algorithm 5.2.2M).

    for p in (2**(t-1), ..., 2, 1), then for d in (p, 2**(t-1) - p, ..., 2p - p): compare i with i + d where i & p is 0
    the first time, p later

The order of comparisons does not depend on elements, and no memory beside the row is needed.
"""

from __future__ import annotations

from tiledsl.backend_cpu.llvm import operands as o
from tiledsl.backend_cpu.llvm.writer import VectorType
from tiledsl.backend_cpu.values.access import read_buffer, write_buffer
from tiledsl.backend_cpu.values.context import Context
from tiledsl.backend_cpu.values.storage import Buffer, Point
from tiledsl.ir.types import Shape


def sort_rows(context: Context, room: Buffer, shape: Shape, axis: int) -> None:
    """Puts the elements along an axis of a stored tile in order."""
    _at_rows(context, room, shape, axis, Point(("0",) * len(shape)), 0)


def _at_rows(context: Context, room: Buffer, shape: Shape, axis: int, point: Point, number: int) -> None:
    if number == len(shape):
        _sort_row(context, room, context.dim(shape[axis]), axis, point)
    elif number == axis:
        _at_rows(context, room, shape, axis, point, number + 1)
    else:
        with context.writer.loop("0", context.dim(shape[number])) as index:
            _at_rows(context, room, shape, axis, point.moved(number, index), number + 1)


def _sort_row(context: Context, room: Buffer, size: str, axis: int, point: Point) -> None:
    writer = context.writer
    last = o.larger(writer, o.subtract(writer, size, "1"), "0")
    writer.declare("llvm.ctlz.i64", "i64", "i64, i1")
    zeros = writer.call("llvm.ctlz.i64", "i64", [("i64", last), ("i1", "false")])
    steps = o.subtract(writer, "64", zeros)
    with writer.loop("0", steps) as step:
        p = writer.emit(f"shl i64 1, {o.subtract(writer, o.subtract(writer, steps, '1'), step)}")
        with writer.loop("0", o.add(writer, step, "1")) as turn:
            is_first = writer.emit(f"icmp eq i64 {turn}, 0")
            far = writer.emit(f"shl i64 1, {o.subtract(writer, steps, turn)}")
            d = writer.emit(f"select i1 {is_first}, i64 {p}, i64 {o.subtract(writer, far, p)}")
            r = writer.emit(f"select i1 {is_first}, i64 0, i64 {p}")
            with writer.loop("0", o.subtract(writer, size, d)) as index:
                wanted = writer.emit(f"icmp eq i64 {writer.emit(f'and i64 {index}, {p}')}, {r}")
                _compare(context, room, point.moved(axis, index), point.moved(axis, o.add(writer, index, d)), wanted)


def _compare(context: Context, room: Buffer, first: Point, second: Point, wanted: str) -> None:
    """Exchanges two elements where that is wanted, and the second is less."""
    writer, type_ = context.writer, VectorType(room.dtype)
    a, b = (read_buffer(context, room, point) for point in (first, second))
    less = writer.emit(f"icmp {'slt' if room.dtype.is_signed else 'ult'} {type_} {b}, {a}")
    turned = writer.emit(f"and i1 {less}, {wanted}")
    for point, own, other in ((first, a, b), (second, b, a)):
        write_buffer(context, room, point, writer.emit(f"select i1 {turned}, {type_} {other}, {type_} {own}"))
