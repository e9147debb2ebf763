"""Graphs in the emulator: each of the kernels that a formula becomes on a GPU, one after the other, with no GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tiledsl.api.calls.targets import target_of
from tiledsl.api.graphs.fused import BuiltGraph, FusedGraph
from tiledsl.api.graphs.graph import Graph
from tiledsl.api.programs.emulate import Emulated, EmulatedProgram, Request, check_emulated_arch, check_in_cpu_memory
from tiledsl.api.schedules.built_module import Built
from tiledsl.api.schedules.graph_programs import compile_functions
from tiledsl.api.schedules.schedule_graph import Scheduled
from tiledsl.backend_cuda.program import CudaProgram
from tiledsl.backend_ref.emulator.emulate import EmulatorWarning
from tiledsl.runtime.programs.memory_plan import plan_memory


def emulate_graph(
    graph: Graph, args: Sequence[object], named: Mapping[str, object], out: object, request: Request
) -> Emulated:
    """Runs the kernels that a graph becomes for `request.arch` in the emulator. Raises TileError.

    Of a kernel that has fewer plans than `request.plan` says, the last one is taken.
    """
    check_emulated_arch(request.arch, graph.name)
    check_in_cpu_memory([("an argument", leaf) for leaf in graph.flatten(*args, **named)])
    found: list[EmulatorWarning] = []
    build = partial(_built, request, found)
    result = BuiltGraph(FusedGraph(graph), request.arch, {}, build=build)(*args, out=out, **named)
    return Emulated(result, tuple(found))


def _built(request: Request, found: list[EmulatorWarning], scheduled: Scheduled, arch: str) -> Built:
    """A module that runs in CPU memory. Its programs are those of the GPU, without their machine code."""
    target = target_of(arch)
    programs: list[Any] = []
    for made in compile_functions(scheduled.functions, target):
        assert isinstance(made.program, CudaProgram)
        programs.append(_Emulated(EmulatedProgram(made.program.module, target.name, request, found, clamped=True)))
    memory = plan_memory(scheduled.schedule)
    return Built(f"the emulator of {target.name}", target.identity(), scheduled.schedule, memory, tuple(programs))


@dataclass(frozen=True)
class _Emulated:
    """A program that is loaded already."""

    program: EmulatedProgram

    def load(self) -> EmulatedProgram:
        return self.program
