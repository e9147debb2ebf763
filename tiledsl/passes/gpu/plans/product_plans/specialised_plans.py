"""Plans with specialised warps for a grid with products: one warp loads by TMA, warpgroups multiply by `wgmma`.

The grid is asked whether its loads can be made by threads that only load (`streamed_loads.feeds_of`), and read as a
`ProductNest`; decisions enumerate its tilings, and the cost ranks them. Nothing is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

from tiledsl.ir import tile_ops as ops
from tiledsl.passes.analysis.sizes import BlockDefinition
from tiledsl.passes.gpu.plan import Plan, RankedPlan
from tiledsl.passes.gpu.plans.facts.call_sizes import Sizes
from tiledsl.passes.gpu.plans.product_plans.align_operands import Way, ways_to_operands
from tiledsl.passes.gpu.plans.product_plans.decisions import DECISIONS
from tiledsl.passes.gpu.plans.product_plans.footprint import rows_to_load
from tiledsl.passes.gpu.plans.product_plans.product_nest import ProductNest
from tiledsl.passes.gpu.plans.product_plans.read_products import Axes, NotPlannedError, read_products
from tiledsl.passes.gpu.plans.product_plans.search import MADE, OPEN, Contract, Families, Refusal, Search
from tiledsl.passes.gpu.plans.product_plans.shared_loops import can_split
from tiledsl.passes.gpu.plans.product_plans.tilings import Tiling
from tiledsl.passes.gpu.plans.product_plans.warpgroup_cost import WarpgroupCost
from tiledsl.passes.gpu.products.apart_products import apart_of
from tiledsl.passes.gpu.products.load_parts import operand_load, whole_of
from tiledsl.passes.gpu.products.streamed_loads import COPIED_BYTES, DeclinedError, Feed, feeds_of
from tiledsl.passes.gpu_machine import GpuMachine

MOST_PLANS = 24
"""That are kept of a ranking."""


class RankedTiling(NamedTuple):
    """A tiling with its predicted time."""

    seconds: float
    tiling: Tiling


@dataclass(frozen=True)
class SpecialisedPlans:
    """Those of one grid, the best first. `declined`: why there are none, in words that follow "because"."""

    plans: tuple[RankedPlan, ...] = ()
    declined: str = ""


def specialised_plans(
    grid: ops.Grid, blocks: Sequence[BlockDefinition], machine: GpuMachine, sizes: Sizes
) -> SpecialisedPlans:
    """Plans for a grid whose products can all be made by warpgroups.

    Operands whose rows TMA cannot take may be copied before, or by threads.
    """
    if not machine.has_warpgroups:
        return SpecialisedPlans(declined=f"{machine.name} has no `wgmma`")
    found: list[RankedPlan] = []
    declined = ""
    ways = list(ways_to_operands(grid, machine, sizes.of, sizes.alignment_of))
    for way in ways:
        try:
            of_way = sizes._replace(alignment_of=way.alignment_of, copied=frozenset(way.copied))
            plans = _plans_one_way(grid, blocks, machine, of_way)
        except (DeclinedError, NotPlannedError) as error:
            declined = str(error)
            continue
        if not way.copied:
            found += plans
        elif plans and way.is_worth(plans[0].seconds or 0.0):
            found += [_after_copies(ranked, way) for ranked in plans]
        elif plans:
            declined = "copies of its operands to rows that TMA can take would cost more than they gain"
    if len(ways) > 1:
        found.sort(key=lambda one: one.seconds or 0.0)
    return SpecialisedPlans(tuple(found[:MOST_PLANS]), "" if found else declined or "no tiling of it fits")


def _after_copies(ranked: RankedPlan, way: Way) -> RankedPlan:
    grids = tuple(replace(grid, copied=way.numbers, lines=way.lines) for grid in ranked.plan.grids)
    return RankedPlan(replace(ranked.plan, grids=grids), (ranked.seconds or 0.0) + way.seconds)


def _plans_one_way(
    grid: ops.Grid, blocks: Sequence[BlockDefinition], machine: GpuMachine, sizes: Sizes
) -> list[RankedPlan]:
    """The same for rows that start at these multiples, after copies. Raises DeclinedError, NotPlannedError."""
    nest, axes = read_grid(grid, blocks, machine, sizes)
    return [
        RankedPlan(_plan(tiling, axes, blocks), seconds)
        for seconds, tiling in _ranked(nest, machine, contract_of(axes), MADE)
    ]


def read_grid(
    grid: ops.Grid, blocks: Sequence[BlockDefinition], machine: GpuMachine, sizes: Sizes
) -> tuple[ProductNest, Axes]:
    """What a grid multiplies, if threads that only load can bring it. Raises DeclinedError, NotPlannedError."""
    feeds = feeds_of(grid, machine.capability, sizes.row_start_of, COPIED_BYTES)
    _check_split(grid, feeds)
    nest, axes = read_products(grid, blocks, feeds, sizes)
    apart = _why_not_apart(grid, feeds) if nest.back_to_back else ""
    return replace(nest, splittable=not nest.back_to_back and can_split(grid, feeds), apart=apart), axes


def _check_split(grid: ops.Grid, feeds: Sequence[Feed]) -> None:
    """Raises DeclinedError where threads would load an operand that they make planes of."""
    fed = [load for feed in feeds for load in feed.loads]
    for dot in (op for op in grid.walk() if isinstance(op, ops.Dot) and op.precision == "split"):
        loads = [load for load in map(operand_load, (dot.a, dot.b)) if load is not None]
        if any(whole_of(load) not in fed for load in loads):
            raise DeclinedError("threads would load an operand that they make planes of")


def _why_not_apart(grid: ops.Grid, feeds: Sequence[Feed]) -> str:
    """Why there can be no role for scores; empty where there can."""
    try:
        apart_of(grid, feeds)
    except DeclinedError as declined:
        return str(declined)
    return ""


def contract_of(axes: Axes) -> Contract:
    """What the program says of its blocks and stages."""
    rows, columns, *depths = (
        block.block.size if block is not None and block.block.kind == "fixed" else None
        for block in (axes.row, axes.column, *axes.loops)
    )
    stages = [block.op.num_stages for block in axes.loops if isinstance(block.op, ops.Range)]
    return Contract(rows, columns, next(filter(None, depths), None), next(filter(None, stages), None))


@lru_cache(maxsize=256)
def _ranked(nest: ProductNest, machine: GpuMachine, contract: Contract, families: Families) -> tuple[RankedTiling, ...]:
    """Kept, since kernels are called with the same sizes in other dtypes and orders."""
    return tuple(ranked_tilings(nest, machine, contract, families)[:MOST_PLANS])


def best_seconds(nest: ProductNest, machine: GpuMachine, contract: Contract) -> float | None:
    """The predicted time of the best tiling, which is known where a plan was chosen; None if none fits."""
    ranked = _ranked(nest, machine, contract, MADE)
    return ranked[0].seconds if ranked else None


def refused_tilings(nest: ProductNest, machine: GpuMachine, contract: Contract) -> list[Refusal]:
    """The tilings that were left out, and why."""
    refused: list[Refusal] = []
    for _ in Search(nest, machine, contract, MADE, refused).tilings(DECISIONS):
        pass
    return refused


def ranked_tilings(
    nest: ProductNest,
    machine: GpuMachine,
    contract: Contract = OPEN,
    families: Families = MADE,
    refused: list[Refusal] | None = None,
) -> list[RankedTiling]:
    """The tilings that fit, the fastest by prediction first. `refused` gets what was left out, and why."""
    if not machine.has_warpgroups:
        return []
    cost = WarpgroupCost(nest, machine)
    found = Search(nest, machine, contract, families, refused).tilings(DECISIONS)
    ranked = [RankedTiling(cost.seconds(tiling), tiling) for tiling in found]
    ranked.sort(key=itemgetter(0))
    return [RankedTiling(seconds, _completed(tiling, nest, cost)) for seconds, tiling in ranked]


def _completed(tiling: Tiling, nest: ProductNest, cost: WarpgroupCost) -> Tiling:
    """With what follows from the other choices."""
    loaded = rows_to_load(nest, tiling)
    raster = tiling.raster if nest.grows else cost.traffic(tiling)[0]
    return tiling._replace(raster=raster, loaded=loaded if loaded < tiling.rows else 0)


def _plan(tiling: Tiling, axes: Axes, blocks: Sequence[BlockDefinition]) -> Plan:
    rows, columns, depth = tiling.block
    named = [(axes.row, rows), (axes.column, columns), *((block, depth) for block in axes.loops)]
    sizes = {block.extent: size for block, size in named if block is not None}
    open_ = [b.extent for b in blocks if b.extent is not None and b.block.kind != "fixed"]
    return Plan((tiling.grid_plan(),), blocks=tuple((name, sizes.get(name, 1)) for name in open_))
