"""Buffers in shared memory in the GPU executor: reads, writes, asynchronous copies and barriers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, Union

import numpy as np

from tiledsl.backend_ref.gpu_execution import GpuExecution, GpuExecutionError, Transfer, poison, static
from tiledsl.backend_ref.gpu_memory import check_vectors, read_tensor
from tiledsl.backend_ref.gpu_registers import check_replicas, is_writer
from tiledsl.backend_ref.scalar_functions import Array
from tiledsl.backend_ref.shared_memory import Places, RaceError, SharedMemory
from tiledsl.ir.core import Op, Value
from tiledsl.ir.dtypes import to_numpy
from tiledsl.ir.gpu_ops import Barrier, Buffer, Commit, Copy, Launch, Read, View, Wait, Write, layout_in_buffer
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


MOST_TRANSFERS = 64
"""That are remembered."""
AnyTransfer: TypeAlias = Union[Read, Write, Copy]


def transfer_of(execution: GpuExecution, op: AnyTransfer, layout: RegisterLayout) -> Transfer:
    """Where each thread accesses the buffer. Checks that the instructions can do it."""
    starts = [execution.integer(offset) for offset in op.offsets]
    key = (op, (execution.integer(op.buffer), *starts))
    found = execution.transfers.get(key)
    if found is None:
        if len(execution.transfers) >= MOST_TRANSFERS:
            execution.transfers.clear()
        found = execution.transfers[key] = _resolve(execution, op, layout, starts)
    return found


def _resolve(execution: GpuExecution, op: AnyTransfer, layout: RegisterLayout, starts: Sequence[int]) -> Transfer:
    shape = static(op.buffer.shape)
    threads = np.arange(layout.threads, dtype=np.int64)[:, None]
    inside = np.ones((layout.threads, layout.slots), np.bool_)
    coordinates: list[Integers] = []
    cluster = execution.threads // execution.threads_per_block
    part = layout_in_buffer(layout, op.places, op.buffer.tile, cluster)
    for axis, (start, size) in enumerate(zip(starts, shape)):
        if axis in op.places:
            place = part.table[op.places.index(axis)] + start
            inside &= (place >= 0) & (place < size)
        elif 0 <= start < size:
            place = np.full(inside.shape, start, np.int64)
        else:
            raise GpuExecutionError(op, f"{start} on axis {axis} of %{op.buffer.name}, which has {size}")
        coordinates.append(place)
    offsets = shared_layout(op.buffer).offset(shape, op.buffer.dtype, coordinates)
    block = threads // execution.threads_per_block
    addresses = np.asarray(offsets + execution.integer(op.buffer) + block * execution.shared.size)
    if isinstance(op, Copy) or op.method == "plain":
        check_vectors(op, addresses, inside, op.buffer.dtype.bytes, op.vector, f"%{op.buffer.name}")
    else:
        _check_matrices(op, addresses, inside)
    moved = inside
    if not isinstance(op, Read):
        moved = inside & is_writer(layout, execution.threads_per_block)[:, None]
    by = np.broadcast_to(threads, moved.shape)[moved]
    return Transfer(inside, moved, Places.of(addresses[moved], by, op.buffer.dtype.bytes))


def all_threads(execution: GpuExecution) -> RegisterLayout:
    """How a scalar lies that all threads hold."""
    return replicate(execution.threads, 0)


def read(execution: GpuExecution, op: Read) -> tuple[Array, ...]:
    transfer = transfer_of(execution, op, op.result.layout if op.shape else all_threads(execution))
    dtype = op.result.dtype
    registers = poison(dtype, transfer.inside.shape)
    try:
        registers[transfer.moved] = execution.shared.read(op, transfer.places, to_numpy(dtype))
    except RaceError as error:
        raise GpuExecutionError(op, str(error)) from None
    return (registers if op.shape else registers[0, 0],)


def write(execution: GpuExecution, op: Write) -> tuple[Array, ...]:
    layout = op.value.layout if op.value.shape else all_threads(execution)
    registers = np.broadcast_to(execution.array(op.value), (layout.threads, layout.slots))
    transfer = transfer_of(execution, op, layout)
    if op.value not in execution.first_only:
        check_replicas(op, layout, registers, transfer.inside)
    try:
        execution.shared.write(op, transfer.places, registers[transfer.moved])
    except RaceError as error:
        raise GpuExecutionError(op, str(error)) from None
    return ()


def copy(execution: GpuExecution, op: Copy) -> tuple[Array, ...]:
    layout = op.layout
    assert isinstance(layout, RegisterLayout)
    size = op.buffer.dtype.bytes * op.vector
    if size not in (4, 8, 16):
        raise GpuExecutionError(op, f"copies {size} bytes at a time, not 4, 8 or 16")
    if layout.threads != execution.threads:
        raise GpuExecutionError(op, f"{layout} is of {layout.threads} threads, there are {execution.threads}")
    registers = read_tensor(execution, op, layout, None, op.vector)
    transfer = transfer_of(execution, op, layout)
    try:
        execution.shared.begin_copy(op, transfer.places, registers[transfer.moved])
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


def _check_matrices(op: Read | Write, addresses: Integers, inside: Array) -> None:
    width = op.buffer.dtype.bytes
    transposed = op.method == "matrix-transposed"
    per_register = 4 // width
    if width > 4 or (transposed and width != 2):
        raise GpuExecutionError(op, f"{op.buffer.dtype} does not go by {op.method}")
    threads, slots = addresses.shape
    if threads % 32 or slots % per_register:
        raise GpuExecutionError(op, f"{slots} slots of {threads} threads are no whole matrices for each warp")
    # [warps, lanes, matrices, elements of a register]
    shape = (threads // 32, 32, slots // per_register, per_register)
    addresses, inside = np.reshape(addresses, shape), np.reshape(inside, shape)
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
