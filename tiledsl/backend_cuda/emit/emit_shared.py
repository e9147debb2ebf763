"""Shared memory: buffers, reads and writes of registers, asynchronous copies, barriers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tiledsl.backend_cuda.emit.element_texts import slot_table
from tiledsl.backend_cuda.emit.emit_access import (
    BOOLS_OF_WORD,
    Access,
    first_slot,
    joined,
    pieces_of_access,
    plus,
    raw_bits,
    set_bits,
    take_bools,
    words_of_bools,
)
from tiledsl.backend_cuda.emit.emit_elementwise import as_registers
from tiledsl.backend_cuda.frame.kernel_frame import KernelFrame
from tiledsl.backend_cuda.frame.names import of_program
from tiledsl.backend_cuda.frame.shared_address import SharedAddresses, ThreadPart, is_sum_of_digits
from tiledsl.backend_cuda.functions import lane_functions, matrix_functions, shared_functions
from tiledsl.backend_cuda.functions.atomics import atomic
from tiledsl.backend_cuda.functions.casts import bits, cast, from_bits
from tiledsl.backend_cuda.functions.index_text import operand_text, sum_text, table_text
from tiledsl.backend_cuda.functions.matrix_functions import wait_function
from tiledsl.backend_cuda.functions.memory_functions import vector_name
from tiledsl.backend_cuda.functions.scalars import c_type
from tiledsl.backend_cuda.functions.storage import Registers, Scalar, SharedMemory, Slot, element_text
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import bool_, i64
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.gpu.access_rules import layout_in_buffer
from tiledsl.ir.layouts.buffer_layout import SharedLayout
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.ir.types import TensorType
from tiledsl.passes.analysis.sizes import constant_of

WIDEST, LINE_BYTES = 16, 128
"""What a copy moves at most, and what memory brings to L2 if it is asked to."""
DEFINED_BY = (lane_functions, matrix_functions, shared_functions)
"""The modules whose device functions are called."""


def emit_buffer(frame: KernelFrame, op: gpu.Buffer) -> None:
    assert op.offset >= 0, "shared memory is not allocated"
    assert isinstance(op.layout, SharedLayout)
    frame.values[op.result] = SharedMemory(frame.shared_memory, op.offset, op.shape, op.dtype, op.layout)


def emit_view(frame: KernelFrame, op: gpu.View) -> None:
    whole = frame.shared(op.buffer)
    assert isinstance(op.layout, SharedLayout)
    frame.values[op.result] = SharedMemory(whole.memory, whole.offset, op.shape, whole.dtype, op.layout)


def emit_reuse(frame: KernelFrame, op: gpu.Reuse) -> None:
    whole = frame.shared(op.buffer)
    assert isinstance(op.layout, SharedLayout)
    frame.values[op.result] = SharedMemory(whole.memory, whole.offset, op.shape, op.dtype, op.layout)


def emit_barrier(frame: KernelFrame, op: gpu.Barrier) -> None:
    if op.scope == "cluster":
        frame.cluster_barriers = True
        frame.line(f"{frame.use('cluster_barrier')}();")
    else:
        frame.line("__syncthreads();")


def emit_commit(frame: KernelFrame, op: gpu.Commit) -> None:
    frame.line(f"{frame.use('commit_copies')}();")


def emit_wait(frame: KernelFrame, op: gpu.Wait) -> None:
    frame.line(f"{frame.use(wait_function(op.groups))}();")


# Where elements are


def _addresses(
    frame: KernelFrame, op: gpu.Read | gpu.Write | gpu.Copy, layout: RegisterLayout, step: int
) -> SharedAddresses:
    threads = [
        ThreadPart(frame.thread_coordinate(layout, axis), np.asarray(_thread_values(layout, axis)))
        for axis in range(layout.rank)
    ]
    accesses = [slot_table(layout, axis, step) for axis in range(layout.rank)]
    return SharedAddresses(frame, frame.shared(op.buffer), op.offsets, op.places, threads, accesses)


def _thread_values(layout: RegisterLayout, axis: int) -> list[int]:
    threads = np.arange(layout.threads, dtype=np.int64)
    return [int(v) for v in np.broadcast_to(layout.thread_coordinates(threads)[axis], threads.shape)]


class _Room:
    """Which elements of a tile the buffer has: a test for each axis where some may be outside."""

    def __init__(
        self, frame: KernelFrame, op: gpu.Read | gpu.Write | gpu.Copy, layout: RegisterLayout, step: int
    ) -> None:
        self.frame = frame
        self.tests: list[tuple[str, str, tuple[int, ...]]] = []
        shape = frame.shared(op.buffer).shape
        for axis, place in enumerate(op.places):
            start = constant_of(op.offsets[place])
            if start is not None and start >= 0 and start + layout.shape[axis] <= shape[place]:
                continue
            table = slot_table(layout, axis, step)
            left = sum_text(str(shape[place]), f"-{frame.scalar(op.offsets[place])}" if start != 0 else "0")
            limit = frame.once(("room", left), lambda left=left: frame.define("long long", "room", left))
            self.tests.append((frame.thread_coordinate(layout, axis), limit, table))

    def tables(self) -> list[Sequence[int]]:
        return [table for _, _, table in self.tests]

    def text(self, number: str) -> str:
        return " && ".join(
            f"{sum_text(at, table_text(table, number))} < {limit}" for at, limit, table in self.tests
        )  # fmt: skip


def numbers(frame: KernelFrame, count: int, tables: Sequence[Sequence[int]]) -> Iterator[str]:
    """The numbers of the accesses of an op, for a text each: as a loop variable where the tables are arithmetic on
    it."""
    if is_sum_of_digits(tables):
        with frame.unrolled("v", count) as number:
            yield number
    else:
        yield from map(str, range(count))


# Plain reads and writes


def emit_read(frame: KernelFrame, op: gpu.Read) -> None:
    if not op.shape:
        frame.values[op.result] = _read_scalar(frame, op)
    elif op.method == "plain":
        _read_plain(frame, op)
    else:
        _move_matrices(frame, op, op.result, frame.new_registers(_name(op), op.result.dtype, _slots(op)))


def _name(op: gpu.Read) -> str:
    return of_program(op.result.name or op.buffer.name, "" if op.result.name else "tile")


def _slots(op: gpu.Read) -> int:
    return op.result.layout.slots


def _read_scalar(frame: KernelFrame, op: gpu.Read) -> Scalar:
    buffer = frame.shared(op.buffer)
    dtype = op.result.dtype
    addresses = SharedAddresses(frame, buffer, op.offsets, (), (), ())
    pointer = f"{buffer.memory} + {addresses.text(frame, '0')}"
    name = _name(op)
    if dtype.bits >= 32:
        type_ = c_type(dtype)
        return Scalar(frame.define(type_, name, f"*reinterpret_cast<const {type_}*>({pointer})"), dtype)
    word = f"{frame.use(f'read_shared_bits{dtype.bits}')}({pointer})"
    return Scalar(frame.define(c_type(dtype), name, from_bits(word, dtype, frame.preamble)), dtype)


def _read_plain(frame: KernelFrame, op: gpu.Read) -> None:
    layout, dtype = op.result.layout, op.result.dtype
    buffer = frame.shared(op.buffer)
    part = layout_in_buffer(layout, op.places, op.buffer.tile, frame.cluster)
    addresses = _addresses(frame, op, part, op.vector)
    room = _Room(frame, op, part, op.vector)
    target = frame.new_registers(_name(op), dtype, layout.slots)
    frame.values[op.result] = target
    for number in numbers(frame, layout.slots // op.vector, [*addresses.tables(), *room.tables()]):
        pointer = f"{buffer.memory} + {addresses.text(frame, number)}"
        slot = first_slot(number, op.vector)
        inside = room.text(number)
        if inside:
            with frame.block(f"if ({inside})"):
                _read_vector(frame, target, slot, op.vector, pointer)
        else:
            _read_vector(frame, target, slot, op.vector, pointer)


def _read_vector(frame: KernelFrame, target: Registers, slot: str, count: int, pointer: str) -> None:
    dtype, per = target.dtype, target.per_word
    if dtype == bool_ and count % BOOLS_OF_WORD == 0:
        _read_bools(frame, target, slot, count, pointer)
        return
    if dtype == bool_ or count * dtype.bits < 32:
        for i in range(count):
            word = f"{frame.use(f'read_shared_bits{dtype.bits}')}({plus(pointer, i * dtype.bytes)})"
            if per > 1:
                set_bits(frame, target, plus(slot, i), word)
            else:
                frame.line(f"{target.name}[{plus(slot, i)}] = {word} != 0;")
        return
    for offset in pieces_of_access(count, dtype):
        words = min(count - offset, 16 // dtype.bytes) // per
        name = frame.use(f"read_shared_{vector_name(target.element_type, words)}")
        frame.line(f"{name}({target.pointer(plus(slot, offset))}, {plus(pointer, offset * dtype.bytes)});")


def _read_bools(frame: KernelFrame, target: Registers, slot: str, count: int, pointer: str) -> None:
    name = frame.names.fresh(of_program(target.name, "bits"))
    frame.line(f"unsigned {name}[{count // BOOLS_OF_WORD}];")
    function = frame.use(f"read_shared_{vector_name('unsigned', count // BOOLS_OF_WORD)}")
    frame.line(f"{function}({name}, {pointer});")
    take_bools(frame, target, slot, count, name)


def emit_write(frame: KernelFrame, op: gpu.Write) -> None:
    if not op.value.shape:
        _write_scalar(frame, op)
        return
    source = as_registers(frame, op.value)
    if op.method != "plain":
        _move_matrices(frame, op, op.value, source)
        return
    layout = op.value.layout
    memory = _memory_of_block(frame, op)
    part = layout_in_buffer(layout, op.places, op.buffer.tile, frame.cluster)
    addresses = _addresses(frame, op, part, op.vector)
    room = _Room(frame, op, part, op.vector)
    first = frame.is_first(layout, of_block=True)
    for number in numbers(frame, layout.slots // op.vector, [*addresses.tables(), *room.tables()]):
        pointer = f"{memory} + {addresses.text(frame, number)}"
        slot = first_slot(number, op.vector)
        inside = joined(first, room.text(number))
        if inside:
            with frame.block(f"if ({inside})"):
                _write_vector(frame, source, slot, op.vector, pointer)
        else:
            _write_vector(frame, source, slot, op.vector, pointer)


def _memory_of_block(frame: KernelFrame, op: gpu.Write) -> str:
    """The shared memory that is written to: this block's, or that of another one of the cluster."""
    own = frame.shared(op.buffer).memory
    if op.block < 0 or frame.cluster == 1:
        return own
    return frame.once_here("unsigned char*", "peer", f"{frame.use('memory_of_block')}({own}, {op.block})")


