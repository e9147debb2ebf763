"""Buffers in shared memory in the GPU executor: reads, writes, asynchronous copies and barriers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, Union

import numpy as np

from tiledsl.backend_ref.gpu_execution import GpuExecution, GpuExecutionError, poison, static
from tiledsl.backend_ref.gpu_memory import check_vectors, read_tensor
from tiledsl.backend_ref.gpu_registers import check_replicas, is_writer
from tiledsl.backend_ref.scalar_functions import Array
from tiledsl.backend_ref.shared_memory import RaceError, SharedMemory
from tiledsl.ir.core import Op, Value
from tiledsl.ir.dtypes import to_numpy
from tiledsl.ir.gpu_ops import Barrier, Buffer, Commit, Copy, Launch, Read, View, Wait, Write
from tiledsl.ir.layouts import Integers, RegisterLayout, SharedLayout, replicate

ALIGNMENT = 1024
"""Of buffers that have no place yet: what any swizzle asks for."""


def place_buffers(launch: Launch) -> tuple[dict[Op, int], int]:
    """Where each buffer of a launch starts, and how many bytes there are for each block.

    Buffers that are not allocated get places of their own behind those that are.
    """
    places: dict[Op, int] = {}
    size = launch.shared_bytes
    for op in launch.body.walk():
        if not isinstance(op, Buffer):
            continue
        layout, start = shared_layout(op.result), op.offset
        needed = layout.bytes(op.shape, op.dtype)
        if start < 0:
            start = -(-size // ALIGNMENT) * ALIGNMENT
            size = start + needed
        elif start % layout.alignment or start + needed > launch.shared_bytes:
            text = f"{needed} bytes at {start} of {launch.shared_bytes}, to be aligned to {layout.alignment}"
            raise GpuExecutionError(op, text)
        places[op] = start
    return places, size


def shared_layout(value: Value) -> SharedLayout:
    """The layout of a buffer."""
    layout = value.tile.layout
    assert isinstance(layout, SharedLayout)
    return layout


def buffer(execution: GpuExecution, op: Buffer) -> tuple[Array, ...]:
    return (np.asarray(execution.buffers[op], np.int64),)


def view(execution: GpuExecution, op: View) -> tuple[Array, ...]:
    for value in (op.buffer, op.result):
        layout = shared_layout(value)
        if layout.padding or layout.swizzle is not None:
            raise GpuExecutionError(op, f"%{value.name} lies as {layout}: a view is of plain rows")
    return (execution.array(op.buffer),)


AnyTransfer: TypeAlias = Union[Read, Write, Copy]


@dataclass(frozen=True)
class Places:
    """The elements of a buffer that a transfer is about; arrays are [threads, slots]."""

    addresses: Integers
    """In the shared memory of the program, in bytes; anything where the buffer has no such element."""
    inside: Array
    threads: Integers


def resolve_places(execution: GpuExecution, op: AnyTransfer, layout: RegisterLayout) -> Places:
    """Where each thread accesses the buffer."""
    shape = static(op.buffer.shape)
    starts = [execution.integer(offset) for offset in op.offsets]
    threads = np.arange(layout.threads, dtype=np.int64)[:, None]
    inside = np.ones((layout.threads, layout.slots), np.bool_)
    coordinates: list[Integers] = []
    for axis, (start, size) in enumerate(zip(starts, shape)):
        if axis in op.places:
            place = layout.table[op.places.index(axis)] + start
            inside &= (place >= 0) & (place < size)
        elif 0 <= start < size:
            place = np.full(inside.shape, start, np.int64)
        else:
            raise GpuExecutionError(op, f"{start} on axis {axis} of %{op.buffer.name}, which has {size}")
        coordinates.append(place)
    offsets = shared_layout(op.buffer).offset(shape, op.buffer.dtype, coordinates)
    block = threads // execution.threads_per_block
    addresses = np.asarray(offsets + execution.integer(op.buffer) + block * execution.shared.size)
    return Places(addresses, inside, np.broadcast_to(threads, inside.shape))


def all_threads(execution: GpuExecution) -> RegisterLayout:
    """How a scalar lies that all threads hold."""
    return replicate(execution.threads, 0)


def read(execution: GpuExecution, op: Read) -> tuple[Array, ...]:
    layout = op.result.layout if op.shape else all_threads(execution)
    places = resolve_places(execution, op, layout)
    _check_method(execution, op, places, layout)
    dtype = op.result.dtype
    registers = poison(dtype, places.inside.shape)
    addresses, threads = places.addresses[places.inside], places.threads[places.inside]
    try:
        registers[places.inside] = execution.shared.read(op, addresses, threads, to_numpy(dtype))
    except RaceError as error:
        raise GpuExecutionError(op, str(error)) from None
    return (registers if op.shape else registers[0, 0],)


def write(execution: GpuExecution, op: Write) -> tuple[Array, ...]:
    layout = op.value.layout if op.value.shape else all_threads(execution)
    registers = np.broadcast_to(execution.array(op.value), (layout.threads, layout.slots))
    places = resolve_places(execution, op, layout)
    _check_method(execution, op, places, layout)
    if op.value not in execution.first_only:
        check_replicas(op, layout, registers, places.inside)
    where = places.inside & is_writer(layout, execution.threads_per_block)[:, None]
    try:
        execution.shared.write(op, places.addresses[where], places.threads[where], registers[where])
    except RaceError as error:
        raise GpuExecutionError(op, str(error)) from None
    return ()


def copy(execution: GpuExecution, op: Copy) -> tuple[Array, ...]:
    layout = op.layout
    assert isinstance(layout, RegisterLayout)
    width = op.buffer.dtype.bytes
    if width * op.vector not in (4, 8, 16):
        raise GpuExecutionError(op, f"copies {width * op.vector} bytes at a time, not 4, 8 or 16")
    if layout.threads != execution.threads:
        raise GpuExecutionError(op, f"{layout} is of {layout.threads} threads, there are {execution.threads}")
    registers = read_tensor(execution, op, layout, None, op.vector)
    places = resolve_places(execution, op, layout)
    check_vectors(op, places.addresses, places.inside, width, op.vector, f"%{op.buffer.name}")
    where = places.inside & is_writer(layout, execution.threads_per_block)[:, None]
    try:
        execution.shared.begin_copy(op, places.addresses[where], places.threads[where], registers[where])
    except RaceError as error:
        raise GpuExecutionError(op, str(error)) from None
    return ()


def commit(execution: GpuExecution, op: Commit) -> tuple[Array, ...]:
    del op
    execution.shared.commit()
    return ()


def wait(execution: GpuExecution, op: Wait) -> tuple[Array, ...]:
    execution.shared.wait(op.groups)
    return ()


def barrier(execution: GpuExecution, op: Barrier) -> tuple[Array, ...]:
    del op  # a block's own memory is all that is modelled, so that both scopes do the same
    execution.shared.barrier()
    return ()


# Instructions that move 8 x 8 matrices


def _check_method(execution: GpuExecution, op: Read | Write, places: Places, layout: RegisterLayout) -> None:
    width = op.buffer.dtype.bytes
    if op.method == "plain":
        if op.vector > 1:
            check_vectors(op, places.addresses, places.inside, width, op.vector, f"%{op.buffer.name}")
        return
    transposed = op.method == "matrix-transposed"
    per_register = 4 // width
    if width > 4 or (transposed and width != 2):
        raise GpuExecutionError(op, f"{op.buffer.dtype} does not go by {op.method}")
    if layout.threads % 32 or layout.slots % per_register:
        raise GpuExecutionError(op, f"{layout} is no multiple of a matrix in each warp")
    # [warps, lanes, matrices, elements of a register]
    shape = (layout.threads // 32, 32, layout.slots // per_register, per_register)
    addresses, inside = np.reshape(places.addresses, shape), np.reshape(places.inside, shape)
    wanted, first = (_transposed_rows if transposed else _rows)(addresses, width)
    _fail_matrix(op, inside & (addresses != wanted), "is not where the instruction puts it")
    _fail_matrix(op, inside & (first % 16 != 0), "is in a row that is not aligned to 16 bytes")


def _rows(addresses: Integers, width: int) -> tuple[Integers, Integers]:
    """Where the instruction takes each element from, and where its row starts.

    Lane l holds word l % 4 of row l // 4.
    """
    lanes = np.arange(32)
    first = addresses[:, lanes // 4 * 4, :, :1]
    words: Integers = np.reshape(lanes % 4 * 4, (32, 1, 1)) + width * np.arange(addresses.shape[-1], dtype=np.int64)
    return first + words, np.broadcast_to(first, addresses.shape)


def _transposed_rows(addresses: Integers, width: int) -> tuple[Integers, Integers]:
    """The same, transposed: lane l holds column l // 4 of rows 2 * (l % 4) and the one below."""
    lanes = np.arange(32)
    first = addresses[:, lanes % 4]
    return first + width * (lanes // 4)[:, None, None], first


def _fail_matrix(op: Read | Write, wrong: Array, reason: str) -> None:
    if wrong.any():
        warp, lane, matrix, element = (int(i) for i in np.argwhere(wrong)[0])
        text = f"element {element} of matrix {matrix} in lane {lane} of warp {warp} {reason}"
        raise GpuExecutionError(op, text)


def new_memory(launch: Launch, size: int) -> SharedMemory:
    """What a program starts with."""
    return SharedMemory(launch.cluster, size)
