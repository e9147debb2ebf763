"""Runs what is compiled, launch by launch, and takes the time of each: of graphs, saved modules and kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from tiledsl.api.graphs.fused import FusedGraph
from tiledsl.api.graphs.graph import Graph
from tiledsl.api.graphs.time_launches import Clock, rounds, time_launches, wall_clock
from tiledsl.api.modules.module import Module
from tiledsl.api.pages.audit import audit_steps, audited_machine
from tiledsl.api.pages.profile import Floor, Profile, ProfiledKernel, floor_of, floor_of_bytes, note_of
from tiledsl.api.schedules.built_module import Built
from tiledsl.api.schedules.module_weights import host_array
from tiledsl.api.schedules.schedule_graph import schedule_graph
from tiledsl.passes.nest.kernel_audit import KernelAudit
from tiledsl.runtime.arrays.arrays import Array


def profile_graph(
    graph: Graph, arguments: Sequence[Array], sizes: Mapping[str, int], arch: str, seconds: float, clock: Clock | None
) -> Profile:
    """Builds a graph and times its launches. `arguments` are arrays in CPU memory, in the order of `graph.inputs`;
    `sizes` those that the graph leaves open; `clock`: by default that of the target. Raises TileError."""
    fused = FusedGraph(graph)
    (module,) = fused.build(arch, tuning=None, device=None, freeze=False, **dict(sizes)).modules
    lowered, _ = fused.lowered_before(arch, sizes)
    scheduled = schedule_graph(lowered, graph.inputs, graph.constants)
    machine = audited_machine(graph.name, arch)
    floors = [floor_of(found.kernel, machine) for found in audit_steps(scheduled, arch)]
    return profile_module(module, arguments, seconds, clock, floors)


def profile_module(
    module: Module,
    arguments: Sequence[Array],
    seconds: float,
    clock: Clock | None = None,
    floors: Sequence[Floor] | None = None,
) -> Profile:
    """Times the launches of a module, for about so many seconds. `floors`: of each launch; where they are not known, as
    of a saved module, those of the bytes that it reads and writes. Raises TileError."""
    built = module.built
    schedule, machine = built.schedule, audited_machine(module.name, built.arch)
    weights = {name: host_array(array, name) for name, array in module.weights.items()}
    names = [schedule.buffers[number].name for number in schedule.inputs]
    samples = time_launches(built, {**weights, **dict(zip(names, arguments))}, seconds, clock)
    notes = [note_of(machine)]
    if floors is None:
        notes.append("a saved module has no formula to count products of: floors are those of its bytes alone")
        floors = [floor_of_bytes(step.read_bytes + step.written_bytes, machine) for step in schedule.steps]
    return Profile(module.name, built.arch, machine.name, _kernels(built, samples, floors), tuple(notes))


def profile_call(
    name: str, source: str, call: Any, audit: KernelAudit, arch: str, seconds: float, clock: Clock = wall_clock
) -> Profile:
    """Times a prepared call of one kernel, that is all its grids together. Raises TileError."""
    machine = audited_machine(name, arch)
    for _ in range(3):
        call()
    (samples,) = rounds([lambda: clock(call)], seconds)
    kernel = ProfiledKernel(name, source, 1, median(samples), len(samples), floor_of(audit, machine))
    return Profile(name, arch, machine.name, (kernel,), (note_of(machine),))


def _kernels(built: Built, samples: Sequence[Sequence[float]], floors: Sequence[Floor]) -> tuple[ProfiledKernel, ...]:
    """Launches of one name, place and floor are one kernel."""
    groups: dict[object, list[int]] = {}
    steps = built.schedule.steps
    for number, (step, floor) in enumerate(zip(steps, floors)):
        groups.setdefault((step.name, step.source, floor), []).append(number)
    made: list[ProfiledKernel] = []
    for numbers in groups.values():
        first = numbers[0]
        seconds = sum(median(samples[number]) for number in numbers) / len(numbers)
        count = sum(len(samples[number]) for number in numbers)
        made.append(ProfiledKernel(steps[first].name, steps[first].source, len(numbers), seconds, count, floors[first]))
    return tuple(sorted(made, key=lambda kernel: -kernel.total))
