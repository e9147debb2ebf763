"""Tiles in registers: which thread holds what, and the ops that move or change it without memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np

from tiledsl.backend_ref.emulator.agents.agent import Agent, fault
from tiledsl.backend_ref.emulator.agents.waiting import Steps
from tiledsl.backend_ref.scalar_functions import Array, apply, cast
from tiledsl.ir import tile_ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.gpu import gpu_ops
from tiledsl.ir.layouts.layout import WARP, Integers, RegisterLayout
from tiledsl.support.errors import fail

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


def check_replicas(agent: Agent, op: Op, layout: RegisterLayout, registers: Array, where: Array | None = None) -> None:
    """Those of the agent's threads that hold copies must hold the same; `where` limits this to some registers."""
    if layout.replicas == 1:
        return
    firsts = first_replicas(layout)[agent.start : agent.stop]
    ours = firsts >= agent.start
    first = registers[np.where(ours, firsts - agent.start, np.arange(len(firsts)))]
    wrong = (registers != first) & ~((registers != registers) & (first != first))
    if where is not None:
        wrong &= where
    if wrong.any():
        thread, slot = (int(i) for i in np.argwhere(wrong)[0])
        element = [int(axis[agent.start + thread, slot]) for axis in layout.table]
        values = f"{registers[thread, slot]} and {first[thread, slot]}"
        threads = f"threads {agent.start + thread} and {int(firsts[thread])}"
        problem = f"{threads} hold copies of element {element}, but {values}"
        fail("emulator-replicas", op.location, op=op.name, program=agent.program.name, problem=problem)


def whole(agent: Agent, op: Op, value: Value, registers: Array) -> Array:
    """The tile as one array of its shape, from the registers of all threads of the team."""
    if value in agent.first_only:
        text = f"%{value.name} is what an atomic gave, which only the first replicas have"
        fault(op, text)
    flat = np.reshape(registers, -1)
    return flat[holders_of(value.layout)]


def spread(layout: RegisterLayout, tile: Array) -> Array:
    """The inverse: an array of the tile's shape as the registers of all threads."""
    return np.reshape(tile, -1)[elements_of(layout)]


def gather(agent: Agent, op: Op, value: Value) -> Steps:
    """The tile as one array of its shape (a scalar is itself): all agents of the team bring what they have."""
    registers = agent.array(value)
    if not value.shape:
        return registers
    check_replicas(agent, op, value.layout, registers)

    def make(parts: dict[int, Array]) -> dict[int, Array]:
        tile = whole(agent, op, value, np.concatenate([parts[number] for number in sorted(parts)]))
        return dict.fromkeys(parts, tile)

    return (yield from agent.team.meeting.bring(agent, op, registers, make))


# Elementwise


def check_same_layout(op: Op, values: Sequence[Value], result: Value) -> None:
    """Tiles that are combined register by register lie alike."""
    for value in values:
        if value.shape and result.shape and value.layout != result.layout:
            text = f"%{value.name} lies as {value.layout}, %{result.name} as {result.layout}"
            fault(op, text)


def _elementwise(agent: Agent, op: Op, sources: Sequence[Value]) -> None:
    """Checks the layouts; what follows from tiles that only first replicas hold is in those only too."""
    check_same_layout(op, sources, op.result)
    if not agent.first_only.isdisjoint(sources):
        agent.first_only.add(op.result)


def map_(agent: Agent, op: tile_ops.Map) -> tuple[Array, ...]:
    _elementwise(agent, op, op.inputs)
    return (apply(op.fn, *map(agent.array, op.inputs)),)


def cast_(agent: Agent, op: tile_ops.Cast) -> tuple[Array, ...]:
    _elementwise(agent, op, [op.source])
    return (cast(agent.array(op.source), op.dtype),)


def arange(agent: Agent, op: gpu_ops.Arange) -> tuple[Array, ...]:
    return (agent.table(op.result.layout)[0],)


def pad(agent: Agent, op: gpu_ops.Pad) -> tuple[Array, ...]:
    _elementwise(agent, op, [op.source])
    registers = agent.array(op.source)
    padding = np.zeros(registers.shape, np.bool_)
    for axis, extent in zip(op.axes, op.extents):
        padding |= agent.table(op.source.layout)[axis] >= agent.integer(extent)
    return (np.where(padding, agent.array(op.fill), registers),)


