"""Better blocks and threads for a grid without products: neighbours of a plan, as long as one costs clearly less.

    softmax over the first axis of f16[4096, 8192]
    m=1, 256 threads: 2 bytes of each line        =>        m=32, 512 threads x 4: 64 bytes of each line

What a thread holds limits the blocks: the largest tile of a program is spread over its threads, those of a cluster.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from tiledsl.ir.core import Value
from tiledsl.ir.types import TileType
from tiledsl.passes.gpu.plan import GridPlan
from tiledsl.passes.gpu.plans.cluster_moves import moved_between_blocks
from tiledsl.passes.gpu.plans.grid_cost import GridCost
from tiledsl.passes.gpu.plans.run_ahead import registers, stages_ahead
from tiledsl.passes.gpu_machine import GpuMachine
from tiledsl.passes.nest.count_work import WorkCounts
from tiledsl.passes.nest.loop_nest import LoopNest

GAIN = 0.85
"""A neighbour is taken that costs no more than this share: within it, predictions are no reason to leave a rule."""
SAME = 0.98
"""Of two neighbours whose times differ by no more than that, the one is taken whose threads hold less."""
MOST_THREADS = 1024
MOST_BLOCK = 64
"""Coordinates of a block of the grid that was smaller before."""
MOST_TURN = 1024
"""Coordinates of a turn of a loop."""
MOST_REGISTERS = 65536
"""Of a block whose loops are not to spill."""
HELD = {32: 64, 64: 64, 128: 64, 256: 64, 512: 64, 1024: 32}
"""Registers of 32 bits that a thread of a block of so many has for its part of the largest tile."""


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

    def cost_of(grid: GridPlan, blocks: Mapping[str, int]) -> GridCost:
        return GridCost(nest, with_ring(nest, grid, blocks, sizes, machine), blocks, sizes, machine, alignment)

    cost = cost_of(*best)
    least = start = cost.times.seconds
    if start * GAIN <= cost.least_seconds:
        return best
    found = best
    while True:
        options = [
            (cost_of(*option).times.seconds, option) for option in _neighbours(nest, *found, sizes, machine.max_cluster)
        ]
        fastest = min((seconds for seconds, _ in options), default=least)
        if fastest >= least * SAME:
            break
        good = [one for one in options if one[0] * SAME <= fastest]
        least, found = min(good, key=lambda one: held_registers(nest, *one[1], sizes))
    return found if least <= GAIN * start else best


def with_ring(
    nest: LoopNest, grid: GridPlan, blocks: Mapping[str, int], sizes: Mapping[str, int], machine: GpuMachine
) -> GridPlan:
    """The plan of a grid, with as many stages as its loops run ahead."""
    if grid.stages > 1 or grid.roles or grid.programs or nest.dots or not nest.loops:
        return grid
    return replace(grid, stages=stages_ahead(nest, grid, WorkCounts(nest, sizes, blocks), machine))


def _neighbours(
    nest: LoopNest, grid: GridPlan, blocks: Mapping[str, int], sizes: Mapping[str, int], largest_cluster: int
) -> Iterator[tuple[GridPlan, dict[str, int]]]:
    """Other blocks, more threads, more blocks in a cluster, or several of these."""
    open_ = _open_blocks(nest)
    if moved_between_blocks(nest.grid, None, folds=True):
        largest_cluster = grid.cluster
    for more_threads, more_blocks in ((1, 1), (2, 1), (1, 2), (2, 2)):
        option = replace(grid, threads=more_threads * grid.threads, cluster=more_blocks * grid.cluster)
        if option.threads > MOST_THREADS or option.cluster > largest_cluster:
            continue
        for candidate in _changed(blocks, open_, option != grid):
            if held_registers(nest, option, candidate, sizes) > HELD[option.threads]:
                continue
            counts = WorkCounts(nest, sizes, candidate)
            if not nest.loops or option.threads * registers(nest, option, counts) <= MOST_REGISTERS:
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


def _open_blocks(nest: LoopNest) -> dict[str, int]:
    """The blocks that nobody has chosen, and how large they may get."""
    of_grid = {axis.extent: MOST_BLOCK for axis in nest.axes if axis.block.kind != "fixed"}
    loops = [loop.definition for loop in nest.loops if loop.definition is not None]
    of_loops = {block.extent: MOST_TURN for block in loops if block.block.kind != "fixed"}
    return {name: most for name, most in {**of_grid, **of_loops}.items() if name is not None}


def held_registers(nest: LoopNest, grid: GridPlan, blocks: Mapping[str, int], sizes: Mapping[str, int]) -> float:
    """What a thread holds of the largest tile, in registers of 32 bits."""
    counts = WorkCounts(nest, sizes, blocks)
    tiles = [v for op in nest.grid.body.walk() for v in op.results if isinstance(v.type, TileType) and v.shape]
    held = [math.prod(map(counts.number, tile.shape)) * max(4, tile.dtype.bytes) / 4 for tile in tiles]
    return max(held, default=0.0) / (grid.threads * grid.cluster)
