"""Where a module runs: on the CPU, or on the devices that the arrays of its calls are on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from tiledsl.api.calls.plan_sources import plans_of_calls
from tiledsl.api.calls.targets import cuda_services, worker_threads
from tiledsl.api.modules.prepared_weights import PreparedWeights, identity_of, split_for, watched_of
from tiledsl.api.programs.compiled import runs_on
from tiledsl.api.schedules.built_module import Built
from tiledsl.api.schedules.module_weights import WeightCache
from tiledsl.ir.dtypes import to_numpy
from tiledsl.runtime.arrays.arrays import Array, is_foreign_array, pointer
from tiledsl.runtime.arrays.cuda_arrays import ArrayReader, is_on_cuda
from tiledsl.runtime.arrays.output_memory import empty
from tiledsl.runtime.calls.missed import MISSED
from tiledsl.runtime.calls.outputs import as_tuple
from tiledsl.runtime.calls.short_calls import Quick
from tiledsl.runtime.modules.module_calls import CpuCalls
from tiledsl.runtime.modules.module_on_cpu import ModuleOnCpu
from tiledsl.runtime.programs.constant_steps import Split
from tiledsl.runtime.programs.memory_plan import MemoryPlan, plan_memory
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
        *,
        freeze: bool = False,
    ) -> None:
        """`built_for` gives the module for the architecture of a place: code for another one, if it has no other.
        `freeze`: no weight ever changes."""
        self._name = name
        self._freeze = freeze
        self._weights = weights
        self._cache = cache
        self._built_for = built_for
        self._location = location
        self._lock = threading.Lock()
        self._cpu: CpuCalls | None = None
        self._cuda: dict[int, CudaCalls] = {}
        self._prepared: dict[int | str, PreparedWeights] = {}
        """By place: a device's number, or `cpu`."""
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
        calls: CpuCalls | CudaCalls
        place: int | str = "cpu"
        if on_cuda:
            calls = self._calls_on_cuda(on_cuda[0])
            place = calls.module.device
        else:
            calls = self._calls_on_cpu()
        result = calls.call(args, out)
        prepared = self._prepared.get(place)
        self.quick = calls.quick if prepared is None else prepared.guarded(calls.quick)
        return result

    def _calls_on_cpu(self) -> CpuCalls:
        with self._lock:
            if self._cpu is None:
                built = self._built_for("cpu")
                if built.arch.startswith("sm_"):
                    self._fail_place(built, "in CPU memory", "cpu")
                plans = plans_of_calls() if built.plans is None else built.plans  # a saved module has none
                programs: Any = [loaded_program(program, plans) for program in built.programs]
                self._cpu = CpuCalls(self._in_host(built, programs))
        if "cpu" in self._prepared:
            self._prepared["cpu"].refresh(0)
        return self._cpu

    def _in_host(self, built: Built, programs: Sequence[Any]) -> ModuleOnCpu:
        """What a call runs, its weights prepared."""
        split = split_for(built, self._weights, on_device=False, freeze=self._freeze)
        if split is None:
            return self._cpu_runner(built.schedule, built.memory, programs, {})
        first, kept = split.first, [split.first.buffers[number] for number in split.kept]

        def made() -> PreparedWeights:
            arrays = [empty(buffer.shape, to_numpy(buffer.dtype)) for buffer in kept]

            def fill(stream: int) -> None:
                self._cpu_runner(first, plan_memory(first), programs, {}).run([pointer(array) for array in arrays])

            return PreparedWeights(watched_of(first, self._weights, on_device=False), arrays, fill)

        prepared = self._prepared["cpu"] = self._cache.prepared(("cpu", identity_of(built, first)), made)
        results = dict(zip(split.kept, prepared.results))
        return self._cpu_runner(split.rest, plan_memory(split.rest), programs, results)

    def _cpu_runner(
        self, schedule: Schedule, memory: MemoryPlan, programs: Sequence[Any], results: Mapping[int, Array]
    ) -> ModuleOnCpu:
        """A runner of a schedule, some of whose constants are `results`, and the others weights."""
        named = [(number, name) for number, name in _weights(schedule) if number not in results]
        weights = {number: self._cache.in_host(self._weights[name], name) for number, name in named}
        return ModuleOnCpu(schedule, memory, programs, {**weights, **results}, worker_threads())

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
                runner = self.on_device(view.device, view.framework.stream(view.device))
                calls = self._cuda[view.device] = CudaCalls(runner, self._reader, cuda_services())
        prepared = self._prepared.get(view.device)
        if prepared is not None and not prepared.is_current:
            stream = view.framework.stream(view.device)
            if cuda_services().is_capturing(stream):
                fail("cuda-capture", caller_location(), kernel=self._name, status="its weights were changed since")
            calls.module.finish(cuda_services().own_stream(view.device))
            prepared.refresh(stream)
        return calls

    def on_device(self, device: int, stream: int) -> ModuleOnCuda:
        """What a call on a device runs, its weights prepared after what is on the stream."""
        arch = cuda_services().arch(device)
        built = self._built_for(arch)
        if not built.arch.startswith("sm_") or not runs_on(built.arch, arch):
            self._fail_place(built, f"on CUDA device {device}, whose architecture is `{arch}`", arch)
        programs: Any = [program.load() for program in built.programs]
        split = split_for(built, self._weights, on_device=True, freeze=self._freeze)
        if split is None:
            return self._cuda_runner(built.schedule, built.memory, programs, {}, device)
        prepared = self._prepared[device] = self._cache.prepared(
            (device, identity_of(built, split.first)), lambda: self._to_prepare(split, programs, device)
        )
        prepared.refresh(stream)
        results = dict(zip(split.kept, prepared.results))
        return self._cuda_runner(split.rest, plan_memory(split.rest), programs, results, device)

    def _to_prepare(self, split: Split, programs: Sequence[Any], device: int) -> PreparedWeights:
        services, first = cuda_services(), split.first
        own = services.own_stream(device)

        def allocate(size: int, stream: int) -> tuple[int, object]:
            memory = services.allocate(max(1, size), device, stream)
            return memory.address, memory

        results = [allocate(first.buffers[number].bytes, own) for number in split.kept]

        def fill(stream: int) -> None:
            if not results:
                return
            services.run_after(device, own, stream)
            runner = self._cuda_runner(first, plan_memory(first), programs, {}, device, passing=True)
            runner.run_once([address for address, _ in results], own, allocate)
            last = bytearray(1)  # to copy it is to wait for what comes before
            services.copy_to_host(pointer(np.frombuffer(last, np.uint8)), results[0][0], 1, device, own)

        return PreparedWeights(watched_of(first, self._weights, on_device=True), results, fill)

    def _cuda_runner(
        self,
        schedule: Schedule,
        memory: MemoryPlan,
        programs: Sequence[Any],
        results: Mapping[int, tuple[int, object]],
        device: int,
        *,
        passing: bool = False,
    ) -> ModuleOnCuda:
        """A runner of a schedule, some of whose constants are `results`, and the others weights. `passing`: it is
        needed only now."""
        from tiledsl.runtime.modules.module_on_cuda import ModuleOnCuda  # costs start-up time

        place = self._cache.for_now_on_device if passing else self._cache.on_device
        named = [(number, name) for number, name in _weights(schedule) if number not in results]
        weights = {number: place(self._weights[name], name, device, self._reader) for number, name in named}
        services = cuda_services()
        return ModuleOnCuda(schedule, memory, programs, {**weights, **results}, device, services, self._location)

    @cached_property
    def _reader(self) -> ArrayReader:
        return ArrayReader(cuda_services)

    def _fail_place(self, built: Built, place: str, fitting: str) -> NoReturn:
        fail("module-place", caller_location(), module=self._name, arch=built.arch, place=place, fitting=fitting)


def _weights(schedule: Schedule) -> list[tuple[int, str]]:
    return [(number, schedule.buffers[number].name) for number in schedule.constants]
