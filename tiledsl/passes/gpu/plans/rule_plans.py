"""Plans of grids without products by rule: rows are held in registers, all else streams.

A rule has a plan to begin with; what costs less near it is found by `improve_plan.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Op
from tiledsl.ir.symbolic import symbol_name, symbols_of
from tiledsl.ir.types import Shape
from tiledsl.passes.analysis.sizes import blocks_of
from tiledsl.passes.gpu.layouts.gathered_layouts import is_loaded, is_tile_index
from tiledsl.passes.gpu.layouts.infer_layouts import access_order, tensor_of
from tiledsl.passes.gpu.plan import GridPlan, Plan
from tiledsl.passes.gpu.plans.costs.grid_cost import MEMORY_EACH, GridCost
from tiledsl.passes.gpu.plans.costs.resource_times import ResourceTimes
from tiledsl.passes.gpu.plans.facts.cluster_moves import moved_between_blocks
from tiledsl.passes.gpu.plans.facts.grid_shape import GridShape, KnownSizes, accessed
from tiledsl.passes.gpu.plans.facts.whole_axes import with_whole_axes
from tiledsl.passes.gpu.plans.weighted_rows import moves, weighted_row_plans
from tiledsl.passes.gpu_machine import GpuMachine
from tiledsl.support.powers_of_two import power_of_two_from, power_of_two_up_to


@dataclass(frozen=True)
class Figures:
    """How a program that streams is shaped: its threads, and how many accesses of 16 bytes each of them makes at a
    time, of each tensor. Where tiles are folded across the rows of memory, a program has `run_bytes` of each row.
    """

    threads: int
    vectors: int
    run_bytes: int = 128


STREAM = Figures(256, 1)
"""Elementwise, with one axis that counts fastest in all tensors."""
TURN = Figures(512, 2)
"""Tensors that count fastest along different axes: tiles turn in shared memory."""
FOLD = Figures(256, 8, run_bytes=512)
"""Tiles that are folded, and little is written."""
FOLD_ALL = Figures(512, 2, run_bytes=512)
"""The same where blocks are folded whole: small ones, so that the last ones to run are soon done."""
GATHER = Figures(256, 2)
"""Elementwise, of rows whose places are loaded first: half of its time a program has only those under way, so a thread
has twice as much as others to ask for in the other half."""
LOOP = Figures(128, 8, run_bytes=128)
"""Loops over blocks: few threads with much to load in each turn, so that a turn is worth its beginning. A program has a
line of each row at least: parts of one that several ask for, each at its time, come from memory more slowly."""
LOOP_THREADS = 64
"""Of a block that goes through short rows in a loop."""
TURNS = 8
"""Of a loop along rows of memory, where these are long enough."""
ROW_VECTORS = 8
"""16-byte pieces of a row that a thread holds."""
SMALLEST_ROW = 32
"""Threads that a row has which is no shorter: a warp."""
SHORT_ROWS = 4
"""Rows of which a thread holds one piece each, where they are shorter than that."""
PROGRAMS_EACH = 8
"""Programs for each multiprocessor that there are to be before one of them takes more short rows."""
STACKED_THREADS = 128
"""Of a block whose tiles are stacked."""
LARGEST_ROW = 256
"""Threads that a row has before a cluster of blocks shares it."""
WEIGHTED_VECTORS = 4
"""Pieces of a row that a thread of a cluster holds beside those of weights."""
WEIGHTED_STAGES = 5
"""Buffers of each row on its way, of programs that hold weights."""
WEIGHTED_BLOCKS = 3.4
"""Blocks for each multiprocessor, of programs that go through many long rows."""
ROW_BLOCK = 128
"""The least threads of a block that holds rows."""
SLOWER = 1.05
"""Of the time of a program for each row, what programs that hold weights may take by the price, which does not see
what they gain where memory binds: that nothing waits for weights, and that rows are on their way."""
MOST_REST = 1 / 16
"""Of an axis, what blocks along it may reach beyond its end."""


def has_whole_axes(grid: GridShape, shape: Shape) -> bool:
    return any(not (symbols_of(dim) & grid.block_symbols) and dim != 1 for dim in shape)


def fixed_elements(grid: GridShape, shape: Shape, sizes: KnownSizes) -> int:
    """The elements of a tile for blocks of 1."""
    ones = dict.fromkeys(grid.open, 1)
    ones.update({b.extent: b.block.size for b in grid.blocks if b.extent is not None and b.block.kind == "fixed"})
    return math.prod(sizes.of(dim, ones) for dim in shape)


def row_plans(grid: GridShape, machine: GpuMachine, sizes: KnownSizes, row: int, vector: int) -> list[Plan]:
    """Rows held in registers. Short ones by a warp each, longer ones by a block, the longest by a cluster of blocks."""
    invariant = [op for op in grid.accesses if isinstance(op, ops.Load) and not moves(op, grid)]
    holding = weighted_row_plans(grid, machine, sizes, row, vector) if invariant else []
    plans = _long_row_plans(grid, machine, sizes, row, vector) if invariant else []
    apart = bool(moved_between_blocks(grid.op, None, folds=True))
    for held, may_cluster in ((ROW_VECTORS, True), (ROW_VECTORS // 2, True), (ROW_VECTORS, False)):
        pieces = -(-row // vector)
        along = _row_threads(pieces, held)
        if invariant and along == SMALLEST_ROW < pieces:
            along *= 2  # a thread has fewer weights to read
        cluster = 1
        if along > LARGEST_ROW and machine.has_clusters and may_cluster and not apart:
            cluster = min(machine.max_cluster, along // LARGEST_ROW)
        threads = min(machine.max_threads_per_block, max(along // cluster, ROW_BLOCK))
        rows = max(1, threads * cluster // along)
        row_threads = 0
        if along <= LOOP_THREADS and any(isinstance(block.op, ops.Range) for block in grid.open.values()):
            blocks = spread_blocks(grid, sizes, LOOP_THREADS // along * LOOP.vectors)
            plan = Plan((GridPlan(LOOP_THREADS),), blocks=tuple(blocks.items()))
            plans.append(with_whole_axes(grid, plan, sizes, vector, along))
        if pieces <= SMALLEST_ROW:
            rows *= _rows_of_thread(grid, machine, sizes, rows)
            row_threads = along if invariant else 0
        elif invariant and pieces <= 4 * SMALLEST_ROW:
            rows, row_threads = 2 * rows, along  # two rows per thread, one set of weights
        blocks = spread_blocks(grid, sizes, rows)
        plan = Plan((GridPlan(threads, cluster, row_threads=row_threads),), blocks=tuple(blocks.items()))
        plans.append(with_whole_axes(grid, plan, sizes, vector, min(along, threads * cluster)))
    if holding:
        by_itself, held_on = (times_of_plan(grid, machine, sizes, plan) for plan in (plans[0], holding[0]))
        most = SLOWER if by_itself.bound == "memory" else 1.0
        if held_on.seconds <= most * by_itself.seconds:
            plans = [*holding, *plans]
    return list(dict.fromkeys(plans))


def stacked_plans(grid: GridShape, sizes: KnownSizes) -> list[Plan]:
    """Tiles that are stacked: each thread has one element of all of them, in few warps, so that others load and compute
    while these meet."""
    row = max(fixed_elements(grid, op.sources[0].shape, sizes) for op in grid.nest.stacked)
    threads = max(STACKED_THREADS, min(LARGEST_ROW, power_of_two_from(row)))
    plans: list[Plan] = []
    while threads >= SMALLEST_ROW:
        blocks = spread_blocks(grid, sizes, max(1, threads // power_of_two_from(row)))
        plans.append(with_whole_axes(grid, Plan((GridPlan(threads),), blocks=tuple(blocks.items())), sizes, 1, threads))
        threads //= 2
    return plans


def times_of_plan(grid: GridShape, machine: GpuMachine, sizes: KnownSizes, plan: Plan) -> ResourceTimes:
    """What a plan of a grid is predicted to take."""
    nest, every = grid.nest, sizes.all_of(grid)
    return GridCost(nest, plan.grids[0], dict(plan.blocks), every, machine, sizes.alignment).times


def _long_row_plans(grid: GridShape, machine: GpuMachine, sizes: KnownSizes, row: int, vector: int) -> list[Plan]:
    """Rows that only a cluster can hold, which meet weights: the same for all rows, so programs that hold these go
    through many rows, the next ones on their way."""
    pieces = -(-row // vector)
    cluster = min(machine.largest_cluster, power_of_two_from(-(-pieces // (LARGEST_ROW * WEIGHTED_VECTORS))))
    room = pieces <= cluster * LARGEST_ROW * ROW_VECTORS
    if pieces <= LARGEST_ROW * ROW_VECTORS or not machine.has_clusters or not room or not grid.op.body.arguments:
        return []
    programs = max(1, round(WEIGHTED_BLOCKS * machine.multiprocessors / cluster))
    grid_plan = GridPlan(LARGEST_ROW, cluster, stages=WEIGHTED_STAGES, programs=programs)
    plan = Plan((grid_plan,), blocks=tuple(spread_blocks(grid, sizes, 1).items()))
    return [with_whole_axes(grid, plan, sizes, vector, LARGEST_ROW * cluster)]


def _row_threads(pieces: int, held: int) -> int:
    """How many threads share a row of so many pieces of 16 bytes, of which one holds at most `held`."""
    if pieces <= SMALLEST_ROW:
        return power_of_two_from(pieces)
    if pieces <= 4 * SMALLEST_ROW:
        return SMALLEST_ROW
    if pieces <= 8 * SMALLEST_ROW:
        return 2 * SMALLEST_ROW
    return max(LARGEST_ROW, power_of_two_from(-(-pieces // held)))


def _rows_of_thread(grid: GridShape, machine: GpuMachine, sizes: KnownSizes, rows: int) -> int:
    """Of how many short rows a thread holds a piece, where the threads of a program have `rows` side by side: several,
    so that enough is under way for the time that it takes to begin a program, as long as there are enough programs."""
    total = math.prod(sizes.of(block.total) for block in blocks_of(grid.op))
    enough = total // (rows * PROGRAMS_EACH * machine.multiprocessors)
    return max(1, min(SHORT_ROWS, power_of_two_from(enough + 1) // 2))


def spread_blocks(grid: GridShape, sizes: KnownSizes, elements: int) -> dict[str, int]:
    """Block sizes for the open axes that make up `elements`, the last axes first; loops before the grid's."""
    blocks: dict[str, int] = {}
    for name, block in reversed(grid.open.items()):
        size = min(elements, power_of_two_from(sizes.of(block.total)))
        blocks[name] = size
        elements = max(1, elements // size)
    return dict(reversed(blocks.items()))


def stream_plans(grid: GridShape, machine: GpuMachine, sizes: KnownSizes, row: int, vector: int) -> list[Plan]:
    """Blocks of a few vectors per thread, along the axes that count fastest in memory first."""
    fast = list(dict.fromkeys(_fast_symbols(grid)))
    loops = [name for name, block in grid.open.items() if isinstance(block.op, ops.Range)]
    figures = STREAM
    if loops:
        figures = LOOP
    elif any(isinstance(op, ops.Reduce) for op in grid.op.body.walk()):
        figures = FOLD if row > 1 else FOLD_ALL
    elif len(fast) >= 2:
        figures = TURN
    elif any(is_loaded(index) for op in grid.accesses for index in op.indices if is_tile_index(index)):
        figures = GATHER
    elements = power_of_two_up_to(max(1, figures.threads * vector * figures.vectors // row))
    lengths = {name: power_of_two_from(sizes.of(block.total)) for name, block in grid.open.items()}
    blocks: dict[str, int] = dict.fromkeys(grid.open, 1)
    if len(fast) >= 2:  # rows of one tensor are columns of another: both as long as can be
        side = 1 << (elements.bit_length() // 2)
        short, long = sorted(fast[:2], key=lambda name: lengths[name])
        blocks[short] = min(side, lengths[short])
        blocks[long] = min(max(side, elements // blocks[short]), lengths[long])
    elif fast:
        (name,) = fast
        blocks[name] = _fitting(sizes.of(grid.open[name].total), elements, SMALLEST_ROW * vector)
        if name in loops:  # several turns, so that loads run ahead
            blocks[name] = min(blocks[name], max(SMALLEST_ROW * vector, lengths[name] // TURNS))
        if name not in loops and (loops or _folds_others(grid, name)):
            # a few lines of memory are enough: what is long is what is folded
            blocks[name] = min(blocks[name], max(vector, figures.run_bytes * vector // 16))
            fed = machine.copied_bytes_per_second / (MEMORY_EACH * machine.speeds.clock)
            if loops and _programs(grid, sizes, blocks, name) < fed:
                blocks[name] = max(vector, blocks[name] // 2)  # too few multiprocessors would ask for whole lines
    for name in [*reversed(loops), *reversed([n for n in grid.open if n not in loops])]:
        if blocks[name] == 1:
            left = max(1, elements // _at_once(grid, blocks, name))
            blocks[name] = min(left, lengths[name])
    held = max(1, max(_at_once(grid, blocks, name) for name in blocks) * row) if blocks else max(1, row)
    threads = min(figures.threads, max(32, power_of_two_from(-(-held // vector))))
    plan = Plan((GridPlan(threads),), blocks=tuple(blocks.items()))
    first = with_whole_axes(grid, plan, sizes, vector, threads)
    return [first, replace(first, grids=(GridPlan(min(1024, 2 * threads)),))]


def _fitting(length: int, most: int, least: int) -> int:
    """A block, a power of two of at most `most`, that goes into a length with little left over: of 768 elements 256,
    where one of 1024 would leave a quarter of all threads with nothing to do. Not below `least`, for little rest."""
    size = whole = min(most, power_of_two_from(length))
    while size > least and -(-length // size) * size > length * (1 + MOST_REST):
        size //= 2
    return size if -(-length // size) * size <= length * (1 + MOST_REST) else whole


def _programs(grid: GridShape, sizes: KnownSizes, blocks: Mapping[str, int], name: str) -> int:
    """Programs of a grid if all its open blocks but that of a symbol are of one coordinate."""
    count = 1
    for block in blocks_of(grid.op):
        total = sizes.of(block.total)
        extent = block.extent
        size = block.block.size if block.block.kind == "fixed" else blocks[name] if extent == name else 1
        count *= -(-total // max(1, size))
    return count


def _at_once(grid: GridShape, blocks: Mapping[str, int], name: str) -> int:
    """The elements of a tile along all blocks that there are beside that of a symbol: loops one after the other have
    tiles of their own."""
    of_name = grid.open[name].op
    beside = (other for other in blocks if other == name or not _are_apart(grid.open[other].op, of_name))
    return math.prod(blocks[other] for other in beside)


def _are_apart(one: Op, other: Op) -> bool:
    """Whether neither of two loops stands in the other."""
    return one is not other and one not in set(other.walk()) and other not in set(one.walk())


def _folds_others(grid: GridShape, name: str) -> bool:
    """Whether tiles are folded over other axes than the block of that symbol."""
    folds = [op for op in grid.op.body.walk() if isinstance(op, ops.Reduce)]
    return bool(folds) and all(name not in {symbol_name(op.sources[0].shape[axis]) for axis in op.axes} for op in folds)


def _fast_symbols(grid: GridShape) -> Iterator[str]:
    """The open blocks that run along an axis of unit stride of some tensor. A row or a column that elementwise tiles,
    or those of a loop, meet does not count: it is read once for many of them."""
    inside = list(grid.op.body.walk())
    folds = any(isinstance(op, ops.Reduce) for op in inside) and not any(isinstance(op, ops.Range) for op in inside)
    most = 0 if folds else max((_rank(op) for op in grid.accesses), default=0)
    for op in grid.accesses:
        shape = accessed(op)
        unit = tensor_of(op).unit if _rank(op) >= most else None
        if shape and unit is not None:
            name = symbol_name(shape[access_order(op)[-1]])
            if name is not None and name in grid.open:
                yield name


def _rank(op: ops.Load | ops.Store) -> int:
    return sum(dim != 1 for dim in accessed(op))
