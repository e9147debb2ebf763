"""Tiles in registers: which thread holds what, and the ops that move or change it without memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np

from tiledsl.backend_ref.gpu_execution import GpuExecution, GpuExecutionError, static
from tiledsl.backend_ref.scalar_functions import Array, apply, cast
from tiledsl.ir import gpu_ops, tile_ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.layouts import Integers, RegisterLayout

WARP = 32

# Whole tiles


@lru_cache(maxsize=1024)
def elements_of(layout: RegisterLayout) -> Integers:
    """The row-major number of the element that each thread holds in each slot: [threads, slots]."""
    numbers = np.zeros((layout.threads, layout.slots), np.int64)
    for size, coordinates in zip(layout.shape, layout.table):
        numbers = numbers * size + coordinates
    return numbers


@lru_cache(maxsize=1024)
def holders_of(layout: RegisterLayout) -> Integers:
    """Where the first copy of each element stands in the flat array of registers; of the tile's shape."""
    coordinates = np.indices(layout.shape, np.int64)
    thread, slot = layout.place(tuple(coordinates))
    return np.asarray(thread * layout.slots + slot + np.zeros(layout.shape, np.int64))


@lru_cache(maxsize=1024)
def first_replicas(layout: RegisterLayout) -> Integers:
    """For each thread, the first of those that hold what it holds."""
    threads = np.arange(layout.threads, dtype=np.int64)
    return np.asarray(layout.place(layout.thread_coordinates(threads))[0] + 0 * threads)


@lru_cache(maxsize=1024)
def is_writer(layout: RegisterLayout, threads_per_block: int) -> Array:
    """For each thread, whether it is the first of its block to hold what it holds."""
    blocks = np.arange(layout.threads, dtype=np.int64) // threads_per_block
    _, first = np.unique(first_replicas(layout) * (blocks[-1] + 1) + blocks, return_index=True)
    writers = np.zeros(layout.threads, np.bool_)
    writers[first] = True
    return writers


def check_replicas(op: Op, layout: RegisterLayout, registers: Array, where: Array | None = None) -> None:
    """Threads that hold copies must hold the same; `where` limits this to some of the registers."""
    if layout.replicas == 1:
        return
    first = registers[first_replicas(layout)]
    wrong = (registers != first) & ~((registers != registers) & (first != first))
    if where is not None:
        wrong &= where
    if wrong.any():
        thread, slot = (int(i) for i in np.argwhere(wrong)[0])
        element = [int(axis[thread, slot]) for axis in layout.table]
        other = int(first_replicas(layout)[thread])
        values = f"{registers[thread, slot]} and {first[thread, slot]}"
        raise GpuExecutionError(op, f"threads {thread} and {other} hold copies of element {element}, but {values}")


def gather(execution: GpuExecution, op: Op, value: Value) -> Array:
    """The tile as one array of its shape (a scalar is itself)."""
    registers = execution.array(value)
    if not value.shape:
        return registers
    check_replicas(op, value.layout, registers)
    return np.reshape(registers, -1)[holders_of(value.layout)]


def spread(value: Value, tile: Array) -> Array:
    """The inverse: an array of the tile's shape as the registers of `value`."""
    return np.reshape(tile, -1)[elements_of(value.layout)] if value.shape else tile


# Elementwise


def check_same_layout(op: Op, values: Sequence[Value], result: Value) -> None:
    """Tiles that are combined register by register lie alike."""
    for value in values:
        if value.shape and result.shape and value.layout != result.layout:
            text = f"%{value.name} lies as {value.layout}, %{result.name} as {result.layout}"
            raise GpuExecutionError(op, text)


def _elementwise(execution: GpuExecution, op: Op, sources: Sequence[Value]) -> None:
    """Checks the layouts; what follows from tiles that only first replicas hold is in those only too."""
    check_same_layout(op, sources, op.result)
    if not execution.first_only.isdisjoint(sources):
        execution.first_only.add(op.result)


def map_(execution: GpuExecution, op: tile_ops.Map) -> tuple[Array, ...]:
    _elementwise(execution, op, op.inputs)
    return (apply(op.fn, *map(execution.array, op.inputs)),)


def cast_(execution: GpuExecution, op: tile_ops.Cast) -> tuple[Array, ...]:
    _elementwise(execution, op, [op.source])
    return (cast(execution.array(op.source), op.dtype),)


def arange(execution: GpuExecution, op: gpu_ops.Arange) -> tuple[Array, ...]:
    del execution
    return (op.result.layout.table[0],)


def pad(execution: GpuExecution, op: gpu_ops.Pad) -> tuple[Array, ...]:
    _elementwise(execution, op, [op.source])
    registers = execution.array(op.source)
    padding = np.zeros(registers.shape, np.bool_)
    for axis, extent in zip(op.axes, op.extents):
        padding |= op.source.layout.table[axis] >= execution.integer(extent)
    return (np.where(padding, execution.array(op.fill), registers),)


