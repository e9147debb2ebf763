"""Lowers matrix products: operands from shared memory or registers, in the layouts that the instruction asks for.

    %c = tile.dot(%a, %b, %acc)
=>  %a0 = gpu.read(%a_buffer, [%zero, %zero]) {method = matrix, ...}      one step of K at a time
    %b0 = gpu.read(%b_buffer, [%zero, %zero]) {method = matrix-transposed, ...}
    %c0 = gpu.mma(%a0, %b0, %acc) {instruction = m16n8k16_bf16_f32}
    ...
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.dtypes import DType, bf16, bool_, f32
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.layouts.conversions import convert_plan
from tiledsl.ir.layouts.layout import RegisterLayout, local
from tiledsl.ir.layouts.shared_layouts import Access, Method, choose_shared_layout
from tiledsl.ir.types import TileType
from tiledsl.passes.gpu.layouts.capacities import Capacities
from tiledsl.passes.gpu.layouts.shared_accesses import plain_access, shared_layout
from tiledsl.passes.gpu.lower.lowering import Lowering, Staged
from tiledsl.passes.gpu.products.plan_dot import DotPlan, plan_dot
from tiledsl.passes.gpu.products.promoted_sums import PROMOTED_DEPTH
from tiledsl.support.errors import fail

MOST_SUMS = 256
"""Registers of a thread, of 4 bytes, that hold sums of several matrices at most."""


def batched(layout: RegisterLayout, rank: int) -> RegisterLayout:
    """A layout of matrices under leading axes of size 1."""
    for _ in range(rank - layout.rank):
        layout = layout.expanded(0)
    return layout


def in_batches(layout: RegisterLayout, batches: Sequence[int]) -> RegisterLayout:
    """A layout of so many matrices, along leading axes: every thread has its part of each."""
    matrix = batched(layout, len(batches) + layout.rank)
    return local(*batches, *(1 for _ in layout.shape)) * matrix if math.prod(batches) > 1 else matrix


def batches_of(op: ops.Dot, capacities: Capacities) -> tuple[int, ...]:
    """How many matrices a product has room for, along each of its leading axes."""
    return capacities.shape(op.result.shape[:-2])


def lower_dot(state: Lowering, op: ops.Dot) -> None:
    """A product of matrices, or of several, one after the other.

    Raises TileResourceError for more than registers can have the sums of.
    """
    plan = plan_dot(op, state.capacities, state.grid, state.machine)
    state.remark(op, plan.reason)
    batches = batches_of(op, state.capacities)
    whole = in_batches(plan.accumulator, batches)
    count = math.prod(batches)
    if count > 1 and whole.slots * op.dtype.bytes // 4 > MOST_SUMS:
        fail("plan-batches", op.location, batches=count, sums=whole.slots, most=MOST_SUMS * 4 // op.dtype.bytes)
    sums = None if op.acc is None else state.tile(op.acc, whole)
    full_a, full_b, _ = plan.layouts(plan.shape[2])
    a = operand(state, op, op.a, full_a, plan, is_left=True)
    b = operand(state, op, op.b, full_b, plan, is_left=False)
    made: Value | None = None
    for batch in itertools.product(*map(range, batches)):
        accumulator = _accumulator(state, op, plan, sums, batch)
        value = _multiply(state, op, plan, accumulator, a.of_batch(batch), b.of_batch(batch))
        if batch:
            value = state.reshaped(value, batched(plan.accumulator, whole.rank), op.result.name)
        made = value if made is None else _joined(state, made, value, whole, batch)
    assert made is not None, "there is room for one matrix at least"
    state.define(op.result, made)


def _accumulator(state: Lowering, op: ops.Dot, plan: DotPlan, sums: Value | None, batch: tuple[int, ...]) -> Value:
    """What the product of a batch is added to."""
    layout = plan.accumulator
    if sums is None:
        return state.filled(state.constant(0.0 if op.dtype.is_float else 0, op.dtype), layout)
    one = batched(layout, layout.rank + len(batch))
    if sums.layout != one:
        sums = state.emit(gpu.Slice, name=sums.name, source=sums, starts=(*batch, 0, 0), layout=one).result
    return state.reshaped(sums, layout) if batch else sums


def _joined(state: Lowering, made: Value, value: Value, whole: RegisterLayout, batch: tuple[int, ...]) -> Value:
    """The products made so far, in the layout of all of them, and that of one more batch: which element is whose is
    known from the slot, so that nothing is left of the comparisons."""
    here: Value | None = None
    for axis, number in enumerate(batch):
        if whole.shape[axis] > 1:
            others = [other for other in range(whole.rank) if other != axis]
            counted = state.emit(gpu.Arange, layout=whole.reduced(others)).result
            counted = state.reshaped(counted, whole.reduced(others, keepdims=True))
            coordinates = state.filled(counted, whole)
            type_ = TileType(bool_, whole.shape, "register", whole)
            inputs: tuple[Value, Value] = (coordinates, state.constant(number))
            same = state.emit(ops.Map, types=[type_], fn="eq", inputs=inputs).result
            here = same if here is None else state.emit(ops.Map, types=[type_], fn="and", inputs=(here, same)).result
    assert here is not None, "there are several batches"
    both = [tile if tile.layout == whole else state.filled(tile, whole) for tile in (value, made)]
    return state.emit(ops.Map, types=[both[0].tile], name=value.name, fn="where", inputs=(here, *both)).result


def _multiply(state: Lowering, op: ops.Dot, plan: DotPlan, accumulator: Value, a: Operand, b: Operand) -> Value:
    value = nothing(state, plan) if plan.promoted else accumulator
    if op.precision != "planes":
        return _multiply_steps(state, op, plan, accumulator, value, a, b)
    for left, right in ops.PLANE_PAIRS:
        one = replace(plan, promoted=False)
        value = _multiply_steps(state, op, one, value, value, a.of_batch((left,)), b.of_batch((right,)))
    return added(state, accumulator, value)


def _multiply_steps(
    state: Lowering, op: ops.Dot, plan: DotPlan, accumulator: Value, value: Value, a: Operand, b: Operand
) -> Value:
    """`value` and the products of all steps; where it is promoted, that of the last ones and `accumulator`."""
    depth, step = plan.shape[2], plan.step
    layout_a, layout_b, _ = plan.layouts(step)
    following = (a.read(state, layout_a, 0), b.read(state, layout_b, 0))
    for start in range(0, depth, step):
        left, right = following
        if plan.promoted and start and start % PROMOTED_DEPTH == 0:
            accumulator, value = added(state, accumulator, value), nothing(state, plan)
        if start + step < depth:  # the next operands are on their way while these are multiplied
            following = (a.read(state, layout_a, start + step), b.read(state, layout_b, start + step))
        value = multiply_step(state, op, plan, a, b, left, right, value)
    return added(state, accumulator, value) if plan.promoted else value


def multiply_step(
    state: Lowering, op: ops.Dot, plan: DotPlan, a: Operand, b: Operand, left: Value, right: Value, value: Value
) -> Value:
    """`value` and the product of a step, of what was read of the operands `a` and `b` for it."""
    if op.precision == "split":
        lefts, rights = planes_of(state, left), planes_of(state, right)
        pairs = [(lefts[one], rights[other]) for one, other in ops.PLANE_PAIRS]
    else:
        pairs = [(a.cast(state, left), b.cast(state, right))]
    name, instruction = op.result.name, plan.instruction.name
    for left, right in pairs:
        value = state.emit(
            gpu.Mma, name=name, a=left, b=right, acc=value, instruction=instruction, groups=plan.groups
        ).result  # fmt: skip
    return value


def planes_of(state: Lowering, value: Value) -> list[Value]:
    """The planes of a tile of f32, each where the tile is."""
    found: list[Value] = []
    for number in range(ops.PLANES):
        plane = state.emit(ops.Map, types=[value.tile], fn=f"plane_{number + 1}", inputs=(value,)).result
        narrow = TileType(bf16, value.layout.shape, "register", value.layout)
        name = f"{value.name}_{number + 1}" if value.name else ""
        found.append(state.emit(ops.Cast, types=[narrow], name=name, source=plane, dtype=bf16).result)
    return found


def nothing(state: Lowering, plan: DotPlan) -> Value:
    """What a promoted part of a sum begins with."""
    return state.filled(state.constant(0.0, f32), plan.accumulator)


@dataclass(frozen=True)
class Operand:
    """An operand, to be had in steps along K: out of a buffer, or of registers."""

    axis: int
    """The one of K."""
    dtype: DType
    name: str
    staged: Staged | None
    method: Method
    registers: Value | None
    leading: tuple[int, ...] = ()
    """The axes of the buffer along which there are several matrices."""
    batch: tuple[int, ...] = ()
    """Which of these it is."""

    def of_batch(self, batch: tuple[int, ...]) -> Operand:
        """That of one of several products."""
        return replace(self, batch=batch)

    def read(self, state: Lowering, layout: RegisterLayout, start: int) -> Value:
        """The part of it from `start` on, in that layout, not cast yet."""
        starts = (0, start) if self.axis == 1 else (start, 0)
        if self.registers is not None:
            if self.registers.layout == layout:
                return self.registers
            return state.emit(gpu.Slice, name=self.name, source=self.registers, starts=starts, layout=layout).result
        assert self.staged is not None
        fixed = dict(zip(self.leading, self.batch))
        return state.read_staged(self.staged, layout, self.name, starts, self.method, fixed)

    def cast(self, state: Lowering, value: Value) -> Value:
        """What was read, in the type that is multiplied."""
        if value.dtype == self.dtype:
            return value
        type_ = TileType(self.dtype, value.layout.shape, "register", value.layout)
        return state.emit(ops.Cast, types=[type_], source=value, dtype=self.dtype).result


def operand(
    state: Lowering, op: ops.Dot, value: Value, layout: RegisterLayout, plan: DotPlan, *, is_left: bool
) -> Operand:
    """How to get at an operand that the instruction wants in `layout`, all of K."""
    axis = 1 if is_left else 0
    dtype = plan.cast or value.dtype
    rank = len(value.shape)
    if value in state.staged:
        whole = state.staged[value]
        staged = Staged(whole.buffer, whole.places[rank - 2 :], whole.stage)
        depth_is_fast = staged.places[axis] == shared_layout(staged.buffer).order[-1]
        method = read_method(value.dtype, plan, depth_is_fast)
        return Operand(axis, dtype, value.name, staged, method, None, whole.places[: rank - 2])
    ready = state.operands.get((value, layout))
    if ready is not None:
        return Operand(axis, dtype, value.name, None, "plain", ready)
    several = math.prod(batches_of(op, state.capacities)) > 1 or op.precision == "planes"
    source = without_depth_padding(state, value, axis) if several else matrix_of(state, value, axis)
    if not several and dtype == value.dtype and convert_plan(source.layout, layout).kind != "shared":
        return Operand(axis, dtype, value.name, None, "plain", state.convert(source, layout))
    step = plan.layouts(plan.step)[0 if is_left else 1]
    axes = tuple(range(source.layout.rank))
    # ldmatrix reads rows of K as well as rows of M or N: as threads have most side by side, they write most at once
    run, beside = source.layout.vector(axes[-2:][axis]), source.layout.vector(axes[-2:][1 - axis])
    method = read_method(value.dtype, plan, is_left if run == beside else run > beside)
    accesses = (plain_access(source.layout, axes, value.dtype), operand_access(step, axes[-2:], value.dtype, method))
    shared = choose_shared_layout(source.layout.shape, value.dtype, accesses)
    buffer = state.buffer(source.layout.shape, value.dtype, shared, value.name)
    state.write(buffer, source)
    return Operand(axis, dtype, value.name, Staged(buffer, axes[-2:]), method, None, axes[:-2])


def without_depth_padding(state: Lowering, value: Value, axis: int) -> Value:
    """An operand in registers, with zeros beyond the end of K (`axis` of its matrices), so that they add nothing."""
    source = state.any(value)
    return state.padded(source, value.shape, 0.0 if source.dtype.is_float else 0, [len(value.shape) - 2 + axis])


def matrix_of(state: Lowering, value: Value, axis: int) -> Value:
    """The same of an operand that is one matrix, as that."""
    source = without_depth_padding(state, value, axis)
    rank = len(value.shape)
    if rank == 2:
        return source
    return state.reshaped(source, source.layout.reduced(list(range(rank - 2))))


MOST_HELD_WORDS = 64
"""Registers that an operand may take all through a loop."""


def hold_operands(state: Lowering, loop: Op) -> None:
    """Before a loop: operands of its products that it does not change go into registers, as the products want them."""
    inside = {op for body in loop.bodies.values() for op in body.walk()}
    arguments = {a for op in (loop, *inside) for body in op.bodies.values() for a in body.arguments}
    for op in inside:
        if isinstance(op, ops.Dot) and math.prod(batches_of(op, state.capacities)) == 1 and op.precision != "planes":
            plan = plan_dot(op, state.capacities, state.grid, state.machine)
            layouts = plan.layouts(plan.shape[2])
            for value, layout, axis in ((op.a, layouts[0], 1), (op.b, layouts[1], 0)):
                outside = value.op not in inside and value not in arguments
                small = layout.slots * value.dtype.bytes // 4 <= MOST_HELD_WORDS
                known = value in state.staged or (value, layout) in state.operands
                if outside and small and not known and plan.cast is None and value.tile.level != "shared":
                    with state.builder.at(op.location):
                        ready = state.convert(matrix_of(state, value, axis), layout)
                        state.hold_operand(value, layout, ready)


def read_method(dtype: DType, plan: DotPlan, depth_is_fast: bool) -> Method:
    """By ldmatrix where it gives what the instruction wants: 16-bit elements, in the rows that the buffer has.

    `depth_is_fast`: whether K is the axis of the buffer that counts fastest.
    """
    if plan.instruction.is_fma or plan.instruction.parts > 1 or dtype.bits != 16 or plan.cast is not None:
        return "plain"
    return "matrix" if depth_is_fast else "matrix-transposed"


def operand_access(layout: RegisterLayout, places: tuple[int, ...], dtype: DType, method: Method) -> Access:
    """How a product reads a step of an operand."""
    return plain_access(layout, places, dtype) if method == "plain" else Access(layout, places, method=method)


def added(state: Lowering, first: Value, second: Value) -> Value:
    """The sum of two tiles that lie alike."""
    return state.emit(ops.Map, types=[first.tile], name=first.name, fn="add", inputs=(first, second)).result
