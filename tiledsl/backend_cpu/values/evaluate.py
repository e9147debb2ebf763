"""Evaluates a tile at a point: the expression of lazy ops behind it, down to buffers, tensors and constants.

Each op has two rules. `operand_points` says at which point of each operand the op reads (pure index mapping); `emit`
makes the element from the operands' elements. Keeping them apart lets a loop nest evaluate, before its inner loop
begins, every part of an expression that does not move with that loop (`hoist`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tiledsl.backend_cpu.functions.convert import convert, from_memory, memory_type, to_memory
from tiledsl.backend_cpu.functions.philox import emit_random
from tiledsl.backend_cpu.functions.vector_math import emit_map
from tiledsl.backend_cpu.llvm import operands as o
from tiledsl.backend_cpu.llvm.writer import VectorType
from tiledsl.backend_cpu.values.access import (
    both,
    gather_pointers,
    lane_numbers,
    lanes_inside,
    read,
    read_buffer,
    read_gathered,
    splat_index,
    splat_mask,
)
from tiledsl.backend_cpu.values.context import Context, Element, Tensor
from tiledsl.backend_cpu.values.storage import NEAR, Place, Point, dot_product
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Index, Op, Value
from tiledsl.ir.dtypes import i64
from tiledsl.ir.symbolic_order import known_at_most
from tiledsl.ir.types import AxisType, Slice, Whole
from tiledsl.passes.analysis.few import SHORT_ROW

UNKNOWN = "<inner>"
"""Stands for the index of a loop that has not begun."""
Read = tuple[Value, Point]


def evaluate(context: Context, value: Value, point: Point) -> Element:
    """The element (or lanes) of `value` at `point`; its `lanes` is 1 where all lanes are the same.

    Each op on the way is evaluated once, however often it is read. An expression may be as deep as it likes.
    """
    stack: list[tuple[Value, Point, list[Read] | None]] = [(value, point, None)]
    while stack:
        here, where, reads = stack[-1]
        if reads is None:
            if _known(context, here, where) is not None:
                stack.pop()
                continue
            if here in context.storage:
                context.remember(here, where, _from_storage(context, here, where))
                continue
            assert here.op is not None, f"%{here.name} has no value yet"
            reads = operand_points(context, here.op, where)
            stack[-1] = (here, where, reads)
            stack += [(v, p, None) for v, p in reversed(reads)]
            continue
        op = here.op
        assert op is not None
        elements = [_evaluated(context, v, p) for v, p in reads]
        context.remember(here, where, EMITTERS[type(op)](context, op, elements, where))
        stack.pop()
    return _evaluated(context, value, point)


def _known(context: Context, value: Value, point: Point) -> Element | None:
    if value in context.scalars:
        return Element(context.scalars[value], 1)
    return context.recall(value, point)


def _evaluated(context: Context, value: Value, point: Point) -> Element:
    element = _known(context, value, point)
    assert element is not None
    return element


def index_of(context: Context, value: Value, at: Point | None = None) -> str:
    """An integer as an i64 operand: a scalar, or the element of a tile at a point."""
    operand = evaluate(context, value, Point(()) if at is None else at).operand
    return convert(context.writer, operand, VectorType(value.dtype), VectorType(i64))


def evaluate_lanes(context: Context, value: Value, point: Point) -> str:
    """As `evaluate`, repeated over all lanes of the point."""
    element = evaluate(context, value, point)
    if point.lane is None or element.lanes > 1:
        return element.operand
    return context.writer.splat(VectorType(value.dtype, point.lanes), element.operand)


def hoist(context: Context, values: Sequence[Value], point: Point) -> None:
    """Evaluates now whatever in `values` does not need the UNKNOWN index of `point`."""
    stack = [(value, point) for value in reversed(values)]
    seen: set[Read] = set()
    while stack:
        read = value, where = stack.pop()
        if value in context.scalars or read in seen:
            continue
        seen.add(read)
        if UNKNOWN not in where.indices:
            evaluate(context, value, where)
        elif value not in context.storage and value.op is not None:
            stack += reversed(operand_points(context, value.op, where))


def _from_storage(context: Context, value: Value, point: Point) -> Element:
    storage = context.storage[value]
    operand = read_buffer(context, storage, point)
    lanes = 1 if point.lane is None else point.lanes
    stored, wanted = VectorType(storage.dtype, lanes), VectorType(value.dtype, lanes)
    return Element(convert(context.writer, operand, stored, wanted), lanes)


# Where operands are read


def operand_points(context: Context, op: Op, point: Point) -> list[Read]:
    """The operands that the op evaluates for its element at `point`, each with the point of it that is read."""
    match op:
        case ops.Map():
            return [(v, point if v.shape else Point(())) for v in op.inputs]
        case ops.Cast():
            return [(op.source, point)]
        case ops.Broadcast():
            return [(op.source, _broadcast_point(op, point))]
        case ops.Transpose():
            indices = [""] * len(op.permutation)
            for to, axis in enumerate(op.permutation):
                indices[axis] = point.indices[to]
            lane = None if point.lane is None else op.permutation[point.lane]
            return [(op.source, point.at(tuple(indices), lane))]
        case ops.Reshape():
            return [(op.source, _reshape_point(op, point))]
        case ops.Extract():
            return [(op.source, _extract_point(context, op, point))]
        case ops.Random():
            return [(op.seed, Point(())), (op.offsets, point)]
        case ops.Load():
            return _load_points(op, point)
        case _:
            return []


def _broadcast_point(op: ops.Broadcast, point: Point) -> Point:
    shape = op.source.shape
    skipped = len(op.shape) - len(shape)
    lane = None if point.lane is None else point.lane - skipped
    if lane is not None and (lane < 0 or (shape[lane] == 1 and op.shape[lane + skipped] != 1)):
        lane = None
    indices = [
        "0" if dim == 1 and op.shape[axis + skipped] != 1 else point.indices[axis + skipped]
        for axis, dim in enumerate(shape)
    ]
    return point.at(tuple(indices), lane)


def is_unit_reshape(op: ops.Reshape) -> bool:
    """Whether the reshape only adds or drops axes of size 1."""
    return [d for d in op.source.shape if d != 1] == [d for d in op.shape if d != 1]


def _reshape_point(op: ops.Reshape, point: Point) -> Point:
    assert is_unit_reshape(op), "a reshape that moves elements reads a stored tile"
    kept = [(axis, index) for axis, (dim, index) in enumerate(zip(op.shape, point.indices)) if dim != 1]
    indices: list[str] = []
    lane: int | None = None
    for dim in op.source.shape:
        if dim == 1:
            indices.append("0")
            continue
        axis, index = kept.pop(0)
        if axis == point.lane:
            lane = len(indices)
        indices.append(index)
    return point.at(tuple(indices), lane)


def _extract_point(context: Context, op: ops.Extract, point: Point) -> Point:
    """Where the op reads. An axis without elements has none at any coordinate: whoever loads one has to look."""
    indices: list[str] = []
    if any(isinstance(s, Value) and not known_at_most(1, dim) for s, dim in zip(op.indices, op.source.shape)):
        point = replace(point, checked=True)
    lane: int | None = None
    at = 0
    for subscript in op.indices:
        if isinstance(subscript, Value):
            indices.append(evaluate(context, subscript, Point(())).operand)
            continue
        index = point.indices[at]
        if isinstance(subscript, Slice) and index != UNKNOWN:
            index = o.add(context.writer, index, context.dim(subscript.start))
        if at == point.lane:
            lane = len(indices)
        indices.append(index)
        at += 1
    return point.at(tuple(indices), lane)


def _load_points(op: ops.Load, point: Point) -> list[Read]:
    """Scalars, then int tiles at their part of the point, then `other`."""
    reads: list[Read] = []
    for subscript, where in subscript_points(op.indices, point):
        if isinstance(subscript, Value) and not isinstance(subscript.type, AxisType):
            reads.append((subscript, where))
    if op.other is not None:
        reads.append((op.other, Point(())))
    return reads


def subscript_points(subscripts: Sequence[Index], point: Point) -> list[tuple[Index, Point]]:
    """Each subscript with the part of the selected tile's point that belongs to it (empty for a scalar)."""
    tiles = [s for s in subscripts if isinstance(s, Value) and not isinstance(s.type, AxisType) and s.shape]
    rank = max((len(s.shape) for s in tiles), default=0)
    result: list[tuple[Index, Point]] = []
    at = 0
    gathered_at: int | None = None
    for subscript in subscripts:
        if isinstance(subscript, Value) and not isinstance(subscript.type, AxisType):
            if not subscript.shape:
                result.append((subscript, Point(())))
                continue
            if gathered_at is None:
                gathered_at, at = at, at + rank
            result.append((subscript, _gathered_point(subscript, point, gathered_at, rank)))
            continue
        lane = 0 if point.lane == at else None
        result.append((subscript, point.at((point.indices[at],), lane)))
        at += 1
    return result


