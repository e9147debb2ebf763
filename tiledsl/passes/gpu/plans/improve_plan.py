"""Better blocks and threads for a grid without products: neighbours of a plan, as long as one costs clearly less.

    softmax over the first axis of f16[4096, 8192]
    m=1, 256 threads     140 us: 2 bytes of each sector of 32      =>     m=8, 1024 threads     34 us

What a thread holds limits the blocks: the largest tile of a program is spread over its threads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from tiledsl.ir.types import TileType
from tiledsl.passes.gpu.plan import GridPlan
from tiledsl.passes.gpu.plans.grid_cost import GridCost
from tiledsl.passes.gpu_machine import GpuMachine
from tiledsl.passes.nest.count_work import WorkCounts
from tiledsl.passes.nest.loop_nest import LoopNest

GAIN = 0.85
"""A neighbour is taken that costs no more than this share: within it, predictions are no reason to leave a rule."""
MOST_THREADS = 1024
MOST_BLOCK = 64
"""Coordinates of a block that was one coordinate before."""
HELD = {32: 64, 64: 64, 128: 64, 256: 64, 512: 64, 1024: 32}
"""Registers of 32 bits that a thread of a block of so many has for its part of the largest tile."""


def improved(
    nest: LoopNest,
    grid: GridPlan,
    blocks: Mapping[str, int],
    sizes: Mapping[str, int],
    machine: GpuMachine,
) -> tuple[GridPlan, dict[str, int]]:
    """The plan of a grid and its blocks, or the best that neighbours lead to."""
    best = (grid, dict(blocks))
    if nest.dots or grid.programs or grid.cluster > 1 or grid.row_threads:
        return best
    cost = GridCost(nest, *best, sizes, machine)
    least = start = cost.times.seconds
    if start * GAIN <= cost.least_seconds:
        return best
    found = best
    while True:
        options = [
            (_seconds(nest, *option, sizes, machine), number, option)
            for number, option in enumerate(_neighbours(nest, *found, sizes))
        ]
        if not options:
            break
        seconds, _, option = min(options)
        if seconds >= least * 0.98:
            break
        least, found = seconds, option
    return found if least <= GAIN * start else best


def _seconds(
    nest: LoopNest, grid: GridPlan, blocks: Mapping[str, int], sizes: Mapping[str, int], machine: GpuMachine
) -> float:
    return GridCost(nest, grid, blocks, sizes, machine).times.seconds


def _neighbours(
    nest: LoopNest, grid: GridPlan, blocks: Mapping[str, int], sizes: Mapping[str, int]
) -> Iterator[tuple[GridPlan, dict[str, int]]]:
    """One open block twice or half as large, or twice as many threads, or both."""
    for threads in (grid.threads, 2 * grid.threads):
        if threads > MOST_THREADS:
            continue
        for axis in (None, *nest.axes):
            name = None if axis is None else axis.extent
            if axis is not None and (name is None or axis.block.kind == "fixed"):
                continue
            for factor in (2, 1) if name is None else (2, 4, 8):
                changed = dict(blocks)
                if name is not None:
                    changed[name] = blocks.get(name, 1) * factor
                    if changed[name] > max(MOST_BLOCK, blocks.get(name, 1)):
                        continue
                option = replace(grid, threads=threads)
                if held_registers(nest, option, changed, sizes) <= HELD[threads]:
                    yield option, changed


def held_registers(nest: LoopNest, grid: GridPlan, blocks: Mapping[str, int], sizes: Mapping[str, int]) -> float:
    """What a thread holds of the largest tile, in registers of 32 bits."""
    counts = WorkCounts(nest, sizes, blocks)
    tiles = [v for op in nest.grid.body.walk() for v in op.results if isinstance(v.type, TileType) and v.shape]
    held = [math.prod(map(counts.number, tile.shape)) * max(4, tile.dtype.bytes) / 4 for tile in tiles]
    return max(held, default=0.0) / grid.threads
