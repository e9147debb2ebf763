"""Products whose loop the blocks of a cluster share: each adds up its part, then they add up their sums.

    for k in tile.range(K): acc = tile.dot(a[m, k], b[k, n], acc)        4 splits, tiles of 64 x 128

    for i in ...:                                  in every turn block r takes the r-th quarter of the step
        %acc = gpu.wgmma(%a, %b, %acc)             [4 * 64, 128]: block r has the rows of its own sums
    for each block p:
        gpu.write(%sums[p], columns 32p to 32p + 31 of %acc)      [4, 64, 32], in the memory of the ring
    gpu.mbarrier_expect(%came); gpu.exchange(%sums, %parts, %came)
    gpu.mbarrier_wait(%came)
    %sum = part 0 + part 1 + part 2 + part 3       [64, 128]: block p has 32 columns of it

The order is that of the blocks, so the result does not depend on who is first. From there on a tile lies as memory
likes it, a run of columns in each block; every block stores its own. Neighbouring parts of K are read at the same time,
all blocks make equally many turns, and what is beyond the end of K comes as zeros.

One thread begins the copies of a block, in the background, and only of rows that there are: parts are runs of bytes.
Who has got its parts tells all (%read), and no block ends before all have told it: its own memory has been read then.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import i32
from tiledsl.ir.gpu import async_ops
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.gpu.warpgroup_instructions import ROWS, WARPGROUP
from tiledsl.ir.layouts.buffer_layout import SharedLayout
from tiledsl.ir.layouts.layout import WARP, RegisterLayout, local, spatial
from tiledsl.ir.layouts.shared_layouts import Access, choose_shared_layout
from tiledsl.passes.gpu.layouts.select_wgmma import WarpgroupProduct
from tiledsl.passes.gpu.layouts.shared_accesses import shared_layout, staged_layout, static_shape, whole_vector
from tiledsl.passes.gpu.lower.lower_dot import added
from tiledsl.passes.gpu.lower.lowering import Lowering
from tiledsl.passes.gpu.plan import GridPlan
from tiledsl.passes.gpu.plans.product_plans.footprint import rows_to_send


class SplitSum:
    """The memory in which blocks add up what they have: made in the body of the launch, used once in a role."""

    def __init__(self, state: Lowering, plan: WarpgroupProduct, loaded: int, rings: Sequence[Value]) -> None:
        """`loaded`: how many rows of the left operand come into a stage; none of the others is looked at. `rings`:
        buffers that nobody needs after the loop."""
        grid = state.grid
        rows, columns, _ = plan.shape
        self.splits, self.width = grid.splits, columns // grid.splits
        self.result = plan.result
        self.sent = _columns_of(plan, grid, self.width)
        self.dtype = plan.instruction.accumulator
        layout, rows_sent = self._layout(rows, loaded)
        self.shape = (self.splits, rows, self.width)
        self.layout = staged_layout(layout)
        self.parts = state.buffer((self.splits, rows_sent, self.width), self.dtype, self.layout, "parts")
        room = self.layout.bytes(self.shape, self.dtype)
        self.lent = next((b for b in rings if shared_layout(b).bytes(static_shape(b), b.dtype) >= room), None)
        if self.lent is None:
            self.lent = state.buffer(self.shape, self.dtype, self.layout, "sums")
        self.came = state.emit(async_ops.Mbarriers, name="came", count=1, arrivals=1).result
        self.read = state.emit(async_ops.Mbarriers, name="read", count=1, arrivals=self.splits).result

    def _layout(self, rows: int, loaded: int) -> tuple[SharedLayout, int]:
        """How a part lies, and how many rows of it are sent: those that there are, to where a swizzle begins anew."""
        shape, row = (rows, self.width), self.width * self.dtype.bytes
        read = self.result.part_of_block(self.splits)
        accesses = [Access(self.sent.part_of_block(self.splits), (0, 1)), Access(read, (0, 1))]
        found = choose_shared_layout(shape, self.dtype, accesses, order=(0, 1))
        if not found.padding:
            step = math.lcm(found.period, row) // row
            sent = -(-loaded // step) * step
            if rows % step == 0 and sent <= rows_to_send(rows, loaded):
                return found, sent
        return SharedLayout((0, 1)), rows_to_send(rows, loaded)

    def add_up(self, state: Lowering, total: Value) -> Value:
        """The sum of what the blocks have, of which each gets some columns."""
        zero, first = state.constant(0), state.constant(0, i32)
        assert self.lent is not None
        sums = self.lent
        if sums.tile.layout != self.layout or static_shape(sums) != self.shape:
            sums = state.emit(
                gpu.Reuse, name="sums", buffer=sums, shape=self.shape, dtype=self.dtype, layout=self.layout
            ).result  # fmt: skip
        vector = whole_vector(self.sent, self.layout, self.shape, self.dtype, (1, 2))
        for block in range(self.splits):
            part = state.emit(
                gpu.Slice, name="part", source=total, starts=(0, block * self.width), layout=self.sent
            ).result  # fmt: skip
            offsets = [state.constant(block), zero, zero]
            state.emit(gpu.Write, buffer=sums, value=part, offsets=offsets, places=(1, 2), vector=vector)
        bytes_ = self.layout.bytes(static_shape(self.parts), self.dtype)
        state.emit(async_ops.MbarrierExpect, barriers=self.came, index=first, bytes=bytes_)
        state.emit(async_ops.Exchange, source=sums, target=self.parts, barriers=self.came, index=first)
        state.emit(async_ops.MbarrierWait, barriers=self.came, index=first, parity=first)
        state.emit(async_ops.MbarrierArrive, barriers=self.read, index=first, by="role", scope="cluster")
        found: Value | None = None
        for number in range(self.splits):
            one = self._read(state, number)
            found = one if found is None else added(state, found, one)
        assert found is not None
        return found

    def finish(self, state: Lowering) -> None:
        """At the end of the role: others have got what is sent from here."""
        first = state.constant(0, i32)
        state.emit(async_ops.MbarrierWait, barriers=self.read, index=first, parity=first)

    def _read(self, state: Lowering, number: int) -> Value:
        """What came from a block."""
        part = self.result.part_of_block(self.splits)
        vector = whole_vector(part, self.layout, static_shape(self.parts), self.dtype, (1, 2))
        offsets = [state.constant(number), state.constant(0), state.constant(0)]
        return state.emit(
            gpu.Read, name="part", buffer=self.parts, offsets=offsets, places=(1, 2), vector=vector,
            shape=self.result.shape, layout=self.result,
        ).result  # fmt: skip


def _columns_of(plan: WarpgroupProduct, grid: GridPlan, width: int) -> RegisterLayout:
    """How `width` columns of the accumulator lie, which each warpgroup has all of."""
    groups = grid.warps[0] * WARP // WARPGROUP
    fragment = spatial(4, 1) * local(1, width // 8) * local(2, 1) * spatial(8, 4) * local(1, 2)
    return spatial(grid.splits * groups, 1) * local(plan.shape[0] // (ROWS * groups), 1) * fragment
