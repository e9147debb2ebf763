"""What a kernel is predicted to cost: seconds, and bytes that it asks for.

For a GPU the group is written as the tile program that it would become, and the cost of that program's best plan
counts (docs/planner.md): what it reads again and again is seen there. For a CPU there is a formula: a launch, and then
memory or arithmetic, whichever takes longer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Module, Op, Value
from tiledsl.ir.scalar_functions import SCALAR_FUNCTIONS
from tiledsl.ir.symbolic import symbol_name
from tiledsl.ir.type_rules import tensor_type
from tiledsl.passes.gpu.plans.audit_function import audit_function
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.passes.graph.analysis.outline import is_repeated
from tiledsl.passes.graph.analysis.shapes import bytes_of, sizes_of, volume
from tiledsl.passes.graph.analysis.views import place_of, view_of_value
from tiledsl.passes.graph.kernels.flat_windows import flat_windows
from tiledsl.passes.graph.kernels.group_program import GroupProgram
from tiledsl.passes.graph.kernels.kernel_plan import KernelPlan
from tiledsl.passes.graph.kernels.merge_axes import merged_axes
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.pipelines import gpu_front_pipeline
from tiledsl.support.location import BUILTIN


@dataclass(frozen=True)
class Rates:
    """Of a target, per second: bytes of memory, multiply-adds of products of 16 bits, simple operations; the seconds to
    start a kernel; and how many programs keep all of it busy."""

    memory: float
    products: float
    operations: float
    launch: float
    programs: int


CPU_RATES = Rates(memory=12e9, products=120e9, operations=8e9, launch=4e-6, programs=2)
"""Of two cores: products are in f32, which counts twice."""
GPU_RATES = Rates(memory=4.0e12, products=2.0e14, operations=1.5e13, launch=2.5e-6, programs=132)
"""Of products without warpgroups."""


def rates_of(arch: str) -> Rates:
    """The rates of `cpu`, `reference` or a GPU architecture."""
    return GPU_RATES if arch.startswith("sm_") else CPU_RATES


@dataclass(frozen=True)
class Price:
    """Predicted seconds, and bytes that are read and written in memory, each once."""

    seconds: float
    bytes: int
    by_warpgroups: bool = False
    """Whether its products go by warpgroups, which nothing else comes near to."""

    def __str__(self) -> str:
        return f"{self.bytes} bytes, {self.seconds * 1e6:.1f} us"


RANDOM_COST = 40
"""Simple operations for a random number."""


BEHIND_ANOTHER = 1.5e-6
"""Seconds that a launch costs less in a graph, behind another kernel, than the ranking has it cost by itself."""


class Prices:
    """Prices for one architecture. Groups that come to the same program are ranked once."""

    def __init__(self, arch: str) -> None:
        self.arch = arch
        self.rates = rates_of(arch)
        self._groups: dict[object, Price] = {}
        self._programs: dict[object, Price] = {}

    @property
    def on_gpu(self) -> bool:
        return self.arch.startswith("sm_")

    def of(self, plan: KernelPlan) -> Price:
        """The price of a group as one kernel."""
        inputs = plan.outlined.inputs
        moved = sum(map(bytes_of, dict.fromkeys(inputs))) + sum(map(bytes_of, plan.outlined.outputs))
        body = plan.outlined.function.body.ops
        if self.on_gpu:
            return self._of_program(plan)
        compute = sum(self._compute(op) for op in body)
        rows = math.prod(axis.size for axis in plan.treatments.grid)
        if plan.treatments.whole and any(isinstance(op, ops.Contract) for op in body):
            # a row of a product that is folded is one program's: few rows keep little of the target busy
            compute *= min(4.0, max(1.0, self.rates.programs / max(1.0, rows / 64)))
        busy = max(moved / self.rates.memory, compute)
        if plan.treatments.whole or plan.treatments.streamed:
            # so does a row that is folded, and reading it takes longer too
            busy *= max(1.0, self.rates.programs / max(1, rows))
        return Price(self.rates.launch + busy, moved)

    def apart(self, plan: KernelPlan) -> Price:
        """The price of a group's ops as a kernel each."""
        seconds, total = 0.0, 0
        for op in plan.outlined.function.body.ops:
            if not is_repeated(op) and op.effect != "terminator":
                moved = sum(bytes_of(v) for v in dict.fromkeys((*op.operands, *op.results)))
                total += moved
                seconds += self.rates.launch + max(moved / self.rates.memory, self._compute(op))
        return Price(seconds, total)

    def _compute(self, op: Op) -> float:
        """Seconds of arithmetic."""
        match op:
            case ops.Map():
                return volume(op.result) * SCALAR_FUNCTIONS[op.fn].cost / self.rates.operations
            case ops.Random():
                return volume(op.result) * RANDOM_COST / self.rates.operations
            case ops.Reduce() | ops.Scan():
                return volume(op.source) / self.rates.operations
            case ops.Contract():
                a, b, _ = op.axis_names()
                sizes = {**dict(zip(a, sizes_of(op.a))), **dict(zip(b, sizes_of(op.b)))}
                bits = tensor_type(op.a).dtype.bits
                slower = bits / 16 if self.arch == "cpu" or bits <= 16 else bits / 2
                return math.prod(sizes.values()) * slower / self.rates.products
            case _:
                return 0.0

    def _of_program(self, plan: KernelPlan) -> Price:
        """The cost of the best plan of the program that a group becomes on a GPU. Groups that are alike have one."""
        views = [view_of_value(value) for value in plan.outlined.inputs]
        function: Any = Module([plan.outlined.function]).structure(locations=False)[0]
        alike = (function[1:], tuple(None if view is None else view.place for view in views))
        if alike not in self._groups:
            self._groups[alike] = self._price_of_program(plan)
        return self._groups[alike]

    def _price_of_program(self, plan: KernelPlan) -> Price:
        plan = flat_windows(merged_axes(plan), self.arch)
        inputs, parameters = plan.outlined.inputs, plan.outlined.function.parameters
        kept = [tuple(axis.size for axis in plan.axes.kept[p]) for p in parameters]
        units = [_unit(value, shape) for value, shape in zip(inputs, kept)]
        program = GroupProgram(plan.outlined.function, plan.axes, plan.treatments, units, plan.flat)
        sizes = {name: axis.size for axis, size in program.sizes.items() if (name := symbol_name(size)) is not None}
        module = Module([program.build("priced")])
        key = (module.structure(locations=False), tuple(sizes.items()))
        if key not in self._programs:
            placed = PassManager(gpu_front_pipeline(), verify=False).run(module, PassContext())
            audit = audit_function(placed.entry, gpu_machine(self.arch, BUILTIN), sizes)
            seconds = audit.predicted - BEHIND_ANOTHER
            self._programs[key] = Price(seconds, round(audit.moved_bytes), audit.by_warpgroups)
        return self._programs[key]


def _unit(value: Value, shape: tuple[int, ...]) -> int | None:
    """The axis of unit stride of an input; the last one where the input has to be copied to have any."""
    place = place_of(value, shape)
    return (len(shape) - 1 if shape else None) if place is None else place.unit
