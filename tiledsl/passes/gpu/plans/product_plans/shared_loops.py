"""Whether blocks of a cluster can share the loop of a product (`roles/exchange_sums.py`)."""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.ir import tile_ops as ops
from tiledsl.passes.gpu.layouts.infer_layouts import reshapes_units
from tiledsl.passes.gpu.plan import GridPlan
from tiledsl.passes.gpu.products.parallel_products import product_of
from tiledsl.passes.gpu.products.streamed_loads import DeclinedError, Feed

_ELEMENTWISE = (
    ops.Constant, ops.Size, ops.Map, ops.Cast, ops.Broadcast, ops.Load, ops.Store, ops.Start, ops.Extent, ops.Shift,
    ops.Arange, ops.Coordinates, ops.Random, ops.Yield,
)  # fmt: skip


def check_splits(op: ops.Grid, feeds: Sequence[Feed], grid: GridPlan | None = None) -> None:
    """Raises DeclinedError, with a reason that follows "because", where blocks cannot share the loop of a product."""
    loops = [inner for inner in op.body.ops if isinstance(inner, ops.Range)]
    dot = product_of(loops[0]) if len(loops) == 1 else None
    if dot is not None and dot.precision == "split":
        raise DeclinedError("planes are made of operands by each block")
    if dot is None or len(feeds) != 1 or len(feeds[0].loads) != 2 or feeds[0].block is not loops[0].body:
        raise DeclinedError("blocks can share the loop of a single product alone")
    for inner in op.body.ops:
        plain = isinstance(inner, _ELEMENTWISE) or (isinstance(inner, ops.Reshape) and reshapes_units(inner))
        if inner is not loops[0] and not plain:
            raise DeclinedError(f"`{inner.name}` is not for blocks that have some columns each")
    if grid is None:
        return
    if grid.programs or grid.cluster != grid.splits or grid.warps[1] != 1 or grid.roles != "cooperative":
        raise DeclinedError("blocks that share a loop have one tile, all columns of it in each warpgroup")
    if (loops[0].num_stages or grid.stages) == 1:
        raise DeclinedError("blocks that share a loop look at two stages at once")


def can_split(op: ops.Grid, feeds: Sequence[Feed]) -> bool:
    """Whether blocks of some plan can share the loop."""
    try:
        check_splits(op, feeds)
    except DeclinedError:
        return False
    return True
