"""Lowers matrix products: operands from shared memory or registers, in the layouts that the instruction asks for.

    %c = tile.dot(%a, %b, %acc)
=>  %a0 = gpu.read(%a_buffer, [%zero, %zero]) {method = matrix, ...}      one step of K at a time
    %b0 = gpu.read(%b_buffer, [%zero, %zero]) {method = matrix-transposed, ...}
    %c0 = gpu.mma(%a0, %b0, %acc) {instruction = m16n8k16_bf16_f32}
    ...
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tiledsl.ir import gpu_ops as gpu
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.dtypes import DType, f32
from tiledsl.ir.layout_conversions import convert_plan
from tiledsl.ir.layouts import RegisterLayout
from tiledsl.ir.matrix_instructions import FMA, INSTRUCTIONS, MatrixInstruction, fits, tiled_layouts
from tiledsl.ir.shared_layouts import Access, Method, choose_shared_layout
from tiledsl.ir.types import TileType
from tiledsl.passes.gpu.capacities import Capacities
from tiledsl.passes.gpu.lowering import Lowering, Staged
from tiledsl.passes.gpu.plan import GridPlan
from tiledsl.passes.gpu.promoted_sums import CONVERTING, PROMOTED_DEPTH, added, is_promoted
from tiledsl.passes.gpu.select_mma import choose_instruction, choose_warps
from tiledsl.passes.gpu.shared_accesses import plain_access, shared_layout
from tiledsl.passes.gpu_machine import GpuMachine
from tiledsl.support.errors import fail

FMA_STEP = 8
"""How much of K a product without matrix instructions reads at a time."""


@dataclass(frozen=True)
class DotPlan:
    """How one product is computed. `cast`: what its operands are cast to on the way, if not None."""

    instruction: MatrixInstruction
    cast: DType | None
    warps: tuple[int, int]
    shape: tuple[int, int, int]
    """M, N and K, with room for whole instructions."""
    threads: int
    reason: str
    promoted: bool = False
    """Whether the instruction sums only parts, which are added in f32."""

    @property
    def step(self) -> int:
        """How much of K is multiplied at a time."""
        return math.gcd(self.shape[2], FMA_STEP) if self.instruction.is_fma else self.instruction.k

    def layouts(self, depth: int) -> tuple[RegisterLayout, RegisterLayout, RegisterLayout]:
        """Of `a`, `b` and the accumulator, for that much of K."""
        m, n, _ = self.shape
        return tiled_layouts(self.instruction, self.warps, (m, n, depth), self.threads)

    @property
    def accumulator(self) -> RegisterLayout:
        return self.layouts(self.step)[2]


def plan_dot(op: ops.Dot, capacities: Capacities, grid: GridPlan, machine: GpuMachine) -> DotPlan:
    """The instruction and the split over warps for a product. What no instruction fits is multiplied one by one."""
    m, k = capacities.of(op.a.shape[-2]), capacities.of(op.a.shape[-1])
    n = capacities.of(op.b.shape[-1])
    choice = choose_instruction(op.a.dtype, op.b.dtype, op.dtype, op.precision, machine.capability)
    instruction, cast, reason = INSTRUCTIONS[choice.instruction], choice.cast, choice.reason
    threads = grid.threads * grid.cluster
    if not fits(instruction, (1, 1), (m, n, k)):
        reason = f"{m} x {n} x {k} has no room for {instruction}: one by one"
        instruction, cast = FMA, None
    warps = grid.warps
    if warps[0] * warps[1] * 32 != threads or not fits(instruction, warps, (m, n, k)):
        warps = choose_warps(instruction, m, n, threads // 32)
    promoted = is_promoted(op) and instruction.a == op.a.dtype and machine.capability not in CONVERTING
    return DotPlan(instruction, cast, warps, (m, n, k), threads, reason, promoted)


def batched(layout: RegisterLayout, rank: int) -> RegisterLayout:
    """A layout of matrices under leading axes of size 1."""
    for _ in range(rank - layout.rank):
        layout = layout.expanded(0)
    return layout


def lower_dot(state: Lowering, op: ops.Dot) -> None:
    """A product of matrices. Raises TileResourceError for several at once: leading axes of more than 1."""
    plan = plan_dot(op, state.capacities, state.grid, state.machine)
    state.remark(op, plan.reason)
    rank = len(op.result.shape)
    batches = math.prod(state.capacities.shape(op.result.shape[:-2]))
    if batches > 1:
        fail("plan-batches", op.location, batches=batches)
    value = _multiply(state, op, plan, _accumulator(state, op, plan, rank))
    if rank > 2:
        value = state.reshaped(value, batched(plan.accumulator, rank), op.result.name)
    state.define(op.result, value)


def _accumulator(state: Lowering, op: ops.Dot, plan: DotPlan, rank: int) -> Value:
    layout = plan.accumulator
    if op.acc is None:
        return state.filled(state.constant(0.0 if op.dtype.is_float else 0, op.dtype), layout)
    value = state.tile(op.acc, batched(layout, rank))
    return value if rank == 2 else state.reshaped(value, layout)


def _multiply(state: Lowering, op: ops.Dot, plan: DotPlan, accumulator: Value) -> Value:
    depth, step = plan.shape[2], plan.step
    full_a, full_b, _ = plan.layouts(depth)
    a = operand(state, op, op.a, full_a, plan, is_left=True)
    b = operand(state, op, op.b, full_b, plan, is_left=False)
    layout_a, layout_b, _ = plan.layouts(step)
    value = nothing(state, plan) if plan.promoted else accumulator
    following = (a.step(state, layout_a, 0), b.step(state, layout_b, 0))
    for start in range(0, depth, step):
        left, right = following
        if plan.promoted and start and start % PROMOTED_DEPTH == 0:
            accumulator, value = added(state, accumulator, value), nothing(state, plan)
        if start + step < depth:  # the next operands are on their way while these are multiplied
            following = (a.step(state, layout_a, start + step), b.step(state, layout_b, start + step))
        value = state.emit(
            gpu.Mma, name=op.result.name, a=left, b=right, acc=value, instruction=plan.instruction.name
        ).result
    return added(state, accumulator, value) if plan.promoted else value


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

    def step(self, state: Lowering, layout: RegisterLayout, start: int) -> Value:
        """The part of it from `start` on, in that layout, as the product takes it."""
        return self.cast(state, self.read(state, layout, start))

    def read(self, state: Lowering, layout: RegisterLayout, start: int) -> Value:
        """The part of it from `start` on, in that layout, not cast yet."""
        starts = (0, start) if self.axis == 1 else (start, 0)
        if self.registers is not None:
            if self.registers.layout == layout:
                return self.registers
            return state.emit(gpu.Slice, name=self.name, source=self.registers, starts=starts, layout=layout).result
        assert self.staged is not None
        return state.read_staged(self.staged, layout, self.name, starts, self.method)

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
        staged = state.staged[value]
        staged = Staged(staged.buffer, staged.places[rank - 2 :], staged.stage)
        depth_is_fast = staged.places[axis] == shared_layout(staged.buffer).order[-1]
        return Operand(axis, dtype, value.name, staged, read_method(value.dtype, plan, depth_is_fast), None)
    ready = state.operands.get((value, layout))
    if ready is not None:
        return Operand(axis, dtype, value.name, None, "plain", ready)
    source = matrix_of(state, value, axis)
    if dtype == value.dtype and convert_plan(source.layout, layout).kind != "shared":
        return Operand(axis, dtype, value.name, None, "plain", state.convert(source, layout))
    # rows of K for the left operand, of N for the right one: ldmatrix can read either
    method = read_method(value.dtype, plan, is_left)
    step = plan.layouts(plan.step)[0 if is_left else 1]
    accesses = (plain_access(source.layout, (0, 1), value.dtype), operand_access(step, (0, 1), value.dtype, method))
    shared = choose_shared_layout(source.layout.shape, value.dtype, accesses)
    buffer = state.buffer(source.layout.shape, value.dtype, shared, value.name)
    state.write(buffer, source)
    return Operand(axis, dtype, value.name, Staged(buffer, (0, 1)), method, None)


def matrix_of(state: Lowering, value: Value, axis: int) -> Value:
    """An operand in registers as a matrix, with zeros beyond the end of K (`axis`), so that they add nothing."""
    source = state.any(value)
    rank = len(value.shape)
    source = state.padded(source, value.shape, 0.0 if source.dtype.is_float else 0, [rank - 2 + axis])
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
        if isinstance(op, ops.Dot):
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
    if plan.instruction.is_fma or dtype.bits != 16 or plan.cast is not None:
        return "plain"
    return "matrix" if depth_is_fast else "matrix-transposed"


def operand_access(layout: RegisterLayout, places: tuple[int, ...], dtype: DType, method: Method) -> Access:
    """How a product reads a step of an operand."""
    return plain_access(layout, places, dtype) if method == "plain" else Access(layout, places, method=method)