def _gathered_point(subscript: Value, point: Point, start: int, rank: int) -> Point:
    skipped = rank - len(subscript.shape)
    indices: list[str] = []
    lane: int | None = None
    for axis, dim in enumerate(subscript.shape):
        outer = start + skipped + axis
        indices.append("0" if dim == 1 else point.indices[outer])
        if outer == point.lane and dim != 1:
            lane = axis
    return point.at(tuple(indices), lane)


# What each op computes

Emitter = Callable[[Context, Any, list[Element], Point], Element]


def _lanes_of(elements: Sequence[Element]) -> int:
    return max((e.lanes for e in elements), default=1)


def _widened(context: Context, values: Sequence[Value], elements: Sequence[Element], lanes: int) -> list[str]:
    writer = context.writer
    return [
        e.operand if e.lanes == lanes else writer.splat(VectorType(v.dtype, lanes), e.operand)
        for v, e in zip(values, elements)
    ]


def _emit_map(context: Context, op: ops.Map, elements: list[Element], point: Point) -> Element:
    lanes = _lanes_of(elements)
    operands = _widened(context, op.inputs, elements, lanes)
    dtype = op.inputs[-1].dtype
    return Element(emit_map(context.writer, op.fn, VectorType(dtype, lanes), operands), lanes)


