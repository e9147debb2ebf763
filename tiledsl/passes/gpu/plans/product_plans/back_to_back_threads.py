"""Plans for products that feed on each other, by threads that are all alike: `mma.sync`, or one by one.

    tile -> columns -> turn -> stages

    for h, i in tile.grid(H, Q):                         tile: rows of i, and how warps share them
        for j in tile.range(K):                          turn: the block of j
            s = tile.dot(q[h, i, :], k[h, j, :].mT)      stages: turns of k and v that are under way
            acc = tile.dot(weights(s), v[h, j, :], acc)  columns: of a block of the grid, where that cuts them up

Where warps share rows alone, what is folded along rows and multiplied again never leaves registers; where they share
columns too, it goes through shared memory, and wide results find room. One decision after the other gives what
`ThreadFootprint` has room for and refuses the rest with a reason; `BackToBackCost` ranks what is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.symbolic import symbol_name
from tiledsl.passes.analysis.sizes import BlockDefinition
from tiledsl.passes.gpu.plan import GridPlan, Plan
from tiledsl.passes.gpu.plans.facts.grid_shape import GridShape, KnownSizes
from tiledsl.passes.gpu.plans.product_plans.back_to_back_cost import BackToBackCost, TurnCounts
from tiledsl.passes.gpu.plans.product_plans.product_flow import ProductFlow
from tiledsl.passes.gpu.plans.product_plans.thread_cost import MOST_REGISTERS, ThreadTiling
from tiledsl.passes.gpu.plans.product_plans.thread_footprint import WARP, ThreadFootprint
from tiledsl.passes.gpu.plans.product_plans.thread_tilings import Refusal
from tiledsl.passes.gpu.products.known_ahead import may_be_copied_ahead
from tiledsl.passes.gpu_machine import GpuMachine
from tiledsl.support.powers_of_two import power_of_two_from

FRAGMENT = 16
"""Rows and columns of a warp's part of a product, at least."""
PART_ROWS = (16, 32)
"""Of a warp: with more of them a column that is read from shared memory is multiplied more often."""
PLAIN_PART_ROWS = (4, 8, 16)
"""The same without matrix instructions."""
WARPS = ((1, 1), (2, 1), (4, 1), (8, 1), (2, 2), (4, 2), (1, 4), (2, 4))
"""How warps share rows and columns."""
COLUMNS = (16, 32, 64, 128)
TURNS = (128, 64, 32, 16)
"""The last of them only where there is no room for others."""
STAGES = (2, 3, 4)
"""And one where there is no room for two, or nothing runs ahead."""
OTHER_SHARED = 2048
"""Bytes of shared memory that alignment may cost."""
MOST_PLANS = 12
"""That are kept, each of another tile or turn."""


class RankedTiling(NamedTuple):
    """A tiling with its predicted time."""

    seconds: float
    tiling: ThreadTiling


@dataclass(frozen=True)
class Axes:
    """The blocks of a grid that decisions are about: `rows` and `columns` of products, and the loops."""

    rows: tuple[BlockDefinition, ...]
    columns: tuple[BlockDefinition, ...]
    loops: tuple[BlockDefinition, ...]


@dataclass
class BackToBackSearch:
    """What decisions know. `complete` gives a plan room for whole axes. `refused` lists what was refused, if anybody
    asks for it."""

    grid: GridShape
    machine: GpuMachine
    sizes: KnownSizes
    complete: Callable[[Plan], Plan]
    refused: list[Refusal] | None = field(default=None)

    def __post_init__(self) -> None:
        nest = self.grid.nest
        self.flow = ProductFlow(nest, self._is_ahead)
        self.axes = _axes(self.grid)
        self.counts = TurnCounts(nest, self.sizes.all_of(self.grid), self.machine.capability)
        self.capacities = self.complete(Plan((GridPlan(WARP),))).capacities
        self._costs: dict[ThreadTiling, BackToBackCost] = {}

    def refuse(self, tiling: ThreadTiling, reason: str) -> None:
        """Notes why a tiling is left out."""
        if self.refused is not None:
            self.refused.append(Refusal(tiling, reason))

    def ranked(self) -> list[RankedTiling]:
        """All that fit the machine, the fastest by prediction first."""
        found = [ThreadTiling(0, 0)]
        for decision in DECISIONS:
            found = [option for tiling in found for option in decision(self, tiling)]
        every = [RankedTiling(self.seconds(tiling), tiling) for tiling in found]
        return sorted(every, key=lambda one: one.seconds)

    def seconds(self, tiling: ThreadTiling) -> float:
        """The predicted time of a tiling, whether it fits or not."""
        return self.cost(tiling).seconds(tiling.stages)

    def cost(self, tiling: ThreadTiling) -> BackToBackCost:
        """The same for any number of stages."""
        key = tiling._replace(stages=0)
        if key not in self._costs:
            plan = self.plan(tiling)
            footprint = ThreadFootprint(self.flow, plan, self.machine)
            self._costs[key] = BackToBackCost(footprint, plan, self.machine, self.counts)
        return self._costs[key]

    def plan(self, tiling: ThreadTiling) -> Plan:
        """The same as a plan says it."""
        blocks: dict[str, int] = {}
        for block in self.grid.blocks:
            if block.extent is not None and block.block.kind != "fixed":
                of_rows, of_columns = block in self.axes.rows, block in self.axes.columns
                size = tiling.rows if of_rows else tiling.columns if of_columns else 1
                blocks[block.extent] = tiling.depth if block in self.axes.loops else size
        grid = GridPlan(tiling.threads, 1, tiling.warps, tiling.stages)
        return Plan((grid,), blocks=tuple(blocks.items()), capacities=self.capacities)

    def _is_ahead(self, load: ops.Load) -> bool:
        """Whether copies of a load run ahead of its loop."""
        aligned = self.sizes.alignment.get(load.tensor, 16)
        return self.machine.has_async_copy and may_be_copied_ahead(load, self.grid.op, aligned)

    def length(self, blocks: Iterable[BlockDefinition]) -> int:
        """How long the longest of these axes is; 0 where there is none."""
        return max((self.sizes.of(block.total) for block in blocks), default=0)


