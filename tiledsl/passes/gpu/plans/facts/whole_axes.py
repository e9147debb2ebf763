"""Room for axes that tiles have whole, as plans say it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.symbolic import symbol_name, symbols_of
from tiledsl.passes.analysis.sizes import BlockDefinition
from tiledsl.passes.gpu.layouts.capacities import rounded
from tiledsl.passes.gpu.layouts.infer_layouts import access_order, reshapes_units
from tiledsl.passes.gpu.plan import WRITTEN_OUT, Plan
from tiledsl.passes.gpu.plans.facts.grid_shape import GridShape, KnownSizes, accessed
from tiledsl.support.powers_of_two import power_of_two_from


def with_whole_axes(grid: GridShape, plan: Plan, sizes: KnownSizes, vector: int, threads: int) -> Plan:
    """The plan with room for every axis that a tile has whole."""
    fast: set[str] = set()
    for op in grid.accesses:
        shape = accessed(op)
        if shape:
            fast.add(str(shape[access_order(op)[-1]]))
    capacities: dict[str, int] = {}
    exact: dict[str, int] = {}
    for dim in (dim for shape in grid.shapes for dim in shape):
        if isinstance(dim, int) or symbols_of(dim) & grid.block_symbols:
            continue
        size, text = sizes.of(dim), str(dim)
        granule = vector
        if text in fast:
            granule = (
                power_of_two_from(size)
                if size < vector
                else vector * min(threads, power_of_two_from(-(-size // vector)))
            )
        capacities[text] = -(-max(size, 1) // granule) * granule if text in fast else rounded(size)
    for name in (*_reshaped_symbols(grid), *_divisors_of_turns(grid)):
        if name in sizes.known:
            exact[name] = sizes.known[name]
    for block in grid.blocks if not grid.dots else ():
        name = symbol_name(block.total) if isinstance(block.op, ops.Range) and block.total is not None else None
        if name is not None and is_written_out(block) and 0 < sizes.known.get(name, 0) <= WRITTEN_OUT:
            exact[name] = sizes.known[name]
    return replace(plan, capacities=tuple(capacities.items()), sizes=tuple(exact.items()))


def is_written_out(block: BlockDefinition) -> bool:
    """Whether a loop goes one by one: if it is short, its turns are written out, and all that they load is asked for
    together."""
    return isinstance(block.op, ops.Range) and block.block.kind == "fixed" and block.block.size == 1


def _reshaped_symbols(grid: GridShape) -> Iterator[str]:
    """Sizes of whole axes that a reshape merges or splits: how elements move depends on them."""
    for op in grid.op.body.walk():
        if isinstance(op, ops.Reshape) and not reshapes_units(op):
            for dim in (*op.source.shape, *op.result.shape):
                yield from symbols_of(dim) - grid.block_symbols


def _divisors_of_turns(grid: GridShape) -> Iterator[str]:
    """Sizes by which the place of a loop is divided, in every turn: 64 bits by a number that is not known take some 100
    instructions."""
    for op in grid.op.body.walk():
        if isinstance(op, ops.Map) and op.fn in ("floordiv", "mod") and not op.result.shape and _is_in_loop(op):
            by = op.inputs[1].op
            if isinstance(by, ops.Size):
                yield from symbols_of(by.value) - grid.block_symbols


def _is_in_loop(op: ops.Map) -> bool:
    return op.parent is not None and isinstance(op.parent.parent, ops.Range)
