"""A CUDA driver that is not there: it keeps "device" memory in the host's, and notes what is launched.

It stands in for the module `cuda.bindings.driver`. A launch is recorded with the words of its parameters, read through
the addresses that the driver would read; `effects` may have a function that plays the kernel.
"""

# ruff: noqa: N802  # the names are the driver's

from __future__ import annotations

import ctypes
import itertools
import struct
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

import numpy as np

from tiledsl.backend_cuda.driver import call_driver as driver
from tiledsl.backend_cuda.frame.names import kernel_of
from tiledsl.passes.gpu_machine import OLDEST, machine_of_capability


class Status(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NOT_INITIALIZED = 3
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_INVALID_CONTEXT = 201
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209
    CUDA_ERROR_INVALID_HANDLE = 400
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900


OWN_STREAM = 0x5EED
"""The stream that `cuStreamCreate` gives."""


class Handle(int):
    """What the driver calls a handle. Each kind has a class of its own."""


class Context(Handle): ...


class Module(Handle): ...


class Function(Handle): ...


class Stream(Handle): ...


@dataclass(frozen=True)
class Launch:
    """One launch: `words` are the parameters, as signed 64-bit numbers."""

    function: str
    words: tuple[int, ...]
    blocks: int
    threads: int
    shared_bytes: int
    cluster: int
    stream: int
    context: int
    overlaps: bool = False


class Node:
    """Part of a graph: `run` plays it on a stream; `update` is given what `cuGraphExecKernelNodeSetParams` is."""

    def __init__(self, run: Callable[[int], object], update: Callable[[Any], Callable[[int], object]]) -> None:
        self.run = run
        self.update = update

    def __int__(self) -> int:
        """As a handle."""
        return id(self)


class TensorMap:
    """What the driver was asked for; of its bytes, the first word is the tensor's address."""

    def __init__(self, *arguments: Any) -> None:
        (self.dtype, self.rank, self.address, self.sizes, self.strides, self.box, self.steps,
         self.interleave, self.swizzle, self.promotion, self.fill) = arguments  # fmt: skip
        self.bytes = ctypes.create_string_buffer(struct.pack("<q", self.address), 128)

    def getPtr(self) -> int:
        return ctypes.addressof(self.bytes)


class Structure(SimpleNamespace):
    """A structure of the driver, whose fields may be set."""


def _attribute() -> Structure:
    value = Structure(clusterDim=Structure(x=1, y=1, z=1), programmaticStreamSerializationAllowed=0)
    return Structure(id=None, value=value)


class _Names:
    """An enumeration whose members are their own names."""

    def __getattr__(self, name: str) -> str:
        return name


_BUS_BITS = 5120
_graph_handles = itertools.count(0x700)
"""Of all fake drivers of the process: a module that outlives one must not destroy graphs of the next."""
_POINTER_ATTRIBUTE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64)


class _Contexts(threading.local):
    """What each thread works with."""

    def __init__(self) -> None:
        self.stack: list[Context] = []


