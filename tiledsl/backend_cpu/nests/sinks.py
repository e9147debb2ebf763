"""What loop nests are made for: stores, folds, tiles to be kept. A sink reads expressions and consumes their elements.

A nest calls a sink in three places: `begin` where the kept indices are fixed and the folded loops have not begun,
`visit` for every element or vector, and `end` behind the folded loops. Vectors are visited in `copies` interleaved
streams, which gives folds independent accumulators.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from tiledsl.backend_cpu.calls.frame import PROGRAM_UNIT
from tiledsl.backend_cpu.functions.convert import convert, memory_type, to_memory
from tiledsl.backend_cpu.functions.vector_math import emit_map
from tiledsl.backend_cpu.llvm import operands as o
from tiledsl.backend_cpu.llvm.writer import VectorType
from tiledsl.backend_cpu.values.access import (
    all_lanes,
    mask_type,
    read,
    write,
    write_buffer,
    write_scattered,
)
from tiledsl.backend_cpu.values.context import Context
from tiledsl.backend_cpu.values.evaluate import Address, evaluate, evaluate_lanes, subscript_points
from tiledsl.backend_cpu.values.storage import Place, Point, Storage
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.types import AxisType, Shape
from tiledsl.passes.cpu.grid_work import updated_row


class Sink(ABC):
    """One consumer of a nest over `domain`; `folded` are the axes that it reduces, `reads` what it evaluates."""

    vectorises = True
    """False: one element at a time, in order."""
    cost = 0
    """What a visit costs beside evaluating what it reads, in vector operations."""

    def __init__(
        self, domain: Shape, folded: tuple[int, ...], reads: Sequence[Value], reader: Op | None = None
    ) -> None:
        """`reader` is the op that the sink is for; a tile that is kept is for whoever comes."""
        self.reader = reader
        self.domain = domain
        self.folded = folded
        self.reads = tuple(reads)

    @property
    def produces(self) -> tuple[Value, ...]:
        """The values that exist only behind the nest."""
        return ()

    @property
    def hoisted(self) -> tuple[Value, ...]:
        """Of what it reads, what can be evaluated in front of its visits where it does not move with a loop."""
        return self.reads

    @property
    def passes(self) -> tuple[Value, ...]:
        """The values whose element at hand other sinks may read."""
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

    def __init__(self, value: Value, targets: Sequence[Storage], reader: Op | None = None) -> None:
        super().__init__(value.shape, (), (value,), reader)
        self.value = value
        self.targets = tuple(targets)

    def visit(self, context: Context, point: Point, copy: int) -> None:
        operand = evaluate_lanes(context, self.value, point)
        lanes = point.lanes if point.lane is not None else 1
        source = VectorType(self.value.dtype, lanes)
        for target in self.targets:
            stored = convert(context.writer, operand, source, source.of(target.dtype))
            write_buffer(context, target, point, stored)


class KeepForLater(Keep):
    """Stores a lazy tile into scratch if it has readers in other nests, which is known when this one is complete."""

    def __init__(self, value: Value) -> None:
        super().__init__(value, (), value.op)

    @property
    def passes(self) -> tuple[Value, ...]:
        return (self.value,)


class StoreTile(Sink):
    """Writes a tile to a tensor."""

    def __init__(self, op: ops.Store) -> None:
        gathered = [s for s in op.indices if isinstance(s, Value) and not isinstance(s.type, AxisType)]
        super().__init__(op.value.shape, (), (op.value, *gathered), op)
        self.op = op

    def visit(self, context: Context, point: Point, copy: int) -> None:
        store_tile(context, self.op, point, evaluate_lanes(context, self.op.value, point))


def store_tile(context: Context, op: ops.Store, point: Point, value: str) -> None:
    """Writes the element or vector of a tile at a point to its tensor."""
    address = address_of(context, op, point)
    writer, dtype = context.writer, op.value.dtype
    if address.lanes == 1 or (address.offsets is None and address.varies):
        place = Place(address.offset, "1") if address.lanes == 1 else address.place
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
    """Combines a tile into a tensor: element by element, unless just one thread does and rows are contiguous."""

    def __init__(self, op: ops.Atomic, old: Storage | None, *, alone: bool = False) -> None:
        gathered = [s for s in op.indices if isinstance(s, Value) and not isinstance(s.type, AxisType)]
        super().__init__(op.value.shape, (), (op.value, *gathered), op)
        self.op = op
        self.old = old
        self.alone = alone
        """Whether the code is for one thread, which nobody can come between."""
        self.vectorises = alone and updated_row(op) is not None

    @property
    def produces(self) -> tuple[Value, ...]:
        return (self.op.result,)

    def visit(self, context: Context, point: Point, copy: int) -> None:
        if point.lane is not None:
            self._visit_lanes(context, point)
            return
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
        update = self._update if self.alone else self._exchange
        writer.line(f"store {type_} {update(context, pointer, value)}, ptr {slot}")
        writer.branch(done)
        writer.start(done)
        old = writer.emit(f"load {type_}, ptr {slot}")
        if self.old is not None:
            write_buffer(context, self.old, point, old)
        elif not self.op.result.shape:
            context.scalars[self.op.result] = old

    def _visit_lanes(self, context: Context, point: Point) -> None:
        """Neighbours of one row, all of which are different elements."""
        writer, dtype, lanes = context.writer, self.op.value.dtype, point.lanes
        value = evaluate_lanes(context, self.op.value, point)
        address = address_of(context, self.op, point)
        slot, done = "", ""
        if self.old is not None:
            slot = writer.alloca(str(VectorType(dtype, lanes)))
            writer.line(f"store {VectorType(dtype, lanes)} zeroinitializer, ptr {slot}")
        if address.condition is not None:  # that of the row
            inside, done = writer.new_label("inside"), writer.new_label("done")
            writer.branch_if(address.condition, inside, done, likely=True)
            writer.start(inside)
        base, place = address.tensor.base, address.place
        old = read(writer, base, place, dtype, lanes, address.mask)
        write(writer, base, place, dtype, lanes, self._combined(context, old, value, lanes), address.mask)
        if slot:
            writer.line(f"store {VectorType(dtype, lanes)} {old}, ptr {slot}")
        if done:
            writer.branch(done)
            writer.start(done)
        if self.old is not None:
            write_buffer(context, self.old, point, writer.emit(f"load {VectorType(dtype, lanes)}, ptr {slot}"))

    def _combined(self, context: Context, old: str, value: str, lanes: int) -> str:
        functions, fn = {"max": "maximum", "min": "minimum"}, self.op.fn
        type_ = VectorType(self.op.value.dtype, lanes)
        return value if fn == "exchange" else emit_map(context.writer, functions.get(fn, fn), type_, [old, value])

    def _update(self, context: Context, pointer: str, value: str) -> str:
        """What one thread does by itself. Gives the old value."""
        writer, place, dtype = context.writer, Place("0", "1"), self.op.value.dtype
        old = read(writer, pointer, place, dtype, 1)
        write(writer, pointer, place, dtype, 1, self._combined(context, old, value, 1))
        return old

    def _exchange(self, context: Context, pointer: str, value: str) -> str:
        """A compare-and-swap loop, which serves every dtype and function. Gives the old value."""
        writer, dtype = context.writer, self.op.value.dtype
        word = f"i{dtype.bytes * 8}"
        again, done = writer.new_label("again"), writer.new_label("swapped")
        seen = writer.alloca(word)
        first = writer.emit(f"load atomic {word}, ptr {pointer} monotonic, align {dtype.bytes}")
        writer.line(f"store {word} {first}, ptr {seen}")
        writer.branch(again)
        writer.start(again)
        before = writer.emit(f"load {word}, ptr {seen}")
        old = self._from_word(context, before)
        new = self._combined(context, old, value, 1)
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


class AssertTile(Sink):
    """Notes the number of an assertion in the first word of the state where an element is false."""

    def __init__(self, op: ops.Assert, number: int) -> None:
        super().__init__(op.condition.shape, (), (op.condition,), op)
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