def _emit_cast(context: Context, op: ops.Cast, elements: list[Element], point: Point) -> Element:
    (element,) = elements
    source, target = VectorType(op.source.dtype, element.lanes), VectorType(op.dtype, element.lanes)
    return Element(convert(context.writer, element.operand, source, target), element.lanes)


def _emit_same(context: Context, op: Op, elements: list[Element], point: Point) -> Element:
    return elements[0]


def _emit_constant(context: Context, op: ops.Constant, elements: list[Element], point: Point) -> Element:
    return Element(o.literal(op.value, op.dtype), 1)


def _emit_size(context: Context, op: ops.Size, elements: list[Element], point: Point) -> Element:
    return Element(context.dim(op.value), 1)


def _count_up(context: Context, point: Point, start: str) -> Element:
    writer = context.writer
    first = o.add(writer, point.indices[0], start)
    if point.lane is None:
        return Element(first, 1)
    vector = splat_index(writer, first, point.lanes)
    return Element(writer.emit(f"add <{point.lanes} x i64> {vector}, {lane_numbers(point.lanes)}"), point.lanes)


def _emit_arange(context: Context, op: ops.Arange, elements: list[Element], point: Point) -> Element:
    return _count_up(context, point, "0")


def _emit_coordinates(context: Context, op: ops.Coordinates, elements: list[Element], point: Point) -> Element:
    return _count_up(context, point, context.axes[op.axis][0])


