"""A tiling: the numbers of a plan with specialised warps, as they are searched. `grid_plan` writes it as a plan.

A block has consumer warpgroups that multiply by `wgmma` and one producer that loads by TMA, through a ring of stages in
shared memory ([tiling.md](../../../../docs/tiling.md)).
"""

from __future__ import annotations

from typing import NamedTuple

from tiledsl.passes.gpu.plan import APART, GridPlan
from tiledsl.passes.gpu.plans.product_plans.product_nest import ProductNest, Side

WARPGROUP = 128
"""Threads."""
WARPGROUP_ROWS = 64
"""Rows of the result that one instruction makes."""
STEP_BYTES = 32
"""Of the summed axis, what one instruction multiplies."""
WHOLE_UNIT = 16
"""Whole axes of products have room for a multiple of so many."""


class Tiling(NamedTuple):
    """The choices for a grid with products.

    `rows` and `columns` are those of one block's tile of a result; with "pingpong", of one consumer's. `depth`: the
    block of the loop. `row_groups` x `column_groups` consumers share a tile. `side`: blocks of a cluster side by side
    along the rows, which get right operands by multicast. `across`: blocks of a cluster that share whole rows, which
    get the left operand by multicast. `splits`: blocks of a cluster that share the loop. `resident`: blocks at once on
    a multiprocessor. `programs`: clusters that go through all tiles; 0: one for each tile. `raster`: so many of the
    last axis but one are walked together. `counted`: whether programs take tiles from a counter. `loaded`: rows of a
    tile that are loaded, where there are no more; 0 for all.
    """

    rows: int
    columns: int
    depth: int
    roles: str = "cooperative"
    row_groups: int = 1
    column_groups: int = 1
    stages: int = 2
    side: int = 1
    splits: int = 1
    resident: int = 1
    programs: int = 0
    raster: int = 1
    loaded: int = 0
    across: int = 1
    counted: bool = False

    @property
    def consumers(self) -> int:
        """Warpgroups of a block that multiply."""
        return 2 if self.roles == "pingpong" else self.row_groups * self.column_groups

    @property
    def apart(self) -> bool:
        """Whether a warpgroup of its own makes scores, beside the consumers, which sum."""
        return self.roles == APART

    @property
    def block(self) -> tuple[int, int, int]:
        """The blocks of a plan: rows and columns that a cluster makes, and the depth of its step."""
        return self.rows * self.side, self.columns * self.across, self.depth * self.splits

    @property
    def cluster(self) -> int:
        """Blocks of a cluster."""
        return self.side * self.across * self.splits

    def length(self, side: Side) -> int:
        """How long a side of a tile of one block is."""
        match side.kind:
            case "rows":
                return self.rows
            case "columns":
                return self.columns
            case "loop":
                return self.depth
            case "whole":
                return whole_room(side.size)

    def elements(self, sides: tuple[Side, ...]) -> int:
        """Of a tile of one block."""
        count = 1
        for side in sides:
            count *= self.length(side)
        return count

    def rows_of(self, side: Side) -> int:
        """The rows that a product of a block multiplies: whole instructions of each warpgroup."""
        if side.kind == "rows":
            return self.rows
        unit = WARPGROUP_ROWS * self.row_groups
        return -(-self.length(side) // unit) * unit

    def tiles(self, nest: ProductNest) -> int:
        """That clusters make, of the whole grid."""
        count = 1
        for axis in nest.axes:
            count *= self.blocks_along(axis)
        return count

    def blocks_along(self, axis: Side) -> int:
        """How many tiles lie side by side along an axis of the grid."""
        rows, columns, _ = self.block
        match axis.kind:
            case "rows":
                return -(-axis.size // rows)
            case "columns":
                return -(-axis.size // columns)
            case _:
                return axis.size

    def grid_plan(self) -> GridPlan:
        """The same as a plan says it."""
        return GridPlan(
            self.consumers * WARPGROUP,
            self.cluster,
            (4 * self.row_groups, self.column_groups),
            self.stages,
            programs=self.programs,
            raster=self.raster,
            roles=self.roles,
            splits=self.splits,
            rows=self.loaded,
            resident=self.resident,
            across=self.across,
            counted=self.counted,
        )


def whole_room(size: int) -> int:
    """The room that a whole axis of a product has."""
    return size if size <= 1 else -(-size // WHOLE_UNIT) * WHOLE_UNIT
