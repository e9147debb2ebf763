"""Modules: what `tiledsl.fuse(graph).build(arch)` gives. They are called with arrays."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from tiledsl.api.built_module import Built, build_for
from tiledsl.api.compiled import runs_on
from tiledsl.api.module_weights import check_weights, device_array, host_array
from tiledsl.api.schedule_graph import Scheduled, schedule_graph
from tiledsl.api.targets import cuda_services, worker_threads
from tiledsl.ir.core import Module as IRModule
from tiledsl.ir.types import TensorType
from tiledsl.runtime.arrays import is_foreign_array
from tiledsl.runtime.artifact import Note
from tiledsl.runtime.cuda_arrays import ArrayReader, is_on_cuda
from tiledsl.runtime.missed import MISSED
from tiledsl.runtime.module_calls import CpuCalls
from tiledsl.runtime.module_on_cpu import ModuleOnCpu
from tiledsl.runtime.outputs import as_tuple
from tiledsl.runtime.parameters import Parameters
from tiledsl.runtime.schedule import Schedule
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import TileError, fail
from tiledsl.support.location import BUILTIN, Location

if TYPE_CHECKING:
    from tiledsl.runtime.module_cuda_calls import CudaCalls
    from tiledsl.runtime.module_on_cuda import ModuleOnCuda


class Module:
    """A graph whose kernels are compiled and whose memory is planned.

    `module(*arrays, out=None)` takes the graph's arguments in order, or by name, as arrays of any supported library. It
    gives the result, or a tuple of them: new arrays, or those of `out`. Several threads may call it at once.
    """

    def __init__(
        self,
        schedule: Schedule,
        weights: Mapping[str, object],
        built: Built | None,
        scheduled: Scheduled | None,
        notes: Sequence[Note] = (),
        location: Location = BUILTIN,
    ) -> None:
        """Either `built` already, or to be built from `scheduled` at calls, for wherever their arrays are.

        `weights`: an array for each buffer of the schedule that is a constant, by name.
        """
        self.name = schedule.name
        self.schedule = schedule
        self.weights = weights
        self.notes = tuple(notes)
        self._scheduled = scheduled
        self._fixed = built
        self._built: dict[str, Built] = {} if built is None else {built.arch: built}
        self._lock = threading.Lock()
        names = [schedule.buffers[number].name for number in schedule.inputs]
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        signature = inspect.Signature([inspect.Parameter(name, kind) for name in names])
        self._parameters = Parameters(self.name, signature, frozenset(), location)
        self._count = len(names)
        self._cpu: CpuCalls | None = None
        self._cuda: dict[int, CudaCalls] = {}
        self._quick: Callable[[tuple[Any, ...], object], object] | None = None
        """The short way, for arguments like those of an earlier call."""

    def __call__(self, *args: object, out: object = None, **named: object) -> Any:
        """Runs the module. Nothing is written when arguments do not fit. Raises TileError."""
        try:
            if named or len(args) != self._count:
                args = self._parameters.arrange(args, named)
            if self._quick is not None:
                result = self._quick(args, out)
                if result is not MISSED:
                    return result
            if any(map(is_foreign_array, (*args, *as_tuple(out)))) and any(map(is_on_cuda, (*args, *as_tuple(out)))):
                return self._call_on_cuda(args, out)
            calls = self._calls_on_cpu()
            result = calls.call(args, out)
            self._quick = calls.quick
            return result
        except TileError as error:
            raise error.with_traceback(None) from error.__cause__  # the user's lines, not the compiler's

    def built_for(self, arch: str) -> Built:
        """The module for an architecture, built now if it was not yet."""
        with self._lock:
            found = self._built.get(arch)
            if found is None:
                assert self._scheduled is not None
                found = self._built[arch] = build_for(self._scheduled, arch)
        return found

    def _calls_on_cpu(self) -> CpuCalls:
        if self._cpu is None:
            built = self._fixed or self.built_for("cpu")
            if built.arch.startswith("sm_"):
                self._fail_place(built, "in CPU memory", "cpu")
            programs: Any = [program.load() for program in built.programs]
            constants = {n: host_array(self.weights[name], name) for n, name in _constants(built.schedule)}
            runner = ModuleOnCpu(built.schedule, built.memory, programs, constants, worker_threads())
            self._cpu = CpuCalls(runner)
        return self._cpu

    def _call_on_cuda(self, args: tuple[object, ...], out: object) -> object:
        from tiledsl.runtime.module_cuda_calls import CudaCalls  # costs start-up time

        first = next(value for value in (*args, *as_tuple(out)) if is_on_cuda(value))
        view = self._reader.read(first, "an argument")
        device = view.device
        calls = self._cuda.get(device)
        if calls is None:
            if cuda_services().is_capturing(view.framework.stream(device)):
                status = "its code and weights are not on the device yet"
                fail("cuda-capture", caller_location(), kernel=self.name, status=status)
            calls = self._cuda[device] = CudaCalls(self._on_device(device), self._reader, cuda_services())
        result = calls.call(args, out)
        self._quick = calls.quick
        return result

    def _on_device(self, device: int) -> ModuleOnCuda:
        from tiledsl.runtime.module_on_cuda import ModuleOnCuda  # costs start-up time

        services = cuda_services()
        arch = services.arch(device)
        built = self._fixed or self.built_for(arch)
        if not built.arch.startswith("sm_") or not runs_on(built.arch, arch):
            self._fail_place(built, f"on CUDA device {device}, whose architecture is `{arch}`", arch)
        programs: Any = [program.load() for program in built.programs]
        weights = {
            n: device_array(self.weights[name], name, self._reader, device) for n, name in _constants(built.schedule)
        }
        return ModuleOnCuda(
            built.schedule, built.memory, programs, weights, device, services, self._parameters.location
        )

    @cached_property
    def _reader(self) -> ArrayReader:
        return ArrayReader(cuda_services)

    def _fail_place(self, built: Built, place: str, fitting: str) -> NoReturn:
        fail("module-place", caller_location(), module=self.name, arch=built.arch, place=place, fitting=fitting)

    def __repr__(self) -> str:
        archs = ", ".join(self._built) or "wherever its arrays are"
        return f"<module {self.name}{self._parameters.signature} for {archs}>"


def _constants(schedule: Schedule) -> list[tuple[int, str]]:
    return [(number, schedule.buffers[number].name) for number in schedule.constants]


def build_module(
    lowered: IRModule,
    constants: Mapping[str, object],
    inputs: Sequence[str],
    arch: str | None = None,
    notes: Sequence[Note] = (),
) -> Module:
    """A module of a lowered graph, as docs/graphs.md describes one.

    `inputs` are the parameters of the entry that calls pass, in order; `constants` has arrays for all others. `arch`:
    `cpu`, `reference`, a GPU's (`sm_90`; no GPU is needed), or None: that of the arrays of each call. `notes` are what
    passes had to say. Raises TileError for weights that do not fit, and for what cannot be compiled.
    """
    entry = lowered.entry
    types = {p.name: p.type for p in entry.parameters if p.name not in inputs and isinstance(p.type, TensorType)}
    check_weights(types, constants, entry.name)
    scheduled = schedule_graph(lowered, inputs, types.keys())
    built = None if arch is None else build_for(scheduled, arch)
    weights = {**{name: constants[name] for name in types}, **scheduled.literals}
    return Module(scheduled.schedule, weights, built, scheduled, notes, entry.location)
