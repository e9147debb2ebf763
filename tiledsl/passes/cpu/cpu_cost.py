"""What a grid costs on a CPU: cycles of a core by resource, from its work and the machine's speeds.

    gemm 1000^3 in f32, blocks of 336 x 512 x 256     products 93%, packing 5%, memory 1%, starting 0%
    softmax of 1000 x 4096                            elementwise 87%, memory 12%, starting 1%

A core does one thing after the other, so the times of a program add up, and a grid takes as many rounds of programs as
its threads need. The unit is a cycle of a core that finishes one vector multiply-add in each; only ratios decide.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tiledsl.ir.symbolic import evaluate, symbol_name
from tiledsl.passes.analysis.few import FEW, SHORT_ROW
from tiledsl.passes.cpu.grid_work import GridWork, Task, axis_length, grid_programs, trips_of
from tiledsl.passes.cpu.moving_loops import mean_length
from tiledsl.passes.machine import LINE_BYTES, CpuMachine

MOST_STREAMS = 64
"""So many runs that a loop cuts short are still known when it comes to their next parts."""
FEW_LINES = 16
"""So many lines that are gone through again and again stay in the first cache, however far apart they are."""
PACKED_DEPTH = 256
"""The longest part of an axis that packed operands are summed over at a time, in steps along it."""
DEEP = 4
"""How many times as long products take that are summed over more than that."""
MICRO_ROWS = 8
"""Rows that a micro-kernel computes whether they are there or not."""
MICRO_VECTORS = 3
"""Vectors of columns that it computes."""
ELEMENT_BYTES = 4
"""Of what products are made of, and of tiles that programs hold."""


class CpuTimes(NamedTuple):
    """Cycles that one program keeps a core busy with each thing. `starting`: to get a program and enter it, and to turn
    loops; `packing`: of operands; `memory`: from beyond the caches of the core, and from
    these what is gone through again; `elementwise`: functions and folds."""

    starting: float = 0.0
    packing: float = 0.0
    products: float = 0.0
    memory: float = 0.0
    elementwise: float = 0.0

    @property
    def cycles(self) -> float:
        """All together, one after the other."""
        return sum(self)

    @property
    def shares(self) -> dict[str, float]:
        """Of the whole time, by resource, the longest first."""
        parts = sorted(zip(self._fields, self), key=lambda pair: -pair[1])
        return {name: time / self.cycles for name, time in parts if time}


UPDATE = 3
"""Vector operations of a vector that is combined with memory: to read, to combine, to write."""


def cpu_times(
    work: GridWork,
    machine: CpuMachine,
    sizes: Mapping[str, int],
    blocks: Mapping[str, int],
    *,
    alone: bool = True,
) -> CpuTimes:
    """Of one program with those block sizes. `sizes` has every size symbol; `alone`: one thread runs all programs."""
    speeds, trips = machine.speeds, trips_of(work, sizes, blocks)
    values = {**sizes, **blocks, **_whole_axes(work, sizes, blocks)}
    again = _bandwidth(_footprint(work, values), machine)
    starting = speeds.program + sum(speeds.turn * count for count in trips.values())
    packing = products = memory = elementwise = 0.0
    for task in work.tasks:
        dims = [evaluate(dim, values) for dim in task.dims]
        times = max(0, evaluate(task.times, values))
        turns = times * math.prod(trips.get(loop, 1) for loop in task.loops)
        match task.kind:
            case "dot":
                packed, multiplied = _product_cycles(dims, machine, task.weight)
                packing += turns * packed
                products += turns * multiplied
            case "load":
                memory += turns * (speeds.stream + math.prod(dims) * task.weight / speeds.memory_bytes)
            case "store":  # a line is fetched before it is written
                memory += turns * (speeds.stream + 2 * math.prod(dims) * task.weight / speeds.memory_bytes)
            case "update":
                memory += turns * (speeds.stream + 2 * math.prod(dims) * task.weight / speeds.memory_bytes)
                elementwise += turns * _update_cycles(task, dims, machine, alone)
            case "vector":
                vectors = _vectors(dims, machine, across=_is_short(task, -1))
                elementwise += turns * vectors * task.weight * speeds.vector
            case "again":
                memory += turns * math.prod(dims) * task.weight / again
        memory += speeds.run * times * _runs(task, dims, trips)
        if task.run is not None and _is_short(task, task.run):  # picked apart by shuffles of as many vectors
            vectors = _vectors(dims, machine, across=True)
            elementwise += turns * vectors * (2 * dims[task.run] - 1) * speeds.vector
        elif task.across is not None:
            lines = dims[task.across] * LINE_BYTES
            from_cache = 0 if dims[task.across] <= FEW_LINES else 1 if 2 * lines <= machine.l1_bytes else 2
            memory += turns * math.prod(dims) * speeds.across[from_cache]
    return CpuTimes(starting, packing, products, memory, elementwise)


def packed_depth(machine: CpuMachine, together: int) -> int:
    """The longest part of an axis that products of `together` at a time are summed over."""
    return PACKED_DEPTH * (together if machine.takes_together(together) else 1)


def total_time(
    work: GridWork, machine: CpuMachine, sizes: Mapping[str, int], blocks: Mapping[str, int], threads: int
) -> float:
    """Cycles until the last of `threads` threads is done with the whole grid."""
    rounds = -(-grid_programs(work, sizes, blocks) // threads)
    return rounds * cpu_times(work, machine, sizes, blocks, alone=threads == 1).cycles


def _whole_axes(work: GridWork, sizes: Mapping[str, int], blocks: Mapping[str, int]) -> dict[str, int]:
    """The lengths of the axes that are shorter than their blocks."""
    lengths = {axis.symbol: axis_length(axis, sizes) for axis in (*work.axes, *work.loops)}
    lengths |= {loop.name: math.ceil(mean_length(loop, sizes, blocks)) for loop in work.moving if loop.name in lengths}
    return {name: max(1, length) for name, length in lengths.items() if length < blocks[name]}


def _runs(task: Task, dims: Sequence[int], trips: Mapping[str, float]) -> float:
    """Beginnings of runs of contiguous addresses beyond the first, over all turns of the loops around the task."""
    if task.run is None or not dims[task.run] or _is_short(task, task.run):  # short rows lie behind each other
        return 0.0
    runs = math.prod(dims) // dims[task.run] - 1
    turns = math.prod(trips.get(loop, 1) for loop in task.loops)
    along = symbol_name(task.dims[task.run])
    if along in task.loops and runs < MOST_STREAMS:
        turns /= max(trips.get(along, 1), 1)
    return runs * turns


def _product_cycles(dims: Sequence[int], machine: CpuMachine, together: int) -> tuple[float, float]:
    """To pack the operands of a product, and to multiply them, `together` at a time if the machine does."""
    *batch, rows, columns, depth = dims
    lanes, copies, packed = machine.vector_bytes // ELEMENT_BYTES, math.prod(batch), machine.speeds.packed
    if min(rows, columns) <= FEW:  # the other operand is read where it lies
        few, wide = min(rows, columns), max(rows, columns)
        return copies * few * depth * packed, copies * wide * depth * (1 + few) / lanes
    packing = (rows * depth + depth * columns) * packed
    if depth > packed_depth(machine, together):
        copies *= DEEP
    if machine.takes_together(together):
        depth = -(-depth // together)
    multiply = -(-rows // MICRO_ROWS) * MICRO_ROWS * -(-columns // lanes) * depth
    # accumulators are read and written once; the packed left operand once for every panel of the right one
    sums, left = ELEMENT_BYTES * rows * columns, ELEMENT_BYTES * rows * depth
    moved = 2 * sums / _bandwidth(sums, machine)
    moved += left * -(-columns // (MICRO_VECTORS * lanes)) / _bandwidth(left, machine) / 4
    return copies * packing, copies * (multiply + moved)


def _update_cycles(task: Task, dims: Sequence[int], machine: CpuMachine, alone: bool) -> float:
    """To combine a tile with memory."""
    speeds = machine.speeds
    if not alone:
        return math.prod(dims) * speeds.atomic
    if task.run is None:
        return math.prod(dims) * speeds.update
    rows = [dim for axis, dim in enumerate(dims) if axis != task.run]
    return _vectors([*rows, dims[task.run]], machine) * UPDATE * speeds.vector


def _is_short(task: Task, axis: int) -> bool:
    """Whether rows along an axis have a few elements, a number of them: vectors go across."""
    if not task.dims:
        return False
    dim = task.dims[axis]
    return isinstance(dim, int) and 1 < dim <= SHORT_ROW and any(not isinstance(other, int) for other in task.dims)


def _vectors(dims: Sequence[int], machine: CpuMachine, *, across: bool = False) -> float:
    """Of a tile: rows that are no whole number of vectors still take the last one, unless vectors go `across` them."""
    if across:
        return math.prod(dims) * ELEMENT_BYTES / machine.vector_bytes
    rows = math.prod(dims) // dims[-1] if dims[-1] else 0
    return rows * -(-dims[-1] // (machine.vector_bytes // ELEMENT_BYTES))


def _bandwidth(footprint: int, machine: CpuMachine) -> float:
    """Bytes per cycle from the cache that has room for a tile beside others."""
    first, second, third = machine.speeds.cache_bytes
    if 2 * footprint <= machine.l1_bytes:
        return first
    return second if 2 * footprint <= machine.l2_bytes else third


def _footprint(work: GridWork, values: Mapping[str, int]) -> int:
    """Bytes of the tiles that a program keeps."""
    return sum(ELEMENT_BYTES * math.prod(evaluate(dim, values) for dim in shape) for shape in work.tiles)
