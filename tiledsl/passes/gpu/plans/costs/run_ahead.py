"""How far the loads of a loop run ahead of it, where no product reads them: each thread copies what it will read.

    1 column of 8192 x 8192     128 threads, a turn of 16 KiB, 4 blocks at once     3 stages: 128 KiB under way

Registers wait for what is loaded into them, and assemblers put arithmetic between such loads: two or three of 16 bytes
are under way for a thread. Copies into a ring of stages take no registers, and are under way while the loop computes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.types import AxisType, TileType
from tiledsl.passes.gpu.plan import GridPlan
from tiledsl.passes.gpu_machine import GpuMachine
from tiledsl.passes.nest.count_work import WorkCounts
from tiledsl.passes.nest.loop_nest import Access, LoopNest, NestLoop

ENOUGH_BYTES = 96 << 10
"""That a multiprocessor has under way: what memory brings in three times its latency."""
MOST_STAGES = 8
FEWEST_TURNS = 4
"""Of a loop that is worth a ring."""
FEWEST_BYTES = 4
"""That a copy moves at a time."""
BESIDE = 24
"""Registers of a thread for addresses, counters and what is computed of one element."""


@dataclass(frozen=True)
class LoadsAhead:
    """What a loop of a grid loads: bytes that a block copies in a turn, and the turns; by which accesses."""

    turn_bytes: int
    turns: float
    accesses: frozenset[Access] = frozenset()


def loads_ahead(nest: LoopNest, grid: GridPlan, counts: WorkCounts) -> LoadsAhead | None:
    """Of the loop with the largest turns; None where nothing can run ahead."""
    if nest.dots or grid.programs or grid.roles:
        return None
    found = [one for loop in nest.loops if (one := _of_loop(nest, loop, grid, counts)) is not None]
    return max(found, key=lambda one: one.turn_bytes, default=None)


def _of_loop(nest: LoopNest, loop: NestLoop, grid: GridPlan, counts: WorkCounts) -> LoadsAhead | None:
    definition = loop.definition
    if definition is None or loop.outer or (definition.block.kind == "fixed" and definition.block.size == 1):
        return None
    turns = counts.turns(loop).number / max(1, counts.programs)
    streams = frozenset(_streams(nest, loop, grid, counts))
    bytes_ = sum(_tile_bytes(access, counts) for access in streams)
    return LoadsAhead(int(bytes_) // grid.cluster, turns, streams) if bytes_ and turns >= FEWEST_TURNS else None


def _streams(nest: LoopNest, loop: NestLoop, grid: GridPlan, counts: WorkCounts) -> Iterator[Access]:
    """The loads of a loop of which no two threads have a part in common, and whose places are known turns before."""
    for access in nest.accesses:
        if (
            not access.is_read
            or access.gathers
            or access.conditional
            or not access.loops
            or access.loops[-1] is not loop
        ):
            continue
        known = all(not _is_tile(index) for index in access.op.indices)
        element = access.tensor.dtype.bytes
        if known and access.shape and loop.axis in access.moved_by:
            pieces = _tile_bytes(access, counts) / min(16, _run(access, counts) * element)
            if _run(access, counts) * element >= FEWEST_BYTES and pieces >= grid.threads * grid.cluster:
                yield access


def _is_tile(index: object) -> bool:
    return isinstance(index, Value) and not isinstance(index.type, AxisType) and _has_shape(index)


def _has_shape(index: Value) -> bool:
    return isinstance(index.type, TileType) and bool(index.type.shape)


def _run(access: Access, counts: WorkCounts) -> int:
    """Elements side by side in memory, of a tile."""
    unit = access.tensor.unit
    if unit is None:
        return 1
    index = access.op.indices[unit]
    whole = not isinstance(index, Value)
    if whole:
        return counts.number(access.tensor.shape[unit])
    return counts.number(index.type.extent) if isinstance(index.type, AxisType) else 1


def _tile_bytes(access: Access, counts: WorkCounts) -> float:
    return math.prod(map(counts.number, access.shape)) * access.tensor.dtype.bytes


def registers(nest: LoopNest, grid: GridPlan, counts: WorkCounts) -> float:
    """About what a thread of a grid with loops takes: what it loads in a turn, each element of memory once and nothing
    of what waits in a ring, and the largest tile of 32 bits."""
    threads = grid.threads * grid.cluster
    ahead = loads_ahead(nest, grid, counts) if grid.stages > 1 else None
    loaded = [
        sum(
            _tile_bytes(a, counts) / a.repeats
            for a in nest.accesses
            if a.is_read and a.loops and a.loops[-1] is loop and (ahead is None or a not in ahead.accesses)
        )
        for loop in nest.loops
    ]
    largest = max((math.prod(map(counts.number, work.shape)) for work in nest.elementwise), default=1)
    return BESIDE + (max(loaded, default=0.0) / 4 + largest) / threads


def stages_ahead(nest: LoopNest, grid: GridPlan, counts: WorkCounts, machine: GpuMachine) -> int:
    """Stages with which a multiprocessor has enough under way, as far as shared memory has room; 1 without a ring."""
    loads = loads_ahead(nest, grid, counts)
    if loads is None or not machine.has_async_copy:
        return 1
    by_registers = machine.registers // (grid.threads * registers(nest, grid, counts))
    each = min(
        machine.max_threads_per_multiprocessor // grid.threads, by_registers, machine.max_blocks_per_multiprocessor
    )
    there = counts.programs * grid.cluster / machine.multiprocessors
    at_once = max(1, math.floor(min(each, math.ceil(there))))
    wanted = 1 + math.ceil(ENOUGH_BYTES / (at_once * loads.turn_bytes))
    room = machine.shared_bytes_of_block(at_once) * 7 // 8 // loads.turn_bytes  # folds among warps take some as well
    if room < 2:
        room = machine.shared_bytes_of_block(1) * 7 // 8 // loads.turn_bytes
    stages = min(max(2, wanted), room, MOST_STAGES, math.ceil(loads.turns))
    return stages if stages >= 2 else 1


def phases(nest: LoopNest) -> int:
    """How often a turn waits for memory: what is loaded behind a fold among threads is asked for after it."""
    most = 1
    for loop in nest.loops:
        folded, loaded, found = False, False, 1
        for op in () if isinstance(loop.op, ops.While) else loop.op.body.ops:
            if isinstance(op, ops.Reduce):
                folded = loaded
            elif isinstance(op, ops.Load) and op.result.shape:
                found += folded
                folded, loaded = False, True
        most = max(most, found)
    return most
