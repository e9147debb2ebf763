"""Plans in which the sides of a product are swapped: rows of the result run along the columns of matrix instructions.

    777 x 4096 x 4096 on 132 multiprocessors     7 x 16 blocks of 128 x 256: 49.2 us
    sides swapped                                4 x 32 blocks of 208 x 128: 42.4 us

Blocks come in 64 rows, and in columns by 16. Where there are few of them, what the last one wastes is much, and how
many there are decides. The grid that `swap-sides` makes is planned and priced as any other is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Function, Module
from tiledsl.ir.symbolic import Dim
from tiledsl.passes.gpu.plan import Plan, RankedPlan
from tiledsl.passes.gpu.plans.facts.grid_shape import GridShape, grids_of
from tiledsl.passes.gpu_machine import GpuMachine
from tiledsl.passes.manager import PassContext
from tiledsl.passes.tile.swap_sides import SwapSides, loop_to_swap

GAIN = 0.97
"""Of the time of the best plan as the program says it, what swapped sides may take to come first."""
FEW_ROUNDS = 3
"""With more tiles for each multiprocessor, what the last ones waste is little."""
KEPT = 2
"""Plans with swapped sides that come before the others."""


def with_swapped_sides(
    function: Function,
    number: int,
    found: Sequence[RankedPlan],
    machine: GpuMachine,
    size_of: Callable[[Dim], int],
    plans_of: Callable[[Function, GridShape], Sequence[RankedPlan]],
) -> list[RankedPlan]:
    """Plans of grid `number` of a function, and before them those with swapped sides that are predicted to be faster.

    `found`: the plans as the program says it, the best first. `plans_of`: those of a grid by warpgroups.
    """
    grid = list(grids_of(function))[number]
    if not found or found[0].seconds is None or loop_to_swap(grid.op) is None:
        return list(found)
    if _tiles(grid, found[0], size_of) > FEW_ROUNDS * machine.multiprocessors:
        return list(found)
    program = SwapSides((number,)).run(Module([function.clone()]), PassContext()).entry
    swapped = plans_of(program, list(grids_of(program))[number])[:KEPT]
    better = [one for one in swapped if one.seconds is not None and one.seconds <= GAIN * found[0].seconds]
    return [*(one._replace(plan=_marked(one.plan)) for one in better), *found]


def _marked(plan: Plan) -> Plan:
    return replace(plan, grids=tuple(replace(grid, swapped=True) for grid in plan.grids))


def _tiles(grid: GridShape, ranked: RankedPlan, size_of: Callable[[Dim], int]) -> int:
    """That the blocks of a grid's plan make of it."""
    chosen = dict(ranked.plan.blocks)
    counts: list[int] = []
    for block in grid.blocks:
        if isinstance(block.op, ops.Grid) and block.total is not None:
            size = block.block.size if block.block.kind == "fixed" else chosen.get(block.extent or "", 1)
            counts.append(-(-size_of(block.total) // max(1, size)))
    return math.prod(counts)
