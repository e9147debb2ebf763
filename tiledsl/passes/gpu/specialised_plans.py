"""Plans with specialised warps for a grid of the program: what it multiplies, and which tilings suit it.

The grid is asked whether its loads can be made by threads that only load (`streamed_loads.feeds_of`); its product, with
the sizes of the call, is then ranked by `warpgroup_plans.product_plans`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.symbolic import Dim, symbols_of
from tiledsl.ir.types import AxisType
from tiledsl.passes.analysis.sizes import BlockDefinition
from tiledsl.passes.gpu.align_operands import Way, copied_bytes, ways_to_operands
from tiledsl.passes.gpu.attention_plans import attention_plans
from tiledsl.passes.gpu.chained_products import ChainedProducts, chained_products
from tiledsl.passes.gpu.infer_layouts import access_order, tensor_of, tile_axes
from tiledsl.passes.gpu.matrix_plans import matrices_at_once
from tiledsl.passes.gpu.parallel_products import products_of
from tiledsl.passes.gpu.plan import GridPlan, Plan, RankedPlan
from tiledsl.passes.gpu.product_epilogues import epilogue_of
from tiledsl.passes.gpu.promoted_sums import is_promoted
from tiledsl.passes.gpu.split_sums import can_split
from tiledsl.passes.gpu.streamed_loads import COPIED_BYTES, DeclinedError, feeds_of, load_axis, source_load
from tiledsl.passes.gpu.warpgroup_plans import MADE, Contract, Families, RankedTiling, product_plans
from tiledsl.passes.gpu.warpgroup_tilings import Product, Tiling
from tiledsl.passes.gpu_machine import GpuMachine

MOST_PLANS = 24
"""That are kept of a ranking."""
TMA_BYTES = 16
"""What rows of tensors that TMA copies start at multiples of."""


class _Axes(NamedTuple):
    """The blocks along the rows, the columns and the sum of a product."""

    row: BlockDefinition
    column: BlockDefinition | None
    """None where a tile has all columns."""
    depth: BlockDefinition


def specialised_plans(
    grid: ops.Grid,
    blocks: Sequence[BlockDefinition],
    machine: GpuMachine,
    size_of: Callable[[Dim | None], int],
    alignment_of: Callable[[Value], int],
) -> list[RankedPlan]:
    """Plans for a grid with one product, several side by side, or two that feed on each other, the best first; none
    where warps of it cannot be specialised.

    `alignment_of`: the bytes that every row of a tensor starts at a multiple of. Operands whose rows TMA cannot take
    may be copied before, or by threads.
    """
    if not machine.has_warpgroups:
        return []
    found: list[RankedPlan] = []
    ways = list(ways_to_operands(grid, machine, size_of, alignment_of))
    for way in ways:
        plans = _plans_one_way(grid, blocks, machine, size_of, way.alignment_of)
        if not way.copied:
            found += plans
        elif plans and way.is_worth(plans[0].seconds or 0.0):
            found += [_after_copies(ranked, way) for ranked in plans]
    if len(ways) > 1:
        found.sort(key=lambda one: one.seconds or 0.0)
    return found[:MOST_PLANS]


def _after_copies(ranked: RankedPlan, way: Way) -> RankedPlan:
    grids = tuple(replace(grid, copied=way.numbers) for grid in ranked.plan.grids)
    return RankedPlan(replace(ranked.plan, grids=grids), (ranked.seconds or 0.0) + way.seconds)


def _plans_one_way(
    grid: ops.Grid,
    blocks: Sequence[BlockDefinition],
    machine: GpuMachine,
    size_of: Callable[[Dim | None], int],
    alignment_of: Callable[[Value], int],
) -> list[RankedPlan]:
    """The same for rows that start at these multiples, after copies."""
    dots = [op for op in grid.body.walk() if isinstance(op, ops.Dot)]
    if not dots or any(matrices_at_once(dot, blocks, size_of) > 1 for dot in dots):
        return []
    try:
        feeds = feeds_of(grid, machine.capability, alignment_of, COPIED_BYTES)
    except DeclinedError:
        return []
    chained = chained_products(grid, blocks, size_of)
    if chained is not None:
        return _chained_plans(chained, machine, blocks)
    dot, beside = dots[0], len(dots)
    if beside > 1 and not (_make_up_a_loop(dots) and len(feeds) == 1 and not is_promoted(dot)):
        return []
    axes = _axes(dot, blocks)
    loads = source_load(dot.a), source_load(dot.b)
    if axes is None or loads[0] is None or loads[1] is None:
        return []
    product = _product(grid, dot, axes, blocks, size_of, alignment_of)
    if product.n == 1 or product.k == 1:
        return []  # the only stride may be that of one element, which TMA does not take
    if beside > 1:
        product = replace(
            product, n=product.n * beside, beside=beside, out_bytes=product.out_bytes / beside,
            epilogue_bytes=product.epilogue_bytes / beside, epilogue_work=product.epilogue_work / beside,
        )  # fmt: skip
    families = MADE if can_split(grid, feeds) else replace(MADE, splits=False)
    ranked = _ranked(product, machine, _contract(axes), families)
    return [RankedPlan(_plan(tiling, axes, blocks, beside), seconds) for seconds, tiling in ranked]


def _make_up_a_loop(dots: Sequence[ops.Dot]) -> bool:
    """Whether products are all that one loop does."""
    loop = None if dots[0].parent is None else dots[0].parent.parent
    return isinstance(loop, ops.Range) and set(products_of(loop)) == set(dots)


@lru_cache(maxsize=256)
def _ranked(product: Product, machine: GpuMachine, contract: Contract, families: Families) -> tuple[RankedTiling, ...]:
    """Kept, since kernels are called with the same sizes in other dtypes and orders."""
    return tuple(product_plans(product, machine, contract, families)[:MOST_PLANS])


def _axes(dot: ops.Dot, blocks: Sequence[BlockDefinition]) -> _Axes | None:
    """The blocks of a product whose axes all are blocks: rows and columns of the grid, the sum of a loop."""
    extents: dict[Dim, BlockDefinition] = {}
    for block in blocks:
        if isinstance(block.argument.type, AxisType):
            extents[block.argument.type.extent] = block
    row, column, depth = (extents.get(dim) for dim in (dot.a.shape[-2], dot.b.shape[-1], dot.a.shape[-1]))
    if row is None or depth is None or isinstance(row.op, ops.Range) or not isinstance(depth.op, ops.Range):
        return None
    if column is None:
        names = {block.extent for block in blocks}
        return None if symbols_of(dot.b.shape[-1]) & names else _Axes(row, None, depth)
    return None if isinstance(column.op, ops.Range) else _Axes(row, column, depth)


def _chained_plans(
    chained: ChainedProducts, machine: GpuMachine, blocks: Sequence[BlockDefinition]
) -> list[RankedPlan]:
    rows, columns, sizes = chained
    loop = columns.op
    assert isinstance(loop, ops.Range)
    wanted = (block.block.size if block.block.kind == "fixed" else None for block in (rows, columns))
    ranked = attention_plans(sizes, machine, *wanted, stages=loop.num_stages or 0)[:MOST_PLANS]
    return [
        RankedPlan(_blocks_plan(t.grid_plan(), {rows.extent: t.rows, columns.extent: t.columns}, blocks), seconds)
        for seconds, t in ranked
    ]


def _contract(axes: _Axes) -> Contract:
    rows, columns, depth = (
        block.block.size if block is not None and block.block.kind == "fixed" else None for block in axes
    )
    loop = axes.depth.op
    assert isinstance(loop, ops.Range)
    return Contract(rows, columns, depth, loop.num_stages or None)


def _product(
    grid: ops.Grid,
    dot: ops.Dot,
    axes: _Axes,
    blocks: Sequence[BlockDefinition],
    size_of: Callable[[Dim | None], int],
    alignment_of: Callable[[Value], int],
) -> Product:
    m, k = size_of(axes.row.total), size_of(axes.depth.total)
    n = size_of(dot.b.shape[-1] if axes.column is None else axes.column.total)
    others = [block for block in blocks if block not in axes and block.op is grid]
    batches = math.prod(-(-size_of(b.total) // (b.block.size if b.block.kind == "fixed" else 1)) for b in others)
    stores = [op for op in grid.body.walk() if isinstance(op, ops.Store) and len(op.value.shape) >= 2]
    epilogue = epilogue_of(grid, dot)
    rows = dot.result.shape[-2:-1]
    return Product(
        m, n, k, batches, dot.a.dtype.bytes, dot.b.dtype.bytes,
        out_bytes=sum(tensor_of(op).dtype.bytes for op in stores) or dot.dtype.bytes,
        a_k_major=_counts_along(dot.a, -1), b_k_major=_counts_along(dot.b, -2),
        tma_store=bool(stores) and all(_may_go_by_tma(op, alignment_of) for op in stores),
        epilogue_bytes=epilogue.beside_bytes, row_bytes=epilogue.row_bytes,
        row_loaded=epilogue.row_loaded, epilogue_work=epilogue.instructions,
        folds=epilogue.folds, promoted=is_promoted(dot),
        a_copied=copied_bytes(dot.a, alignment_of), b_copied=copied_bytes(dot.b, alignment_of),
        whole_rows=axes.column is None,
        number_of_a_row=any(isinstance(op, ops.Load) and op.result.shape == rows for op in grid.body.walk()),
    )  # fmt: skip


def _counts_along(operand: Value, axis: int) -> bool:
    """Whether that axis of an operand is the one that counts fastest in memory."""
    load = source_load(operand)
    assert load is not None
    return access_order(load)[-1] == load_axis(operand, axis)


def _may_go_by_tma(op: ops.Store, alignment_of: Callable[[Value], int]) -> bool:
    unit = tensor_of(op).unit
    return unit is not None and tile_axes(op)[unit] == len(op.value.shape) - 1 and alignment_of(op.tensor) >= TMA_BYTES


def _plan(tiling: Tiling, axes: _Axes, blocks: Sequence[BlockDefinition], beside: int) -> Plan:
    rows, columns, depth = tiling.block
    sizes = {axes.row.extent: rows, axes.depth.extent: depth}
    if axes.column is not None:
        sizes[axes.column.extent] = columns // beside
    return _blocks_plan(tiling.grid_plan(), sizes, blocks)


def _blocks_plan(grid_plan: GridPlan, sizes: Mapping[str | None, int], blocks: Sequence[BlockDefinition]) -> Plan:
    """A plan with these sizes of blocks, and 1 for others that are open."""
    open_ = [b.extent for b in blocks if b.extent is not None and b.block.kind != "fixed"]
    return Plan((grid_plan,), blocks=tuple((name, sizes.get(name, 1)) for name in open_))
