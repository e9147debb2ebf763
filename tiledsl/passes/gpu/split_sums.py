"""Products whose loop the blocks of a cluster share: each adds up its part, then they add up their sums.

    for k in tile.range(K): acc = tile.dot(a[m, k], b[k, n], acc)        4 splits, tiles of 64 x 128

    for i in ...:                                  in every turn block r takes the r-th quarter of the step
        %acc = gpu.wgmma(%a, %b, %acc)             [4 * 64, 128]: block r has the rows of its own sums
    for each block p:
        gpu.write(%parts, columns 32p to 32p + 31 of %acc) {block = p}        [4 * 64, 32] in block p
    gpu.mbarrier_arrive(%came); gpu.mbarrier_wait(%came)
    %sum = part 0 + part 1 + part 2 + part 3       [64, 128]: block p has 32 columns of it

The order is that of the blocks, so the result does not depend on who is first. From there on a tile lies as memory
likes it, a run of columns in each block; every block stores its own. Neighbouring parts of K are read at the same time,
all blocks make equally many turns, and what is beyond the end of K comes as zeros.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.ir import async_ops
from tiledsl.ir import gpu_ops as gpu
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import i32
from tiledsl.ir.layouts import WARP, RegisterLayout, local, spatial
from tiledsl.ir.shared_layouts import Access, choose_shared_layout
from tiledsl.ir.warpgroup_instructions import ROWS, WARPGROUP
from tiledsl.passes.gpu.infer_layouts import reshapes_units
from tiledsl.passes.gpu.lowering import Lowering
from tiledsl.passes.gpu.plan import GridPlan
from tiledsl.passes.gpu.product_loops import product_of
from tiledsl.passes.gpu.promoted_sums import added
from tiledsl.passes.gpu.select_wgmma import WarpgroupProduct
from tiledsl.passes.gpu.shared_accesses import shared_layout, static_shape, whole_vector
from tiledsl.passes.gpu.streamed_loads import DeclinedError, Feed

_ELEMENTWISE = (
    ops.Constant, ops.Size, ops.Map, ops.Cast, ops.Broadcast, ops.Load, ops.Store, ops.Start, ops.Extent, ops.Shift,
    ops.Arange, ops.Coordinates, ops.Random, ops.Yield,
)  # fmt: skip


def check_splits(op: ops.Grid, feeds: Sequence[Feed], grid: GridPlan | None = None) -> None:
    """Raises DeclinedError, with a reason that follows "because", where blocks cannot share the loop of a product."""
    loops = [inner for inner in op.body.ops if isinstance(inner, ops.Range)]
    dot = product_of(loops[0]) if len(loops) == 1 else None
    if dot is None or len(feeds) != 1 or len(feeds[0].loads) != 2 or feeds[0].block is not loops[0].body:
        raise DeclinedError("blocks can share the loop of a single product alone")
    for inner in op.body.ops:
        plain = isinstance(inner, _ELEMENTWISE) or (isinstance(inner, ops.Reshape) and reshapes_units(inner))
        if inner is not loops[0] and not plain:
            raise DeclinedError(f"`{inner.name}` is not for blocks that have some columns each")
    if grid is None:
        return
    if grid.programs or grid.cluster != grid.splits or grid.warps[1] != 1 or grid.schedule != "cooperative":
        raise DeclinedError("blocks that share a loop have one tile, all columns of it in each warpgroup")


def can_split(op: ops.Grid, feeds: Sequence[Feed]) -> bool:
    """Whether blocks of some plan can share the loop."""
    try:
        check_splits(op, feeds)
    except DeclinedError:
        return False
    return True


class SplitSum:
    """The memory in which blocks add up what they have: made in the body of the launch, used once in a role."""

    def __init__(self, state: Lowering, plan: WarpgroupProduct) -> None:
        grid = state.grid
        rows, columns, _ = plan.shape
        self.splits, self.rows, self.width = grid.splits, rows, columns // grid.splits
        self.result = plan.result
        self.sent = _columns_of(plan, grid, self.width)
        read = self.result.part_of_block(self.splits)
        self.shape = (self.splits * rows, self.width)
        dtype = plan.instruction.accumulator
        layout = choose_shared_layout(self.shape, dtype, [Access(self.sent, (0, 1)), Access(read, (0, 1))])
        self.buffer = state.buffer(self.shape, dtype, layout, "parts")
        arrivals = grid.threads // WARP * self.splits
        self.came = state.emit(async_ops.Mbarriers, name="came", count=1, arrivals=arrivals).result

    def add_up(self, state: Lowering, total: Value) -> Value:
        """The sum of what the blocks have, of which each gets some columns."""
        zero, shared = state.constant(0), shared_layout(self.buffer)
        vector = whole_vector(self.sent, shared, static_shape(self.buffer), total.dtype, (0, 1))
        for block in range(self.splits):
            part = state.emit(
                gpu.Slice, name="part", source=total, starts=(0, block * self.width), layout=self.sent
            ).result  # fmt: skip
            state.emit(
                gpu.Write, buffer=self.buffer, value=part, offsets=[zero, zero], places=(0, 1), vector=vector,
                block=block,
            )  # fmt: skip
        first = state.constant(0, i32)
        state.emit(async_ops.MbarrierArrive, barriers=self.came, index=first, by="warp", scope="cluster")
        state.emit(async_ops.MbarrierWait, barriers=self.came, index=first, parity=first)
        found: Value | None = None
        for number in range(self.splits):
            one = self._read(state, number)
            found = one if found is None else added(state, found, one)
        assert found is not None
        return found

    def _read(self, state: Lowering, number: int) -> Value:
        """What came from a block."""
        part = self.result.part_of_block(self.splits)
        vector = whole_vector(part, shared_layout(self.buffer), self.shape, self.buffer.dtype, (0, 1))
        offsets = [state.constant(number * self.rows), state.constant(0)]
        return state.emit(
            gpu.Read, name="part", buffer=self.buffer, offsets=offsets, places=(0, 1), vector=vector,
            shape=self.result.shape, layout=self.result,
        ).result  # fmt: skip


def _columns_of(plan: WarpgroupProduct, grid: GridPlan, width: int) -> RegisterLayout:
    """How `width` columns of the accumulator lie, which each warpgroup has all of."""
    groups = grid.warps[0] * WARP // WARPGROUP
    fragment = spatial(4, 1) * local(1, width // 8) * local(2, 1) * spatial(8, 4) * local(1, 2)
    return spatial(grid.splits * groups, 1) * local(plan.shape[0] // (ROWS * groups), 1) * fragment
