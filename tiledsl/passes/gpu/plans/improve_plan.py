"""Better blocks and threads for a grid without products: neighbours of a plan, as long as one costs clearly less.

    softmax over the first axis of f16[4096, 8192]
    m=1, 256 threads: 2 bytes of each line        =>        m=32, 512 threads x 4: 64 bytes of each line

What a thread holds limits the blocks: the largest tile of a program is spread over its threads, those of a cluster.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from tiledsl.ir.core import Value
from tiledsl.ir.tile_ops import Reduce, Scan
from tiledsl.passes.gpu.plan import GridPlan
from tiledsl.passes.gpu.plans.costs.exchanges import stacked_bytes
from tiledsl.passes.gpu.plans.costs.grid_cost import GridCost
from tiledsl.passes.gpu.plans.costs.held_tiles import BESIDE, MOST_LIVE_WORDS, live_words
from tiledsl.passes.gpu.plans.costs.run_ahead import registers, stages_ahead
from tiledsl.passes.gpu.plans.facts.cluster_moves import moved_between_blocks
from tiledsl.passes.gpu_machine import GpuMachine
from tiledsl.passes.nest.count_work import WorkCounts
from tiledsl.passes.nest.loop_nest import LoopNest

CountsOf = Callable[[Mapping[str, int]], WorkCounts]
"""The counts of one nest for blocks, by symbol."""
GAIN = 0.85
"""A neighbour is taken that costs no more than this share: within it, predictions are no reason to leave a rule."""
SAME = 0.98
"""Of two neighbours whose times differ by no more than that, the one is taken whose threads hold less."""
FEWEST_THREADS = 32
MOST_THREADS = 1024
MOST_BLOCK = 64
"""Coordinates of a block of the grid that was smaller before."""
MOST_TURN = 1024
"""Coordinates of a turn of a loop."""
MOST_STACKED = 96 << 10
"""Bytes of shared memory for tiles that are stacked: of one block fewer threads would wait for each other."""
MOST_REGISTERS = 65536
"""Of a block whose loops are not to spill."""
HELD = {32: 64, 64: 64, 128: 64, 256: 64, 512: 64, 1024: 32}
"""Registers of 32 bits that a thread of a block of so many has for its part of the largest tile."""
FOLDED_AT_ONCE = 8
"""Elements of a tile that is folded as it is made, for each of what a thread could hold: their code is written out."""


def improved(
    nest: LoopNest,
    grid: GridPlan,
    blocks: Mapping[str, int],
    sizes: Mapping[str, int],
    machine: GpuMachine,
    alignment: Mapping[Value, int] | None = None,
) -> tuple[GridPlan, dict[str, int]]:
    """The plan of a grid and its blocks, or the best that neighbours lead to. `alignment`: as `GridCost` has it."""
    best = (grid, dict(blocks))
    if nest.dots or grid.programs:
        return best

    counts_of = _counts(nest, sizes)
    known: dict[tuple[GridPlan, tuple[int, ...]], float] = {}

    def cost_of(grid: GridPlan, blocks: Mapping[str, int]) -> GridCost:
        counts = counts_of(blocks)
        ring = _with_stages(nest, grid, counts, machine)
        return GridCost(nest, ring, blocks, sizes, machine, alignment, counts=counts)

    def seconds_of(grid: GridPlan, blocks: Mapping[str, int], limit: float) -> float:
        """Infinite where it is seen early that it is above the limit; later ones are lower."""
        key = (grid, tuple(blocks.values()))
        if key not in known:
            cost = cost_of(grid, blocks)
            known[key] = math.inf if cost.takes_longer(limit) else cost.times.seconds
        return known[key]

    cost = cost_of(*best)
    least = start = cost.times.seconds
    if start * GAIN <= cost.least_seconds:
        return best
    found = best
    while True:
        fastest = math.inf
        options: list[tuple[float, tuple[GridPlan, dict[str, int]]]] = []
        for option in _neighbours(nest, *found, counts_of, machine):
            seconds = seconds_of(*option, limit=min(least, fastest / SAME))
            fastest = min(fastest, seconds)
            options.append((seconds, option))
        if fastest >= least * SAME:
            break
        good = [one for one in options if one[0] * SAME <= fastest]
        least, found = min(good, key=lambda one: held_registers(nest, one[1][0], counts_of(one[1][1])))
    return found if least <= GAIN * start else best


def with_ring(
    nest: LoopNest, grid: GridPlan, blocks: Mapping[str, int], sizes: Mapping[str, int], machine: GpuMachine
) -> GridPlan:
    """The plan of a grid, with as many stages as its loops run ahead."""
    return _with_stages(nest, grid, WorkCounts(nest, sizes, blocks), machine)


def _with_stages(nest: LoopNest, grid: GridPlan, counts: WorkCounts, machine: GpuMachine) -> GridPlan:
    if grid.stages > 1 or grid.roles or grid.programs or nest.dots or not nest.loops:
        return grid
    return replace(grid, stages=stages_ahead(nest, grid, counts, machine))


def _counts(nest: LoopNest, sizes: Mapping[str, int]) -> CountsOf:
    """The counts of a nest for blocks, which do not depend on threads: made once for each."""
    known: dict[tuple[tuple[str, int], ...], WorkCounts] = {}

    def counts_of(blocks: Mapping[str, int]) -> WorkCounts:
        key = tuple(blocks.items())
        if key not in known:
            known[key] = WorkCounts(nest, sizes, blocks)
        return known[key]

    return counts_of


class RefusedNeighbour(NamedTuple):
    """A plan of a grid and its blocks, its predicted seconds, and why it is left out."""

    seconds: float
    grid: GridPlan
    blocks: dict[str, int]
    reason: str


def refused_neighbours(
    nest: LoopNest,
    grid: GridPlan,
    blocks: Mapping[str, int],
    sizes: Mapping[str, int],
    machine: GpuMachine,
    alignment: Mapping[Value, int] | None = None,
) -> tuple[float, list[RefusedNeighbour]]:
    """The predicted seconds of a plan, and its neighbours that do not fit, in no order. None of products, or where
    programs go through all blocks."""
    if nest.dots or grid.programs:
        return math.inf, []
    refused: list[RefusedNeighbour] = []

    def refuse(option: GridPlan, candidate: dict[str, int], reason: str) -> None:
        ring = with_ring(nest, option, candidate, sizes, machine)
        seconds = GridCost(nest, ring, candidate, sizes, machine, alignment).times.seconds
        refused.append(RefusedNeighbour(seconds, option, candidate, reason))

    for _ in _neighbours(nest, grid, blocks, _counts(nest, sizes), machine, refuse):
        pass
    return GridCost(nest, grid, blocks, sizes, machine, alignment).times.seconds, refused


def _neighbours(
    nest: LoopNest,
    grid: GridPlan,
    blocks: Mapping[str, int],
    counts_of: CountsOf,
    machine: GpuMachine,
    refuse: Callable[[GridPlan, dict[str, int], str], None] = lambda grid, blocks, reason: None,
) -> Iterator[tuple[GridPlan, dict[str, int]]]:
    """Other blocks, more threads, more blocks in a cluster, or several of these; fewer threads where blocks are fewer
    than multiprocessors. `refuse` is told of those that do not fit, and why."""
    open_ = _open_blocks(nest)
    apart = moved_between_blocks(nest.grid, None, folds=True)
    steps: list[tuple[float, int]] = [(1, 1), (2, 1), (1, 2), (2, 2)]
    if not any(isinstance(work.op, (Reduce, Scan)) for work in nest.elementwise):
        steps = steps[:2]  # blocks have nothing to tell each other
    few = counts_of(blocks).programs * grid.cluster < machine.multiprocessors
    if nest.slid or few:  # where windows slide, fewer threads have more neighbours each
        steps.append((0.5, 1))
    for more_threads, more_blocks in steps:
        option = replace(grid, threads=int(more_threads * grid.threads), cluster=more_blocks * grid.cluster)
        if not FEWEST_THREADS <= option.threads <= MOST_THREADS or option.cluster > machine.max_cluster:
            continue
        for candidate in _changed(blocks, open_, option != grid):
            reason = apart if option.cluster > grid.cluster else ""
            reason = reason or _too_much(nest, option, counts_of(candidate))
            if reason:
                refuse(option, candidate, reason)
            else:
                yield option, candidate


def _changed(blocks: Mapping[str, int], open_: Mapping[str, int], as_they_are: bool) -> Iterator[dict[str, int]]:
    """One block larger or smaller; or a smaller one for a larger other one, so that a tile has as many elements."""
    for name, most in open_.items():
        size = blocks.get(name, 1)
        for changed in (size // 2, size, 2 * size, 4 * size, 8 * size):
            if 1 <= changed <= max(most, size) and (changed != size or as_they_are):
                yield {**blocks, name: changed}
        for other in open_:
            for share in (2, 4, 8) if other != name else ():
                if size * share <= most and blocks.get(other, 1) % share == 0:
                    yield {**blocks, name: size * share, other: blocks[other] // share}


def _too_much(nest: LoopNest, grid: GridPlan, counts: WorkCounts) -> str:
    """Why threads cannot hold what a plan gives them; empty if they can."""
    live = live_words(nest, grid, lambda shape: math.prod(map(counts.number, shape)))
    if live > min(MOST_LIVE_WORDS, MOST_REGISTERS // grid.threads - BESIDE):
        return f"a thread would hold {math.ceil(live)} registers of tiles that are there at once"
    stacked = stacked_bytes(nest, counts.number)
    if stacked > MOST_STACKED:
        return f"tiles that are stacked would take {stacked} bytes of shared memory"
    held, room = held_registers(nest, grid, counts), HELD[grid.threads]
    if held > room:
        what = f"a thread would hold {math.ceil(held)} registers of the largest tile, and has room for {room}"
        return f"{what}; its long axis in blocks, by `tile.range`, would take less"
    if not nest.loops:
        return ""
    held, room = registers(nest, grid, counts), MOST_REGISTERS // grid.threads
    return f"a thread would hold {math.ceil(held)} registers in its loop, and has {room}" if held > room else ""


def _open_blocks(nest: LoopNest) -> dict[str, int]:
    """The blocks that nobody has chosen, and how large they may get."""
    of_grid = {axis.extent: MOST_BLOCK for axis in nest.axes if axis.block.kind != "fixed"}
    loops = [loop.definition for loop in nest.loops if loop.definition is not None]
    of_loops = {block.extent: MOST_TURN for block in loops if block.block.kind != "fixed"}
    return {name: most for name, most in {**of_grid, **of_loops}.items() if name is not None}


def held_registers(nest: LoopNest, grid: GridPlan, counts: WorkCounts) -> float:
    """What a thread holds of the largest tile, in registers of 32 bits."""
    shares = {**dict.fromkeys(nest.folded_tiles, 1 / FOLDED_AT_ONCE), **dict.fromkeys(nest.tiles, 1.0)}
    held = [share * math.prod(map(counts.number, shape)) * max(4, each) / 4 for (shape, each), share in shares.items()]
    return max(held, default=0.0) / (grid.threads * grid.cluster)
