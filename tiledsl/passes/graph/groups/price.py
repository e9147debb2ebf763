"""What a kernel is predicted to cost: seconds, and bytes that it asks for.

A group is written as the tile program that it would become, and the cost of that program's best plan counts
(docs/planner.md): what it reads again and again is seen there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tiledsl.ir.core import Function, Module, Value
from tiledsl.ir.symbolic import symbol_name
from tiledsl.passes.cpu.audit_cpu_function import audit_cpu_function
from tiledsl.passes.gpu.plans.audit_function import audit_function
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.passes.graph.analysis.views import place_of, view_of_value
from tiledsl.passes.graph.kernels.flat_windows import flat_windows
from tiledsl.passes.graph.kernels.group_program import GroupProgram
from tiledsl.passes.graph.kernels.kernel_plan import KernelPlan
from tiledsl.passes.graph.kernels.merge_axes import merged_axes
from tiledsl.passes.graph.kernels.view_parts import parts_of_parameters
from tiledsl.passes.machine import CpuMachine
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.nest.kernel_audit import KernelAudit
from tiledsl.passes.pipelines import cpu_pipeline, gpu_front_pipeline
from tiledsl.support.location import BUILTIN


@dataclass(frozen=True)
class Price:
    """Predicted seconds, and bytes that are read and written in memory, each once."""

    seconds: float
    bytes: int
    by_warpgroups: bool = False
    """Whether its products go by warpgroups, which nothing else comes near to."""

    def __str__(self) -> str:
        return f"{self.bytes} bytes, {self.seconds * 1e6:.1f} us"


BEHIND_ANOTHER = 1.5e-6
"""Seconds that a launch costs less in a graph, behind another kernel, than the ranking has it cost by itself."""


class Prices:
    """Prices for one architecture; `host` is the CPU that counts if that is none of a GPU. Groups that come to the same
    program are planned once."""

    def __init__(self, arch: str, host: CpuMachine) -> None:
        self.arch = arch
        self.host = host
        self._groups: dict[object, Price] = {}
        self._programs: dict[object, Price] = {}

    @property
    def on_gpu(self) -> bool:
        return self.arch.startswith("sm_")

    def of(self, plan: KernelPlan) -> Price:
        """The price of a group as one kernel. Groups that are alike have one."""
        views = [view_of_value(value) for value in plan.outlined.inputs]
        function: Any = Module([plan.outlined.function]).structure(locations=False)[0]
        begins = [None if view is None else (view.buffer, view.place.offset) for view in views]
        # where in its buffer an input begins tells steps of a loop apart, and no prices; which begin at one place may
        alike = (
            function[1:],
            tuple(None if view is None else (view.place.shape, view.place.strides) for view in views),
            tuple(None if view is None else begins.index((view.buffer, view.place.offset)) for view in views),
        )
        if alike not in self._groups:
            self._groups[alike] = self._price_of_program(plan)
        return self._groups[alike]

    def _price_of_program(self, plan: KernelPlan) -> Price:
        plan = flat_windows(merged_axes(plan), self.arch)
        inputs, parameters = plan.outlined.inputs, plan.outlined.function.parameters
        kept = [tuple(axis.size for axis in plan.axes.kept[p]) for p in parameters]
        units = [_unit(value, shape) for value, shape in zip(inputs, kept)]
        parts = parts_of_parameters(plan, inputs)
        function, numbers = plan.outlined.function, not self.on_gpu
        program = GroupProgram(
            function, plan.axes, plan.treatments, units, plan.flat, parts, numbers=numbers
        )  # fmt: skip
        sizes = {name: axis.size for axis, size in program.sizes.items() if (name := symbol_name(size)) is not None}
        return self.of_program(program.build("priced"), sizes)

    def of_program(self, function: Function, sizes: Mapping[str, int]) -> Price:
        """The price of a tile program for those sizes."""
        module = Module([function])
        key = (module.structure(locations=False), tuple(sizes.items()))
        if key not in self._programs:
            audit = self._audit(module, sizes)
            seconds = audit.predicted - BEHIND_ANOTHER
            self._programs[key] = Price(seconds, round(audit.moved_bytes), audit.by_warpgroups)
        return self._programs[key]

    def _audit(self, module: Module, sizes: Mapping[str, int]) -> KernelAudit:
        if self.on_gpu:
            placed = PassManager(gpu_front_pipeline(), verify=False).run(module, PassContext())
            return audit_function(placed.entry, gpu_machine(self.arch, BUILTIN), sizes)
        tiled = PassManager(cpu_pipeline(), verify=False).run(module, PassContext(self.host))
        return audit_cpu_function(tiled.entry, self.host, sizes)


def _unit(value: Value, shape: tuple[int, ...]) -> int | None:
    """The axis of unit stride of an input; the last one where the input has to be copied to have any."""
    place = place_of(value, shape)
    return (len(shape) - 1 if shape else None) if place is None else place.unit
