"""How much work one program of a grid does, as a function of its block sizes: what the CPU's cost model adds up.

`collect_work` reads a grid once and gives a `GridWork`: plain data (it is kept in the disk cache beside the code),
from which `estimate` computes cycles for any sizes and blocks. The unit is a cycle of a core that finishes one vector
multiply-add per cycle; only ratios matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Op, Value
from tiledsl.ir.scalar_functions import SCALAR_FUNCTIONS
from tiledsl.ir.symbolic import Dim, evaluate, symbol_name
from tiledsl.ir.types import AxisType, BlockSize, TensorType
from tiledsl.passes.analysis.sizes import size_of
from tiledsl.passes.machine import CpuMachine

PROGRAM_CYCLES = 300.0
"""Handing out a program and entering it."""
ITERATION_CYCLES = 60.0
"""One turn of a loop over blocks."""
PACK_CYCLES = 0.5
"""Packing one element of an operand."""
MEMORY_BYTES_PER_CYCLE = 6.0
"""What one core draws from memory beyond its own caches."""
STREAM_CYCLES = 400.0
"""Until the prefetchers follow a tile."""
RUN_CYCLES = 80.0
"""What each further run of contiguous addresses costs beside its bytes."""
MOST_STREAMS = 64
"""So many runs that a loop cuts short are still known when it comes to their next parts."""
UNKNOWN_SIZE = 2048
"""What a size that nobody knows is taken for."""
FEW = 16
"""Rows (or columns) of a product up to which its other operand is read where it lies, and not packed."""
PACKED_DEPTH = 256
"""The longest part of an axis that packed operands are summed over at a time."""
MICRO_ROWS = 8
"""Rows that a micro-kernel computes whether they are there or not."""


@dataclass(frozen=True)
class Axis:
    """An axis cut into blocks: its extent symbol, how long it is (None: known only while running), the block's
    bounds.
    """

    symbol: str
    length: Dim | None
    limit: int
    unit: int
    kind: Literal["auto", "fixed", "upto"]


@dataclass(frozen=True)
class Task:
    """Work over a tile: `weight` vector operations per element (or a dot), in the loops over `loops` (axis symbols).

    dot: dims are (batch..., m, n, k). load, store: weight is bytes per element. vector: weight is the function's cost.
    """

    kind: Literal["dot", "load", "store", "vector"]
    dims: tuple[Dim, ...]
    weight: int
    loops: tuple[str, ...]
    run: int | None = None
    """The dim along which a load or store is contiguous, if there is one."""


@dataclass(frozen=True)
class GridWork:
    """All that the cost model knows of a grid. `axes` are those of the grid, `loops` those of ranges inside."""

    axes: tuple[Axis, ...]
    loops: tuple[Axis, ...]
    tasks: tuple[Task, ...]
    programs: Dim
    """Programs along the axes whose blocks are single coordinates."""
    tiles: tuple[tuple[Dim, ...], ...]
    """Shapes of the tiles that live in a program, each counted with 4 bytes per element."""


def collect_work(grid: ops.Grid) -> GridWork:
    """Reads the work of a grid's programs off its body."""
    collector = _Collector()
    axes: list[Axis] = []
    programs: Dim = 1
    for argument, block, stop in zip(grid.body.arguments, grid.blocks, grid.stops):
        length = size_of(stop)
        if isinstance(argument.type, AxisType):
            axes += _axis(argument, block, length)
        else:
            programs = programs * (UNKNOWN_SIZE if length is None else length)
    collector.block(grid.body, ())
    return GridWork(tuple(axes), tuple(collector.loops), tuple(collector.tasks), programs, tuple(collector.tiles))


def _axis(argument: Value, block: BlockSize, length: Dim | None) -> list[Axis]:
    name = symbol_name(argument.type.extent) if isinstance(argument.type, AxisType) else None
    return [] if name is None else [Axis(name, length, block.size, block.unit, block.kind)]


