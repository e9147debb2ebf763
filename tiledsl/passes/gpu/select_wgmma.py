"""Which `wgmma` computes a product of a role, and how its warpgroups share it."""

from __future__ import annotations

from dataclasses import dataclass

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.layouts import RegisterLayout, spatial
from tiledsl.ir.warpgroup_instructions import (
    DEPTH_BYTES,
    ROWS,
    WARPGROUP,
    WarpgroupInstruction,
    columns_of,
    warpgroup_instruction,
    warpgroup_layouts,
)
from tiledsl.passes.gpu.capacities import Capacities
from tiledsl.passes.gpu.plan import GridPlan
from tiledsl.passes.gpu.streamed_loads import instruction_dtypes
from tiledsl.support.errors import fail


@dataclass(frozen=True)
class WarpgroupProduct:
    """How one product is shared out: `rows`, `columns` and `depth` are those of a whole cluster."""

    instruction: WarpgroupInstruction
    shape: tuple[int, int, int]
    left: RegisterLayout
    """Of `a`, where it is in registers."""
    accumulator: RegisterLayout


def plan_product(dot: ops.Dot, capacities: Capacities, grid: GridPlan) -> WarpgroupProduct:
    """The instruction and the layouts of a product. Raises TileResourceError (`plan-specialised`) if it has no room."""
    m, k = capacities.of(dot.a.shape[-2]), capacities.of(dot.a.shape[-1])
    n = capacities.of(dot.b.shape[-1])
    dtypes = instruction_dtypes(dot.a.dtype, dot.b.dtype, dot.dtype, dot.precision)
    along = (grid.warps[0] * 32 // WARPGROUP, grid.warps[1])
    rows, columns = m // grid.cluster, n // along[1]
    step = DEPTH_BYTES // dot.a.dtype.bytes
    fits = dtypes is not None and along[0] * along[1] * WARPGROUP == grid.threads and m % grid.cluster == 0
    fits = fits and rows % (ROWS * along[0]) == 0 and n % along[1] == 0 and k % step == 0
    width = max((w for w in columns_of(dot.a.dtype) if fits and columns % w == 0), default=0)
    if not width:
        what = f"{grid.threads} threads x {grid.cluster} cannot share a product of {m} x {n} x {k} by `wgmma`"
        fail("plan-specialised", dot.location, reason=what)
    instruction = warpgroup_instruction(f"m{ROWS}n{width}k{step}_{dtypes}")
    assert instruction is not None
    left, accumulator = warpgroup_layouts(instruction, along, (rows, n, k))
    if grid.cluster > 1:
        left, accumulator = spatial(grid.cluster, 1) * left, spatial(grid.cluster, 1) * accumulator
    return WarpgroupProduct(instruction, (m, n, k), left, accumulator)
