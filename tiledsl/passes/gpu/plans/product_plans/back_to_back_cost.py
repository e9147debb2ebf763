"""The time of a grid whose products feed on each other, where all threads of a block copy, multiply and compute.

    launch + rounds * (every loop: turns * max(work of all blocks of a multiprocessor, one block alone, copies) + ends)

A block has one thing to do at a time: its products wait for what is computed, and that waits for products. What hides
one of them is another warp, of this block or of another one of the multiprocessor. So a turn takes what tensor cores,
shared memory, L2 and the issue of instructions take for all blocks (`thread_cost.py`), and not less than one block
takes by itself, one thing after the other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.passes.gpu.plan import Plan
from tiledsl.passes.gpu.plans.facts.operation_units import UnitCounts, units_of
from tiledsl.passes.gpu.plans.product_plans.thread_cost import (
    BARRIER_CLOCKS,
    COPY_CLOCKS,
    COPY_INSTRUCTIONS,
    ENDS_CLOCKS,
    FMA_SHARE,
    MOST_REGISTERS,
    READ_INSTRUCTIONS,
    REGISTER_UNIT,
    SCHEDULERS,
    TURN_INSTRUCTIONS,
    WORD_BYTES,
    together,
)
from tiledsl.passes.gpu.plans.product_plans.thread_footprint import WARP, ThreadFootprint
from tiledsl.passes.gpu.plans.product_plans.warpgroup_cost import LOOP_INSTRUCTIONS
from tiledsl.passes.gpu_machine import GpuMachine
from tiledsl.passes.nest.count_work import WorkCounts
from tiledsl.passes.nest.loop_nest import LoopNest, NestLoop

ACCESS_BYTES = 8
"""Of a tile that threads load as a product's sums lie: two neighbours of 32 bits."""
ACCESS_INSTRUCTIONS = 20
"""For each of these."""
MEETINGS = 2
"""Of warps that hand over what others need: when it is there, and when it has been read."""


LOOKED_AT = 16
"""Blocks of the grid whose loops are counted, of those that have loops of their own lengths."""


class Turn(NamedTuple):
    """What a turn of a loop takes of a multiprocessor for one block, in clocks; what stands in no loop is one turn of
    its own. `staged`: bytes that are copied from L2, by so many `copies`, each of which is waited for by itself where
    nothing runs ahead; `loaded`: whether threads wait for what they load themselves; `barriers`: where warps meet."""

    products: float
    shared: float
    issued: float
    computed: float
    staged: int
    copies: int
    loaded: bool
    barriers: int


class ComputedTile(NamedTuple):
    """An elementwise op or a fold: the loop that it stands in, the tile that it goes through, and what it takes for
    each element."""

    loop: NestLoop | None
    tile: Value
    units: UnitCounts


class TurnCounts:
    """What is the same for plans of a grid: how often loops turn, for each size of its blocks, and what is computed in
    each turn, on an architecture."""

    def __init__(self, nest: LoopNest, sizes: Mapping[str, int], capability: int) -> None:
        self.nest, self.sizes = nest, sizes
        self.computed = [
            ComputedTile(
                work.loops[-1] if work.loops else None,
                work.op.sources[0] if isinstance(work.op, (ops.Reduce, ops.Scan)) else work.op.result,
                units_of(work.op, capability, accurate=work.is_accurate),
            )
            for work in nest.elementwise
        ]
        self._found: dict[tuple[tuple[str, int], ...], tuple[int, dict[NestLoop, float]]] = {}

    def of(self, blocks: tuple[tuple[str, int], ...]) -> tuple[int, dict[NestLoop, float]]:
        """Blocks of the grid, and the turns of each loop for one of them on average."""
        found = self._found.get(blocks)
        if found is None:
            counts = WorkCounts(self.nest, self.sizes, dict(blocks), LOOKED_AT)
            programs = max(1, counts.programs)
            turns = {loop: counts.turns(loop).number / programs for loop in self.nest.loops}
            found = self._found[blocks] = programs, turns
        return found


