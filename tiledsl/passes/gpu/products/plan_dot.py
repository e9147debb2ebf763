"""Which instruction multiplies two tiles, and how warps share their product: what the planner counts with, and the
lowering makes.

dot(a[128, 64], b[64, 64]) in f16, 8 warps     m16n8k16_f16_f32, (8, 1) warps: a thread has 32 of 128 x 64 sums
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.dtypes import DType
from tiledsl.ir.gpu.matrix_instructions import FMA, INSTRUCTIONS, MatrixInstruction, fits, in_runs, tiled_layouts
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.passes.gpu.layouts.capacities import Capacities
from tiledsl.passes.gpu.layouts.select_mma import choose_instruction, choose_warps
from tiledsl.passes.gpu.plan import GridPlan
from tiledsl.passes.gpu.products.operand_runs import computed_alone, run_of
from tiledsl.passes.gpu.products.parallel_products import adds_up_alone
from tiledsl.passes.gpu.products.promoted_sums import CONVERTING, is_promoted
from tiledsl.passes.gpu_machine import GpuMachine

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
    computed: bool | None = None
    """Whether the left operand, or the right one, is computed in registers where the product takes it."""
    groups: int = 1
    """Of warps, each of which has `warps` and sums of its own, of its parts of K."""

    @property
    def step(self) -> int:
        """How much of K is multiplied at a time."""
        return math.gcd(self.shape[2], FMA_STEP) if self.instruction.is_fma else self.instruction.k * self.groups

    def layouts(self, depth: int) -> tuple[RegisterLayout, RegisterLayout, RegisterLayout]:
        """Of `a`, `b` and the accumulator, for that much of K."""
        m, n, _ = self.shape
        return tiled_layouts(self.instruction, self.warps, (m, n, depth), self.threads, self.groups)

    @property
    def accumulator(self) -> RegisterLayout:
        return self.layouts(self.step)[2]


def may_be_grouped(op: ops.Dot, machine: GpuMachine) -> bool:
    """Whether groups of warps may have sums of a product each, in one loop of a grid."""
    if is_promoted(op) and machine.capability not in CONVERTING:
        return False
    return op.precision not in ("planes", "split") and adds_up_alone(op)


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
    promoted = is_promoted(op) and instruction.a == op.a.dtype and machine.capability not in CONVERTING
    promoted = promoted or ops.is_by_planes(op)
    groups = grid.groups if may_be_grouped(op, machine) else 1
    if warps[0] * warps[1] * groups * 32 != threads or not fits(instruction, warps, (m, n, k), groups):
        groups, warps = 1, choose_warps(instruction, m, n, threads // 32)
    computed = None if instruction.is_fma or cast is not None or promoted else computed_alone(op, warps)
    if computed is not None:
        run = math.gcd(run_of(op, is_left=computed), k // groups // 4)
        several = in_runs(instruction, run, is_left=computed)
        computed = computed if several.parts > 1 and fits(several, warps, (m, n, k), groups) else None
        instruction = instruction if computed is None else several
    return DotPlan(instruction, cast, warps, (m, n, k), threads, reason, promoted, computed, groups)
