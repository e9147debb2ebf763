"""The kernels of a built module, each of which can be read: code, IR, resources, plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from tiledsl.api.calls.targets import worker_threads
from tiledsl.api.reports.notebook import folded
from tiledsl.api.schedules.built_module import Built
from tiledsl.ir.core import free_names
from tiledsl.runtime.programs.plan_source import PlanSource, loaded_program
from tiledsl.runtime.programs.program import PlannedProgram, Program
from tiledsl.runtime.programs.schedule import Step
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import fail

if TYPE_CHECKING:
    from tiledsl.api.reports.tile_layouts import TileLayout
    from tiledsl.backend_cpu.calls.program import CpuProgram


class ModuleKernel:
    """One kernel of a module, compiled for `arch`. `launches`: how often a call of the module runs it."""

    def __init__(
        self,
        name: str,
        arch: str,
        program: Program,
        stages: Mapping[str, str],
        steps: Sequence[Step],
        plans: PlanSource | None = None,
    ) -> None:
        """`stages`: IR texts by name, in the order of compilation; none for a module that was loaded from a file.
        `plans`: what launches ask for plans before the model."""
        self._plans = plans
        self.name = name
        self.arch = arch
        self.launches = len(steps)
        self._program = program
        self._stages = stages
        self._step = steps[0]

    @property
    def source(self) -> str:
        """The code that was generated: LLVM IR for a CPU, CUDA C for a GPU. Raises TileUnsupportedError for neither."""
        if isinstance(self._program, PlannedProgram):
            return self._program.variant.source
        return self._cpu("source").llvm_ir

    @property
    def assembly(self) -> str:
        """The machine code as assembler text; for a GPU by nvdisasm. Raises TileRuntimeError where that is missing."""
        if isinstance(self._program, PlannedProgram):
            return self._program.variant.assembly
        return self._cpu("assembly").assembly

    @property
    def resources(self) -> dict[str, Any]:
        """For a CPU the bytes of `code`; for a GPU, by CUDA function: registers, spilled and shared bytes."""
        if isinstance(self._program, PlannedProgram):
            return dict(self._program.variant.resources)
        return {"code": len(self._cpu("resources").code)}

    @property
    def layouts(self) -> dict[str, TileLayout]:
        """For a GPU: where the tiles with names lie, as `CompiledKernel.layouts`. Raises TileUnsupportedError else."""
        from tiledsl.api.reports.tile_layouts import tile_layouts  # costs start-up time

        if not isinstance(self._program, PlannedProgram):
            self._fail("layouts", "a GPU, for example `sm_90`")
        return tile_layouts(self._program.variant.ir)

    @cached_property
    def plan(self) -> str:
        """What was chosen for the sizes of the kernel's first launch: blocks, threads, stages, as text."""
        if isinstance(self._program, PlannedProgram):
            return self._program.description
        from tiledsl.backend_cpu.calls.program import BoundDescription  # costs start-up time

        loaded: Any = loaded_program(self._program, self._plans)
        strides = tuple(tensor.view.strides for tensor in self._step.tensors)
        chosen: object = loaded.bind(self._step.sizes, strides, worker_threads()).description
        if not isinstance(chosen, BoundDescription):
            return str(chosen)
        blocks = [f"{name}={block}" for name, block in chosen.blocks.items()]
        grids = [f"{p} programs, {t} threads" for p, t in zip(chosen.programs, chosen.threads)]
        return ", ".join([*blocks, *grids, f"{max(chosen.scratch_bytes, default=0)} bytes of scratch for each thread"])

    def ir(self, level: str = "tile", *, stage: str = "") -> str:
        """The IR of a level as text: `tile`, as the back end got it (or another `stage` left it), `gpu` for a GPU.

        Raises TileUnsupportedError for a level or a stage that there is none of.
        """
        planned = isinstance(self._program, PlannedProgram)
        if level == "gpu" and not stage and isinstance(self._program, PlannedProgram):
            return self._program.variant.ir
        if level == "tile" and (stage in self._stages or (not stage and self._stages)):
            return self._stages[stage or list(self._stages)[-1]]
        asked = f"{level}, stage {stage}" if stage else level
        known = [*(f"tile, stage {name}" for name in self._stages), *(["gpu"] if planned else [])]
        texts = ", ".join(f"`{name}`" for name in known) or "`.source` and `.plan`: a file keeps no IR"
        fail("level-unknown", caller_location(), arch=self.arch, level=asked, known=texts)

    def _cpu(self, what: str) -> CpuProgram:
        from tiledsl.backend_cpu.calls.program import CpuProgram  # costs start-up time

        return self._program if isinstance(self._program, CpuProgram) else self._fail(what)

    def _fail(self, what: str, archs: str = "`cpu` or a GPU") -> NoReturn:
        known = "`.ir()` and `.plan`"
        fail("text-unavailable", caller_location(), arch=self.arch, what=what, archs=archs, known=known)

    def __repr__(self) -> str:
        times = "1 launch" if self.launches == 1 else f"{self.launches} launches"
        return f"<kernel {self.name} for {self.arch}: {times}>"

    def _repr_html_(self) -> str:
        return folded(repr(self), lambda: f"{self.plan}\n\n{self.ir()}")


def kernels_of(built: Built) -> dict[str, ModuleKernel]:
    """The kernels of a module by name, in the order of their first launches.

    Code of one kernel for other sizes, as there is for GPUs, has names of its own: `f`, `f_1`.
    """
    steps: dict[tuple[str, int], list[Step]] = {}
    for step in built.schedule.steps:
        steps.setdefault((step.name, step.program), []).append(step)
    kernels: dict[str, ModuleKernel] = {}
    for (wanted, program), launches in steps.items():
        stages: Mapping[str, str] = {}
        if built.compiled:
            stages = built.compiled[built.functions[program]].artifact.stages
        name = free_names(kernels, wanted)
        kernels[name] = ModuleKernel(name, built.arch, built.programs[program], stages, launches, built.plans)
    return kernels