class BackToBackCost:
    """Of one plan, with any number of stages."""

    def __init__(self, footprint: ThreadFootprint, plan: Plan, machine: GpuMachine, counts: TurnCounts) -> None:
        self.footprint, self.grid, self.machine = footprint, plan.grids[0], machine
        self.nest, self.speeds = footprint.nest, machine.speeds
        self.programs, self.turns = counts.of(plan.blocks)
        self._computed = counts.computed

    def resident(self, stages: int) -> int:
        """How many blocks a multiprocessor has at a time; 0 if there is no room for one."""
        machine, threads = self.machine, self.grid.threads
        registers = min(MOST_REGISTERS, self.footprint.registers)
        registers = -(-registers // REGISTER_UNIT) * REGISTER_UNIT
        return min(
            machine.shared_bytes_per_multiprocessor // (self.footprint.shared_bytes(stages) + machine.block_bytes),
            machine.registers // (registers * threads),
            machine.max_threads_per_multiprocessor // threads,
            machine.max_blocks_per_multiprocessor,
        )

    def seconds(self, stages: int) -> float:
        """The predicted time of a call."""
        machine, speeds = self.machine, self.speeds
        each = self.programs / machine.multiprocessors
        resident = max(1, min(math.ceil(each), self.resident(stages)))
        if any(loop.trips != "fixed" for loop in self.nest.loops):  # who is done early makes room for the next
            clocks = max(1.0, each / resident) * self._round(resident, stages)
        else:
            full, rest = divmod(math.ceil(each), resident)
            clocks = full * self._round(resident, stages) + (self._round(rest, stages) if rest else 0.0)
        return speeds.launch + clocks / speeds.clock

    def _round(self, beside: int, stages: int) -> float:
        """Clocks of so many blocks that share a multiprocessor, from beginning to end."""
        speeds = self.speeds
        clocks = ENDS_CLOCKS + speeds.latency + self._clocks(self.places[None], beside, stages)
        every = ((turns, self._clocks(self.places[loop], beside, stages)) for loop, turns in self.turns.items())
        return clocks + sum(turns * each for turns, each in every)

    def _clocks(self, turn: Turn, beside: int, stages: int) -> float:
        speeds = self.speeds
        busy = min(self.programs, self.machine.multiprocessors)
        taken = min(speeds.l2_bytes_each, speeds.l2_bytes / busy)
        warps = self.grid.threads / WARP
        share = min(1.0, beside * warps / SCHEDULERS)
        issued = (turn.issued + turn.computed) / share
        work = beside * together(turn.products / share, turn.shared, issued, turn.staged / taken)
        one = (turn.products + turn.shared + turn.issued + turn.computed) * SCHEDULERS / warps
        one += BARRIER_CLOCKS * turn.barriers
        latency, transfer = speeds.latency + COPY_CLOCKS, turn.staged / speeds.l2_bytes_each
        waited = (latency + transfer) / max(1, stages - 1) if turn.staged else 0.0
        one += turn.copies * latency + transfer if stages < 2 else 0.0
        one += speeds.latency if turn.loaded else 0.0
        return together(max(work, one), waited)

    @cached_property
    def places(self) -> dict[NestLoop | None, Turn]:
        """A turn of each loop, and what stands in none."""
        return {loop: self._turn(loop) for loop in (None, *self.nest.loops)}

    def _turn(self, loop: NestLoop | None) -> Turn:
        footprint, speeds = self.footprint, self.speeds

        def here(loops: tuple[NestLoop, ...]) -> bool:
            return (loops[-1] if loops else None) is loop

        products = read = instructions = 0.0
        for dot in (one.op for one in self.nest.dots if here(one.loops)):
            plan = footprint.dots[dot]
            (down, across), (rows, columns, depth) = plan.warps, plan.shape
            times = len(ops.PLANE_PAIRS) if dot.precision == "planes" else 1
            matrices = footprint.room(dot.result) // (rows * columns) * times
            size = plan.instruction.a.bytes if plan.instruction.a is not None else dot.a.dtype.bytes
            multiplied = matrices * rows * columns * depth
            single = speeds.doubles if dot.dtype.bytes > WORD_BYTES else speeds.instructions
            products += multiplied / (single * FMA_SHARE if plan.instruction.is_fma else speeds.mma_of(size))
            instructions += multiplied / (WARP if plan.instruction.is_fma else 4096 // size)
            for value, side, warps in ((dot.a, rows, across), (dot.b, columns, down)):
                if footprint.in_shared(dot, value):
                    read += matrices * side * depth * value.dtype.bytes * warps
        copied = [load for load in footprint.staged if self._loop_of(load) is loop]
        staged = sum(footprint.staged[load] for load in copied)
        told = [size for op, size in (*footprint.told, *footprint.handed_over) if self._loop_of(op) is loop]
        units, loaded = UnitCounts(), False
        for computed in self._computed:
            if computed.loop is loop:
                units += computed.units.times(self._elements(computed.tile))
        for access in self.nest.accesses:
            if here(access.loops) and access.op not in copied and access.shape:
                value = access.op.result if isinstance(access.op, ops.Load) else access.op.value
                made = self._elements(value) * value.dtype.bytes / ACCESS_BYTES
                units += UnitCounts(arithmetic=ACCESS_INSTRUCTIONS * made)
                loaded = loaded or access.is_read
        instructions += (COPY_INSTRUCTIONS * staged + READ_INSTRUCTIONS * read) / (16 * WARP)
        instructions += TURN_INSTRUCTIONS * self.grid.threads / WARP
        computed = LOOP_INSTRUCTIONS * (units.arithmetic + units.doubles) / speeds.instructions
        return Turn(
            products,
            (read + staged + sum(told)) / speeds.shared_bytes,
            instructions * WARP / speeds.instructions,
            max(computed, units.special / speeds.exponentials, units.doubles / speeds.doubles),
            staged,
            len(copied),
            loaded,
            bool(copied) + MEETINGS * len(told),
        )

    def _elements(self, value: Value) -> float:
        """That threads go through, each its own: of numbers of rows the lanes of a row have the same."""
        shape = self.footprint.capacities.shape(value.shape)
        if sum(size > 1 for size in shape) < 2:
            return float(self.footprint.words(value) * self.grid.threads)
        return float(math.prod(shape))

    def _loop_of(self, op: Op) -> NestLoop | None:
        around = None if op.parent is None else op.parent.parent
        return next((loop for loop in self.nest.loops if loop.op is around), None)
