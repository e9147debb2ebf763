"""A kernel compiled for one specialisation: call it, read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from tiledsl.api.calls.plan_sources import BySource, default_plans, plans_of_calls
from tiledsl.api.calls.targets import cuda_services, worker_threads
from tiledsl.ir.symbolic import symbol_name
from tiledsl.passes.gpu_machine import architecture_of
from tiledsl.runtime.calls.dispatch import Dispatcher, Variant
from tiledsl.runtime.calls.launch import Launch
from tiledsl.runtime.calls.parameters import Parameters
from tiledsl.runtime.calls.prepared import PreparedCall
from tiledsl.runtime.calls.specialise import ArgumentKey, ConstantKey, ScalarKey, TensorKey
from tiledsl.runtime.programs.artifact import Artifact
from tiledsl.runtime.programs.interface import Interface
from tiledsl.runtime.programs.plan_source import PlanSource, loaded_program
from tiledsl.runtime.programs.program import HasVariants, Program
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import TileError, fail

if TYPE_CHECKING:
    from tiledsl.api.reports.tile_layouts import TileLayout
    from tiledsl.backend_cpu.calls.program import CpuProgram
    from tiledsl.runtime.calls.cuda_launch import CudaLaunch


class CompiledKernel:
    """What `kernel.compile(...)` gives. Its calls take no constants: those are compiled in."""

    def __init__(
        self, parameters: Parameters, keys: Sequence[ArgumentKey], artifact: Artifact, program: Program, cause: str
    ) -> None:
        """`parameters` and `keys` are those of the kernel, constants included. `cause` says why it was compiled."""
        self.name = parameters.kernel
        self.arch = artifact.arch
        self.cause = cause
        self.program = program
        self._artifact = artifact
        self._parameters = parameters
        self._names = parameters.names
        self._keys = tuple(keys)
        kept = [(name, key) for name, key in zip(parameters.names, keys) if not isinstance(key, ConstantKey)]
        self._run_time_keys = tuple(key for _, key in kept)
        self._variants: dict[PlanSource | None, Variant] = {}
        self._kept = parameters.only([name for name, _ in kept])
        self._dispatchers = BySource(self._dispatcher_for)

    def _dispatcher_for(self, plans: PlanSource | None) -> Dispatcher:
        def check(keys: tuple[ArgumentKey, ...], device: int | None) -> Variant:
            return self._check(keys, device, plans)

        return Dispatcher(self._kept, check, worker_threads, cuda_services)

    def __call__(self, *args: object, out: object = None, **kwargs: object) -> object:
        """Runs the kernel as `Kernel.__call__` does. Raises TileTypeError for what it was not compiled for."""
        if out is not None and "out" in self._kept.names:
            kwargs["out"], out = out, None
        try:
            return self._dispatchers.current().call(args, kwargs, out)
        except TileError as error:
            raise error.with_traceback(None) from error.__cause__  # the user's lines, not the compiler's

    def bind(self, *args: object, out: object = None, stream: int | None = None, **kwargs: object) -> PreparedCall:
        """Prepares a call as `Kernel.bind` does."""
        if out is not None and "out" in self._kept.names:
            kwargs["out"], out = out, None
        try:
            prepare = self._dispatchers.current().prepare
            return PreparedCall(lambda a, k, o: prepare(a, k, o, stream), args, kwargs, out, self.name)
        except TileError as error:
            raise error.with_traceback(None) from error.__cause__  # the user's lines, not the compiler's

    def with_sizes_of(self, specs: Sequence[object]) -> CompiledKernel:
        """This kernel; for a GPU with code for the shapes of `specs` (in the order of the parameters), as far as known.

        Raises TileError where that code cannot be made.
        """
        if not isinstance(self.program, HasVariants):
            return self
        program = self.program.with_sizes(self.sizes_of(specs))
        assert isinstance(program, HasVariants)
        program.default_variant()
        return CompiledKernel(self._parameters, self._keys, self._artifact, program, self.cause)

    def sizes_of(self, specs: Sequence[object]) -> dict[str, int]:
        """The sizes that the shapes of `specs` (in the order of the parameters) tell, by symbol."""
        shapes: dict[str, Any] = {name: getattr(spec, "shape", None) for name, spec in zip(self._names, specs)}
        sizes: dict[str, int] = {}
        for parameter in self._artifact.interface.tensors:
            for dim, size in zip(parameter.shape, shapes.get(parameter.name) or ()):
                name = symbol_name(dim)
                if name is not None and type(size) is int:
                    sizes.setdefault(name, size)
        return sizes

    @property
    def interface(self) -> Interface:
        """What a call must know of it."""
        return self._artifact.interface

    @property
    def variant(self) -> Variant:
        """The loaded code, by the plans that calls ask for now."""
        return self.variant_by(plans_of_calls())

    def variant_by(self, plans: PlanSource | None) -> Variant:
        """The loaded code; launches of it ask a source of plans, by default that of the environment."""
        plans = default_plans() if plans is None else plans
        found = self._variants.get(plans)
        if found is None:
            made = Variant(self._artifact.interface, loaded_program(self.program, plans))
            found = self._variants.setdefault(plans, made)
        return found

    def plans_changed(self) -> None:
        """Calls ask for their plans anew."""
        self._dispatchers.forget()

    def _launches(self) -> list[Launch | CudaLaunch]:
        return [launch for dispatcher in self._dispatchers.every() for launch in dispatcher.launches]

    @property
    def specialisation(self) -> dict[str, str]:
        """What each parameter was taken to be."""
        return {name: str(key) for name, key in zip(self._names, self._keys)}

    def ir(self, level: str = "tile", *, stage: str = "") -> str:
        """The IR of a level as text: as the back end got it, or as another `stage` left it (`front`: the front end).

        `tile`, and `gpu` where the kernel was compiled for one: the code for the sizes that it was specified with.
        Raises TileUnsupportedError for a level or a stage that there is none of.
        """
        texts = self._artifact.stages
        if level == "gpu" and not stage and isinstance(self.program, HasVariants):
            return self.program.default_variant().ir
        if level != "tile":
            self._fail_level(level, ["tile", "gpu"] if isinstance(self.program, HasVariants) else ["tile"])
        if not stage:
            return list(texts.values())[-1]
        if stage not in texts:
            self._fail_level(f"{level}, stage {stage}", [f"{level}, stage {known}" for known in texts])
        return texts[stage]

    def _fail_level(self, level: str, known: Sequence[str]) -> NoReturn:
        names = ", ".join(f"`{name}`" for name in known)
        fail("level-unknown", caller_location(), arch=self.arch, level=level, known=names)

    @property
    def source(self) -> str:
        """The code that the back end generated: LLVM IR for a CPU, CUDA C for a GPU."""
        if isinstance(self.program, HasVariants):
            return self.program.default_variant().source
        return self._cpu_program("source", "`cpu` or a GPU").llvm_ir

    @property
    def assembly(self) -> str:
        """The machine code as assembler text; for a GPU by nvdisasm, which is a package of its own.

        Raises TileRuntimeError where that is not installed.
        """
        if isinstance(self.program, HasVariants):
            return self.program.default_variant().assembly
        return self._cpu_program("assembly", "`cpu` or a GPU").assembly

    @property
    def cubin(self) -> bytes:
        """The machine code for a GPU, as the driver takes it."""
        if isinstance(self.program, HasVariants):
            return self.program.default_variant().cubin
        self._fail_unavailable("cubin", "a GPU, for example `sm_90`")

    @property
    def layouts(self) -> dict[str, TileLayout]:
        """For a GPU: where the tiles with names lie, in registers and shared memory; notebooks draw each."""
        from tiledsl.api.reports.tile_layouts import tile_layouts  # costs start-up time

        if not isinstance(self.program, HasVariants):
            self._fail_unavailable("layouts", "a GPU, for example `sm_90`")
        return tile_layouts(self.program.default_variant().ir)

    @property
    def resources(self) -> dict[str, Any]:
        """For a CPU sizes in bytes: `code`, and `scratch` per thread (the most of the launches so far).

        For a GPU, by CUDA function: registers, spilled bytes, bytes of shared memory.
        """
        if isinstance(self.program, HasVariants):
            return dict(self.program.default_variant().resources)
        program = self._cpu_program("resources", "`cpu` or a GPU")
        scratch = [
            size
            for launch in self._launches()
            if isinstance(launch, Launch)
            for size in getattr(launch.bound.description, "scratch_bytes", ())
        ]
        return {"code": len(program.code), "scratch": max(scratch, default=0)}

    def _cpu_program(self, what: str, archs: str) -> CpuProgram:
        from tiledsl.backend_cpu.calls.program import CpuProgram  # costs start-up time

        if not isinstance(self.program, CpuProgram):
            self._fail_unavailable(what, archs)
        return self.program

    def _fail_unavailable(self, what: str, archs: str) -> NoReturn:
        known = "`.ir()` and `.explain()`" if self.arch == "reference" else "`.source`, `.assembly` and `.resources`"
        fail("text-unavailable", caller_location(), arch=self.arch, what=what, archs=archs, known=known)

    def explain(self, launches: Sequence[Launch | CudaLaunch] = ()) -> str:
        """What was compiled, why, and what the compiler chose, for reading in a terminal.

        `launches`: those of others (the kernel's own calls) besides the ones made here; of this code only they count.
        """
        from tiledsl.api.reports.explain import explain  # costs start-up time

        own = [variant.program for variant in self._variants.values()]
        ours = [launch for launch in launches if any(launch.program is program for program in own)]
        made = [bound.description for launch in (*ours, *self._launches()) for bound in launch.variants]
        different = list({str(description): description for description in made}.values())
        return explain(self.name, self.arch, self.specialisation, self.cause, self._artifact, self.program, different)

    def _check(self, keys: tuple[ArgumentKey, ...], device: int | None, plans: PlanSource | None) -> Variant:
        """The one variant, if it was compiled for arguments like these, and for where they are."""
        self._check_place(device)
        for name, actual, expected in zip(self._kept.names, keys, self._run_time_keys):
            if not _accepts(expected, actual):
                fail(
                    "argument-specialised", caller_location(),
                    parameter=name, actual=actual, expected=expected, kernel=self.name,
                )  # fmt: skip
        return self.variant_by(plans)

    def _check_place(self, device: int | None) -> None:
        fitting = "cpu" if device is None else cuda_services().arch(device)
        on_device = isinstance(self.program, HasVariants)
        if on_device != (device is not None) or (on_device and not runs_on(self.arch, fitting)):
            place = "in CPU memory" if device is None else f"on CUDA device {device}, whose architecture is `{fitting}`"
            fail(
                "argument-place", caller_location(),
                kernel=self.name, arch=self.arch, place=place, fitting=fitting,
            )  # fmt: skip

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}: {key}" for name, key in self.specialisation.items())
        return f"<{self.name}({arguments}) for {self.arch}>"

    def _repr_html_(self) -> str:
        from tiledsl.api.reports.notebook import folded

        return folded(repr(self), self.explain)


def runs_on(arch: str, device: str) -> bool:
    """Whether a device runs machine code for `arch`: of its major version and not newer; `sm_90a` on `sm_90` alone.
    Other figures of the GPU that it was planned for (`sm_90:132x3350`) do not matter."""
    wanted, there = (architecture_of(name).removeprefix("sm_") for name in (arch, device))
    if not wanted.isdigit():
        return wanted.rstrip("af") == there
    return wanted[:-1] == there[:-1] and int(wanted) <= int(there)


def _accepts(expected: ArgumentKey, actual: ArgumentKey) -> bool:
    """Whether code compiled for `expected` can run on `actual`. Sizes are checked later, with better words."""
    if isinstance(expected, TensorKey) and isinstance(actual, TensorKey):
        same = expected.dtype == actual.dtype and len(expected.shape) == len(actual.shape)
        return same and expected.unit in (None, actual.unit)
    if isinstance(expected, ScalarKey) and isinstance(actual, ScalarKey):
        return expected == actual
    return False
