"""Lowers grids, loops and branches. A loop over blocks becomes a loop over numbers that carries tiles in one layout."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Op, Value
from tiledsl.ir.dtypes import i64
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.ir.types import TileType, scalar
from tiledsl.passes.gpu.lower.grouped_sums import first_sums, grouped_products, meet
from tiledsl.passes.gpu.lower.lower_dot import batches_of, hold_operands
from tiledsl.passes.gpu.lower.lowering import Lowering
from tiledsl.passes.gpu.lower.persistent_grids import lower_persistent_grid
from tiledsl.passes.gpu.lower.pipeline_loads import Pipeline, pipeline_of
from tiledsl.passes.gpu.lower.place_blocks import block_place, block_size, define_place, turns_of
from tiledsl.passes.gpu.lower.product_loops import brings_all, lower_product_loop
from tiledsl.passes.gpu.products.parallel_products import product_of
from tiledsl.passes.tile.loops.carried_values import carried_arguments, yielded

if TYPE_CHECKING:
    from tiledsl.passes.gpu.roles.rings import FedLoop


def lower_grid(state: Lowering, op: ops.Grid, consumers: int = 1) -> None:
    """A grid as a launch. `consumers`: how many roles make tiles, each with threads of its own."""
    if state.grid.roles:
        from tiledsl.passes.gpu.roles.specialised_grids import lower_specialised_grid  # costs start-up time

        lower_specialised_grid(state, op, consumers)
        return
    if state.grid.programs:
        lower_persistent_grid(state, op)
        return
    body = Block([(scalar(i64), f"{argument.name}_start") for argument in op.body.arguments])
    sizes = [block_size(block) for block in op.blocks]
    stops = [state.coordinate(stop) for stop in op.stops]
    with state.scope(body):
        for argument, start, stop, size in zip(op.body.arguments, body.arguments, stops, sizes):
            place = block_place(state, argument, start, stop, size, state.multiple(_source(op, argument)))
            define_place(state, argument, place)
        state.lower_block(op.body)
        state.emit(ops.Yield)
    grid = state.grid
    state.emit(
        gpu.Launch, stops=stops, blocks=tuple(sizes), threads=grid.threads, cluster=grid.cluster, raster=grid.raster,
        body=body,
    )  # fmt: skip


def _source(op: ops.Grid, argument: Value) -> Value:
    return op.stops[op.body.arguments.index(argument)]


def lower_range(state: Lowering, op: ops.Range) -> None:
    """A loop over blocks. Loads for matrix products may run ahead of it (`pipeline_loads`)."""
    turns = turns_of(state, op)

    def every(enter: Callable[[Value], None], fed: Pipeline | FedLoop | None) -> None:
        _lower_loop(state, op, (state.constant(0), turns.count, state.constant(1)), enter, fed)

    if state.grid.roles:
        from tiledsl.passes.gpu.roles.role_ops import lower_role_range  # costs start-up time

        lower_role_range(state, op, turns, every)
        return
    pipeline = pipeline_of(state, op, turns)
    dot = product_of(op)
    single = dot is not None and math.prod(batches_of(dot, state.capacities)) == 1 and dot.precision != "planes"
    if pipeline is not None and dot is not None and single and brings_all(pipeline, op):
        lower_product_loop(state, op, dot, pipeline)
        return
    if pipeline is not None:
        pipeline.begin()

    def enter(number: Value) -> None:
        start = turns.start_of(state, number)
        start.name = start.name or f"{turns.argument.name}_start"
        define_place(state, turns.argument, turns.place(state, start))
        if pipeline is not None:
            pipeline.advance(number)

    every(enter, pipeline)
    if pipeline is not None:
        pipeline.end()


def lower_for(state: Lowering, op: ops.For) -> None:
    """A loop over numbers."""
    bounds = (state.coordinate(op.start), state.coordinate(op.stop), state.coordinate(op.step))

    def enter(number: Value) -> None:
        state.define_scalar(op.body.arguments[0], number)

    _lower_loop(state, op, bounds, enter, None)


def _lower_loop(
    state: Lowering,
    op: ops.Range | ops.For,
    bounds: tuple[Value, Value, Value],
    enter: Callable[[Value], None],
    pipeline: Pipeline | FedLoop | None,
) -> None:
    if not state.grid.roles:
        hold_operands(state, op)
    grouped = grouped_products(state, op)
    layouts = carried_layouts(state, op)
    layouts = [grouped[number].accumulator if number in grouped else one for number, one in enumerate(layouts)]
    initial = [
        first_sums(state, grouped[number], value.dtype) if number in grouped else _carried(state, value, layout)
        for number, (value, layout) in enumerate(zip(op.initial, layouts))
    ]
    extra = [] if pipeline is None else pipeline.carried()
    inside = carried_arguments(op, op.body)
    index_name = op.body.arguments[0].name
    body = Block([(scalar(i64), f"{index_name}_number" if isinstance(op, ops.Range) else index_name)])
    for value, argument in zip(initial, inside):
        body.add_argument(value.type, argument.name)
    for value in extra:
        body.add_argument(value.type, value.name)
    arguments = body.arguments[1 : 1 + len(initial)]
    with state.scope(body):
        for argument, lowered in zip(inside, arguments):
            state.define(argument, lowered)
        if pipeline is not None:
            pipeline.enter(body.arguments[1 + len(initial) :])
        enter(body.arguments[0])
        state.lower_block(op.body)
        following = [_carried(state, value, layout) for value, layout in zip(yielded(op.body), layouts)]
        if pipeline is not None:
            following += pipeline.following(state)
        state.emit(ops.Yield, values=following)
    start, stop, step = bounds
    types = [value.tile for value in (*initial, *extra)]
    loop = state.emit(
        ops.For, types=types, name=[v.name for v in op.results], start=start, stop=stop, step=step,
        initial=[*initial, *extra], body=body,
    )  # fmt: skip
    if pipeline is not None:
        pipeline.leave(loop.results[len(initial) :])
    if grouped and isinstance(pipeline, Pipeline):
        pipeline.end()  # sums meet where stages were
    for number, (result, lowered) in enumerate(zip(op.results, loop.results)):
        if number in grouped:
            lowered = meet(state, grouped[number], lowered, op.initial[number])
        state.define(result, lowered)


def carried_layouts(state: Lowering, op: Op) -> list[RegisterLayout | None]:
    """The layout of each result of a loop or branch; None for scalars."""
    return [state.layout(result) if result.shape else None for result in op.results]


def _carried(state: Lowering, value: Value, layout: RegisterLayout | None) -> Value:
    return state.scalar(value) if layout is None else state.tile(value, layout)


def _yielded(state: Lowering, block: Block, layouts: Sequence[RegisterLayout | None]) -> list[Value]:
    last = block.terminator
    values = last.values if isinstance(last, ops.Yield) else ()
    return [_carried(state, value, layout) for value, layout in zip(values, layouts)]


def lower_while(state: Lowering, op: ops.While) -> None:
    """A loop while a condition holds."""
    layouts = carried_layouts(state, op)
    initial = [_carried(state, value, layout) for value, layout in zip(op.initial, layouts)]
    blocks: dict[str, Block] = {}
    for name, old in op.bodies.items():
        block = Block([(value.type, argument.name) for value, argument in zip(initial, old.arguments)])
        with state.scope(block):
            for argument, lowered in zip(old.arguments, block.arguments):
                state.define(argument, lowered)
            state.lower_block(old)
            wanted = layouts if name == "body" else [None]
            state.emit(ops.Yield, values=_yielded(state, old, wanted))
        blocks[name] = block
    types = [value.tile for value in initial]
    loop = state.emit(ops.While, types=types, name=[v.name for v in op.results], initial=initial, **blocks)
    for result, lowered in zip(op.results, loop.results):
        state.define(result, lowered)


def lower_if(state: Lowering, op: ops.If) -> None:
    """A branch; both sides give their tiles in the same layouts."""
    layouts = carried_layouts(state, op)
    condition = state.scalar(op.condition)
    blocks: dict[str, Block] = {}
    for name, old in op.bodies.items():
        block = Block()
        with state.scope(block):
            state.lower_block(old)
            state.emit(ops.Yield, values=_yielded(state, old, layouts))
        blocks[name] = block
    types = [
        TileType(result.dtype, layout.shape, "register", layout) if layout is not None else scalar(result.dtype)
        for result, layout in zip(op.results, layouts)
    ]
    branch = state.emit(
        ops.If, types=types, name=[v.name for v in op.results], condition=condition, rare=op.rare, **blocks
    )
    for result, lowered in zip(op.results, branch.results):
        state.define(result, lowered)
