"""Products whose loop groups of warps share: each has a part of every turn, and sums of its own until the loop ends.

    for k in tile.range(K): acc = tile.dot(a[m, k], b[k, n], acc)         4 groups of 1 x 2 warps, tiles of 16 x 64

    for i in ...:
        %acc = gpu.mma(%a, %b, %acc) {groups = 4}      [4 * 16, 64]: group g has rows 16g to 16g + 15, of its parts of K
    gpu.write(%sums, %acc); gpu.barrier()
    %sum = part 0 + part 1 + part 2 + part 3           [16, 64], shared out over all threads as memory likes it

The order is that of the groups, so the result does not depend on who is first. Stages and barriers are those of the
block: what a turn loads is as deep as all groups take together, and lies side by side in memory. What the loop begins
with is added last.
"""

from __future__ import annotations

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import DType
from tiledsl.ir.layouts.layout import RegisterLayout, local, spatial
from tiledsl.ir.layouts.shared_layouts import choose_shared_layout
from tiledsl.passes.analysis.splats import number_of
from tiledsl.passes.gpu.layouts.access_layouts import access_layout
from tiledsl.passes.gpu.layouts.shared_accesses import plain_access
from tiledsl.passes.gpu.lower.lower_dot import added
from tiledsl.passes.gpu.lower.lowering import Lowering
from tiledsl.passes.gpu.products.plan_dot import DotPlan, plan_dot
from tiledsl.passes.tile.loops.carried_values import yielded
from tiledsl.support.powers_of_two import power_of_two_up_to

VECTOR_BYTES = 16
"""That a thread writes to memory at once."""


def grouped_products(state: Lowering, loop: ops.Range | ops.For) -> dict[int, DotPlan]:
    """The carried values of a loop that groups of warps have sums of, and how these are made."""
    if state.grid.groups == 1 or not isinstance(loop, ops.Range):
        return {}
    found: dict[int, DotPlan] = {}
    for number, value in enumerate(yielded(loop.body)):
        if isinstance(value.op, ops.Dot) and value.op.parent is loop.body:
            plan = plan_dot(value.op, state.capacities, state.grid, state.machine)
            if plan.groups > 1:
                found[number] = plan
    return found


def met_layout(plan: DotPlan, dtype: DType) -> RegisterLayout:
    """How a sum of all groups lies: every thread has neighbours of a row."""
    (rows, columns, _), threads = plan.shape, plan.threads
    vector = min(VECTOR_BYTES // dtype.bytes, power_of_two_up_to(max(1, rows * columns // threads)))
    down, left = divmod(threads, columns // vector)
    if columns % vector == 0 and not left and rows % down == 0:  # whole rows of any number of warps
        return local(rows // down, 1) * spatial(down, columns // vector) * local(1, vector)
    return access_layout((rows, columns), (0, 1), threads, vector, dtype.bytes)


def first_sums(state: Lowering, plan: DotPlan, dtype: DType) -> Value:
    """What each group begins with."""
    return state.filled(state.constant(0.0 if dtype.is_float else 0, dtype), plan.accumulator)


def meet(state: Lowering, plan: DotPlan, sums: Value, initial: Value) -> Value:
    """Behind the loop: the sum of all groups, and of what the loop began with."""
    rows, _, _ = plan.shape
    layout, places = met_layout(plan, sums.dtype), (0, 1)
    accesses = tuple(plain_access(one, places, sums.dtype) for one in (sums.layout, layout))
    shape = sums.layout.shape
    buffer = state.buffer(shape, sums.dtype, choose_shared_layout(shape, sums.dtype, accesses), "sums")
    state.write(buffer, sums)
    zero, found = state.constant(0), None
    for group in range(plan.groups):
        offsets = [state.constant(group * rows), zero]
        part = state.read(buffer, layout, offsets=offsets, name="part")
        found = part if found is None else added(state, found, part)
    assert found is not None, "there are several groups"
    found.name = sums.name
    return found if number_of(initial) == 0 else added(state, found, state.tile(initial, layout))
