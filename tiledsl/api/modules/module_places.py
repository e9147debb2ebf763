"""Where a module runs: on the CPU, or on the devices that the arrays of its calls are on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from tiledsl.api.calls.plan_sources import plans_of_calls
from tiledsl.api.calls.targets import cuda_services, worker_threads
from tiledsl.api.programs.compiled import runs_on
from tiledsl.api.schedules.built_module import Built
from tiledsl.api.schedules.module_weights import WeightCache
from tiledsl.runtime.arrays.arrays import is_foreign_array
from tiledsl.runtime.arrays.cuda_arrays import ArrayReader, is_on_cuda
from tiledsl.runtime.calls.missed import MISSED
from tiledsl.runtime.calls.outputs import as_tuple
from tiledsl.runtime.calls.short_calls import Quick
from tiledsl.runtime.modules.module_calls import CpuCalls
from tiledsl.runtime.modules.module_on_cpu import ModuleOnCpu
from tiledsl.runtime.programs.plan_source import loaded_program
from tiledsl.runtime.programs.schedule import Schedule
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import fail
from tiledsl.support.location import Location

if TYPE_CHECKING:
    from tiledsl.runtime.modules.module_cuda_calls import CudaCalls
    from tiledsl.runtime.modules.module_on_cuda import ModuleOnCuda


class Places:
    """Calls of one module, wherever its arrays are. Safe to use from several threads at once."""

    def __init__(
        self,
        name: str,
        weights: Mapping[str, object],
        cache: WeightCache,
        built_for: Callable[[str], Built],
        location: Location,
    ) -> None:
        """`built_for` gives the module for the architecture of a place: code for another one, if it has no other."""
        self._name = name
        self._weights = weights
        self._cache = cache
        self._built_for = built_for
        self._location = location
        self._lock = threading.Lock()
        self._cpu: CpuCalls | None = None
        self._cuda: dict[int, CudaCalls] = {}
        self.quick: Quick | None = None
        """The short way, for arguments like those of an earlier call: `MISSED` for others."""

    def call(self, args: Sequence[object], out: object) -> object:
        """Runs the module. Raises TileError before anything is written if the arguments do not fit."""
        if self.quick is not None:
            result = self.quick(tuple(args), out)
            if result is not MISSED:
                return result
        return self.call_carefully(args, out)

    def call_carefully(self, args: Sequence[object], out: object) -> object:
        """The same, for what the short way does not know."""
        given = (*args, *as_tuple(out))
        on_cuda = [v for v in given if is_foreign_array(v) and is_on_cuda(v)]
        calls = self._calls_on_cuda(on_cuda[0]) if on_cuda else self._calls_on_cpu()
        result = calls.call(args, out)
        self.quick = calls.quick
        return result

    def _calls_on_cpu(self) -> CpuCalls:
        with self._lock:
            if self._cpu is None:
                built = self._built_for("cpu")
                if built.arch.startswith("sm_"):
                    self._fail_place(built, "in CPU memory", "cpu")
                plans = plans_of_calls() if built.plans is None else built.plans  # a saved module has none
                programs: Any = [loaded_program(program, plans) for program in built.programs]
                weights = {n: self._cache.in_host(self._weights[name], name) for n, name in _weights(built.schedule)}
                runner = ModuleOnCpu(built.schedule, built.memory, programs, weights, worker_threads())
                self._cpu = CpuCalls(runner)
            return self._cpu

    def _calls_on_cuda(self, array: object) -> CudaCalls:
        """Calls on the device where that array is."""
        from tiledsl.runtime.modules.module_cuda_calls import CudaCalls  # costs start-up time

        view = self._reader.read(array, "an argument")
        with self._lock:
            calls = self._cuda.get(view.device)
            if calls is None:
                if cuda_services().is_capturing(view.framework.stream(view.device)):
                    status = "its code and weights are not on the device yet"
                    fail("cuda-capture", caller_location(), kernel=self._name, status=status)
                runner = self._on_device(view.device)
                calls = self._cuda[view.device] = CudaCalls(runner, self._reader, cuda_services())
        return calls

    def _on_device(self, device: int) -> ModuleOnCuda:
        from tiledsl.runtime.modules.module_on_cuda import ModuleOnCuda  # costs start-up time

        services = cuda_services()
        arch = services.arch(device)
        built = self._built_for(arch)
        if not built.arch.startswith("sm_") or not runs_on(built.arch, arch):
            self._fail_place(built, f"on CUDA device {device}, whose architecture is `{arch}`", arch)
        schedule = built.schedule
        programs: Any = [program.load() for program in built.programs]
        weights = {
            n: self._cache.on_device(self._weights[name], name, device, self._reader) for n, name in _weights(schedule)
        }
        return ModuleOnCuda(schedule, built.memory, programs, weights, device, services, self._location)

    @cached_property
    def _reader(self) -> ArrayReader:
        return ArrayReader(cuda_services)

    def _fail_place(self, built: Built, place: str, fitting: str) -> NoReturn:
        fail("module-place", caller_location(), module=self._name, arch=built.arch, place=place, fitting=fitting)


def _weights(schedule: Schedule) -> list[tuple[int, str]]:
    return [(number, schedule.buffers[number].name) for number in schedule.constants]