# Shapes: every thread must have what it needs already, in a slot that does not depend on the thread


def broadcast(agent: Agent, op: tile_ops.Broadcast) -> tuple[Array, ...]:
    if not op.source.shape:
        return (_everywhere(agent, op.result.layout, agent.array(op.source)),)
    return (_moved_in_thread(agent, op, op.source, "broadcast", ()),)


def reshape(agent: Agent, op: tile_ops.Reshape) -> tuple[Array, ...]:
    if not op.source.shape:
        return (
            _everywhere(agent, op.result.layout, agent.array(op.source)) if op.result.shape else agent.array(op.source),
        )
    if not op.result.shape:
        registers = agent.array(op.source)
        check_replicas(agent, op, op.source.layout, registers)
        return (registers[0, 0],)
    return (_moved_in_thread(agent, op, op.source, "reshape", ()),)


def _everywhere(agent: Agent, layout: RegisterLayout, scalar: Array) -> Array:
    return np.full((agent.size, layout.slots), scalar)


def transpose(agent: Agent, op: tile_ops.Transpose) -> tuple[Array, ...]:
    return (_moved_in_thread(agent, op, op.source, "transpose", op.permutation),)


def slice_(agent: Agent, op: gpu_ops.Slice) -> tuple[Array, ...]:
    return (_moved_in_thread(agent, op, op.source, "slice", (*op.starts, *(op.steps or (1,) * len(op.starts)))),)


def interleave(agent: Agent, op: gpu_ops.Interleave) -> tuple[Array, ...]:
    registers = [agent.array(source) for source in op.sources]
    slots = op.result.layout.slots  # an inner factor of the layout: the slots of each element are side by side
    return (np.reshape(np.stack(registers, axis=-1), (len(registers[0]), slots)),)


Move: TypeAlias = 'Literal["broadcast", "reshape", "transpose", "slice"]'


def _moved_in_thread(agent: Agent, op: Op, source: Value, move: Move, numbers: tuple[int, ...]) -> Array:
    try:
        slots = _source_slots(source.layout, op.result.layout, move, numbers)
    except ValueError as error:
        text = f"{error}; %{source.name} lies as {source.layout}, the result as {op.result.layout}"
        return fault(op, text)
    return agent.array(source)[:, slots]


@lru_cache(maxsize=1024)
def _source_slots(source: RegisterLayout, result: RegisterLayout, move: Move, numbers: tuple[int, ...]) -> Integers:
    """For each slot of the result, the slot of the source in the same thread. Raises ValueError if there is none."""
    wanted = _source_coordinates(source, result, move, numbers)
    threads = np.arange(result.threads, dtype=np.int64)[:, None]
    found, held = source.slots_of(threads, wanted)
    slots = np.asarray(found + 0 * elements_of(result))
    missing = np.broadcast_to(~np.asarray(held), slots.shape)
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

    `numbers`: the permutation of a transpose, the starts of a slice and behind them its steps.
    """
    match move:
        case "broadcast":
            last = result.table[result.rank - source.rank :]
            return tuple(0 * c if size == 1 else c for c, size in zip(last, source.shape))
        case "transpose":
            return tuple(result.table[numbers.index(axis)] for axis in range(source.rank))
        case "slice":
            starts, steps = numbers[: result.rank], numbers[result.rank :]
            return tuple(step * c + start for c, start, step in zip(result.table, starts, steps))
        case "reshape":
            return tuple(np.asarray(c) for c in np.unravel_index(elements_of(result), source.shape))


# Across threads


def convert(agent: Agent, op: gpu_ops.Convert) -> tuple[Array, ...]:
    source = op.source.layout
    registers = agent.array(op.source)
    check_replicas(agent, op, source, registers)
    try:
        found = _sources_in_warp(source, op.result.layout)[agent.start : agent.stop]
    except ValueError as error:
        return fault(op, f"{error}; {source} becomes {op.result.layout}")
    return (np.reshape(registers, -1)[found - agent.start * source.slots],)


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
