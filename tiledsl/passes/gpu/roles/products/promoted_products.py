"""Products by warpgroups whose sums are promoted (`promoted_sums.py`): what is in flight is a part of the sum.

    for i in ...: (acc, part, stage)
        wait until the stage is full
        for each 128 elements of its depth:
            part = a[stage] b[stage], from nothing
            wait for it; after the last one release the stage
            acc += part

One warpgroup adds while another one multiplies.
"""

from __future__ import annotations

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Value
from tiledsl.ir.dtypes import bool_, i64
from tiledsl.ir.gpu import async_ops
from tiledsl.ir.types import scalar
from tiledsl.passes.gpu.layouts.select_wgmma import WarpgroupProduct, plan_product
from tiledsl.passes.gpu.lower.lower_dot import added, batched
from tiledsl.passes.gpu.lower.lowering import Lowering
from tiledsl.passes.gpu.lower.place_blocks import Turns
from tiledsl.passes.gpu.products.promoted_sums import PROMOTED_DEPTH
from tiledsl.passes.gpu.roles.computed_operands import stage_right_operand
from tiledsl.passes.gpu.roles.products.warpgroup_products import (
    first_sums,
    left_operand,
    multiply,
    remark_product,
    sum_of_loop,
)
from tiledsl.passes.gpu.roles.rings import Position, Ring
from tiledsl.support.errors import fail


def lower_promoted_product(state: Lowering, dot: ops.Dot) -> None:
    """A product, here and now: its operands stand in stages that are full, or the left one in registers."""
    if dot.precision == "split":
        fail("plan-specialised", dot.location, reason="planes are made of operands a turn ahead, in two stages or more")
    plan = plan_product(dot, state.capacities, state.grid)
    remark_product(state, dot, plan)
    rank = len(dot.result.shape)
    left = left_operand(state, dot, plan)
    stage_right_operand(state, dot, plan)
    total: Value | None = None
    if dot.acc is not None:
        total = state.tile(dot.acc, batched(plan.accumulator, rank))
        total = total if rank == 2 else state.reshaped(total, plan.accumulator)
    part = no_part(state, plan)
    for start, depth in _parts(plan, left):
        part = _part(state, dot, plan, left, part, start, depth)
        total = part if total is None else added(state, total, part)
    assert total is not None
    if rank > 2:
        total = state.reshaped(total, batched(plan.accumulator, rank))
    state.define(dot.result, total)


def lower_promoted_ring(state: Lowering, op: ops.Range, dot: ops.Dot, ring: Ring, turns: Turns) -> None:
    """A loop that does nothing but multiply what comes by one ring."""
    plan = plan_product(dot, state.capacities, state.grid)
    remark_product(state, dot, plan)
    carried = [first_sums(state, op.initial[0], dot, plan, ring.sums), no_part(state, plan), *ring.position.values]
    body = Block([(scalar(i64), f"{op.body.arguments[0].name}_number")])
    for value, name in zip(carried, (dot.result.name, "part", "stage", "parity")):
        body.add_argument(value.type, name)
    _, total, part, stage, parity = body.arguments
    with state.scope(body):
        ring.position = Position(stage, parity)
        ring.wait(state)
        parts = _parts(plan, None)
        for start, depth in parts:
            with state.builder.at(dot.location):
                part = _part(state, dot, plan, None, part, start, depth)
            if start == parts[-1][0]:
                ring.release(state, stage)
            total = added(state, total, part)
        ring.advance(state)
        state.emit(ops.Yield, values=[total, part, *ring.position.values])
    loop = state.emit(
        ops.For, types=[v.tile for v in carried], name=op.results[0].name, start=state.constant(0), stop=turns.count,
        step=state.constant(1), initial=carried, body=body,
    )  # fmt: skip
    ring.position = Position(loop.results[2], loop.results[3])
    state.define(op.results[0], sum_of_loop(state, op.initial[0], dot, plan, loop.results[0], ring.sums))


def no_part(state: Lowering, plan: WarpgroupProduct) -> Value:
    """Registers for a part of the sum; what they hold before is of no matter."""
    return state.filled(state.constant(0.0, plan.instruction.accumulator), plan.accumulator)


def _parts(plan: WarpgroupProduct, left: Value | None) -> list[tuple[int, int]]:
    """Where the parts of a stage begin, and their depths; one part where the left operand is in registers."""
    depth = plan.shape[2]
    step = PROMOTED_DEPTH if left is None and depth % PROMOTED_DEPTH == 0 else depth
    return [(start, step) for start in range(0, depth, step)]


def _part(
    state: Lowering, dot: ops.Dot, plan: WarpgroupProduct, left: Value | None, before: Value, start: int, depth: int
) -> Value:
    """The sum of so many products from `start` on, landed."""
    state.emit(async_ops.WgmmaFence)
    pairs = ops.PLANE_PAIRS if dot.precision == "planes" else (None,)
    product, first = before, state.constant(False, bool_)
    for pair in pairs:
        product = multiply(state, dot, plan, left, product, first if pair == pairs[0] else None, (start, depth), pair)
    state.emit(async_ops.WgmmaCommit)
    values = [product] if left is None else [product, left]
    return state.emit(async_ops.WgmmaWait, values=values, groups=0).results[0]