class _Collector:
    def __init__(self) -> None:
        self.tasks: list[Task] = []
        self.loops: list[Axis] = []
        self.tiles: list[tuple[Dim, ...]] = []

    def block(self, block: Block, loops: tuple[str, ...]) -> None:
        for op in block.ops:
            self.op(op, loops)
            inner = loops
            if isinstance(op, ops.Range):
                start, stop = size_of(op.start), size_of(op.stop)
                length = None if start is None or stop is None else stop - start
                found = _axis(op.body.arguments[0], op.blocks[0], length)
                self.loops += found
                inner = (*loops, *(axis.symbol for axis in found))
            for nested in op.bodies.values():
                self.block(nested, inner)

    def op(self, op: Op, loops: tuple[str, ...]) -> None:
        match op:
            case ops.Dot():
                *batch, rows, depth = op.a.shape
                dims = (*batch, rows, op.b.shape[-1], depth)
                self.tasks.append(Task("dot", dims, 1, loops))
                self.tiles += [op.result.shape, op.a.shape, op.b.shape]
            case ops.Load() if op.result.shape:
                self.tasks.append(Task("load", op.result.shape, op.result.dtype.bytes, loops, contiguous_dim(op)))
                if len(op.result.users) > 1:  # else it streams through, and nothing comes back to it
                    self.tiles.append(op.result.shape)
            case ops.Store() | ops.Atomic() if op.value.shape:
                assert isinstance(op.tensor.type, TensorType)
                run = contiguous_dim(op) if isinstance(op, ops.Store) else None
                self.tasks.append(Task("store", op.value.shape, op.tensor.type.dtype.bytes, loops, run))
            case ops.Map() if op.result.shape:
                cost = SCALAR_FUNCTIONS[op.fn].cost
                self.tasks.append(Task("vector", op.result.shape, cost, loops))
                if cost >= 4:
                    self.tiles.append(op.result.shape)
            case ops.Reduce() | ops.Scan():
                self.tasks.append(Task("vector", op.sources[0].shape, 2, loops))
            case _:
                pass


def contiguous_dim(op: ops.Load | ops.Store) -> int | None:
    """The axis of the tile along which its elements are neighbours in memory, if there is one."""
    assert isinstance(op.tensor.type, TensorType)
    selected = 0
    for axis, subscript in enumerate(op.indices):
        if isinstance(subscript, Value) and not isinstance(subscript.type, AxisType):
            if subscript.shape:
                return None  # a gather
            continue
        if op.tensor.type.unit == axis:
            return selected
        selected += 1
    return None


def estimate(work: GridWork, machine: CpuMachine, sizes: Mapping[str, int], blocks: Mapping[str, int]) -> float:
    """Cycles of one program with those block sizes. `sizes` has every size symbol."""
    trips = _trips(work, sizes, blocks)
    values = {**sizes, **blocks, **_whole_axes(work, sizes, blocks)}
    slowdown = _cache_factor(work, machine, values)
    total = PROGRAM_CYCLES + sum(ITERATION_CYCLES * count for count in trips.values())
    for task in work.tasks:
        dims = [evaluate(dim, values) for dim in task.dims]
        total += _product(trips.get(loop, 1) for loop in task.loops) * _cycles(task, dims, machine, slowdown)
        total += _run_cycles(task, dims, trips)
    return total


def _whole_axes(work: GridWork, sizes: Mapping[str, int], blocks: Mapping[str, int]) -> dict[str, int]:
    """The lengths of the axes that are shorter than their blocks."""
    lengths = {axis.symbol: axis_length(axis, sizes) for axis in (*work.axes, *work.loops)}
    return {name: max(1, length) for name, length in lengths.items() if length < blocks[name]}


def _run_cycles(task: Task, dims: list[int], trips: Mapping[str, int]) -> float:
    """What is lost at the beginnings of runs, over all turns of the loops around the task."""
    if task.run is None or not dims[task.run]:
        return 0.0
    runs = _product(dims) // dims[task.run] - 1
    turns = _product(trips.get(loop, 1) for loop in task.loops)
    along = symbol_name(task.dims[task.run])
    if along in task.loops and runs < MOST_STREAMS:
        turns //= max(trips.get(along, 1), 1)
    return RUN_CYCLES * runs * turns


