"""Audits: what kernels and modules move and how long they should take, beside the least that they could.

Nothing is run and no machine code is made: all is read off the tile programs and their plans.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tiledsl.api.reports.notebook import plain
from tiledsl.api.reports.text_tables import columns, paragraph, size
from tiledsl.api.schedules.schedule_graph import Scheduled
from tiledsl.ir.core import Function, Module
from tiledsl.passes.cpu.audit_cpu_function import audit_cpu_function
from tiledsl.passes.gpu.plans.audit_function import audit_function
from tiledsl.passes.gpu.plans.refused_plans import refused_plans
from tiledsl.passes.gpu_machine import GpuMachine, gpu_machine
from tiledsl.passes.machine import CpuMachine, host
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.nest.kernel_audit import KernelAudit
from tiledsl.passes.pipelines import cpu_pipeline, gpu_front_pipeline
from tiledsl.runtime.programs.constant_steps import constant_steps
from tiledsl.runtime.programs.schedule import Schedule
from tiledsl.runtime.programs.step_alignment import step_alignment, step_lying
from tiledsl.support.errors import fail
from tiledsl.support.progress import Progress

HEAD = ("kernel", "runs", "must move", "moves", "by memory", "tensor cores", "predicted", "floor", "ratio", "bound by")


@dataclass(frozen=True)
class AuditedKernel:
    """A kernel of an audit, and how often it runs."""

    kernel: KernelAudit
    runs: int
    refused: tuple[str, ...] = ()
    """Better plans that there are not, and why, each with its line."""

    @property
    def excess(self) -> float:
        """Seconds beyond the floor, of all runs."""
        return self.runs * (self.kernel.predicted - self.kernel.floor)


@dataclass(frozen=True)
class Audit:
    """All kernels of something, those that lose most time first. `str()` is a table.

    `must_bytes`: what enters and leaves it, each element once. For a module that is not the sum over its kernels.
    `once`: how many launches of a module for a GPU depend on weights alone, and the seconds that they take; they run
    before its first call, and are not among `kernels`.
    """

    name: str
    arch: str
    kernels: tuple[AuditedKernel, ...]
    must_bytes: float
    once: tuple[int, float] = (0, 0.0)

    @cached_property
    def predicted(self) -> float:
        """Seconds of all runs."""
        return sum(k.runs * k.kernel.predicted for k in self.kernels)

    @cached_property
    def moved_bytes(self) -> float:
        """Bytes that all kernels ask for, from memory or L2."""
        return sum(k.runs * k.kernel.moved_bytes for k in self.kernels)

    @cached_property
    def multiply_adds(self) -> float:
        """Of all products."""
        return sum(k.runs * k.kernel.multiply_adds for k in self.kernels)

    @cached_property
    def tensor_core_share(self) -> float | None:
        """Of the multiply-adds, those by matrix instructions; None without a product."""
        shares = [(k.runs * k.kernel.multiply_adds, k.kernel.tensor_core_share) for k in self.kernels]
        done = sum(count * share for count, share in shares if share is not None)
        return done / self.multiply_adds if self.multiply_adds else None

    @cached_property
    def floor(self) -> float:
        """Seconds that one kernel for all of it would take at least: what must move, or the products of all kernels."""
        machine = audited_machine(self.name, self.arch)
        products = sum(k.runs * (k.kernel.products_floor) for k in self.kernels)
        return machine.speeds.launch + max(self.must_bytes / machine.copied_bytes_per_second, products)

    @property
    def ratio(self) -> float:
        """Predicted time over the floor."""
        return self.predicted / self.floor

    def __str__(self) -> str:
        rows = [HEAD, *(_row(k.kernel, k.runs) for k in self.kernels)]
        lines = [f"{self.name}, predicted for {_described(audited_machine(self.name, self.arch))}", *columns(rows)]
        if len(self.kernels) > 1 or any(k.runs > 1 for k in self.kernels):
            total = (
                f"all together: predicted {_time(self.predicted)}, floor {_time(self.floor)}, ratio {self.ratio:.2f}; "
            )
            total += f"{size(self.must_bytes)} must move, {size(self.moved_bytes)} moves"
            lines += paragraph(total, 2, 4)
        count, seconds = self.once
        if count:
            launches = "1 launch depends" if count == 1 else f"{count} launches depend"
            lines += paragraph(f"{launches} on weights alone, run before the first call: {_time(seconds)}", 2, 4)
        if any(not k.kernel.exact for k in self.kernels):
            lines += paragraph(
                "~ is counted with guesses: loops whose length is data, or blocks that were sampled", 2, 4
            )
        for audited in self.kernels:
            for reason in audited.refused:
                lines += paragraph(f"{audited.kernel.name}, {reason}", 2, 4)
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<audit of {self.name} for {self.arch}: ratio {self.ratio:.2f}>"

    def _repr_html_(self) -> str:
        return plain(str(self))


def _row(kernel: KernelAudit, runs: int) -> tuple[str, ...]:
    share = kernel.tensor_core_share
    return (
        kernel.name, str(runs), size(kernel.must_bytes), ("" if kernel.exact else "~") + size(kernel.moved_bytes),
        size(kernel.memory_bytes), "" if share is None else f"{share:.0%}", _time(kernel.predicted),
        _time(kernel.floor), f"{kernel.ratio:.2f}", kernel.bound,
    )  # fmt: skip


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def audited_machine(name: str, arch: str) -> GpuMachine | CpuMachine:
    """The machine of an architecture that audits know: a GPU's, or the CPU at hand. Raises TileUnsupportedError for
    others."""
    if arch == "cpu":
        return host()
    if not arch.startswith("sm_"):
        fail("audit-target", None, name=name, arch=arch)
    return gpu_machine(arch)


def _described(machine: GpuMachine | CpuMachine) -> str:
    """The machine, and where its speeds are from."""
    if isinstance(machine, CpuMachine):
        return f"{machine.name} ({machine.cores} cores), whose clock and memory were not measured"
    return machine.name if machine.speeds.measured else f"{machine.name}, from what its maker states"


def audit_program(function: Function, arch: str, sizes: Mapping[str, int]) -> Audit:
    """The audit of one kernel: for GPUs in form `tile-placed`, for CPUs `tile-tiled`. Raises TileUnsupportedError."""
    machine = audited_machine(function.name, arch)
    if isinstance(machine, CpuMachine):
        found, reasons = audit_cpu_function(function, machine, sizes), ()
    else:
        found, reasons = audit_function(function, machine, sizes), _reasons(function, machine, sizes, ())
    return Audit(function.name, arch, (AuditedKernel(found, 1, reasons),), found.must_bytes)


def _reasons(
    function: Function, machine: GpuMachine, sizes: Mapping[str, int], alignment: Sequence[int]
) -> tuple[str, ...]:
    found = refused_plans(function, machine, sizes, alignment)
    return tuple(f"line {one.location.line}: {one.reason}" for one in found)


def audit_schedule(scheduled: Scheduled, arch: str) -> Audit:
    """The audit of a graph that was lowered for a GPU, or for the CPU. Raises TileUnsupportedError.

    What takes more than 10 seconds says so on standard error."""
    schedule = scheduled.schedule
    runs: dict[int, AuditedKernel] = {}
    once = constant_steps(schedule, schedule.constants) if arch.startswith("sm_") else set[int]()
    launches = audit_steps(scheduled, arch)
    for number, found in enumerate(launches):
        if number not in once:
            runs[id(found)] = replace(found, runs=runs[id(found)].runs + 1) if id(found) in runs else found
    kernels = sorted(runs.values(), key=lambda k: -k.excess)
    must = _must_bytes(schedule)
    if all(k.kernel.exact for k in kernels):
        must = min(must, sum(k.runs * k.kernel.must_bytes for k in kernels))  # tables that are gathered from, in part
    seconds = sum(launches[number].kernel.predicted for number in once)
    return Audit(
        schedule.name, audited_machine(schedule.name, arch).name, tuple(kernels), must, (len(once), seconds)
    )  # fmt: skip


def audit_steps(scheduled: Scheduled, arch: str) -> list[AuditedKernel]:
    """One run of each launch, in their order; equal launches have the same object. Raises as `audit_schedule`."""
    schedule = scheduled.schedule
    machine = audited_machine(schedule.name, arch)
    place = _placed(scheduled.functions, machine)
    known: dict[object, AuditedKernel] = {}
    launches: list[AuditedKernel] = []
    progress = Progress(f"auditing the launches of {schedule.name}", len(schedule.steps))
    for step in schedule.steps:
        sizes = {**step.sizes}
        alignment, lying = step_alignment(schedule, step), step_lying(schedule, step)
        key = (step.program, tuple(sizes.items()), alignment, lying)
        if key not in known:
            function = place(step.program)
            if isinstance(machine, CpuMachine):
                known[key] = AuditedKernel(audit_cpu_function(function, machine, sizes), 1)
            else:
                reasons = _reasons(function, machine, sizes, alignment)
                known[key] = AuditedKernel(audit_function(function, machine, sizes, alignment, lying), 1, reasons)
        launches.append(known[key])
        progress.step()
    return launches


def _placed(functions: Sequence[Function], machine: GpuMachine | CpuMachine) -> Callable[[int], Function]:
    """The functions by number, as plans for the machine take them."""
    pipeline = cpu_pipeline() if isinstance(machine, CpuMachine) else gpu_front_pipeline()
    passes = PassManager(pipeline, verify=False)
    known: dict[int, Function] = {}

    def place(number: int) -> Function:
        if number not in known:
            context = PassContext(machine) if isinstance(machine, CpuMachine) else PassContext()
            known[number] = passes.run(Module([functions[number]]), context).entry
        return known[number]

    return place


def _must_bytes(schedule: Schedule) -> float:
    """What a module is given and gives: arguments, weights that it reads, results."""
    read = {tensor.buffer for step in schedule.steps for tensor in step.tensors}
    outside = [b for n, b in enumerate(schedule.buffers) if b.role != "inner" and (n in read or b.role == "output")]
    return float(sum(buffer.bytes for buffer in outside))
