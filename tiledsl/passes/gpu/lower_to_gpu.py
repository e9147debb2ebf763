"""TILE to GPU: threads, layouts, shared memory and instructions for each grid.

    tile.grid([%M]) {blocks = [4]} body(%m: axis<m>) {            gpu.launch([%M]) {blocks = [4], threads = 128}
      %row = tile.load(%x, [%m, :])                                   body(%m_start: i64) {
          : tile<f32, [m, N], register>                       =>    %row = gpu.load(%x, [%m_start, %zero], ...)
      ...                                                               : tile<f32, [4, 1024], register, ...>

Before: form `tile-tiled`, with every block a number (`apply-plan`). After: form `gpu`, buffers without offsets and
without barriers (`allocate-shared`, `insert-barriers`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Function, Module, Op, Value
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.ir.types import AxisType, TensorType
from tiledsl.ir.verifier import Form
from tiledsl.passes.analysis.effects import tensors_in_order
from tiledsl.passes.analysis.phases import phases_of
from tiledsl.passes.gpu.layouts.capacities import Capacities
from tiledsl.passes.gpu.layouts.infer_layouts import LayoutInference, reshapes_units
from tiledsl.passes.gpu.layouts.select_wgmma import plan_product
from tiledsl.passes.gpu.lower.grouped_sums import met_layout
from tiledsl.passes.gpu.lower.lower_dot import batched, batches_of, in_batches, lower_dot
from tiledsl.passes.gpu.lower.lower_folds import lower_reduce, lower_scan, lower_sort
from tiledsl.passes.gpu.lower.lower_memory import (
    lower_atomic,
    lower_extract,
    lower_load,
    lower_reshape,
    lower_stack,
    lower_store,
)
from tiledsl.passes.gpu.lower.lowering import Lowering
from tiledsl.passes.gpu.lower.make_tiles import make_tile
from tiledsl.passes.gpu.lower.pipeline_loads import goes_through_shared, stage_load
from tiledsl.passes.gpu.lower_control import lower_for, lower_grid, lower_if, lower_range, lower_while
from tiledsl.passes.gpu.plan import GridPlan, Plan
from tiledsl.passes.gpu.plans.apply_plan import check_applied
from tiledsl.passes.gpu.products.plan_dot import plan_dot
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.passes.manager import PassContext
from tiledsl.support.follow import follow

OUTSIDE = GridPlan(threads=128)
"""How ops outside of grids are run: by one program."""


@dataclass(frozen=True)
class LowerToGpu:
    """`plan` must have been applied; `arch` names the machine."""

    name: ClassVar[str] = "lower-to-gpu"
    requires: ClassVar[Form] = Form.TILE_PLACED
    gives: ClassVar[Form] = Form.GPU
    plan: Plan
    arch: str = "sm_90"

    def run(self, module: Module, context: PassContext) -> Module:
        check_applied(module.entry, self.plan)
        lowered = _FunctionLowering(module.entry, self.plan, self.arch, context).run()
        return Module([lowered])


class _FunctionLowering:
    def __init__(self, function: Function, plan: Plan, arch: str, context: PassContext) -> None:
        self.function = function
        self.plan = plan
        self.machine = gpu_machine(arch)
        self.context = context
        self.capacities = Capacities(function, plan)
        self.values: dict[Value, Value] = {}

    def run(self) -> Function:
        old = self.function
        body = Block([(p.type, p.name) for p in old.parameters])
        new = Function(old.name, body, old.facts, old.location, old.size_origins)
        self.values.update(zip(old.parameters, new.parameters))
        builder = Builder(new.body, old.location)
        grids = iter(self.plan.grids)
        phases = {phase[0]: phase for phase in phases_of(old, with_fills=False)}
        for op in old.body.ops:
            if op in phases:
                with builder.at(op.location):
                    self._phase(phases[op], builder, grids)
            elif isinstance(op, ops.Empty):
                fill = None if op.fill is None else self._outer_scalar(op.fill, builder)
                types = [v.type for v in op.results]
                copy = ops.Empty(
                    op.location, types=types, result_names=[op.result.name], fill=fill, shape=op.shape, dtype=op.dtype,
                    scratch=op.scratch,
                )  # fmt: skip
                new.body.append(copy)
                self.values[op.result] = copy.result
            elif isinstance(op, ops.Return):
                new.body.append(op.clone(self.values))
        return new

    def _outer_scalar(self, value: Value, builder: Builder) -> Value:
        """A scalar of the function itself, which is made of pure ops."""

        def copied(value: Value) -> Generator[Value, Value, Value]:
            assert value.op is not None
            yield from value.op.operands
            copy = value.op.clone(self.values)
            builder.block.append(copy)
            return copy.results[value.op.results.index(value)]

        return follow(copied, value, self.values)

    def _alignment_of(self, tensor: Value) -> int:
        """The bytes that each row of a tensor begins at a multiple of, at most 16."""
        number = tensors_in_order(self.function.body).index(tensor)
        return self.plan.alignment[number] if number < len(self.plan.alignment) else 16

    def _phase(self, phase: list[Op], builder: Builder, grids: Iterator[GridPlan]) -> None:
        whole = next(grids) if isinstance(phase[0], ops.Grid) else OUTSIDE
        state = self._state(phase, builder, replace(whole, threads=whole.threads_of_tile))
        if isinstance(phase[0], ops.Grid):
            lower_grid(state, phase[0], whole.threads // state.grid.threads)
            return
        body = Block()
        with state.scope(body):
            for op in phase:
                lower_op(state, op)
            state.emit(ops.Yield)
        state.emit(gpu.Launch, stops=[], blocks=(), threads=state.grid.threads, body=body)

    def _state(self, phase: list[Op], builder: Builder, grid: GridPlan) -> Lowering:
        """The state of lowering these ops by the threads of a plan."""
        outer = [op for op in self.function.body.ops if op.effect in ("pure", "read")]

        def dot_layout(op: ops.Dot) -> RegisterLayout:
            if grid.roles:
                return batched(plan_product(op, self.capacities, grid).result, len(op.result.shape))
            plan = plan_dot(op, self.capacities, grid, self.machine)
            if plan.groups > 1:
                return met_layout(plan, op.dtype)
            return in_batches(plan.accumulator, batches_of(op, self.capacities))

        def operand_layouts(op: ops.Dot) -> dict[Value, RegisterLayout]:
            if not grid.roles:
                plan = plan_dot(op, self.capacities, grid, self.machine)
                left, right, _ = plan.layouts(plan.shape[2])
                return {} if plan.computed is None else {op.a: left} if plan.computed else {op.b: right}
            from tiledsl.passes.gpu.roles.computed_operands import computed_layouts  # costs start-up time

            return computed_layouts(op, self.capacities, grid)

        threads = grid.threads * grid.cluster
        inference = LayoutInference(
            [*outer, *phase], self.capacities, threads, 16, dot_layout, grid.row_threads, grid.cluster, operand_layouts,
            self._alignment_of, flat=grid.flat,
        )  # fmt: skip
        state = Lowering(self.function, self.machine, self.plan, grid, inference, builder, self.context)
        for value, lowered in self.values.items():
            if isinstance(value.type, TensorType):
                state.tensors[value] = lowered
            else:
                state.define_scalar(value, lowered)
        state.lower_op = lambda op: lower_op(state, op)
        state.lower_block = lambda block: _lower_block(state, block)
        state.make_tile = lambda value, layout: make_tile(state, value, layout)
        state.beside = lambda other: self._state(phase, builder, other)
        return state


def _lower_block(state: Lowering, block: Block) -> None:
    for op in block.ops:
        if not isinstance(op, ops.Yield) and op not in state.skipped:
            lower_op(state, op)


def lower_op(state: Lowering, op: Op) -> None:
    """Lowers one op at the current point. What is cheap to make waits until it is asked for."""
    with state.builder.at(op.location):
        LOWERINGS[type(op)](state, op)


def _scalar_op(state: Lowering, op: Op) -> None:
    """An op on scalars, as it is."""
    values = {v: state.scalar(v) for v in op.operands}
    copy = op.clone(dict(values))
    state.builder.block.append(copy)
    state.define_scalar(op.results[0], copy.results[0])


def _size(state: Lowering, op: ops.Size) -> None:
    value = state.size(op.value)
    value.name = value.name or op.result.name
    state.define_scalar(op.result, value)


def _elementwise(state: Lowering, op: ops.Map | ops.Cast | ops.Random) -> None:
    """A map, cast or the like: here, in the layout of the result, or later if it has none."""
    if not op.result.shape:
        _scalar_op(state, op)
    else:
        _make_if_placed(state, op.result)


def _make_if_placed(state: Lowering, value: Value) -> None:
    """A tile in the layout that suits it; one that is cheap to make is made where it is needed."""
    layout = state.inference.of(value)
    if layout is not None:
        made = state.make_tile(value, layout)
        assert made is not None, f"%{value.name} cannot be made in {layout}"
        state.define(value, made)


def _load(state: Lowering, op: ops.Load) -> None:
    for ring in state.rings.get(op.parent, ()) if op.parent is not None else ():
        if op is ring.feed.loads[0] and op.result not in state.staged:
            ring.wait(state)
    if op.result in state.staged or op.result in state.kept:
        return
    if goes_through_shared(op):
        stage_load(state, op)
    else:
        lower_load(state, op)


def _dot(state: Lowering, op: ops.Dot) -> None:
    if state.grid.roles:
        from tiledsl.passes.gpu.roles.role_ops import lower_role_dot  # costs start-up time

        lower_role_dot(state, op)
    else:
        lower_dot(state, op)


def _store(state: Lowering, op: ops.Store) -> None:
    if state.grid.roles:
        from tiledsl.passes.gpu.roles.role_ops import lower_role_store  # costs start-up time

        lower_role_store(state, op)
    else:
        lower_store(state, op)


def _transpose(state: Lowering, op: ops.Transpose) -> None:
    if op.result not in state.staged:
        _make_if_placed(state, op.result)


def _reshape(state: Lowering, op: ops.Reshape) -> None:
    if not op.result.shape:
        state.define_scalar(op.result, _element(state, state.any(op.source)))
    elif not op.source.shape:
        state.define(op.result, state.filled(state.scalar(op.source), state.layout(op.result)))
    elif reshapes_units(op):
        _make_if_placed(state, op.result)
    else:
        lower_reshape(state, op)


def _element(state: Lowering, tile: Value) -> Value:
    """The only element of a tile, as a scalar."""
    axes = tuple(range(len(tile.shape)))
    if tile.layout.threads == tile.layout.replicas:
        return state.emit(gpu.Reduce, name=tile.name, sources=[tile], axes=axes, fn="max").result
    raise AssertionError("one element, but not every thread has it")


def _made_where_needed(state: Lowering, op: Op) -> None:
    """Nothing here: `Lowering.tile` makes such values in the layout that is asked for, `Lowering.block` such blocks."""


def _start(state: Lowering, op: ops.Start) -> None:
    state.define_scalar(op.result, state.block(op.axis).start)


def _extent(state: Lowering, op: ops.Extent) -> None:
    place = state.block(op.axis)
    if place.extent is not None:
        state.define_scalar(op.result, place.extent)
        return
    assert isinstance(op.axis.type, AxisType)
    state.define_scalar(op.result, state.size(op.axis.type.extent))


def _print(state: Lowering, op: ops.Print) -> None:
    values = [state.any(v) for v in op.values]
    state.emit(ops.Print, values=values, text=op.text)


def _assert(state: Lowering, op: ops.Assert) -> None:
    condition = state.any(op.condition)
    state.emit(ops.Assert, condition=state.padded(condition, op.condition.shape, True), text=op.text)


LOWERINGS: dict[type[Op], Callable[[Lowering, Any], None]] = {
    ops.Constant: _scalar_op,
    ops.Size: _size,
    ops.Arange: _made_where_needed,
    ops.Coordinates: _made_where_needed,
    ops.Start: _start,
    ops.Extent: _extent,
    ops.Shift: _made_where_needed,
    ops.Load: _load,
    ops.Store: _store,
    ops.Atomic: lower_atomic,
    ops.Map: _elementwise,
    ops.Cast: _elementwise,
    ops.Random: _elementwise,
    ops.Broadcast: _made_where_needed,
    ops.Transpose: _transpose,
    ops.Reshape: _reshape,
    ops.Extract: lower_extract,
    ops.Stack: lower_stack,
    ops.Dot: _dot,
    ops.Reduce: lower_reduce,
    ops.Scan: lower_scan,
    ops.Sort: lower_sort,
    ops.Range: lower_range,
    ops.For: lower_for,
    ops.While: lower_while,
    ops.If: lower_if,
    ops.Print: _print,
    ops.Assert: _assert,
}
"""What becomes of each op of the TILE vocabulary. Grids, new tensors and the return are the function's own."""