# Shapes: every thread must have what it needs already, in a slot that does not depend on the thread


def broadcast(execution: GpuExecution, op: tile_ops.Broadcast) -> tuple[Array, ...]:
    if not op.source.shape:
        layout = op.result.layout
        return (np.broadcast_to(execution.array(op.source), (layout.threads, layout.slots)),)
    return (_moved_in_thread(execution, op, op.source, "broadcast", ()),)


def reshape(execution: GpuExecution, op: tile_ops.Reshape) -> tuple[Array, ...]:
    if not op.source.shape or not op.result.shape:
        return (spread(op.result, np.reshape(gather(execution, op, op.source), static(op.result.shape))),)
    return (_moved_in_thread(execution, op, op.source, "reshape", ()),)


def transpose(execution: GpuExecution, op: tile_ops.Transpose) -> tuple[Array, ...]:
    return (_moved_in_thread(execution, op, op.source, "transpose", op.permutation),)


def slice_(execution: GpuExecution, op: gpu_ops.Slice) -> tuple[Array, ...]:
    return (_moved_in_thread(execution, op, op.source, "slice", op.starts),)


Move: TypeAlias = 'Literal["broadcast", "reshape", "transpose", "slice"]'


def _moved_in_thread(execution: GpuExecution, op: Op, source: Value, move: Move, numbers: tuple[int, ...]) -> Array:
    try:
        slots = _source_slots(source.layout, op.result.layout, move, numbers)
    except ValueError as error:
        text = f"{error}; %{source.name} lies as {source.layout}, the result as {op.result.layout}"
        raise GpuExecutionError(op, text) from None
    return execution.array(source)[:, slots]


@lru_cache(maxsize=1024)
def _source_slots(source: RegisterLayout, result: RegisterLayout, move: Move, numbers: tuple[int, ...]) -> Integers:
    """For each slot of the result, the slot of the source in the same thread. Raises ValueError if there is none."""
    wanted = _source_coordinates(source, result, move, numbers)
    threads = np.arange(result.threads, dtype=np.int64)[:, None]
    slots = np.asarray(source.place(wanted)[1] + 0 * elements_of(result))
    missing = np.zeros(slots.shape, np.bool_)
    for held, coordinate in zip(source.coordinates(threads, slots), wanted):
        missing |= held != coordinate
    if missing.any():
        thread, slot = (int(i) for i in np.argwhere(missing)[0])
        raise ValueError(f"thread {thread} does not have element {[int(c[thread, slot]) for c in wanted]}")
    if (slots != slots[0]).any():
        raise ValueError("threads would read different slots")
    return slots[0]


def _source_coordinates(
    source: RegisterLayout, result: RegisterLayout, move: Move, numbers: tuple[int, ...]
) -> tuple[Integers, ...]:
    """The coordinates of the source's element that each register of the result holds.

    `numbers`: the permutation of a transpose, the starts of a slice.
    """
    match move:
        case "broadcast":
            last = result.table[result.rank - source.rank :]
            return tuple(0 * c if size == 1 else c for c, size in zip(last, source.shape))
        case "transpose":
            return tuple(result.table[numbers.index(axis)] for axis in range(source.rank))
        case "slice":
            return tuple(c + start for c, start in zip(result.table, numbers))
        case "reshape":
            return tuple(np.asarray(c) for c in np.unravel_index(elements_of(result), source.shape))


# Across threads


def convert(execution: GpuExecution, op: gpu_ops.Convert) -> tuple[Array, ...]:
    source = op.source.layout
    registers = execution.array(op.source)
    check_replicas(op, source, registers)
    try:
        return (np.reshape(registers, -1)[_sources_in_warp(source, op.result.layout)],)
    except ValueError as error:
        raise GpuExecutionError(op, f"{error}; {source} becomes {op.result.layout}") from None


@lru_cache(maxsize=1024)
def _sources_in_warp(source: RegisterLayout, result: RegisterLayout) -> Integers:
    """For each register of the result, a flat register of the source in the same warp. Raises ValueError."""
    have, want = elements_of(source), elements_of(result)
    found = np.empty_like(want)
    for first in range(0, source.threads, WARP):
        held = np.reshape(have[first : first + WARP], -1)
        order = np.argsort(held, kind="stable")
        wanted = want[first : first + WARP]
        at = order[np.minimum(np.searchsorted(held, wanted, sorter=order), held.size - 1)]
        if (held[at] != wanted).any():
            raise ValueError(f"warp {first // WARP} needs elements of another one")
        found[first : first + WARP] = first * source.slots + at
    return found