def _write_scalar(frame: KernelFrame, op: gpu.Write) -> None:
    buffer, dtype = frame.shared(op.buffer), op.value.dtype
    addresses = SharedAddresses(frame, buffer, op.offsets, (), (), ())
    pointer = f"{buffer.memory} + {addresses.text(frame, '0')}"
    value = frame.scalar(op.value)
    with frame.block(f"if ({frame.local_thread} == 0)"):
        if dtype.bits >= 32:
            frame.line(f"*reinterpret_cast<{c_type(dtype)}*>({pointer}) = {value};")
        else:
            word = bits(value, dtype, frame.preamble)
            frame.line(f"{frame.use(f'write_shared_bits{dtype.bits}')}({pointer}, {word});")


def _write_vector(frame: KernelFrame, source: Registers, slot: str, count: int, pointer: str) -> None:
    dtype, per = source.dtype, source.per_word
    if dtype == bool_ and count % BOOLS_OF_WORD == 0:
        words = words_of_bools(frame, source, slot, count)
        function = frame.use(f"write_shared_{vector_name('unsigned', count // BOOLS_OF_WORD)}")
        frame.line(f"{function}({pointer}, {words});")
        return
    if dtype == bool_ or count * dtype.bits < 32:
        for i in range(count):
            if per > 1:
                word = raw_bits(source, plus(slot, i))
            else:
                word = bits(element_text(source, Slot(plus(slot, i)), frame.preamble), dtype, frame.preamble)
            name = frame.use(f"write_shared_bits{dtype.bits}")
            frame.line(f"{name}({plus(pointer, i * dtype.bytes)}, {word});")
        return
    for offset in pieces_of_access(count, dtype):
        words = min(count - offset, 16 // dtype.bytes) // per
        name = frame.use(f"write_shared_{vector_name(source.element_type, words)}")
        frame.line(f"{name}({plus(pointer, offset * dtype.bytes)}, {source.pointer(plus(slot, offset))});")


def emit_combine(frame: KernelFrame, op: gpu.Combine) -> None:
    dtype, layout = op.value.dtype, op.value.layout
    (size,) = op.buffer.shape
    first = frame.is_first(layout, of_block=True)
    source, place = frame.storage(op.value), frame.storage(op.index)
    table = f"reinterpret_cast<{c_type(dtype)}*>({frame.shared(op.buffer).text()})"
    with frame.unrolled("s", layout.slots) as slot:
        at = cast(element_text(place, Slot(slot), frame.preamble), op.index.dtype, i64, frame.preamble)
        inside = joined(first, f"{frame.use('is_within')}({at}, {size})")
        value = element_text(source, Slot(slot), frame.preamble)
        call = atomic(op.fn, dtype, f"({table} + {operand_text(at)})", value, frame.preamble)
        frame.line(f"if ({inside}) {call};")


# Matrices


def _move_matrices(frame: KernelFrame, op: gpu.Read | gpu.Write, value: Value, registers: Registers) -> None:
    """ldmatrix or stmatrix: lane 8i + r gives the address of row r of matrix i, and word i of each lane is its part of
    matrix i."""
    layout = value.layout
    transposed = op.method == "matrix-transposed"
    per = 32 // value.dtype.bits
    words = layout.slots // per
    count = _together(layout, words, per)
    verb, first = ("read", "") if isinstance(op, gpu.Read) else ("write", frame.is_first(layout, of_block=True))
    part = layout_in_buffer(layout, op.places, op.buffer.tile, frame.cluster)
    addresses = _row_addresses(frame, op, part, per, count, transposed)
    if isinstance(op, gpu.Read):
        frame.values[op.result] = registers
    name = frame.use(f"{verb}_matrices_{count}{'_transposed' if transposed else ''}")
    floats = registers.element_type != "unsigned"
    for number in numbers(frame, words // count, addresses.tables()):
        row = f"{frame.shared_base} + {addresses.text(frame, number)}"
        at = registers.pointer(_scaled(number, count * per))
        if floats:
            at = f"reinterpret_cast<{'const ' if verb == 'write' else ''}unsigned*>({at})"
        call = f"{name}({at}, {row});" if verb == "read" else f"{name}({row}, {at});"
        # replicas are whole warps here: an instruction is for all lanes of one
        frame.line(f"if ({first}) {call}" if first else call)


def _scaled(number: str, factor: int) -> str:
    return str(int(number) * factor) if number.isdigit() else f"{factor} * {number}"


def _together(layout: RegisterLayout, words: int, per: int) -> int:
    """How many matrices one instruction moves: such that their rows are at the same distances in all groups."""
    for count in (4, 2):
        if words % count:
            continue
        tables = [slot_table(layout, axis, per) for axis in range(layout.rank)]
        if all(t[i] - t[i - i % count] == t[i % count] - t[0] for t in tables for i in range(words)):
            return count
    return 1


def _row_addresses(
    frame: KernelFrame, op: gpu.Read | gpu.Write, layout: RegisterLayout, per: int, count: int, transposed: bool
) -> SharedAddresses:
    """The addresses that lanes give: those of elements of other lanes and words, so that the thread's part of a
    coordinate is computed for another thread, and has a part for the matrix and, transposed, for the row."""
    lane = f"{frame.thread} % 32"
    of_lane = f"({lane} % 8 / 2)" if transposed else f"({lane} % 8 * 4)"
    other = frame.once_in_head("unsigned", "row_thread", f"{frame.thread} - {lane} + {of_lane}")
    threads = np.arange(layout.threads, dtype=np.int64)
    lanes = threads % 32
    mapped = threads - lanes + (lanes % 8 // 2 if transposed else lanes % 8 * 4)
    parts: list[ThreadPart] = []
    accesses: list[Sequence[int]] = []
    for axis in range(layout.rank):
        table = slot_table(layout, axis, per)
        of_matrix = [table[i] - table[0] for i in range(count)]
        values = np.broadcast_to(layout.thread_coordinates(mapped)[axis], threads.shape)
        values = values + np.asarray(of_matrix)[lanes // 8 % count]
        text = sum_text(frame.coordinate_of(layout, axis, other), _picked(of_matrix, f"({lane} / 8 % {count})"))
        if transposed:
            below = int(layout.slot_coordinates(1)[axis] - layout.slot_coordinates(0)[axis])
            values = values + lanes % 2 * below
            text = sum_text(text, "0" if below == 0 else f"{lane} % 2 * {below}")
        parts.append(ThreadPart(text, values))
        accesses.append(table[::count])
    return SharedAddresses(frame, frame.shared(op.buffer), op.offsets, op.places, parts, accesses)


def _picked(table: Sequence[int], text: str) -> str:
    return table_text(table, text) if any(table) else "0"


# Asynchronous copies


def _run_bytes(op: gpu.Copy) -> int:
    """How many bytes of a tile lie side by side in memory."""
    assert isinstance(op.tensor.type, TensorType)
    unit = op.tensor.type.unit
    axis = -1 if unit is None else op.axes[unit]
    return op.shape[axis] * op.buffer.dtype.bytes if axis >= 0 else 0


def emit_copy(frame: KernelFrame, op: gpu.Copy) -> None:
    layout, dtype = op.layout, op.buffer.dtype
    assert isinstance(layout, RegisterLayout)
    source = Access(frame, op, layout, op.vector)
    part = layout_in_buffer(layout, op.places, op.buffer.tile, frame.cluster)
    addresses = _addresses(frame, op, part, op.vector)
    room = _Room(frame, op, part, op.vector)
    first = frame.is_first(layout, of_block=True)
    width = op.vector * dtype.bytes
    tables = [*addresses.tables(), *room.tables()]
    for number in numbers(frame, layout.slots // op.vector, tables):
        slot = first_slot(number, op.vector)
        inside = source.inside(number, slot)
        to = f"{frame.shared_base} + {addresses.text(frame, number)}"
        arguments = f"{to}, {source.address(number, slot)}"
        kind = f"{width}_alone" if width == WIDEST and _run_bytes(op) < LINE_BYTES else str(width)
        name = frame.use(f"copy_{kind}_if" if inside else f"copy_{kind}")
        call = f"{name}({arguments}, {inside});" if inside else f"{name}({arguments});"
        condition = joined(first, room.text(number))
        frame.line(f"if ({condition}) {call}" if condition else call)
