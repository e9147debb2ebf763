"""Machine code on one device, and its launch.

A launch is the hot path of a GPU program, so all that can be is done once: what is left for a call is to pack the
addresses and scalars into a frame and to call the driver. Sizes and strides are in the frame already, and for each
kernel there is an array of addresses into it, which is what the driver takes for the parameters.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from tiledsl.backend_cuda.driver import failures
from tiledsl.backend_cuda.driver.call_driver import bindings, call, process, status_name, status_text
from tiledsl.backend_cuda.driver.devices import current, device_count, device_of, is_current
from tiledsl.backend_cuda.driver.failure_records import FailureRecord
from tiledsl.backend_cuda.driver.graphs import RecordedKernels
from tiledsl.backend_cuda.driver.launched_maps import MAP_ALIGNMENT, MAP_BYTES, LaunchedMap
from tiledsl.backend_cuda.driver.scratch_memory import HeldScratch, ScratchMemory
from tiledsl.backend_cuda.driver.streams import is_capturing, stream_handle
from tiledsl.backend_cuda.frame.kernel_code import CudaSource, KernelCode, KernelParameter
from tiledsl.backend_cuda.frame.names import function_of
from tiledsl.ir.dtypes import BY_NAME
from tiledsl.ir.symbolic import evaluate
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import TileError, fail, make_error
from tiledsl.support.location import Location
from tiledsl.support.options import read_options

DEFAULT_SHARED_BYTES = 48 << 10
"""What a block may use without being asked for."""
PORTABLE_CLUSTER = 8
"""Blocks of a cluster that every device with clusters can run."""
MOST_BLOCKS = 2**31 - 1
OVERLAPPING_DRIVER = 12030
"""The version of the driver from which on kernels that overlap can be captured in a graph. For an older one no kernels
do: whether a graph is being captured is not worth asking at each launch."""


class LoadedKernels:
    """The kernels of one program on one device. They stay loaded for as long as the process runs."""

    def __init__(self, cubin: bytes, source: CudaSource, device: int, *, name: str, arch: str, location: Location):
        """Loads the code; `name` and `location` are the kernel's in the user's program, for messages.

        Raises TileRuntimeError without a driver or device, for a driver that is too old for the code, in a fork.
        """
        self.name = name
        self.location = location
        self.device = device_of(device)
        self.kernels = source.kernels
        self.maps = source.maps
        self.scratch = source.scratch
        with current(self.device):
            self._module = self._load(cubin, arch)
            self.functions = tuple(self._function(kernel) for kernel in source.kernels)
        overlapping = any(kernel.overlaps for kernel in source.kernels)
        self.may_overlap = overlapping and int(call("cuDriverGetVersion")) >= OVERLAPPING_DRIVER
        fallible = any(p.kind == "failure" for kernel in source.kernels for p in kernel.parameters)
        self.record = FailureRecord(self.device, source.assertions) if fallible else None

    def bind(self, symbols: Mapping[str, int], strides: Sequence[tuple[int, ...]], description: object) -> BoundKernels:
        """Prepares launches for these sizes and strides. `description` is what `explain()` shows of them."""
        return BoundKernels(self, symbols, strides, description)

    def _load(self, cubin: bytes, arch: str) -> Any:
        module = bindings()
        status, loaded = module.cuModuleLoadData(cubin)
        number = int(status)
        if number in failures.NOT_LOADABLE:
            version = int(call("cuDriverGetVersion"))
            fail(
                "cuda-driver-old", caller_location(), kernel=self.name, arch=arch, status=status_name(status),
                version=f"{version // 1000}.{version % 1000 // 10}",
            )  # fmt: skip
        if number != 0:
            raise self.error(status, "cuModuleLoadData")
        return loaded

    def _function(self, kernel: KernelCode) -> Any:
        attributes = bindings().CUfunction_attribute
        function = call("cuModuleGetFunction", self._module, function_of(kernel.name).encode())
        if kernel.shared_bytes > DEFAULT_SHARED_BYTES:
            most = attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            (status,) = bindings().cuFuncSetAttribute(function, most, kernel.shared_bytes)
            if int(status) != 0:
                raise self._resources(kernel, status)
        if kernel.cluster > PORTABLE_CLUSTER:
            call("cuFuncSetAttribute", function, attributes.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)
        self._load_function(function)
        return function

    def _load_function(self, function: Any) -> None:
        """Loads it now, not at the first launch: that may be while a graph is captured, when nothing may be loaded."""
        try:
            (status,) = bindings().cuFuncLoad(function)
        except RuntimeError:  # a driver from before 12.4 has no such call
            return
        if int(status) != 0:
            raise self.error(status, "cuFuncLoad")

    def resident_blocks(self, kernel: KernelCode, function: Any) -> int:
        """How many blocks of a kernel the whole device runs at once, a multiple of its cluster."""
        with current(self.device):
            each = call("cuOccupancyMaxActiveBlocksPerMultiprocessor", function, kernel.threads, kernel.shared_bytes)
        blocks = max(1, int(each)) * self.device.multiprocessors
        return max(1, blocks // kernel.cluster) * kernel.cluster

    def error(self, status: Any, name: str) -> TileError:
        """The error for a status of a call that concerns these kernels."""
        number = int(status)
        if number in failures.CAPTURE:
            return make_error("cuda-capture", caller_location(), kernel=self.name, status=status_name(status))
        if number == failures.OUT_OF_MEMORY:
            wanted = f"the code of `{self.name}`"
            return make_error("cuda-memory", caller_location(), device=self.device.number, wanted=wanted)
        return failures.status_error(number, status_name(status), status_text(status), name, process().history)

    def launch_error(self, status: Any, kernel: KernelCode, stream: int) -> TileError:
        """The error for a status that a launch gave."""
        number = int(status)
        if number in (failures.OUT_OF_RESOURCES, 1):
            return self._resources(kernel, status)
        if number in (failures.INVALID_CONTEXT, failures.INVALID_HANDLE):
            return make_error(
                "cuda-stream", caller_location(), stream=hex(stream), device=self.device.number,
                kernel=self.name, status=status_name(status),
            )  # fmt: skip
        return self.error(status, "cuLaunchKernelEx")

    def _resources(self, kernel: KernelCode, status: Any) -> TileError:
        return make_error(
            "cuda-resources", caller_location(), device=self.device.number, kernel=self.name, threads=kernel.threads,
            shared_bytes=kernel.shared_bytes, cluster=kernel.cluster, status=status_name(status),
        )  # fmt: skip


class BoundKernels:
    """The kernels of a program for certain sizes and strides. Threads may call it at once: each call has a frame."""

    def __init__(
        self,
        loaded: LoadedKernels,
        symbols: Mapping[str, int],
        strides: Sequence[tuple[int, ...]],
        description: object,
    ) -> None:
        self.description = description
        self.name = loaded.name
        self.location = loaded.location
        self.loaded = loaded
        self._symbols = dict(symbols)
        shapes = [tuple(evaluate(dim, symbols) for dim in code.shape) for code in loaded.scratch]
        self._strides = (*strides, *map(_row_major, shapes))
        sizes = [math.prod(shape) * BY_NAME[code.dtype].bytes for shape, code in zip(shapes, loaded.scratch)]
        self._scratch = ScratchMemory(loaded.device, sizes) if sizes else None
        grids = [self._blocks(kernel, function) for kernel, function in zip(loaded.kernels, loaded.functions)]
        self.steps = [
            (kernel, function, blocks)
            for kernel, function, blocks in zip(loaded.kernels, loaded.functions, grids)
            if blocks > 0  # the driver refuses to launch nothing
        ]
        self.maps = [LaunchedMap(code, self._symbols, self._strides, loaded.name) for code in loaded.maps]
        self._frames: list[_Frame] = []
        """Those that no call uses. `pop` and `append` are atomic."""
        self._take = self._frames.pop
        self._give_back = self._frames.append
        self._launch = bindings().cuLaunchKernelEx
        self._remember = process().history.add
        options = read_options()
        self._synchronous = options.synchronous
        self.overlaps_calls = options.overlapping
        """Whether the first kernel may begin before what stands on the stream is done."""
        self._watched = self._synchronous or loaded.record is not None
        self._checks_context = device_count() > 1
        """With one device, a thread has its context or none, which the launch itself finds out."""
        quick = len(self.steps) == 1 and not self.needs_care and self._scratch is None
        self.launcher = self._launch_one if quick else self.__call__

    def _blocks(self, kernel: KernelCode, function: Any) -> int:
        if kernel.programs is None:
            return self.loaded.resident_blocks(kernel, function)
        blocks = evaluate(kernel.programs, self._symbols) * kernel.cluster
        if blocks > MOST_BLOCKS:
            fail("cuda-programs", caller_location(), kernel=self.name, blocks=blocks, most=MOST_BLOCKS)
        return blocks

    def __call__(self, pointers: Sequence[int], scalars: Sequence[int | float], stream: int) -> None:
        """Launches on the stream; nothing is waited for.

        `pointers`: of the tensor parameters, then of the new tensors. Raises TileRuntimeError: a launch that failed,
        the fault of an earlier kernel, or an assertion that an earlier launch of this program failed.
        """
        if self._scratch is None:
            self._run(pointers, scalars, stream)
            return
        with current(self.loaded.device):
            taken = self._scratch.taken(stream)
            try:
                self._run((*pointers, *taken), scalars, stream)
            finally:
                self._scratch.give_back(taken, stream)

    def _run(self, pointers: Sequence[int], scalars: Sequence[int | float], stream: int) -> None:
        """The same; `pointers` of scratch tensors too."""
        if self._watched:
            self._before()
        try:
            frame = self._take()
        except IndexError:
            frame = _Frame(self, len(pointers), len(scalars))
        if frame.stream != stream:
            frame.use(stream)
        frame.pack(frame.buffer, 0, *pointers, *scalars)
        if self._checks_context and not is_current(self.loaded.device):
            with current(self.loaded.device):
                self._launch_all(frame)
        else:
            launch = self._launch
            for config, function, words in frame.launches:
                if launch(config, function, words, 0)[0]:
                    self.launch_again(frame, config)
                    break
        self._give_back(frame)
        self._remember(self)
        if self._watched:
            self._after(stream)

    def _launch_one(self, pointers: Sequence[int], scalars: Sequence[int | float], stream: int) -> None:
        """As a call, for what most programs are: one kernel that cannot fail, on the only device."""
        try:
            frame = self._take()
        except IndexError:
            frame = _Frame(self, len(pointers), len(scalars))
        if frame.stream != stream:
            frame.use(stream)
        frame.pack(frame.buffer, 0, *pointers, *scalars)
        if self._launch(frame.config, frame.function, frame.words, 0)[0]:
            self.launch_again(frame, frame.config)
        self._give_back(frame)
        self._remember(self)

    def constant(self, parameter: KernelParameter) -> int:
        """The word of a parameter that is the same at every call."""
        match parameter.kind:
            case "size":
                return self._symbols[parameter.symbol]
            case "stride":
                return self._strides[parameter.index][parameter.axis]
            case _:
                assert self.loaded.record is not None
                return self.loaded.record.address

    def prepare(self, pointers: Sequence[int], scalars: Sequence[int | float], stream: int) -> PreparedKernels:
        """A launch with these very arguments, to be repeated."""
        held = None if self._scratch is None else HeldScratch(self._scratch, self.loaded.device, stream)
        pointers = (*pointers, *(held.pointers if held is not None else ()))
        frame = _Frame(self, len(pointers), len(scalars))
        frame.use(stream)
        frame.pack(frame.buffer, 0, *pointers, *scalars)
        return PreparedKernels(self, frame, held)

    def record(
        self, pointers: Sequence[int], scalars: Sequence[int | float], stream: int, behind: bool
    ) -> RecordedKernels:
        """Launches on a stream that is being captured, and gives what can change the addresses in the graph.

        `behind`: what stands before it there are programs of ours, beside whose ends this one may begin.
        """
        with current(self.loaded.device):
            taken = () if self._scratch is None else self._scratch.taken(stream)
            frame = _Frame(self, len(pointers) + len(taken), len(scalars), behind=behind and not taken)
            frame.use(stream)
            frame.pack(frame.buffer, 0, *pointers, *taken, *scalars)
            recorded = RecordedKernels(self.loaded.record, frame, taken, scalars)
            for (config, function, words), (kernel, _, blocks) in zip(frame.launches, self.steps):
                (status,) = self._launch(config, function, words, 0)
                if status:
                    raise self.loaded.launch_error(status, kernel, stream)
                recorded.add(kernel, function, blocks, words, stream)
            if self._scratch is not None:
                self._scratch.give_back(taken, stream)
        return recorded

    def run_frame(self, frame: _Frame) -> None:
        """Launches a frame that is filled, with all the care that a device may need."""
        if self._watched:
            self._before()
        with current(self.loaded.device):
            self._launch_all(frame)
        self._remember(self)
        if self._watched:
            self._after(frame.stream)

    @property
    def needs_care(self) -> bool:
        """Whether there is more to a launch than to launch."""
        return self._watched or self._checks_context

    def _before(self) -> None:
        record = self.loaded.record
        failure = record.taken() if record is not None else None
        if failure is not None:
            raise failure

    def _after(self, stream: int) -> None:
        """Where each launch is waited for: whatever has failed did so in this one."""
        if not self._synchronous or is_capturing(stream):
            return
        with current(self.loaded.device):
            (status,) = bindings().cuStreamSynchronize(stream_handle(stream))
        if int(status) in failures.FAULTS:
            raise failures.fault_error(status_name(status), status_text(status), process().history, sure=self)
        if int(status) != 0:
            raise self.loaded.error(status, "cuStreamSynchronize")
        process().history.forget()
        self._before()

    def launch_again(self, frame: _Frame, refused: Any) -> None:
        """Launches from `refused` on, which may have been refused because the thread has no context yet."""
        with current(self.loaded.device):
            self._launch_all(frame, refused)

    def _launch_all(self, frame: _Frame, first: Any = None) -> None:
        started = first is None
        for (config, function, words), (kernel, _, _) in zip(frame.launches, self.steps):
            started = started or config is first
            if started:
                (status,) = self._launch(config, function, words, 0)
                if status:
                    raise self.loaded.launch_error(status, kernel, frame.stream)


class PreparedKernels:
    """A launch that is ready to go, with pointers, scalars and stream in place."""

    def __init__(self, bound: BoundKernels, frame: _Frame, held: HeldScratch | None) -> None:
        self._bound = bound
        self._held = held
        self._frame = frame
        self._launch = bindings().cuLaunchKernelEx
        self._remember = process().history.add
        self._careful = bound.needs_care

    def __call__(self) -> None:
        """Launches. Raises as `BoundKernels.__call__`."""
        if self._careful:
            self._bound.run_frame(self._frame)
            return
        launch = self._launch
        for config, function, words in self._frame.launches:
            if launch(config, function, words, 0)[0]:
                self._bound.launch_again(self._frame, config)
                break
        self._remember(self._bound)


def _row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


_SCALAR_CODES = {"f64": "d", "f32": "d", "f16": "d", "bf16": "d", "f8e4m3": "d", "f8e5m2": "d", "u64": "Q"}
"""How a scalar fills its 8-byte word; integers and bool as a signed word."""


class _Frame:
    """The parameters of one launch of all kernels: the words that differ from call to call, then those that do not."""

    def __init__(self, bound: BoundKernels, pointers: int, scalars: int, *, behind: bool = False) -> None:
        """`behind`: whether the first kernel comes after others of ours."""
        steps = bound.steps
        used = [parameter for kernel, _, _ in steps for parameter in kernel.parameters]
        codes = ["d"] * scalars  # what no kernel takes may be anything
        for parameter in used:
            if parameter.kind == "scalar":
                codes[parameter.index] = _SCALAR_CODES.get(parameter.symbol, "q")
        variable = struct.Struct("<" + "Q" * pointers + "".join(codes))
        constants = {p: bound.constant(p) for p in used if p.kind in ("size", "stride", "failure")}
        self._pack_words = variable.pack_into
        self._pointers = pointers
        numbers = [parameter.index for parameter in used if parameter.kind == "map"]
        self._maps = [bound.maps[number] for number in dict.fromkeys(numbers)]
        self._mapped: list[int | float] = []
        self._map_memory: Any = ctypes.create_string_buffer(MAP_BYTES * len(self._maps) + MAP_ALIGNMENT)
        first = -(-ctypes.addressof(self._map_memory) // MAP_ALIGNMENT) * MAP_ALIGNMENT
        self._map_places = {n: first + MAP_BYTES * place for place, n in enumerate(dict.fromkeys(numbers))}
        self.pack = self._pack_with_maps if self._maps else self._pack_words
        self.buffer: Any = ctypes.create_string_buffer(variable.size + 8 * len(constants) or 8)
        struct.pack_into(f"<{len(constants)}q", self.buffer, variable.size, *constants.values())
        start = ctypes.addressof(self.buffer)
        places = {p: start + variable.size + 8 * number for number, p in enumerate(constants)}

        def place(parameter: KernelParameter) -> int:
            match parameter.kind:
                case "tensor":
                    return start + 8 * parameter.index
                case "scalar":
                    return start + 8 * (pointers + parameter.index)
                case "map":
                    return self._map_places[parameter.index]
                case _:
                    return places[parameter]

        self._arrays = [(ctypes.c_void_p * len(k.parameters))(*map(place, k.parameters)) for k, _, _ in steps]
        # the first one that is launched comes after all that is on the stream, which may be another's, or waits for it
        early = [
            (behind or bound.overlaps_calls) and k.waits_first if n == 0 else True for n, (k, _, _) in enumerate(steps)
        ]
        self._configs = [
            _configuration(kernel, blocks, overlaps=early[number] and kernel.overlaps and bound.loaded.may_overlap)
            for number, (kernel, _, blocks) in enumerate(steps)
        ]
        functions = [function for _, function, _ in steps]
        self.launches = list(zip(self._configs, functions, map(ctypes.addressof, self._arrays)))
        self.config, self.function, self.words = self.launches[0] if self.launches else (None, None, 0)
        self.stream = -1

    def _pack_with_maps(self, buffer: Any, offset: int, *words: int | float) -> None:
        """As `pack_into`; tensors that are not where they were have other maps."""
        mapped = [words[map_.tensor] for map_ in self._maps]
        if mapped != self._mapped:
            for map_, pointer, place in zip(self._maps, mapped, self._map_places.values()):
                ctypes.memmove(place, map_.encoded(int(pointer)), MAP_BYTES)
            self._mapped = mapped
        self._pack_words(buffer, offset, *words)

    def use(self, stream: int) -> None:
        """Launches go to that stream from now on."""
        handle = stream_handle(stream)
        for config in self._configs:
            config.hStream = handle
        self.stream = stream


def _configuration(kernel: KernelCode, blocks: int, *, overlaps: bool) -> Any:
    module = bindings()
    config = module.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = blocks, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = kernel.threads, 1, 1
    config.sharedMemBytes = kernel.shared_bytes
    attributes: list[Any] = []
    if kernel.cluster > 1:
        attribute = module.CUlaunchAttribute()
        attribute.id = module.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        attribute.value.clusterDim.x = kernel.cluster
        attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1
        attributes.append(attribute)
    if overlaps:
        attribute = module.CUlaunchAttribute()
        attribute.id = module.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        attribute.value.programmaticStreamSerializationAllowed = 1
        attributes.append(attribute)
    config.numAttrs = len(attributes)
    if attributes:
        config.attrs = attributes
    return config