@dataclass
class FakeDriver:
    """The module. `counts` has how many parameters each CUDA function takes; `failing` what calls are to give."""

    devices: int = 1
    capability: tuple[int, int] = (9, 0)
    gigabytes: int | None = None
    """Of memory, for each second; None: as many as the table's GPU of that architecture moves, whose multiprocessors it
    has too."""
    counts: dict[str, int] = field(default_factory=dict[str, int])
    failing: dict[str, Status] = field(default_factory=dict[str, Status])
    effects: dict[str, Callable[[Launch], None]] = field(default_factory=dict[str, Callable[[Launch], None]])
    launches: list[Launch] = field(default_factory=list[Launch])
    calls: list[str] = field(default_factory=list[str])
    maps: list[TensorMap] = field(default_factory=list[TensorMap])
    function_attributes: dict[str, dict[str, int]] = field(default_factory=dict[str, "dict[str, int]"])
    capturing: bool = False
    version: int = 12080
    memory: dict[int, tuple[Any, int]] = field(default_factory=dict[int, "tuple[Any, int]"])
    """By address: what holds the bytes, and the device."""

    CUresult = Status
    CUstream = Stream
    CUlaunchConfig = staticmethod(Structure)
    CUlaunchAttribute = staticmethod(_attribute)
    CUlaunchAttributeID = _Names()
    CUdevice_attribute = _Names()
    CUfunction_attribute = _Names()
    CUpointer_attribute = _Names()
    CUevent_flags = _Names()
    CUmemAllocationType = _Names()
    CUmemLocationType = _Names()
    CUmemPool_attribute = _Names()
    CUmemPoolProps = staticmethod(lambda: Structure(location=Structure()))
    CUstreamCaptureMode = _Names()
    CUgraphNodeType = _Names()
    CUDA_KERNEL_NODE_PARAMS = staticmethod(Structure)
    CUtensorMapDataType = _Names()
    CUtensorMapInterleave = _Names()
    CUtensorMapSwizzle = _Names()
    CUtensorMapL2promotion = _Names()
    CUtensorMapFloatOOBfill = _Names()
    cuuint32_t = int
    cuuint64_t = int

    def __post_init__(self) -> None:
        self._current = _Contexts()
        self._functions: dict[int, str] = {}
        self.captured: list[Node] | None = None
        """What is launched on the stream that is being captured."""
        self.graphs: dict[int, list[Node]] = {}

    def own(self, array: Any, device: int = 0) -> None:
        """Declares the memory of a NumPy array to be a device's."""
        self.memory[array.ctypes.data] = (array, device)

    def _status(self, name: str) -> Status:
        self.calls.append(name)
        return self.failing.get(name, Status.CUDA_SUCCESS)

    def __getattr__(self, name: str) -> Any:
        """Calls that do nothing here but to be noted."""
        if not name.startswith("cu"):
            raise AttributeError(name)

        def call(*arguments: object) -> tuple[Status]:
            del arguments
            return (self._status(name),)

        return call

    def cuGetErrorString(self, status: int) -> tuple[Status, bytes]:
        return Status.CUDA_SUCCESS, f"text of {int(status)}".encode()

    def cuDriverGetVersion(self) -> tuple[Status, int]:
        return self._status("cuDriverGetVersion"), self.version

    # Devices and contexts

    def cuDeviceGetCount(self) -> tuple[Status, int]:
        return self._status("cuDeviceGetCount"), self.devices

    def cuDeviceGet(self, number: int) -> tuple[Status, int]:
        return self._status("cuDeviceGet"), number

    def cuDeviceGetName(self, length: int, device: int) -> tuple[Status, bytes]:
        return self._status("cuDeviceGetName"), b"Fake\0\0"

    def cuDeviceGetAttribute(self, attribute: str, device: int) -> tuple[Status, int]:
        capability = 10 * self.capability[0] + self.capability[1]
        table = machine_of_capability(capability if capability >= OLDEST.capability else 90)
        kilohertz = (self.gigabytes or table.memory_bytes_per_second / 1e9) * 8e6 / (2 * _BUS_BITS)
        values = {
            "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR": self.capability[0],
            "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR": self.capability[1],
            "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT": table.multiprocessors,
            "CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE": round(kilohertz),
            "CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH": _BUS_BITS,
            "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 232448,
        }
        return self._status("cuDeviceGetAttribute"), values[attribute]

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[Status, Context]:
        return self._status("cuDevicePrimaryCtxRetain"), Context(0x1000 + device)

    def cuCtxGetCurrent(self) -> tuple[Status, Context]:
        stack = self.contexts
        return Status.CUDA_SUCCESS, stack[-1] if stack else Context(0)

    @property
    def contexts(self) -> list[Context]:
        """The contexts of the calling thread, the current one last."""
        return self._current.stack

    def cuCtxSetCurrent(self, context: Context) -> tuple[Status]:
        self.contexts[-1:] = [context]
        return (self._status("cuCtxSetCurrent"),)

    def cuCtxPushCurrent(self, context: Context) -> tuple[Status]:
        self.contexts.append(context)
        return (self._status("cuCtxPushCurrent"),)

    def cuCtxPopCurrent(self) -> tuple[Status, Context]:
        return self._status("cuCtxPopCurrent"), self.contexts.pop()

    # Code

    def cuModuleLoadData(self, image: bytes) -> tuple[Status, Module]:
        return self._status("cuModuleLoadData"), Module(0x77)

    def cuModuleGetFunction(self, module: Module, name: bytes) -> tuple[Status, Function]:
        function = Function(0x100 + len(self._functions))
        self._functions[int(function)] = kernel_of(name.decode())
        return self._status("cuModuleGetFunction"), function

    def cuFuncSetAttribute(self, function: Function, attribute: str, value: int) -> tuple[Status]:
        self.function_attributes.setdefault(self._functions[int(function)], {})[attribute] = value
        return (self._status("cuFuncSetAttribute"),)

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(
        self, function: Function, threads: int, shared_bytes: int
    ) -> tuple[Status, int]:
        return self._status("cuOccupancyMaxActiveBlocksPerMultiprocessor"), 2

    def cuLaunchKernelEx(self, config: Any, function: Function, words: int, extra: int) -> tuple[Status]:
        status = self._status("cuLaunchKernelEx")
        stack = self.contexts
        if self.captured is not None and int(config.hStream) == OWN_STREAM:

            def node(words: int) -> Callable[[int], object]:
                values = self._read(function, words)
                return lambda stream: self.launches.append(
                    replace(self._launched(config, function, values), stream=stream)
                )

            self.captured.append(Node(node(words), lambda parameters: node(parameters.kernelParams)))
            return (status,)
        if status == 0 and not stack:
            status = Status.CUDA_ERROR_INVALID_CONTEXT
        if status == 0:
            name = self._functions[int(function)]
            launch = self._launched(config, function, self._read(function, words))
            self.launches.append(launch)
            if name in self.effects:
                self.effects[name](launch)
        return (status,)

    def _read(self, function: Function, words: int) -> tuple[int, ...]:
        count = self.counts.get(self._functions[int(function)], 0)
        places = (ctypes.c_void_p * count).from_address(words)
        return tuple(ctypes.c_int64.from_address(place or 0).value for place in places)

    def _launched(self, config: Any, function: Function, values: tuple[int, ...]) -> Launch:
        attributes = {a.id: a.value for a in config.attrs} if config.numAttrs else {}
        assert len(attributes) == config.numAttrs
        size = attributes.get("CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION")
        overlap = attributes.get("CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION")
        return Launch(
            self._functions[int(function)], values, config.gridDimX, config.blockDimX, config.sharedMemBytes,
            size.clusterDim.x if size else 1, int(config.hStream), int(self.contexts[-1]),
            bool(overlap and overlap.programmaticStreamSerializationAllowed),
        )  # fmt: skip

    # Graphs

    def cuStreamCreate(self, flags: int) -> tuple[Status, Stream]:
        return self._status("cuStreamCreate"), Stream(OWN_STREAM)

    def cuStreamBeginCapture(self, stream: Stream, mode: str) -> tuple[Status]:
        self.captured = []
        return (self._status("cuStreamBeginCapture"),)

    def cuStreamGetCaptureInfo(self, stream: Stream) -> tuple[object, ...]:
        assert self.captured is not None
        last = self.captured[-1:]
        return self._status("cuStreamGetCaptureInfo"), 1, 7, 0, last, [], len(last)

    def cuGraphNodeGetType(self, node: Node) -> tuple[Status, str]:
        return self._status("cuGraphNodeGetType"), "CU_GRAPH_NODE_TYPE_KERNEL"

    def cuGraphNodeGetDependencies(self, node: Node, most: int) -> tuple[object, ...]:
        """Nodes stand in the order of a stream."""
        every = [self.captured or [], *self.graphs.values()]
        (nodes,) = (nodes for nodes in every if node in nodes)
        at = nodes.index(node)
        before = nodes[at - 1 : at] if at else []
        return self._status("cuGraphNodeGetDependencies"), before, [], len(before)

    def cuGraphKernelNodeGetParams(self, node: Node) -> tuple[Status, Any]:
        return self._status("cuGraphKernelNodeGetParams"), Structure(run=node.run)

    def cuGraphDestroy(self, graph: Handle) -> tuple[Status]:
        return (self._status("cuGraphDestroy"),)

    def cuStreamEndCapture(self, stream: Stream) -> tuple[Status, Handle]:
        graph = Handle(next(_graph_handles))
        self.graphs[graph], self.captured = self.captured or [], None
        return self._status("cuStreamEndCapture"), graph

    def cuGraphInstantiate(self, graph: Handle, flags: int) -> tuple[Status, Handle]:
        return self._status("cuGraphInstantiate"), graph

    def cuGraphExecKernelNodeSetParams(self, executable: Handle, node: Node, parameters: Any) -> tuple[Status]:
        assert node in self.graphs[executable]
        status = self._status("cuGraphExecKernelNodeSetParams")
        if status == 0:
            node.run = node.update(parameters)
        return (status,)

    def cuGraphLaunch(self, executable: Handle, stream: Stream) -> tuple[Status]:
        status = self._status("cuGraphLaunch")
        if status == 0:
            for node in self.graphs[executable]:
                node.run(int(stream))
        return (status,)

    def cuGraphExecDestroy(self, executable: Handle) -> tuple[Status]:
        self.graphs.pop(executable, None)  # one of an earlier fake driver, which is dropped late, is not here
        return (self._status("cuGraphExecDestroy"),)

    def cuTensorMapEncodeTiled(self, *arguments: Any) -> tuple[Status, TensorMap]:
        self.maps.append(TensorMap(*arguments))
        return self._status("cuTensorMapEncodeTiled"), self.maps[-1]

    # Streams and memory

    def cuStreamIsCapturing(self, stream: Stream) -> tuple[Status, int]:
        return self._status("cuStreamIsCapturing"), int(self.capturing)

    def cuEventCreate(self, flags: str) -> tuple[Status, Handle]:
        return self._status("cuEventCreate"), Handle(0x55)

    def cuMemAllocAsync(self, size: int, stream: Stream) -> tuple[Status, int]:
        status = self._status("cuMemAllocAsync")
        if status != 0:
            return status, 0
        storage = np.zeros(size + 512, np.uint8)
        address = -(-storage.ctypes.data // 512) * 512
        self.memory[address] = (storage, int(self.contexts[-1]) - 0x1000)
        return status, address

    def cuMemPoolCreate(self, wanted: Any) -> tuple[Status, Handle]:
        return self._status("cuMemPoolCreate"), Handle(0x900 + wanted.location.id)

    def cuMemAllocFromPoolAsync(self, size: int, pool: Handle, stream: Stream) -> tuple[Status, int]:
        status = self._status("cuMemAllocFromPoolAsync")
        return (status, 0) if status != 0 else self.cuMemAllocAsync(size, stream)

    def cuMemFreeAsync(self, address: int, stream: Stream) -> tuple[Status]:
        del self.memory[address]
        return (self._status("cuMemFreeAsync"),)

    def cuMemcpyHtoDAsync(self, address: int, host: int, size: int, stream: Stream) -> tuple[Status]:
        ctypes.memmove(address, host, size)
        return (self._status("cuMemcpyHtoDAsync"),)

    def cuMemcpyDtoHAsync(self, host: int, address: int, size: int, stream: Stream) -> tuple[Status]:
        ctypes.memmove(host, address, size)
        return (self._status("cuMemcpyDtoHAsync"),)

    def cuMemAlloc(self, size: int) -> tuple[Status, int]:
        if not self.contexts:
            return Status.CUDA_ERROR_INVALID_CONTEXT, 0
        return self.cuMemAllocAsync(size, Stream(0))

    def cuMemFree(self, address: int) -> tuple[Status]:
        return self.cuMemFreeAsync(address, Stream(0))

    def cuMemcpyHtoD(self, address: int, host: int, size: int) -> tuple[Status]:
        ctypes.memmove(address, host, size)
        return (self._status("cuMemcpyHtoD"),)

    def cuMemcpyDtoH(self, host: int, address: int, size: int) -> tuple[Status]:
        ctypes.memmove(host, address, size)
        return (self._status("cuMemcpyDtoH"),)

    def cuMemHostAlloc(self, size: int, flags: int) -> tuple[Status, int]:
        storage: Any = np.full(size, 255, np.uint8)
        self.memory[storage.ctypes.data] = (storage, 0)
        return self._status("cuMemHostAlloc"), storage.ctypes.data

    def cuMemHostGetDevicePointer(self, host: int, flags: int) -> tuple[Status, int]:
        return self._status("cuMemHostGetDevicePointer"), host

    def cuGetProcAddress(self, name: bytes, version: int, flags: int) -> tuple[Status, int, int]:
        """The only one that is asked for is cuPointerGetAttribute."""
        assert name == b"cuPointerGetAttribute"
        self._callback = _POINTER_ATTRIBUTE(self._device_of)
        return Status.CUDA_SUCCESS, ctypes.cast(self._callback, ctypes.c_void_p).value or 0, 0

    def _device_of(self, answer: int, attribute: int, address: int) -> int:
        assert attribute == 9
        for start, (storage, device) in self.memory.items():
            if start <= address < start + max(1, storage.nbytes):
                ctypes.c_int.from_address(answer).value = device
                return 0
        return 1


@contextmanager
def fake_driver(**fields: Any) -> Generator[FakeDriver]:
    """Within, this process has that driver, already started."""
    fake = FakeDriver(**fields)
    before = driver.replace_process(driver.Process(bindings=fake))
    try:
        yield fake
    finally:
        driver.replace_process(before)