def _trips(work: GridWork, sizes: Mapping[str, int], blocks: Mapping[str, int]) -> dict[str, int]:
    return {axis.symbol: -(-axis_length(axis, sizes) // blocks[axis.symbol]) for axis in work.loops}


def total_traffic(work: GridWork, sizes: Mapping[str, int], blocks: Mapping[str, int]) -> tuple[int, int, int]:
    """Bytes loaded, bytes stored and operations of the whole grid; as if all blocks were whole."""
    values = {**sizes, **blocks}
    trips = _trips(work, sizes, blocks)
    totals = {"load": 0, "store": 0, "dot": 0, "vector": 0}
    for task in work.tasks:
        amount = _product(evaluate(dim, values) for dim in task.dims) * _product(trips.get(a, 1) for a in task.loops)
        totals[task.kind] += amount * (2 if task.kind == "dot" else 1 if task.kind == "vector" else task.weight)
    programs = grid_programs(work, sizes, blocks)
    return programs * totals["load"], programs * totals["store"], programs * (totals["dot"] + totals["vector"])


def _cycles(task: Task, dims: list[int], machine: CpuMachine, slowdown: float) -> float:
    lanes = machine.vector_bytes // 4
    if task.kind == "dot":
        *batch, rows, columns, depth = dims
        copies = _product(batch)
        if min(rows, columns) <= FEW:
            few, wide = min(rows, columns), max(rows, columns)
            return copies * (few * depth * PACK_CYCLES + wide * depth * (1 + few) / lanes)
        if depth > PACKED_DEPTH:
            copies *= 4
        multiply = -(-rows // MICRO_ROWS) * MICRO_ROWS * -(-columns // lanes) * depth
        pack = (rows * depth + depth * columns) * PACK_CYCLES
        # accumulators are read and written once; the packed left operand once for every panel of the right one
        accumulate = 8 * rows * columns / _bandwidth(4 * rows * columns, machine)
        stream = 4 * rows * depth * -(-columns // (3 * lanes)) / _bandwidth(4 * rows * depth, machine)
        return copies * (multiply + pack + accumulate + stream / 4)
    elements = _product(dims)
    if task.kind == "load":
        return STREAM_CYCLES + elements * task.weight / MEMORY_BYTES_PER_CYCLE
    if task.kind == "store":  # a line is fetched before it is written
        return STREAM_CYCLES + 2 * elements * task.weight / MEMORY_BYTES_PER_CYCLE
    # rows that are no whole number of vectors still take the last one
    rows = elements // dims[-1] if dims[-1] else 0
    return rows * -(-dims[-1] // lanes) * task.weight * slowdown


def _bandwidth(footprint: int, machine: CpuMachine) -> float:
    """Bytes per cycle from the cache that has room for a tile beside others."""
    if 2 * footprint <= machine.l1_bytes:
        return 64.0
    return 32.0 if 2 * footprint <= machine.l2_bytes else 10.0


def _cache_factor(work: GridWork, machine: CpuMachine, values: Mapping[str, int]) -> float:
    """How much slower elementwise work is when the program's tiles outgrow the first and the second cache."""
    footprint = sum(4 * _product([evaluate(dim, values) for dim in shape]) for shape in work.tiles)
    if footprint <= machine.l1_bytes:
        return 1.0
    return 1.3 if footprint <= machine.l2_bytes else 3.0


def axis_length(axis: Axis, sizes: Mapping[str, int]) -> int:
    """How long an axis is; a guess where only the running program knows."""
    return UNKNOWN_SIZE if axis.length is None else max(0, evaluate(axis.length, sizes))


def _product(values: Iterable[int]) -> int:
    result = 1
    for value in values:
        result *= value
    return result


def grid_programs(work: GridWork, sizes: Mapping[str, int], blocks: Mapping[str, int]) -> int:
    """How many programs the grid has."""
    programs = max(0, evaluate(work.programs, sizes))
    for axis in work.axes:
        programs *= -(-axis_length(axis, sizes) // blocks[axis.symbol])
    return programs


def total_time(
    work: GridWork, machine: CpuMachine, sizes: Mapping[str, int], blocks: Mapping[str, int], threads: int
) -> float:
    """Cycles until the last of `threads` threads is done with the whole grid."""
    rounds = -(-grid_programs(work, sizes, blocks) // threads)
    return rounds * estimate(work, machine, sizes, blocks)
