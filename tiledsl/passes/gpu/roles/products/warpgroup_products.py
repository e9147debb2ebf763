"""Products by warpgroups, in roles that do nothing but compute.

    %c = tile.dot(%a, %b, %acc)
=>  gpu.wgmma_fence()
    %c0 = gpu.wgmma(%a_buffer, [%stage, %0, %0], %b_buffer, [%stage, %0, %0], %acc)
    gpu.wgmma_commit()
    %c = gpu.wgmma_wait([%c0]) {groups = 0}

In a loop that does nothing but multiply, one product is under way while the next one begins, and a stage is given back
when the product after it has begun:

    for i in ...: (acc, stage, before)
        wait until the stage is full
        acc += a[stage] b[stage], in flight; added up from the second turn on
        wait for all products but this one; release the stage before
    wait for the last product; release its stage
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Value
from tiledsl.ir.dtypes import bool_, i64
from tiledsl.ir.gpu import async_ops
from tiledsl.ir.gpu.matrix_descriptors import shared_operand
from tiledsl.ir.gpu.warpgroup_instructions import WARPGROUP
from tiledsl.ir.types import scalar
from tiledsl.passes.analysis.splats import number_of
from tiledsl.passes.gpu.layouts.select_wgmma import WarpgroupProduct, plan_product
from tiledsl.passes.gpu.lower.lower_dot import added, batched, matrix_of
from tiledsl.passes.gpu.lower.lowering import Lowering, Staged
from tiledsl.passes.gpu.lower.place_blocks import Turns
from tiledsl.passes.gpu.products.promoted_sums import is_promoted
from tiledsl.passes.gpu.roles.computed_operands import stage_right_operand
from tiledsl.passes.gpu.roles.exchange_sums import SplitSum
from tiledsl.passes.gpu.roles.rings import Position, Ring
from tiledsl.support.errors import fail


def lower_product(state: Lowering, dot: ops.Dot) -> None:
    """A product, here and now: its operands stand in stages that are full, or the left one in registers."""
    plan = plan_product(dot, state.capacities, state.grid)
    remark_product(state, dot, plan)
    rank = len(dot.result.shape)
    left = left_operand(state, dot, plan)
    stage_right_operand(state, dot, plan)
    acc, accumulate = initial_accumulator(state, dot, plan)
    state.emit(async_ops.WgmmaFence)
    product = multiply(state, dot, plan, left, acc, accumulate)
    state.emit(async_ops.WgmmaCommit)
    values = [product] if left is None else [product, left]
    landed = state.emit(async_ops.WgmmaWait, values=values, groups=0).results[0]
    if rank > 2:
        landed = state.reshaped(landed, batched(plan.accumulator, rank))
    landed.name = dot.result.name
    state.define(dot.result, landed)


def remark_product(state: Lowering, dot: ops.Dot, plan: WarpgroupProduct) -> None:
    """Notes which instruction is taken."""
    text = f"{plan.instruction} multiplies, {state.grid.threads // WARPGROUP} warpgroups of a block"
    state.remark(dot, f"{text}; sums are added up in f32" if is_promoted(dot) else text)


def left_operand(state: Lowering, dot: ops.Dot, plan: WarpgroupProduct) -> Value | None:
    """The left operand in registers, without padding along K; None if it stands in a stage."""
    if dot.a in state.staged:
        return None
    return state.convert(matrix_of(state, dot.a, 1), plan.left)


def initial_accumulator(state: Lowering, dot: ops.Dot, plan: WarpgroupProduct) -> tuple[Value, Value | None]:
    """What a product is added to, and whether it is: a bool scalar, None for yes."""
    layout, rank = plan.accumulator, len(dot.result.shape)
    if dot.acc is None:
        zero = state.constant(0.0 if dot.dtype.is_float else 0, dot.dtype)
        return state.filled(zero, layout), state.constant(False, bool_)
    value = state.tile(dot.acc, batched(layout, rank))
    return (value if rank == 2 else state.reshaped(value, layout)), None


def multiply(
    state: Lowering,
    dot: ops.Dot,
    plan: WarpgroupProduct,
    left: Value | None,
    acc: Value,
    accumulate: Value | None,
    part: tuple[int, int] | None = None,
    planes: tuple[int, int] | None = None,
) -> Value:
    """Begins a product; what it gives is in flight. `part`: where along K it begins, and how deep it is. `planes`: of
    which planes of the operands.

    Raises TileResourceError (`plan-specialised`) where tensor cores cannot read an operand as it stands in its stage.
    """
    b = state.staged[dot.b]
    _check_operand(dot, "b", b, plan)
    start, depth = part or (0, plan.shape[2])

    def offsets(staged: Staged, axis: int, plane: int) -> list[Value]:
        found = [state.constant(0) for _ in staged.buffer.shape]
        if plane:
            found[staged.places[0]] = state.constant(plane)
        if start:
            found[staged.places[axis]] = state.constant(start)
        if staged.stage is not None:
            found[0] = staged.stage
        return found

    left_plane, right_plane = planes or (0, 0)
    a_offsets: list[Value] = []
    a_axes: tuple[int, ...] = ()
    a = left
    if a is None:
        staged = state.staged[dot.a]
        a, a_axes = staged.buffer, staged.places[-2:]
        _check_operand(dot, "a", staged, plan)
        a_offsets = offsets(staged, -1, left_plane)
    return state.emit(
        async_ops.Wgmma, name=dot.result.name, a=a, a_offsets=a_offsets, b=b.buffer,
        b_offsets=offsets(b, -2, right_plane), acc=acc, accumulate=accumulate, depth=depth, a_axes=a_axes,
        b_axes=b.places[-2:], instruction=plan.instruction.name,
    ).result  # fmt: skip


def _check_operand(dot: ops.Dot, which: Literal["a", "b"], staged: Staged, plan: WarpgroupProduct) -> None:
    outer_axis, k_axis = staged.places[-2:] if which == "a" else staged.places[:-3:-1]
    try:
        shared_operand(staged.buffer.tile, outer_axis, k_axis, plan.instruction, which)
    except ValueError as error:
        fail("plan-specialised", dot.location, reason=f"`{staged.buffer.name}` {error}")


def lower_product_ring(state: Lowering, op: ops.Range, dots: Sequence[ops.Dot], ring: Ring, turns: Turns) -> None:
    """A loop that does nothing but multiply what comes by one ring: one product, or several side by side."""
    plans = [plan_product(dot, state.capacities, state.grid) for dot in dots]
    for dot, plan in zip(dots, plans):
        remark_product(state, dot, plan)
    first = ring.position
    from_zero = [number_of(value) == 0 or ring.sums is not None for value in op.initial]
    initial = [first_sums(state, value, dot, plan, ring.sums) for value, dot, plan in zip(op.initial, dots, plans)]
    zero = state.constant(0)
    carried = [*initial, *first.values, first.stage]
    body = Block([(scalar(i64), f"{op.body.arguments[0].name}_number")])
    for value, name in zip(carried, (*(dot.result.name for dot in dots), "stage", "parity", "before")):
        body.add_argument(value.type, name)
    number, *sums, stage, parity, before = body.arguments
    with state.scope(body):
        ring.position = Position(stage, parity)
        ring.wait(state)
        later = state.builder.map("ne", number, zero)
        with state.builder.at(dots[0].location):
            state.emit(async_ops.WgmmaFence)
            products = [
                multiply(state, dot, plan, None, acc, later if only_later else None)
                for dot, plan, acc, only_later in zip(dots, plans, sums, from_zero)
            ]
            state.emit(async_ops.WgmmaCommit)
        state.emit(async_ops.WgmmaWait, values=[], groups=1)
        with state.when(later):
            ring.release(state, before)
        ring.advance(state)
        state.emit(ops.Yield, values=[*products, *ring.position.values, stage])
    loop = state.emit(
        ops.For, types=[v.tile for v in carried], name=[v.name for v in op.results], start=zero, stop=turns.count,
        step=state.constant(1), initial=carried, body=body,
    )  # fmt: skip
    if ring.order is not None:
        ring.order.end()  # the last product is under way: those of the next role queue behind it
    last_stage, last_parity, last_before = loop.results[len(dots) :]
    totals = state.emit(async_ops.WgmmaWait, values=list(loop.results[: len(dots)]), groups=0).results
    side = state.grid.cluster // state.grid.splits
    if state.grid.programs or side > 1:  # the loader comes back, for the next tile or to see all empty
        with state.when(state.builder.map("gt", turns.count, zero)):
            ring.release(state, last_before)
    ring.position = Position(last_stage, last_parity)
    for result, start, dot, plan, total in zip(op.results, op.initial, dots, plans, totals):
        state.define(result, sum_of_loop(state, start, dot, plan, total, ring.sums))


def first_sums(state: Lowering, start: Value, dot: ops.Dot, plan: WarpgroupProduct, sums: SplitSum | None) -> Value:
    """What the products are added to. Blocks that share the loop begin with nothing."""
    if sums is not None:
        return state.filled(state.constant(0.0 if dot.dtype.is_float else 0, dot.dtype), plan.accumulator)
    rank = len(dot.result.shape)
    initial = state.tile(start, batched(plan.accumulator, rank))
    return initial if rank == 2 else state.reshaped(initial, plan.accumulator)


def sum_of_loop(
    state: Lowering, start: Value, dot: ops.Dot, plan: WarpgroupProduct, total: Value, sums: SplitSum | None
) -> Value:
    """The result of the loop, which begins with `start`, from what the products came to."""
    rank = len(dot.result.shape)
    if sums is not None:
        state.remark(dot, f"{sums.splits} blocks of a cluster share the loop, and add up their sums in their order")
        total = sums.add_up(state, total)
    layout = batched(plan.result, rank)
    if rank > 2:
        total = state.reshaped(total, layout)
    if sums is not None and number_of(start) != 0:
        total = added(state, state.tile(start, layout), total)
    return total
