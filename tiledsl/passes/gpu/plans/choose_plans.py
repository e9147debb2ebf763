"""Chooses plans for a function from the sizes of a call: the best first, then what to fall back to.

What a grid does decides: matrix products want large tiles and stages of shared memory; rows that are folded want to be
held in registers, by as few threads as their length allows; all else streams, a few vectors of 16 bytes per thread.
Rules and figures are in docs/performance-notes.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Function, Op, Value
from tiledsl.ir.lying import packed_bytes, step_and_phase
from tiledsl.ir.symbolic import Dim, evaluate, symbol_name, symbols_of
from tiledsl.ir.types import AxisType, Shape, TileType
from tiledsl.passes.analysis.effects import tensors_in_order
from tiledsl.passes.analysis.sizes import BlockDefinition, blocks_of, symbols_in
from tiledsl.passes.analysis.work import UNKNOWN_SIZE
from tiledsl.passes.gpu.layouts.capacities import rounded
from tiledsl.passes.gpu.layouts.infer_layouts import access_order, reshapes_units, tensor_of
from tiledsl.passes.gpu.plan import WRITTEN_OUT, GridPlan, Plan, RankedPlan
from tiledsl.passes.gpu.plans.call_sizes import Sizes
from tiledsl.passes.gpu.plans.cluster_moves import moved_between_blocks
from tiledsl.passes.gpu.plans.flat_rows import flat_rows
from tiledsl.passes.gpu.plans.grid_cost import GridCost
from tiledsl.passes.gpu.plans.improve_plan import improved, with_ring
from tiledsl.passes.gpu.plans.split_candidates import split_plans
from tiledsl.passes.gpu.plans.thread_plans import has_whole_rows, thread_plans
from tiledsl.passes.gpu.plans.turn_candidates import turned_plans
from tiledsl.passes.gpu_machine import GpuMachine
from tiledsl.passes.nest.loop_nest import loop_nest
from tiledsl.support.powers_of_two import power_of_two_from, power_of_two_in, power_of_two_up_to


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
LOOP = Figures(128, 8, run_bytes=64)
"""Loops over blocks: few threads with much to load in each turn, so that a turn is worth its beginning."""
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


@dataclass(frozen=True)
class GridShape:
    """What matters of one grid: its blocks, and the tiles and accesses inside of it."""

    op: ops.Grid
    blocks: tuple[BlockDefinition, ...]
    """Of the grid, then of the loops inside."""
    shapes: tuple[Shape, ...]
    accesses: tuple[ops.Load | ops.Store, ...]
    dots: tuple[ops.Dot, ...]

    @property
    def open(self) -> dict[str, BlockDefinition]:
        """The blocks that nobody has chosen, by symbol."""
        return {b.extent: b for b in self.blocks if b.extent is not None and b.block.kind != "fixed"}

    @property
    def block_symbols(self) -> frozenset[str]:
        return frozenset(b.extent for b in self.blocks if b.extent is not None)


def grids_of(function: Function) -> Iterator[GridShape]:
    """The grids of a function, in order."""
    for op in function.body.ops:
        if isinstance(op, ops.Grid):
            nested = list(op.body.walk())
            loops = [block for o in nested if isinstance(o, ops.Range) for block in blocks_of(o)]
            yield GridShape(
                op,
                (*blocks_of(op), *loops),
                tuple(dict.fromkeys(_tile_shapes(nested))),
                tuple(o for o in nested if isinstance(o, (ops.Load, ops.Store)) and _accessed(o)),
                tuple(o for o in nested if isinstance(o, ops.Dot)),
            )


def _tile_shapes(nested: Iterable[Op]) -> Iterator[Shape]:
    for op in nested:
        for value in op.results:
            if isinstance(value.type, TileType) and value.shape:
                yield value.shape


def _accessed(op: ops.Load | ops.Store) -> Shape:
    return op.value.shape if isinstance(op, ops.Store) else op.result.shape


WARPGROUP_DEPTH = 16
"""What a whole axis of a product comes in multiples of, where warpgroups multiply."""
FIRST_PLANS = 4
"""Plans with specialised warps that are tried before others."""


def choose_plans(
    function: Function,
    machine: GpuMachine,
    sizes: Mapping[str, int],
    alignment: Sequence[int],
    laid: Sequence[int] = (),
) -> list[Plan]:
    """Plans for these sizes (unknown ones may be left out), the best first. There is at least one.

    `alignment` as a `Plan` has it; `laid`: how each tensor lies (`ir/lying.py`).
    """
    return [ranked.plan for ranked in ranked_plans(function, machine, sizes, alignment, laid=laid)]


def ranked_plans(
    function: Function,
    machine: GpuMachine,
    sizes: Mapping[str, int],
    alignment: Sequence[int],
    specialised: int = FIRST_PLANS,
    laid: Sequence[int] = (),
) -> list[RankedPlan]:
    """The same with the times that were predicted. `specialised`: how many plans with specialised warps there are at
    most, for each grid."""

    def plans_of(program: Function) -> list[RankedPlan]:
        return _plans_as_written(program, machine, sizes, alignment, specialised, laid)

    whole = plans_of(function)
    guessed = _Sizes(function, sizes).every
    found = split_plans(function, machine, sizes, guessed, whole[0], plans_of)
    found = found or turned_plans(function, machine, sizes, guessed, whole[0], plans_of)
    return [*found, *whole]


def _plans_as_written(
    function: Function,
    machine: GpuMachine,
    sizes: Mapping[str, int],
    alignment: Sequence[int],
    specialised: int,
    laid: Sequence[int],
) -> list[RankedPlan]:
    """Those in which no sum is split."""
    known = _Sizes(function, sizes, alignment)
    grids, tensors = list(grids_of(function)), tensors_in_order(function.body)
    options: list[list[RankedPlan]] = []
    for grid in grids:
        found: list[RankedPlan] = []
        if grid.dots:
            from tiledsl.passes.gpu.plans.specialised_plans import specialised_plans  # costs start-up time

            of_call = sizes_of_call(function, grid, sizes, alignment)
            found = list(specialised_plans(grid.op, grid.blocks, machine, of_call).plans)
        first = [
            RankedPlan(_with_whole_axes(grid, plan, known, WARPGROUP_DEPTH, 1), seconds)
            for plan, seconds in found[:specialised]
        ]
        lying = dict(zip(tensors, alignment)), dict(zip(tensors, map(packed_bytes, laid)))
        flat = None if grid.dots else flat_rows(grid.op, grid.accesses, known.known, *lying, machine)
        others = [*([flat] if flat is not None else ()), *_grid_options(grid, machine, known)]
        options.append([*first, *map(RankedPlan, others)])
    ranked: dict[Plan, float | None] = {}
    for rank in range(max((len(o) for o in options), default=1)):
        choices = [plans[min(rank, len(plans) - 1)] for plans in options]
        plan = _joined([choice.plan for choice in choices], function, known, tuple(alignment))
        if any(one.flat for one in plan.grids):
            plan = replace(plan, packed=tuple(map(packed_bytes, laid)))
        if any(step_and_phase(one)[0] > 1 for one in laid):
            plan = replace(plan, steps=tuple(one if step_and_phase(one)[0] > 1 else 0 for one in laid))
        ranked.setdefault(plan, _seconds(choices, grids, known, machine))
    return [RankedPlan(plan, seconds) for plan, seconds in ranked.items()]


def _seconds(
    choices: Sequence[RankedPlan], grids: Sequence[GridShape], sizes: _Sizes, machine: GpuMachine
) -> float | None:
    """The time of all grids, where that of any was predicted: others take what the model of the machine says."""
    if all(choice.seconds is None for choice in choices):
        return None
    total = 0.0
    for (plan, seconds), grid in zip(choices, grids):
        if seconds is None:
            blocks = dict(plan.blocks)
            cost = GridCost(
                loop_nest(grid.op), plan.grids[0], blocks, sizes.all_of(grid), machine, sizes.alignment
            )  # fmt: skip
            seconds = machine.speeds.launch + cost.times.seconds
        total += seconds
    return total


def sizes_of_call(function: Function, grid: GridShape, sizes: Mapping[str, int], alignment: Sequence[int]) -> Sizes:
    """What is known of a call of a function, for one grid of it; unknown sizes are guessed."""
    known = _Sizes(function, sizes, alignment)

    def alignment_of(tensor: Value) -> int:
        return known.alignment.get(tensor, 16)

    return Sizes(known.of, known.all_of(grid), alignment_of)


class _Sizes:
    """The sizes of a call; a guess for those that are not known. `alignment`: of what a multiple of bytes the rows of
    each tensor begin, as far as that is known."""

    def __init__(self, function: Function, sizes: Mapping[str, int], alignment: Sequence[int] = ()) -> None:
        shapes = [p.type.shape for p in function.parameters if not isinstance(p.type, AxisType)]
        names = frozenset[str]().union(*(symbols_of(dim) for shape in shapes for dim in shape))
        self.function, self.known = function, dict(sizes)
        self.values = {**dict.fromkeys(names, UNKNOWN_SIZE), **sizes}
        self.alignment: dict[Value, int] = dict(zip(tensors_in_order(function.body), alignment))

    @property
    def every(self) -> dict[str, int]:
        """Every size that the function speaks of, by symbol, but those of blocks; a guess for those not known."""
        return {name: size for grid in grids_of(self.function) for name, size in self.all_of(grid).items()}

    def all_of(self, grid: GridShape) -> dict[str, int]:
        """Every size that a grid speaks of, by symbol, but those of blocks; a guess for those that are not known."""
        names = frozenset[str]().union(*(symbols_in(op) for op in (grid.op, *grid.op.body.walk())))
        stops = frozenset[str]().union(*(symbols_of(b.total) for b in grid.blocks if b.total is not None))
        return {**dict.fromkeys((names | stops) - grid.block_symbols, UNKNOWN_SIZE), **self.values}

    def of(self, dim: Dim | None, blocks: Mapping[str, int] | None = None) -> int:
        """A size, or a guess."""
        if dim is None:
            return UNKNOWN_SIZE
        values = {**self.values, **(blocks or {})}
        missing = {name: UNKNOWN_SIZE for name in symbols_of(dim) if name not in values}
        return max(1, evaluate(dim, {**values, **missing}))


def _joined(choices: Sequence[Plan], function: Function, sizes: _Sizes, alignment: tuple[int, ...]) -> Plan:
    """The plans of the grids as one, with what is known of its sizes."""
    blocks = dict(pair for plan in choices for pair in plan.blocks)
    capacities: dict[str, int] = {}
    for plan in choices:
        for name, room in plan.capacities:
            capacities[name] = max(room, capacities.get(name, 0))
    exact = {name: size for plan in choices for name, size in plan.sizes}
    exact.update({name: room for name, room in capacities.items() if sizes.known.get(name) == room})
    divisors: dict[str, int] = {}
    for grid in grids_of(function):
        for block in grid.blocks:
            size = block.block.size if block.block.kind == "fixed" else blocks.get(block.extent or "", 0)
            name = symbol_name(block.total) if block.total is not None else None
            if name is not None and name not in exact and size > 1 and sizes.known.get(name, 1) % size == 0:
                divisors[name] = math.lcm(size, divisors.get(name, 1))
    capacities = {name: room for name, room in capacities.items() if name not in exact}
    for name, size in sizes.known.items():  # how wide accesses can be; multiples of 16 are known already
        if size > 0 and size % 16 != 0 and size % 2 == 0 and name not in exact:
            divisors[name] = math.lcm(power_of_two_in(size), divisors.get(name, 1))
    return Plan(
        grids=tuple(plan.grids[0] for plan in choices),
        blocks=tuple(blocks.items()),
        capacities=tuple(capacities.items()),
        sizes=tuple(exact.items()),
        divisors=tuple(d for d in divisors.items() if sizes.known[d[0]] % d[1] == 0 and sizes.known[d[0]] > 0),
        alignment=alignment,
    )


def _grid_options(grid: GridShape, machine: GpuMachine, sizes: _Sizes) -> list[Plan]:
    """Plans for one grid alone."""
    if grid.dots:
        found = thread_plans(grid.dots, grid.blocks, machine, sizes.of)
        granule = (WARPGROUP_DEPTH, 1) if has_whole_rows(grid.dots, grid.blocks) else (8, 32)
        return [_with_whole_axes(grid, plan, sizes, *granule) for plan in found]
    row = max((_fixed_elements(grid, shape, sizes) for shape in grid.shapes), default=1)
    vector = max(1, 16 // min((tensor_of(op).dtype.bytes for op in grid.accesses), default=4))
    if row >= SMALLEST_ROW * vector // 4 and any(_whole(grid, shape) for shape in grid.shapes):
        found = _row_plans(grid, machine, sizes, row, vector)
    else:
        found = _stream_plans(grid, sizes, row, vector)
    first = _improved(grid, found[0], machine, sizes, vector)
    near = [] if first == found[0] else [_smaller(grid, first, sizes, vector)]
    return list(dict.fromkeys(_with_ring(grid, plan, machine, sizes) for plan in (first, *near, *found)))


def _with_ring(grid: GridShape, plan: Plan, machine: GpuMachine, sizes: _Sizes) -> Plan:
    """The plan, with loads that run ahead of its loops where they can."""
    if not any(isinstance(op, ops.Range) for op in grid.op.body.ops):
        return plan
    ring = with_ring(loop_nest(grid.op), plan.grids[0], dict(plan.blocks), sizes.all_of(grid), machine)
    return replace(plan, grids=(ring,))


def _smaller(grid: GridShape, plan: Plan, sizes: _Sizes, vector: int) -> Plan:
    """The same with half of its largest block: threads hold less of it. To fall back to, if the plan is refused."""
    blocks = dict(plan.blocks)
    largest = max(blocks, key=blocks.__getitem__)
    blocks[largest] = max(1, blocks[largest] // 2)
    (own,) = plan.grids
    return _with_whole_axes(grid, Plan((own,), blocks=tuple(blocks.items())), sizes, vector, own.threads)


def _improved(grid: GridShape, plan: Plan, machine: GpuMachine, sizes: _Sizes, vector: int) -> Plan:
    """The plan, or what the model of the machine finds near it that costs clearly less."""
    (before,), blocks = plan.grids, dict(plan.blocks)
    better, changed = improved(loop_nest(grid.op), before, blocks, sizes.all_of(grid), machine, sizes.alignment)
    if (better, changed) == (before, blocks):
        return plan
    return _with_whole_axes(grid, Plan((better,), blocks=tuple(changed.items())), sizes, vector, better.threads)


def _whole(grid: GridShape, shape: Shape) -> bool:
    return any(not (symbols_of(dim) & grid.block_symbols) and dim != 1 for dim in shape)


def _fixed_elements(grid: GridShape, shape: Shape, sizes: _Sizes) -> int:
    """The elements of a tile for blocks of 1."""
    ones = dict.fromkeys(grid.open, 1)
    ones.update({b.extent: b.block.size for b in grid.blocks if b.extent is not None and b.block.kind == "fixed"})
    return math.prod(sizes.of(dim, ones) for dim in shape)


def _row_plans(grid: GridShape, machine: GpuMachine, sizes: _Sizes, row: int, vector: int) -> list[Plan]:
    """Rows held in registers. Short ones by a warp each, longer ones by a block, the longest by a cluster of blocks."""
    invariant = [op for op in grid.accesses if isinstance(op, ops.Load) and not _moves(op, grid)]
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
            blocks = _spread(grid, sizes, LOOP_THREADS // along * LOOP.vectors)
            plan = Plan((GridPlan(LOOP_THREADS),), blocks=tuple(blocks.items()))
            plans.append(_with_whole_axes(grid, plan, sizes, vector, along))
        if pieces <= SMALLEST_ROW:
            rows *= _rows_of_thread(grid, machine, sizes, rows)
            row_threads = along if invariant else 0
        elif invariant and pieces <= 4 * SMALLEST_ROW:
            rows, row_threads = 2 * rows, along  # two rows per thread, one set of weights
        blocks = _spread(grid, sizes, rows)
        plan = Plan((GridPlan(threads, cluster, row_threads=row_threads),), blocks=tuple(blocks.items()))
        plans.append(_with_whole_axes(grid, plan, sizes, vector, min(along, threads * cluster)))
    return list(dict.fromkeys(plans))


def _long_row_plans(grid: GridShape, machine: GpuMachine, sizes: _Sizes, row: int, vector: int) -> list[Plan]:
    """Rows that only a cluster can hold, which meet weights: the same for all rows, so programs that hold these go
    through many rows, the next ones on their way."""
    pieces = -(-row // vector)
    cluster = min(machine.largest_cluster, power_of_two_from(-(-pieces // (LARGEST_ROW * WEIGHTED_VECTORS))))
    room = pieces <= cluster * LARGEST_ROW * ROW_VECTORS
    if pieces <= LARGEST_ROW * ROW_VECTORS or not machine.has_clusters or not room or not grid.op.body.arguments:
        return []
    programs = max(1, round(WEIGHTED_BLOCKS * machine.multiprocessors / cluster))
    grid_plan = GridPlan(LARGEST_ROW, cluster, stages=WEIGHTED_STAGES, programs=programs)
    plan = Plan((grid_plan,), blocks=tuple(_spread(grid, sizes, 1).items()))
    return [_with_whole_axes(grid, plan, sizes, vector, LARGEST_ROW * cluster)]


def _moves(op: ops.Load, grid: GridShape) -> bool:
    """Whether what is loaded depends on the block."""
    return any(index in grid.op.body.arguments for index in op.indices)


def _row_threads(pieces: int, held: int) -> int:
    """How many threads share a row of so many pieces of 16 bytes, of which one holds at most `held`."""
    if pieces <= SMALLEST_ROW:
        return power_of_two_from(pieces)
    if pieces <= 4 * SMALLEST_ROW:
        return SMALLEST_ROW
    if pieces <= 8 * SMALLEST_ROW:
        return 2 * SMALLEST_ROW
    return max(LARGEST_ROW, power_of_two_from(-(-pieces // held)))


def _rows_of_thread(grid: GridShape, machine: GpuMachine, sizes: _Sizes, rows: int) -> int:
    """Of how many short rows a thread holds a piece, where the threads of a program have `rows` side by side: several,
    so that enough is under way for the time that it takes to begin a program, as long as there are enough programs."""
    total = math.prod(sizes.of(block.total) for block in blocks_of(grid.op))
    enough = total // (rows * PROGRAMS_EACH * machine.multiprocessors)
    return max(1, min(SHORT_ROWS, power_of_two_from(enough + 1) // 2))


def _spread(grid: GridShape, sizes: _Sizes, elements: int) -> dict[str, int]:
    """Block sizes for the open axes that make up `elements`, the last axes first; loops before the grid's."""
    blocks: dict[str, int] = {}
    for name, block in reversed(grid.open.items()):
        size = min(elements, power_of_two_from(sizes.of(block.total)))
        blocks[name] = size
        elements = max(1, elements // size)
    return dict(reversed(blocks.items()))


def _stream_plans(grid: GridShape, sizes: _Sizes, row: int, vector: int) -> list[Plan]:
    """Blocks of a few vectors per thread, along the axes that count fastest in memory first."""
    fast = list(dict.fromkeys(_fast_symbols(grid)))
    loops = [name for name, block in grid.open.items() if isinstance(block.op, ops.Range)]
    figures = STREAM
    if loops:
        figures = LOOP
    elif any(isinstance(op, ops.Reduce) for op in grid.op.body.walk()):
        figures = FOLD
    elif len(fast) >= 2:
        figures = TURN
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
        blocks[name] = min(elements, lengths[name])
        if name in loops:  # several turns, so that loads run ahead
            blocks[name] = min(blocks[name], max(SMALLEST_ROW * vector, lengths[name] // TURNS))
        if name not in loops and (loops or _folds_others(grid, name)):
            # a few lines of memory are enough: what is long is what is folded
            blocks[name] = min(blocks[name], max(vector, figures.run_bytes * vector // 16))
    for name in [*reversed(loops), *reversed([n for n in grid.open if n not in loops])]:
        if blocks[name] == 1:
            left = max(1, elements // _at_once(grid, blocks, name))
            blocks[name] = min(left, lengths[name])
    held = max(1, max(_at_once(grid, blocks, name) for name in blocks) * row) if blocks else max(1, row)
    threads = min(figures.threads, max(32, power_of_two_from(-(-held // vector))))
    plan = Plan((GridPlan(threads),), blocks=tuple(blocks.items()))
    first = _with_whole_axes(grid, plan, sizes, vector, threads)
    return [first, replace(first, grids=(GridPlan(min(1024, 2 * threads)),))]


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
        shape = _accessed(op)
        unit = tensor_of(op).unit if _rank(op) >= most else None
        if shape and unit is not None:
            name = symbol_name(shape[access_order(op)[-1]])
            if name is not None and name in grid.open:
                yield name


def _rank(op: ops.Load | ops.Store) -> int:
    return sum(dim != 1 for dim in _accessed(op))


def _with_whole_axes(grid: GridShape, plan: Plan, sizes: _Sizes, vector: int, threads: int) -> Plan:
    """The plan with room for every axis that a tile has whole."""
    fast: set[str] = set()
    for op in grid.accesses:
        shape = _accessed(op)
        if shape:
            fast.add(str(shape[access_order(op)[-1]]))
    capacities: dict[str, int] = {}
    exact: dict[str, int] = {}
    for dim in (dim for shape in grid.shapes for dim in shape):
        if isinstance(dim, int) or symbols_of(dim) & grid.block_symbols:
            continue
        size, text = sizes.of(dim), str(dim)
        granule = vector
        if text in fast:
            granule = (
                power_of_two_from(size)
                if size < vector
                else vector * min(threads, power_of_two_from(-(-size // vector)))
            )
        capacities[text] = -(-max(size, 1) // granule) * granule if text in fast else rounded(size)
    for name in _reshaped_symbols(grid):
        if name in sizes.known:
            exact[name] = sizes.known[name]
    for block in grid.blocks if not grid.dots else ():
        name = symbol_name(block.total) if isinstance(block.op, ops.Range) and block.total is not None else None
        if name is not None and is_written_out(block) and 0 < sizes.known.get(name, 0) <= WRITTEN_OUT:
            exact[name] = sizes.known[name]
    return replace(plan, capacities=tuple(capacities.items()), sizes=tuple(exact.items()))


def is_written_out(block: BlockDefinition) -> bool:
    """Whether a loop goes one by one: if it is short, its turns are written out, and all that they load is asked for
    together."""
    return isinstance(block.op, ops.Range) and block.block.kind == "fixed" and block.block.size == 1


def _reshaped_symbols(grid: GridShape) -> Iterator[str]:
    """Sizes of whole axes that a reshape merges or splits: how elements move depends on them."""
    for op in grid.op.body.walk():
        if isinstance(op, ops.Reshape) and not reshapes_units(op):
            for dim in (*op.source.shape, *op.result.shape):
                yield from symbols_of(dim) - grid.block_symbols
