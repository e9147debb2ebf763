"""Loops that do nothing but multiply: operands move ahead of the products in registers too.

    for k in tile.range(K): acc = tile.dot(a[m, k], b[k, n], acc)

With S stages, blocks 0 to S-2 are on their way before the loop. Each turn multiplies one block in steps of the
instruction's K. While a step is multiplied, the operands of the next one are read from shared memory, and part of the
block S-1 further on is asked for, into the stage that all threads have done with; before the last step of a turn, all
threads meet, and the first operands of the next turn are read. So the products never wait for a barrier or for shared
memory.

    copy blocks 0 .. S-2 into stages 0 .. S-2; wait for block 0; barrier
    a0, b0 = first step of stage 0
    for i in ...: (acc, a0, b0, reading, writing)
        a1, b1 = second step of the stage; copy a of block i + S-1 into the stage of block i-1;    acc += a0 @ b0
        a2, b2 = third step;               copy b of block i + S-1;                                acc += a1 @ b1
        ...
        wait for block i + 1; barrier
        a0, b0 = first step of the next stage;    acc += a(last) @ b(last)
"""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Value
from tiledsl.ir.dtypes import i64
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.types import scalar
from tiledsl.passes.gpu.lower.grouped_sums import first_sums, meet
from tiledsl.passes.gpu.lower.lower_dot import Operand, added, batched, multiply_step, nothing, operand
from tiledsl.passes.gpu.lower.lowering import Lowering
from tiledsl.passes.gpu.lower.pipeline_loads import Pipeline, Stream
from tiledsl.passes.gpu.products.plan_dot import DotPlan, plan_dot


def brings_all(pipeline: Pipeline, op: ops.Range) -> bool:
    """Whether the pipeline brings every load of the loop."""
    return all(inner in pipeline.loads for inner in op.body.ops if isinstance(inner, ops.Load))


def lower_product_loop(state: Lowering, op: ops.Range, dot: ops.Dot, pipeline: Pipeline) -> None:
    """Lowers such a loop, whose pipeline has not begun."""
    plan = plan_dot(dot, state.capacities, state.grid, state.machine)
    state.remark(dot, plan.reason)
    pipeline.begin()
    state.emit(gpu.Wait, groups=pipeline.stages - 2)
    sums = _ProductLoop(state, op, dot, plan, pipeline).lower(pipeline.turns.count)
    pipeline.end()
    state.define(op.results[0], sums if plan.groups == 1 else meet(state, plan, sums, op.initial[0]))


def _shares(streams: Sequence[Stream], steps: int) -> list[list[Stream]]:
    """Which copies go with which of the first steps of a turn: spread out as far as there are steps."""
    shares: list[list[Stream]] = [[] for _ in range(steps)]
    for number, stream in enumerate(streams):
        if steps:
            shares[min(number, steps - 1)].append(stream)
    return shares


class _ProductLoop:
    def __init__(self, state: Lowering, op: ops.Range, dot: ops.Dot, plan: DotPlan, pipeline: Pipeline) -> None:
        self.state = state
        self.op = op
        self.dot = dot
        self.plan = plan
        self.pipeline = pipeline
        self.layouts = plan.layouts(plan.step)[:2]

    def lower(self, count: Value) -> Value:
        """The sums behind the last turn: of several groups, if the plan has some."""
        state, op = self.state, self.op
        layout = batched(self.plan.accumulator, len(self.dot.result.shape))
        first = state.constant(0)
        last = state.constant(self.pipeline.stages - 1)
        grouped = self.plan.groups > 1
        sums = first_sums(state, self.plan, self.dot.dtype) if grouped else state.tile(op.initial[0], layout)
        initial = [sums, *self._read(first, 0), first, last]
        body = Block([(scalar(i64), f"{op.body.arguments[0].name}_number")])
        for value in initial:
            body.add_argument(value.type, value.name)
        body.arguments[-2].name, body.arguments[-1].name = "reading", "writing"
        with state.scope(body):
            state.emit(ops.Yield, values=self._turn(*body.arguments))
        loop = state.emit(
            ops.For, types=[v.tile for v in initial], name=op.results[0].name, start=state.constant(0), stop=count,
            step=state.constant(1), initial=initial, body=body,
        )  # fmt: skip
        return loop.results[0]

    def _turn(
        self, number: Value, carried: Value, left: Value, right: Value, reading: Value, writing: Value
    ) -> list[Value]:
        state, plan, pipeline = self.state, self.plan, self.pipeline
        total = self._matrix(carried)
        value = nothing(state, plan) if plan.promoted else total
        a, b = self._operands(reading)
        ahead = state.arithmetic("add", number, pipeline.stages - 1)
        starts = range(plan.step, plan.shape[2], plan.step)
        shares = _shares(pipeline.streams, len(starts))
        for start, share in zip(starts, shares):
            following = self._step(a, b, start)
            if share:
                pipeline.copy_if_there(ahead, writing, share, apart=True)
            value = self._multiply(a, b, left, right, value)
            left, right = following
        if not starts:
            pipeline.copy_if_there(ahead, writing, apart=True)
        state.emit(gpu.Commit)
        state.emit(gpu.Wait, groups=pipeline.stages - 2)
        after = state.next_stage(reading, pipeline.stages)
        following = self._step(*self._operands(after), 0)
        value = self._multiply(a, b, left, right, value)
        value = added(state, total, value) if plan.promoted else value
        rank = len(self.dot.result.shape)
        if rank > 2:
            value = state.reshaped(value, batched(value.layout, rank))
        return [value, *following, after, state.next_stage(writing, pipeline.stages)]

    def _matrix(self, carried: Value) -> Value:
        layout = self.plan.accumulator
        return carried if carried.layout == layout else self.state.reshaped(carried, layout)

    def _operands(self, stage: Value) -> tuple[Operand, Operand]:
        """Both operands as they stand in a stage."""
        state, dot = self.state, self.dot
        for stream in self.pipeline.streams:
            stream.define(state, stage)
        full_a, full_b, _ = self.plan.layouts(self.plan.shape[2])
        a = operand(state, dot, dot.a, full_a, self.plan, is_left=True)
        return a, operand(state, dot, dot.b, full_b, self.plan, is_left=False)

    def _read(self, stage: Value, start: int) -> tuple[Value, Value]:
        return self._step(*self._operands(stage), start)

    def _step(self, a: Operand, b: Operand, start: int) -> tuple[Value, Value]:
        """A step of both, not cast yet: what is read after the last turn is nobody's, and nothing is computed of it."""
        with self.state.builder.at(self.dot.location):
            return a.read(self.state, self.layouts[0], start), b.read(self.state, self.layouts[1], start)

    def _multiply(self, a: Operand, b: Operand, left: Value, right: Value, value: Value) -> Value:
        state, dot = self.state, self.dot
        with state.builder.at(dot.location):
            return multiply_step(state, dot, self.plan, a, b, left, right, value)
