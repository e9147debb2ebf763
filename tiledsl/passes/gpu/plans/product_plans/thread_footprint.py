"""What a block whose threads are all alike takes where products feed on each other: registers of a thread, shared
memory.

    scores = tile.dot(q[h, i, :], k[h, j, :].mT)              128 queries, 64 keys, 64 deep, 8 warps, 2 stages:
    p = tile.exp2(scores - top[:, None])                      scores 32 registers, p 16, acc 32
    acc = tile.dot(p.to(v.dtype), v[h, j, :], acc)            q 16 KiB, k and v 2 x 8 KiB each

Instructions and warps of each product are those that the lowering takes (`plan_dot`), and so is the room of each tile
(`Capacities`); tests hold sums and shared memory against what is allocated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.passes.gpu.layouts.capacities import Capacities
from tiledsl.passes.gpu.layouts.operand_sources import elementwise_inputs
from tiledsl.passes.gpu.layouts.shared_accesses import SMALL_BYTES
from tiledsl.passes.gpu.plan import Plan
from tiledsl.passes.gpu.plans.product_plans.product_flow import ProductFlow
from tiledsl.passes.gpu.products.plan_dot import DotPlan, plan_dot
from tiledsl.passes.gpu.products.streamed_loads import source_load
from tiledsl.passes.gpu_machine import GpuMachine

WORD_BYTES = 4
WARP = 32
FRAGMENT_ROWS = 8
"""Rows of a matrix that the lanes of a warp share: each thread has a number for each row in so many."""
BESIDE_TILES = 20
"""Registers of a thread beside its tiles: addresses, counters, numbers of rows. Code of sixteen plans of attention for
sm_80 has 6 fewer to 28 more."""


class ThreadFootprint:
    """Of one grid under a plan, whose blocks need not be applied; its stages are asked for."""

    def __init__(self, flow: ProductFlow, plan: Plan, machine: GpuMachine) -> None:
        self.flow, self.nest, self.grid = flow, flow.nest, plan.grids[0]
        self.capacities = Capacities(self.nest.grid, plan)
        self.dots: Mapping[ops.Dot, DotPlan] = {
            dot.op: plan_dot(dot.op, self.capacities, self.grid, machine) for dot in self.nest.dots
        }
        self._shared: dict[int, int] = {}

    def room(self, value: Value) -> int:
        """Elements of a tile, with what pads it."""
        return math.prod(self.capacities.shape(value.shape))

    # Shared memory

    @cached_property
    def staged(self) -> dict[ops.Load, int]:
        """Loads that products read from shared memory, and the bytes of one stage of each."""
        return {load: self.room(load.result) * load.result.dtype.bytes for load in self.flow.needed}

    def shared_bytes(self, stages: int) -> int:
        """Of a block: stages of what is loaded, operands that threads compute for each other, what warps that share
        rows tell each other of their folds. What is never needed at the same time shares it."""
        if stages not in self._shared:
            ahead, places = self.flow.needed_ahead if stages > 1 else {}, self.flow.places
            needs = [
                (*ahead.get(load, self.flow.needed[load]), each * (stages if load in ahead else 1))
                for load, each in self.staged.items()
            ]
            needs += [(places[op], places[op], bytes_) for op, bytes_ in (*self.handed_over, *self.told)]
            small = sum(size for _, _, size in needs if size <= SMALL_BYTES)
            large = [need for need in needs if need[2] > SMALL_BYTES]
            most = max((sum(size for a, b, size in large if a <= at <= b) for at, _, _ in large), default=0)
            self._shared[stages] = small + most
        return self._shared[stages]

    @cached_property
    def told(self) -> list[tuple[Op, int]]:
        """Where warps share the rows that are folded: bytes of a number of each row from each of them."""
        across = next(iter(self.dots.values())).warps[1]
        folds = [work.op for work in self.nest.elementwise if isinstance(work.op, ops.Reduce)] if across > 1 else []
        return [
            (fold, self.room(fold.results[0]) * across * sum(result.dtype.bytes for result in fold.results))
            for fold in folds
            if len(fold.sources[0].shape) > 1 and len(fold.sources[0].shape) - 1 in fold.axes
        ]

    @cached_property
    def handed_over(self) -> list[tuple[Op, int]]:
        """Bytes of operands that other warps have a part of: they go through shared memory."""
        both = dict.fromkeys(
            (value, dot) for dot in self.dots for value in (dot.a, dot.b) if self.in_shared(dot, value)
        )
        return [(dot, self.room(value) * value.dtype.bytes) for value, dot in both if source_load(value) is None]

    def in_shared(self, dot: ops.Dot, value: Value) -> bool:
        """Whether a product reads an operand from shared memory: else each warp has computed its own rows of it."""
        if source_load(value) is not None:
            return True
        plan = self.dots[dot]
        if value is not dot.a or plan.instruction.is_fma or plan.warps[1] > 1 or plan.cast is not None:
            return True
        before = [source.op for source, _ in elementwise_inputs(value) if isinstance(source.op, ops.Dot)]
        makers = [self.dots[one] for one in before if one in self.dots]
        return not any(one.warps == plan.warps and not one.instruction.is_fma for one in makers)

    # Registers

    @cached_property
    def registers(self) -> int:
        """Of a thread, at the product where most is held."""
        return max(map(self._held_at, self.dots), default=0) + BESIDE_TILES

    def sums(self, dot: ops.Dot) -> int:
        """Registers of a thread that hold the result of a product."""
        plan = self.dots[dot]
        words = self.room(dot.result) * dot.dtype.bytes / WORD_BYTES / self._threads(plan)
        return math.ceil(words * (2 if plan.promoted else 1))

    @staticmethod
    def _threads(plan: DotPlan) -> int:
        return plan.threads if plan.instruction.is_fma else WARP * plan.warps[0] * plan.warps[1]

    def words(self, value: Value) -> int:
        """Registers of a thread that hold a tile: a part of it, or the number of each of its rows."""
        plan = next(iter(self.dots.values()))
        shape, words = self.capacities.shape(value.shape), max(1, value.dtype.bytes // WORD_BYTES)
        if sum(size > 1 for size in shape) < 2:
            return words * max(1, math.prod(shape) // (FRAGMENT_ROWS * plan.warps[0]))
        return math.ceil(math.prod(shape) * value.dtype.bytes / WORD_BYTES / self._threads(plan))

    def _held_at(self, op: ops.Dot) -> int:
        """While a product is made: what loops carry, its own sums and operands, and those of products before it that
        are needed behind it."""
        plan, flow = self.dots[op], self.flow
        held = sum(map(self.words, flow.carried[op])) + sum(map(self.sums, flow.beside[op]))
        held += 0 if flow.adds[op] else self.sums(op)
        steps = 2 * plan.step * (plan.shape[0] // plan.warps[0] + plan.shape[1] // plan.warps[1])
        if not self.in_shared(op, op.a):
            held += self.words(op.a)
            steps -= 2 * plan.step * (plan.shape[0] // plan.warps[0])
        lanes = FRAGMENT_ROWS if plan.instruction.is_fma else WARP
        return held + math.ceil(steps * op.a.dtype.bytes / WORD_BYTES / lanes)
