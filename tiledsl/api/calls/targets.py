"""What kernels can be compiled for, and the road from a TILE module to a program of each target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from tiledsl.ir.core import Module
from tiledsl.passes.machine import available_cores, host
from tiledsl.runtime.programs.artifact import Note
from tiledsl.runtime.programs.program import Program
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import fail
from tiledsl.support.options import read_options

if TYPE_CHECKING:
    from tiledsl.runtime.programs.device_services import DeviceServices


@dataclass(frozen=True)
class Made:
    """A compiled program, the IR text of each stage on the way, and what the passes had to say."""

    program: Program
    stages: Mapping[str, str]
    notes: tuple[Note, ...]


@dataclass(frozen=True)
class Target:
    """One architecture. `identity` tells what code depends on besides the kernel: the machine and the back end."""

    name: str
    identity: Callable[[], str]
    compile: Callable[[Module], Made]
    from_bytes: Callable[[bytes], Program]


def target_of(arch: str) -> Target:
    """The target called `arch`. Raises TileUnsupportedError if there is none."""
    match arch:
        case "cpu":
            return Target("cpu", _cpu_identity, _compile_for_cpu, _cpu_program)
        case "reference":
            return Target("reference", str, _compile_for_reference, _reference_program)
        case _:
            if arch.startswith("sm_"):
                from tiledsl.passes.gpu_machine import gpu_machine  # costs start-up time

                name = gpu_machine(arch, caller_location()).name
                return Target(name, lambda: name, lambda module: _compile_for_cuda(module, name), _cuda_program)
            known = "`cpu`, `reference` and GPU architectures like `sm_90`"
            fail("arch-unknown", caller_location(), arch=arch, known=known)


def saved_program(arch: str) -> Callable[[bytes], Program]:
    """What reads the programs of a saved module: for a GPU those of certain plans, else as the target does."""
    return _planned_program if arch.startswith("sm_") else target_of(arch).from_bytes


@cache
def _cpu_identity() -> str:
    from tiledsl.backend_cpu.llvm.native import host_description  # see below

    machine = host()
    return f"{replace(machine, features=frozenset())} {sorted(machine.features)} {host_description()}"


def cuda_services() -> DeviceServices:
    """CUDA devices, for the runtime. The driver is started at the first call of a method."""
    from tiledsl.backend_cuda.driver.services import CudaServices

    return CudaServices()


def worker_threads() -> int:
    """How many threads a kernel may use."""
    return read_options().threads or available_cores()


def _compile_for_cpu(module: Module) -> Made:
    # Here, not above, as in all that follows: start-up time, and a kernel that the disk cache has needs few of them.
    from tiledsl.backend_cpu.compile import compile_module
    from tiledsl.ir.text.printer import print_module
    from tiledsl.passes.manager import PassContext, PassManager
    from tiledsl.passes.pipelines import cpu_pipeline

    context = PassContext(host())
    tiled = PassManager(cpu_pipeline(), between=False).run(module, context)
    program = compile_module(tiled, host())
    remarks = [Note(r.pass_name, r.location.file, r.location.line, r.text) for r in context.remarks]
    notes = tuple(dict.fromkeys(remarks))
    return Made(program, {"front": print_module(module), "tiled": print_module(tiled)}, notes)


def _compile_for_reference(module: Module) -> Made:
    from tiledsl.backend_ref.program import ReferenceProgram
    from tiledsl.ir.text.printer import print_module

    return Made(ReferenceProgram(module), {"front": print_module(module)}, ())


def _compile_for_cuda(module: Module, arch: str) -> Made:
    from tiledsl.backend_cuda.program import CudaProgram
    from tiledsl.ir.text.printer import print_module
    from tiledsl.passes.manager import PassContext, PassManager
    from tiledsl.passes.pipelines import gpu_front_pipeline

    context = PassContext()
    placed = PassManager(gpu_front_pipeline(), between=False).run(module, context)
    remarks = [Note(r.pass_name, r.location.file, r.location.line, r.text) for r in context.remarks]
    stages = {"front": print_module(module), "placed": print_module(placed)}
    return Made(CudaProgram(placed, arch), stages, tuple(dict.fromkeys(remarks)))


def _cuda_program(data: bytes) -> Program:
    from tiledsl.backend_cuda.program import CudaProgram

    return CudaProgram.from_bytes(data)


def _planned_program(data: bytes) -> Program:
    from tiledsl.backend_cuda.planned_program import PlannedProgram

    return PlannedProgram.from_bytes(data)


def _cpu_program(data: bytes) -> Program:
    from tiledsl.backend_cpu.calls.program import CpuProgram

    return CpuProgram.from_bytes(data)


def _reference_program(data: bytes) -> Program:
    from tiledsl.backend_ref.program import ReferenceProgram

    return ReferenceProgram.from_bytes(data)
