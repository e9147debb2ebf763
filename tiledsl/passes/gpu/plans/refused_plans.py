"""Why a better plan was not taken: what was declined for a grid as a whole, and tilings that would have been faster.

no plan with specialised warps, because a right operand is computed, and `wgmma` takes it from memory
128 rows in steps of 96 would take 162 us instead of 166: a thread would hold 206 registers of tiles, of 193
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tiledsl.ir.core import Function
from tiledsl.passes.gpu.plans.call_sizes import Sizes
from tiledsl.passes.gpu.plans.choose_plans import GridShape, grids_of, sizes_of_call
from tiledsl.passes.gpu.plans.product_nest import ProductNest
from tiledsl.passes.gpu.plans.read_products import NotPlannedError
from tiledsl.passes.gpu.plans.specialised_plans import (
    best_seconds,
    contract_of,
    read_grid,
    refused_tilings,
    specialised_plans,
)
from tiledsl.passes.gpu.plans.tilings import Tiling
from tiledsl.passes.gpu.plans.warpgroup_cost import WarpgroupCost
from tiledsl.passes.gpu.products.streamed_loads import DeclinedError
from tiledsl.passes.gpu_machine import GpuMachine
from tiledsl.support.location import Location

GAIN = 0.98
"""A refused tiling is worth a word if it would take no more than this share of the time."""
MOST_REASONS = 2
"""That are given for one grid."""


class RefusedPlan(NamedTuple):
    """A reason, and the grid that it is about."""

    location: Location
    reason: str


def refused_plans(
    function: Function, machine: GpuMachine, sizes: Mapping[str, int], alignment: Sequence[int]
) -> list[RefusedPlan]:
    """What was refused for each grid with products of a function in form `tile-placed`, in order."""
    if not machine.has_warpgroups:
        return []
    found: list[RefusedPlan] = []
    for grid in grids_of(function):
        if not grid.dots:
            continue
        call = sizes_of_call(function, grid, sizes, alignment)
        plans = specialised_plans(grid.op, grid.blocks, machine, call)
        if plans.declined:
            reason = f"no plan with specialised warps, because {plans.declined}"
            found.append(RefusedPlan(grid.op.location, reason))
            continue
        found += [RefusedPlan(grid.op.location, reason) for reason in _faster_ones(grid, machine, call)]
    return found


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
    faster = sorted((pair for pair in timed if pair[0] <= GAIN * best), key=lambda pair: pair[0])
    reasons: dict[str, None] = {}
    for seconds, one in faster:
        rows, columns, depth = one.tiling.block
        tile = f"{rows} x {columns}" if columns else f"{rows} rows"
        what = f"{tile} in steps of {depth} would take {seconds * 1e6:.3g} us instead of {best * 1e6:.3g}"
        reasons.setdefault(f"{what}: {one.reason}")
    return list(reasons)[:MOST_REASONS]


def _is_complete(nest: ProductNest, tiling: Tiling) -> bool:
    return tiling.depth > 0 or nest.loop is None


def _completed(tiling: Tiling) -> Tiling:
    return tiling if tiling.stages > 1 else tiling._replace(stages=2)