def tiles(search: BackToBackSearch, tiling: ThreadTiling) -> Iterator[ThreadTiling]:
    """Rows of a block, and how warps share them: those that have rows, and columns, of every product."""
    said, rows = _said(search.axes.rows), search.length(search.axes.rows)
    for down, across in WARPS:
        parts = PLAIN_PART_ROWS if _is_plain(search) else PART_ROWS
        for height in dict.fromkeys([said] if said else [part * down for part in parts] if rows else [0]):
            option = tiling._replace(rows=height, warps=(down, across))
            if height and down > 1 and height // 2 >= max(FRAGMENT, power_of_two_from(rows)):
                continue  # warps would have nothing but padding
            if said and not _is_plain(search) and height % (FRAGMENT * down):
                search.refuse(option, f"{down} warps do not share the {said} rows that are asked for")
                continue
            yield option


def columns(search: BackToBackSearch, tiling: ThreadTiling) -> Iterator[ThreadTiling]:
    """How many columns of a product a block makes, where the grid cuts them up."""
    said, longest = _said(search.axes.columns), power_of_two_from(search.length(search.axes.columns))
    for size in [said] if said else COLUMNS if search.axes.columns else [0]:
        if size <= max(FRAGMENT, longest) or said:
            yield tiling._replace(columns=size)


def turns(search: BackToBackSearch, tiling: ThreadTiling) -> Iterator[ThreadTiling]:
    """The block of the loops, as far as threads have registers for what a turn makes."""
    said, longest = _said(search.axes.loops), power_of_two_from(search.length(search.axes.loops))
    found = False
    for size in [said] if said else TURNS if search.axes.loops else [0]:
        option = tiling._replace(depth=size)
        if not said and (size > max(FRAGMENT, longest) or (found and size == TURNS[-1])):
            continue
        held = search.cost(option).footprint.registers
        if held <= MOST_REGISTERS:
            found = True
            yield option
        else:
            search.refuse(option, f"a thread would hold {held} registers, and has room for {MOST_REGISTERS}")


def stages(search: BackToBackSearch, tiling: ThreadTiling) -> Iterator[ThreadTiling]:
    """How many turns are under way, as far as shared memory has room."""
    machine, cost = search.machine, search.cost(tiling)
    longest = max((1, *map(math.ceil, cost.turns.values())))
    ahead = STAGES if search.flow.needed_ahead and longest > 1 else ()
    for count in (*ahead, 1):
        option = tiling._replace(stages=count)
        if count > max(2, longest):
            continue
        asked = cost.footprint.shared_bytes(count) + OTHER_SHARED
        if asked > machine.shared_bytes_per_block:
            search.refuse(option, f"it asks for {asked} bytes of shared memory, of {machine.shared_bytes_per_block}")
        elif not cost.resident(count):
            search.refuse(option, "a multiprocessor has no registers for a block")
        elif count > 1 or cost.footprint.shared_bytes(2) + OTHER_SHARED > machine.shared_bytes_per_block or not ahead:
            yield option


DECISIONS = (tiles, columns, turns, stages)
"""In the order in which they are made."""
SMALLEST = ThreadTiling(FRAGMENT, FRAGMENT, FRAGMENT, (1, 1), 1)
"""What is tried where nothing fits."""


def best_tilings(search: BackToBackSearch) -> list[RankedTiling]:
    """The best ones of a grid, each of another tile or turn; there is one at least."""
    found: dict[tuple[object, ...], RankedTiling] = {}
    for one in search.ranked():
        found.setdefault(one.tiling._replace(stages=0), one)
    if not found:
        return [RankedTiling(search.seconds(SMALLEST), SMALLEST)]
    return list(found.values())[:MOST_PLANS]


def _axes(grid: GridShape) -> Axes:
    rows = {symbol_name(dot.a.shape[-2]) for dot in grid.dots}
    columns_ = {symbol_name(dot.b.shape[-1]) for dot in grid.dots} - rows
    of_grid = [block for block in grid.blocks if isinstance(block.op, ops.Grid)]
    return Axes(
        tuple(block for block in of_grid if block.extent in rows and block.extent is not None),
        tuple(block for block in of_grid if block.extent in columns_ and block.extent is not None),
        tuple(block for block in grid.blocks if isinstance(block.op, ops.Range)),
    )


def _said(blocks: Sequence[BlockDefinition]) -> int:
    """The block that the program says, of those that are one decision; 0 where it leaves them all open."""
    return max((block.block.size for block in blocks if block.block.kind == "fixed"), default=0)


def _is_plain(search: BackToBackSearch) -> bool:
    """Whether threads multiply one by one."""
    return any(plan.instruction.is_fma for plan in search.cost(SMALLEST).footprint.dots.values())
