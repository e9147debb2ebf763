"""Plans in which f32 products with all their digits are made of planes of bf16, by matrix instructions.

    4096^3 by single multiply-adds      3.8 ms
    six products of planes              1.3 ms

The grid that `split-products` makes is planned as any other is; whether it is taken, its price says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import NamedTuple

from tiledsl.ir.core import Function, Module
from tiledsl.passes.gpu.plan import Plan, RankedPlan
from tiledsl.passes.gpu.plans.facts.grid_shape import GridShape, grids_of
from tiledsl.passes.gpu.plans.product_plans.thread_plans import ThreadPlans
from tiledsl.passes.manager import PassContext
from tiledsl.passes.tile.split_products import SplitProducts, loops_to_split

GAIN = 0.9
"""Of the time by single multiply-adds, what planes may take to come first."""
THREADS_GAIN = 0.85
"""Of the time of the best plan for warpgroups, what one for threads that are all alike may take to come before it."""
LEAST_SECONDS = 2e-6
"""What planes are to gain: prices of short kernels are no closer."""
KEPT = 6
"""Plans by planes that come before the others."""


class SplitGrid(NamedTuple):
    """A function whose grid of this number has its products made of planes, and that grid of it."""

    function: Function
    grid: GridShape


def split_grid(function: Function, number: int, grid: GridShape) -> SplitGrid | None:
    """The grid with products of planes; None where it has none that can be made so, or others beside them."""
    loops = loops_to_split(grid.op)
    if not loops or any(dot.parent not in [loop.body for loop in loops] for dot in grid.dots):
        return None
    program = SplitProducts((number,)).run(Module([function.clone()]), PassContext()).entry
    return SplitGrid(program, list(grids_of(program))[number])


def plans_by_planes(
    split: SplitGrid,
    by_threads: ThreadPlans,
    plans_of: Callable[[GridShape], ThreadPlans],
    by_warpgroups: Sequence[RankedPlan] = (),
) -> list[RankedPlan]:
    """Plans of a grid by planes, the best first; none where they gain nothing over single multiply-adds.

    `by_threads`: the plans of the grid as the program says it. `plans_of`: those of another grid. `by_warpgroups`:
    those of the split grid.
    """
    others = plans_of(split.grid)
    best = min((one.seconds for one in by_warpgroups if one.seconds is not None), default=math.inf)
    before, after = by_threads.beside_others, min(best, others.beside_others)
    if after > GAIN * before or before - after < LEAST_SECONDS:
        return []
    found: Iterator[RankedPlan] = iter(by_warpgroups)
    if others.seconds < THREADS_GAIN * best or not by_warpgroups:
        found = chain(islice(others.plans, 1 if by_warpgroups else KEPT), found)
    return [one._replace(plan=marked(one.plan)) for one in islice(found, KEPT)]


def marked(plan: Plan) -> Plan:
    """A plan whose products are made of planes."""
    return replace(plan, grids=tuple(replace(grid, split=True) for grid in plan.grids))
