"""Which `wgmma` computes a product of a role, and how its warpgroups share it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.dtypes import DType, bf16, f32
from tiledsl.ir.gpu.tensor_maps import UNIT_BYTES
from tiledsl.ir.gpu.warpgroup_instructions import (
    DEPTH_BYTES,
    ROWS,
    WARPGROUP,
    WarpgroupInstruction,
    columns_of,
    warpgroup_instruction,
    warpgroup_layouts,
)
from tiledsl.ir.layouts.layout import RegisterLayout, replicate, spatial
from tiledsl.passes.gpu.layouts.access_layouts import access_layout
from tiledsl.passes.gpu.layouts.capacities import Capacities
from tiledsl.passes.gpu.plan import APART, GridPlan
from tiledsl.support.errors import fail

COLUMN_STEP = 8
"""Columns of an instruction come in groups of so many."""
APART_COLUMNS = 128
"""Of an instruction at most, where a third warpgroup makes scores: with four of them threads begin with 128 registers,
and one of 256 columns wants 154."""


@dataclass(frozen=True)
class WarpgroupProduct:
    """How one product is shared out. `shape`: rows, columns and depth of a whole cluster, but the depth of each block
    where they share the loop."""

    instruction: WarpgroupInstruction
    shape: tuple[int, int, int]
    left: RegisterLayout
    """Of `a`, where it is in registers."""
    accumulator: RegisterLayout
    """Where blocks share the loop, the sums of one block lie below those of the one before."""
    result: RegisterLayout
    """Of the sum: that of the accumulator, unless it was in parts."""


def plan_product(dot: ops.Dot, capacities: Capacities, grid: GridPlan) -> WarpgroupProduct:
    """The instruction and the layouts of a product. Raises TileResourceError (`plan-specialised`) if it has no room."""
    batches = math.prod(capacities.shape(dot.result.shape[:-2]))
    if batches > 1:
        fail("plan-specialised", dot.location, reason=f"it multiplies {batches} matrices at once")
    m, k = capacities.of(dot.a.shape[-2]), capacities.of(dot.a.shape[-1])
    n = capacities.of(dot.b.shape[-1])
    dtypes = instruction_dtypes(dot.a.dtype, dot.b.dtype, dot.dtype, dot.precision)
    along = (grid.warps[0] * 32 // WARPGROUP, grid.warps[1])
    across, splits = grid.across, grid.splits
    side = max(1, grid.cluster // (splits * across))
    rows, columns = m // side, n // across // along[1]
    dtype = multiplied_dtype(dot)
    step = DEPTH_BYTES // dtype.bytes
    fits = dtypes is not None and along[0] * along[1] * WARPGROUP == grid.threads and m % side == 0
    fits = fits and k % splits == 0 and (splits == 1 or n % (splits * COLUMN_STEP) == 0)
    fits = fits and rows % (ROWS * along[0]) == 0 and n % (across * along[1]) == 0 and k // splits % step == 0
    widest = APART_COLUMNS if grid.roles == APART else columns
    width = max((w for w in columns_of(dtype) if fits and columns % w == 0 and w <= widest), default=0)
    if not width:
        what = f"{grid.threads} threads x {grid.cluster} cannot share a product of {m} x {n} x {k} by `wgmma`"
        fail("plan-specialised", dot.location, reason=what)
    instruction = warpgroup_instruction(f"m{ROWS}n{width}k{step}_{dtypes}")
    assert instruction is not None
    left, accumulator = warpgroup_layouts(instruction, along, (rows, n // across, k // splits))
    if across > 1:
        left, accumulator = replicate(across, 2) * left, spatial(1, across) * accumulator
    elif grid.cluster > 1:
        left, accumulator = spatial(grid.cluster, 1) * left, spatial(grid.cluster, 1) * accumulator
    result = accumulator
    if splits > 1:
        part = (m, n // splits)
        vector = min(UNIT_BYTES // 2, math.prod(part) // grid.threads)  # of elements of 2 bytes, which most results are
        result = spatial(1, splits) * access_layout(part, (0, 1), grid.threads, vector, dot.dtype.bytes)
    return WarpgroupProduct(instruction, (m, n, k // splits), left, accumulator, result)


def multiplied_dtype(dot: ops.Dot) -> DType:
    """Of operands, as they are multiplied."""
    return bf16 if dot.precision == "split" else dot.a.dtype


def instruction_dtypes(a: DType, b: DType, accumulator: DType, precision: str) -> str | None:
    """The end of the name of the `wgmma` for these dtypes, such as `bf16_f32`; None where there is none."""
    if precision == "split":
        a = b = bf16
    if a != b or (a == f32 and precision != "tf32"):
        return None
    operand = "tf32" if a == f32 else str(a)
    name = f"{operand}_{accumulator}"
    return name if warpgroup_instruction(f"m64n64k{DEPTH_BYTES // a.bytes}_{name}") is not None else None
