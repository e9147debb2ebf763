"""Why a better plan was not taken: what was declined for a grid as a whole, and plans that would have been faster.

no plan with specialised warps, because a right operand is computed, and `wgmma` takes it from memory
128 rows in steps of 96 would take 162 us instead of 166: a thread would hold 206 registers of tiles, of 193
256 x 256 in steps of 64, 8 warps, would take 270 us instead of 281: a thread would hold 256 registers of sums, ...
m=4, 512 threads, would take 10 us instead of 12: a thread would hold 80 registers of the largest tile, ...
its 8 blocks keep 8 of 132 multiprocessors busy, which takes 60 us of 70; an axis in more parts would use the others

A grid without products is compared with the neighbours of its plan, all others with every tiling that was refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tiledsl.ir.core import Function
from tiledsl.passes.gpu.plan import GridPlan, Plan
from tiledsl.passes.gpu.plans.choose_plans import ranked_plans
from tiledsl.passes.gpu.plans.costs.grid_cost import GridCost
from tiledsl.passes.gpu.plans.facts.call_sizes import Sizes
from tiledsl.passes.gpu.plans.facts.grid_shape import GridShape, KnownSizes, grids_of, sizes_of_call
from tiledsl.passes.gpu.plans.improve_plan import refused_neighbours
from tiledsl.passes.gpu.plans.product_plans.product_nest import ProductNest
from tiledsl.passes.gpu.plans.product_plans.read_products import NotPlannedError
from tiledsl.passes.gpu.plans.product_plans.specialised_plans import (
    best_seconds,
    contract_of,
    read_grid,
    refused_tilings,
    specialised_plans,
)
from tiledsl.passes.gpu.plans.product_plans.thread_plans import refused_thread_tilings
from tiledsl.passes.gpu.plans.product_plans.tilings import Tiling
from tiledsl.passes.gpu.plans.product_plans.warpgroup_cost import WarpgroupCost
from tiledsl.passes.gpu.plans.split_candidates import costs_of, program_of
from tiledsl.passes.gpu.products.streamed_loads import DeclinedError
from tiledsl.passes.gpu_machine import GpuMachine
from tiledsl.passes.nest.kernel_audit import guessed_sizes
from tiledsl.passes.tile.loops.unroll_loops import rereading_loops
from tiledsl.passes.tile.turn_operands import operands_to_turn
from tiledsl.support.location import Location

GAIN = 0.98
"""A refused tiling is worth a word if it would take no more than this share of the time."""
MOST_REASONS = 2
"""That are given for one grid."""
FEW_BLOCKS = 0.5
"""For each multiprocessor: a grid that has fewer is told so, where it takes much more than the least."""


class RefusedPlan(NamedTuple):
    """A reason, and the grid that it is about."""

    location: Location
    reason: str


def refused_plans(
    function: Function, machine: GpuMachine, sizes: Mapping[str, int], alignment: Sequence[int]
) -> list[RefusedPlan]:
    """What was refused for each grid of a function in form `tile-placed`, in order."""
    found: list[RefusedPlan] = []
    if any(operands_to_turn(function)):
        best = ranked_plans(function, machine, sizes, alignment)[0].plan
        function = program_of(function, Plan(() if best.parts else best.grids, turned=best.turned))
    if any(rereading_loops(function)):
        best = ranked_plans(function, machine, sizes, alignment)[0].plan
        if best.forwarded:
            function = program_of(function, Plan((), sizes=best.sizes, forwarded=True))
    grids = list(grids_of(function))
    taken: Plan | None = None
    costs: list[GridCost] = []
    for number, grid in enumerate(grids):
        call = sizes_of_call(function, grid, sizes, alignment)
        reasons: list[str] = []
        if not grid.dots:
            if taken is None:
                taken = ranked_plans(function, machine, sizes, alignment, 1)[0].plan
                costs = costs_of(function, taken, {**guessed_sizes(function), **sizes}, machine)
            if not taken.parts:  # else its grids are those of another program
                reasons = _few_blocks(costs[number], machine)
                reasons += _faster_neighbours(grid, taken.grids[number], dict(taken.blocks), machine, call)
        else:
            plans = specialised_plans(grid.op, grid.blocks, machine, call)
            if plans.declined and machine.has_warpgroups:
                reasons.append(f"no plan with specialised warps, because {plans.declined}")
            known = KnownSizes(function, sizes, alignment)
            reasons += _faster_by_threads(grid, machine, known) if plans.declined else _faster_ones(grid, machine, call)
        found += [RefusedPlan(grid.op.location, reason) for reason in reasons]
    return found


def _faster_by_threads(grid: GridShape, machine: GpuMachine, sizes: KnownSizes) -> list[str]:
    """Tilings by threads that are all alike, which would be faster than the best there is."""
    best, refused = refused_thread_tilings(grid, machine, sizes)
    found: list[tuple[float, str, str]] = []
    for seconds, one in refused:
        tiling = one.tiling
        warps = f"{math.prod(tiling.warps)} warps" if tiling.groups == 1 else f"{tiling.groups} groups of warps"
        what = f"{tiling.rows} x {tiling.columns} in steps of {tiling.depth}, {warps}, {tiling.stages} stages,"
        found.append((seconds, what, one.reason))
    return _reasons(best, found)


def _few_blocks(cost: GridCost, machine: GpuMachine) -> list[str]:
    """Why a grid takes long that has fewer blocks than a device could work on."""
    blocks, least = cost.started, cost.least_seconds + machine.speeds.launch
    if blocks >= FEW_BLOCKS * machine.multiprocessors or cost.times.seconds < 2 * least:
        return []
    taken, all_busy = cost.times.seconds * 1e6, least * 1e6
    busy = f"its {blocks} block{'s keep' if blocks > 1 else ' keeps'} {blocks} of {machine.multiprocessors}"
    return [
        f"{busy} multiprocessors busy, which takes {taken:.3g} us where all of them together need {all_busy:.3g}; "
        "an axis in more parts would use the others"
    ]


def _faster_neighbours(
    grid: GridShape, plan: GridPlan, blocks: dict[str, int], machine: GpuMachine, call: Sizes
) -> list[str]:
    """The same beside the plan of a grid without products."""
    aligned = {op.tensor: call.alignment_of(op.tensor) for op in grid.accesses}
    best, refused = refused_neighbours(grid.nest, plan, blocks, call.symbols, machine, aligned)
    own = {block.extent for block in grid.blocks}
    faster = [
        (
            one.seconds,
            f"{Plan((one.grid,), blocks=tuple(pair for pair in one.blocks.items() if pair[0] in own))},",
            one.reason,
        )
        for one in refused
    ]
    return _reasons(best, faster)


def _reasons(best: float, refused: Iterable[tuple[float, str, str]]) -> list[str]:
    """The fastest of these plans, by seconds, what they are, and reasons; one for each reason."""
    found: dict[str, str] = {}
    for seconds, what, reason in sorted(refused):
        if seconds <= GAIN * best and not any(reason == known for known in found.values()):
            found[f"{what} would take {seconds * 1e6:.3g} us instead of {best * 1e6:.3g}: {reason}"] = reason
    return list(found)[:MOST_REASONS]


def _faster_ones(grid: GridShape, machine: GpuMachine, call: Sizes) -> list[str]:
    """Tilings that would be faster than the best there is, and what they lack."""
    try:
        nest, axes = read_grid(grid.op, grid.blocks, machine, call)
    except (DeclinedError, NotPlannedError):
        return []  # operands are copied before: the nest is another one
    contract = contract_of(axes)
    best = best_seconds(nest, machine, contract)
    if best is None:
        return []
    cost, refused = WarpgroupCost(nest, machine), refused_tilings(nest, machine, contract)
    timed = [(cost.seconds(_completed(one.tiling)), one) for one in refused if _is_complete(nest, one.tiling)]
    return _reasons(best, [(seconds, _words(one.tiling), one.reason) for seconds, one in timed])


def _words(tiling: Tiling) -> str:
    rows, columns, depth = tiling.block
    return (f"{rows} x {columns}" if columns else f"{rows} rows") + f" in steps of {depth}"


def _is_complete(nest: ProductNest, tiling: Tiling) -> bool:
    return tiling.depth > 0 or nest.loop is None


def _completed(tiling: Tiling) -> Tiling:
    return tiling if tiling.stages > 1 else tiling._replace(stages=2)
