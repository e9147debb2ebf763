"""What the products of a grid take: by which instructions they go, their multiply-adds, and the times of these."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.dtypes import bf16, f64
from tiledsl.passes.gpu.layouts.select_mma import choose_instruction
from tiledsl.passes.gpu_machine import GpuMachine
from tiledsl.passes.nest.count_work import WorkCounts
from tiledsl.passes.nest.loop_nest import NestDot


class ProductWork:
    """Of all products of a grid together."""

    def __init__(self, dots: Sequence[NestDot], counts: WorkCounts, machine: GpuMachine, by_warpgroups: bool) -> None:
        self._dots = dots
        self._counts = counts
        self._machine = machine
        self._by_warpgroups = by_warpgroups

    def instruction(self, dot: NestDot) -> str:
        """`wgmma`, the name of an instruction of `mma.sync`, or `fma`."""
        return "wgmma" if self._by_warpgroups else self._chosen(dot.op)

    def _chosen(self, op: ops.Dot) -> str:
        capability = self._machine.capability
        return choose_instruction(op.a.dtype, op.b.dtype, op.dtype, op.precision, capability).instruction

    @cached_property
    def tensor_core_share(self) -> float | None:
        """The share of multiply-adds that matrix instructions do; None where there is no product."""
        amounts = [(self._counts.multiplied(dot).number, self.instruction(dot)) for dot in self._dots]
        total = sum(number for number, _ in amounts)
        return sum(number for number, name in amounts if name != "fma") / total if total else None

    @cached_property
    def clocks(self) -> float:
        """Of the matrix instructions of one multiprocessor, if it did all of the work."""
        speeds, clocks = self._machine.speeds, 0.0
        for dot in self._dots:
            instruction = self.instruction(dot)
            if instruction != "fma":
                rate = speeds.products_of if instruction == "wgmma" else speeds.mma_of
                clocks += self._counts.multiplied(dot).number / rate(_operand_bytes(dot.op))
        return clocks

    @cached_property
    def multiply_adds(self) -> float:
        """How many there are."""
        return sum(self._counts.multiplied(dot).number for dot in self._dots)

    @cached_property
    def floor(self) -> float:
        """Seconds at the best rate that their dtypes allow."""
        clocks = sum(self._counts.multiplied(dot).number / self._best_rate(dot.op) for dot in self._dots)
        return clocks / self._machine.multiprocessors / self._machine.speeds.clock

    def _best_rate(self, dot: ops.Dot) -> float:
        speeds, wide = self._machine.speeds, dot.dtype == f64
        if self._chosen(dot) == "fma":
            return speeds.doubles if wide else speeds.instructions
        return speeds.double_products if wide else speeds.products_of(_operand_bytes(dot)) * speeds.power_limit


def _operand_bytes(dot: ops.Dot) -> int:
    """Of an element, as it is multiplied."""
    if dot.precision == "split":
        return bf16.bytes
    return max(dot.a.dtype.bytes, dot.b.dtype.bytes)