def _emit_start(context: Context, op: ops.Start, elements: list[Element], point: Point) -> Element:
    return Element(context.axes[op.axis][0], 1)


def _emit_extent(context: Context, op: ops.Extent, elements: list[Element], point: Point) -> Element:
    return Element(context.axes[op.axis][1], 1)


def _emit_random(context: Context, op: ops.Random, elements: list[Element], point: Point) -> Element:
    seed, offsets = elements
    writer = context.writer
    seed_operand = convert(writer, seed.operand, VectorType(op.seed.dtype), VectorType(i64))
    type_ = VectorType(op.offsets.dtype, offsets.lanes)
    wide = convert(writer, offsets.operand, type_, type_.of(i64))
    return Element(emit_random(writer, op.fn, seed_operand, wide, offsets.lanes), offsets.lanes)


def _emit_load(context: Context, op: ops.Load, elements: list[Element], point: Point) -> Element:
    address = Address(context, context.tensors[op.tensor], op.indices, op.in_bounds, point, elements)
    other = elements[-1].operand if op.other is not None else None
    return address.read(other)


class Address:
    """The address of a tensor's element (or lanes) under a subscript, with the condition that it lies inside."""

    def __init__(
        self,
        context: Context,
        tensor: Tensor,
        subscripts: Sequence[Index],
        in_bounds: Sequence[int],
        point: Point,
        elements: Sequence[Element],
    ) -> None:
        """`elements` are those of the scalar and int-tile subscripts, in order."""
        self.context = context
        self.tensor = tensor
        self.lanes = point.lanes if point.lane is not None else 1
        self.condition: str | None = None
        """i1, the part of the bounds check that all lanes share."""
        self.mask = point.mask if point.lane is not None else None
        self.lane_stride = "0"
        self.offsets: str | None = None
        """Vector of offsets of a gather along the lanes, besides the common offset."""
        indices: list[str] = []
        remaining = list(elements)
        for axis, (subscript, where) in enumerate(subscript_points(subscripts, point)):
            known = axis in in_bounds or (subscript, tensor.shape[axis]) in context.inside
            checked = point.checked or not known
            indices.append(self._one_axis(axis, subscript, where, remaining, checked))
        self.offset = dot_product(context.writer, tuple(indices), tensor.strides)

    def _one_axis(self, axis: int, subscript: Index, where: Point, elements: list[Element], checked: bool) -> str:
        """The index of lane 0 on this axis ("0" where the lanes gather); notes checks and strides."""
        writer = self.context.writer
        if isinstance(subscript, Value) and not isinstance(subscript.type, AxisType):
            element = elements.pop(0)
            type_ = VectorType(subscript.dtype, element.lanes)
            operand = convert(writer, element.operand, type_, type_.of(i64))
            if element.lanes > 1:
                self._gather_axis(axis, operand, checked)
                return "0"
            if checked:
                self._check_uniform(axis, operand)
            return operand
        match subscript:
            case Whole():
                index = where.indices[0]
            case Slice():
                index = o.add(writer, where.indices[0], self.context.dim(subscript.start))
            case Value():
                index = o.add(writer, where.indices[0], self.context.axes[subscript][0])
        if where.lane is not None:
            self.lane_stride = self.tensor.strides[axis]
            if checked:
                inside = lanes_inside(writer, index, self.tensor.shape[axis], self.lanes)
                self.mask = both(writer, self.mask, inside, self.lanes)
        elif checked:
            self._check_uniform(axis, index)
        return index

    def _gather_axis(self, axis: int, vector: str, checked: bool) -> None:
        writer, lanes = self.context.writer, self.lanes
        stride = splat_index(writer, self.tensor.strides[axis], lanes)
        scaled = writer.emit(f"mul <{lanes} x i64> {vector}, {stride}")
        if self.offsets is not None:
            scaled = writer.emit(f"add <{lanes} x i64> {self.offsets}, {scaled}")
        self.offsets = scaled
        if checked:
            self._check_lanes(axis, vector)

    def _check_uniform(self, axis: int, index: str) -> None:
        # unsigned, so that a negative index is outside too
        writer = self.context.writer
        inside = writer.emit(f"icmp ult i64 {index}, {self.tensor.shape[axis]}")
        self.condition = both(writer, self.condition, inside, 1)

    def _check_lanes(self, axis: int, vector: str) -> None:
        writer, lanes = self.context.writer, self.lanes
        size = splat_index(writer, self.tensor.shape[axis], lanes)
        inside = writer.emit(f"icmp ult <{lanes} x i64> {vector}, {size}")
        self.mask = both(writer, self.mask, inside, lanes)

    @property
    def place(self) -> Place:
        """Where its lanes are, unless they are gathered. Rows of a few elements, a number of them, are as near."""
        type_ = self.tensor.type
        few = None if type_.unit is None else type_.shape[type_.unit]
        near = (few,) if isinstance(few, int) and 1 < few <= SHORT_ROW else NEAR
        return Place(self.offset, self.lane_stride, near)

    @property
    def varies(self) -> bool:
        """Whether the lanes are at different addresses."""
        return self.lanes > 1 and (self.offsets is not None or self.lane_stride != "0")

    def full_mask(self) -> str | None:
        """The mask over lanes with the common condition in it; an i1 where there is a single element."""
        if not self.varies and self.mask is None:
            return self.condition
        if self.condition is None or self.lanes == 1:
            return self.condition if self.lanes == 1 else self.mask
        return both(
            self.context.writer, self.mask, splat_mask(self.context.writer, self.condition, self.lanes), self.lanes
        )

    def read(self, other: str | None) -> Element:
        """Loads; `other`, a scalar of the tensor's dtype or None for zero, where it is outside."""
        writer, dtype = self.context.writer, self.tensor.type.dtype
        if not self.varies:
            place = Place(self.offset, "1")
            return Element(read(writer, self.tensor.base, place, dtype, 1, self.condition, other), 1)
        if self.offsets is None:
            loaded = read(writer, self.tensor.base, self.place, dtype, self.lanes, self.full_mask(), other)
            return Element(loaded, self.lanes)
        type_ = VectorType(dtype, self.lanes)
        stored = memory_type(type_)
        passed = "zeroinitializer"
        if other is not None:
            passed = writer.splat(stored, to_memory(writer, other, VectorType(dtype)))
        loaded = read_gathered(writer, self.pointers(), stored, self.full_mask(), passed)
        return Element(from_memory(writer, loaded, type_), self.lanes)

    def pointers(self) -> str:
        """The vector of addresses."""
        writer, lanes = self.context.writer, self.lanes
        offsets = splat_index(writer, self.offset, lanes)
        if self.lane_stride != "0":
            stride = splat_index(writer, self.lane_stride, lanes)
            moved = writer.emit(f"mul <{lanes} x i64> {stride}, {lane_numbers(lanes)}")
            offsets = writer.emit(f"add <{lanes} x i64> {offsets}, {moved}")
        if self.offsets is not None:
            offsets = writer.emit(f"add <{lanes} x i64> {offsets}, {self.offsets}")
        return gather_pointers(writer, self.tensor.base, offsets, VectorType(self.tensor.type.dtype, lanes))


EMITTERS: dict[type[Op], Emitter] = {
    ops.Map: _emit_map,
    ops.Cast: _emit_cast,
    ops.Broadcast: _emit_same,
    ops.Transpose: _emit_same,
    ops.Reshape: _emit_same,
    ops.Extract: _emit_same,
    ops.Constant: _emit_constant,
    ops.Size: _emit_size,
    ops.Arange: _emit_arange,
    ops.Coordinates: _emit_coordinates,
    ops.Start: _emit_start,
    ops.Extent: _emit_extent,
    ops.Random: _emit_random,
    ops.Load: _emit_load,
}
"""The ops that are evaluated where they are read. All others store their results."""
