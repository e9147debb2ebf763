"""CUDA graphs of several programs, which are launched as one, and whose addresses may change from launch to launch.

A graph is captured on a stream of our own: so scratch memory, kernels that overlap, and clusters become what they are
on a stream. After each kernel the driver is asked for the node that it became, whose parameters can be set later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tiledsl.backend_cuda.driver import failures
from tiledsl.backend_cuda.driver.call_driver import bindings, call, process, status_name, status_text
from tiledsl.backend_cuda.driver.devices import Device, current, device_count, free_when_dropped
from tiledsl.backend_cuda.driver.failure_records import FailureRecord
from tiledsl.backend_cuda.driver.streams import stream_handle
from tiledsl.backend_cuda.frame.kernel_code import KernelCode
from tiledsl.support.errors import TileError
from tiledsl.support.location import Location
from tiledsl.support.options import read_options


class Recorded(Protocol):
    """One launch of a program in a graph."""

    @property
    def failure_record(self) -> FailureRecord | None:
        """Where its failures are found, if it can fail."""
        ...

    @property
    def ends_with_a_kernel(self) -> bool:
        """Whether the last thing that it put on the stream is a kernel, not the end of some memory."""
        ...

    def update(self, executable: Any, pointers: Sequence[int], /) -> bool:
        """Has it run on tensors at these addresses. False where the driver refuses."""
        ...


class Recordable(Protocol):
    """What can be launched on a stream that is being captured."""

    def record(
        self, pointers: Sequence[int], scalars: Sequence[int | float], stream: int, behind: bool, /
    ) -> Recorded: ...


@dataclass(frozen=True)
class GraphLaunch:
    """One launch of a graph that is to be recorded."""

    program: Recordable
    pointers: Sequence[int]
    scalars: Sequence[int | float]


@dataclass(frozen=True)
class GraphName:
    """What a fault is reported of: not the graph itself, which the history of launches would keep alive."""

    name: str
    location: Location


class LaunchedGraph:
    """A graph on a device. `name` and `location` say what it is, where a fault is reported."""

    def __init__(self, device: Device, name: str, location: Location, launches: Sequence[GraphLaunch]) -> None:
        """Records the launches; nothing runs. Raises TileRuntimeError."""
        self._name = GraphName(name, location)
        self._device = device
        self._launches = list(launches)
        self._checks_context = device_count() > 1
        """With one device, a thread has its context or none, which the driver finds out."""
        self._start = bindings().cuGraphLaunch
        self._synchronous = read_options().synchronous
        self._remember = process().history.add
        self._graph: HeldGraph
        self._record()

    def _record(self) -> None:
        with current(self._device):
            stream = own_stream(self._device)
            mode = bindings().CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
            with process().lock:  # one capture at a time on that stream
                call("cuStreamBeginCapture", stream_handle(stream), mode)
                try:
                    recorded: list[Recorded] = []
                    for one in self._launches:
                        behind = bool(recorded) and recorded[-1].ends_with_a_kernel
                        recorded.append(one.program.record(one.pointers, one.scalars, stream, behind))
                    self._recorded = recorded
                except TileError:
                    bindings().cuStreamEndCapture(stream_handle(stream))
                    raise
                graph = call("cuStreamEndCapture", stream_handle(stream))
            self._graph = HeldGraph(self._device, graph)
        self._failures = [one.failure_record for one in self._recorded if one.failure_record is not None]

    def update(self, step: int, pointers: Sequence[int]) -> None:
        """Launch number `step` runs on tensors at these addresses, from the next launch of the graph on."""
        one = self._launches[step]
        self._launches[step] = GraphLaunch(one.program, tuple(pointers), one.scalars)
        recorded, executable = self._recorded[step], self._graph.executable
        if not self._checks_context and recorded.update(executable, pointers):
            return
        with current(self._device):
            updated = recorded.update(executable, pointers)
        if not updated:
            self._record()

    def launch(self, stream: int) -> None:
        """Launches everything. Raises TileRuntimeError: a launch that failed, or what an earlier one left."""
        for record in self._failures:
            failure = record.taken()
            if failure is not None:
                raise failure
        handle = stream_handle(stream)
        number = failures.INVALID_CONTEXT
        status: Any = None
        if not self._checks_context:
            (status,) = self._start(self._graph.executable, handle)
            number = int(status)
        if number == failures.INVALID_CONTEXT:  # nothing was launched
            with current(self._device):
                (status,) = self._start(self._graph.executable, handle)
            number = int(status)
        if number == 0 and self._synchronous:
            with current(self._device):
                (status,) = bindings().cuStreamSynchronize(handle)
            number = int(status)
        self._remember(self._name)
        if number != 0:
            name, text = status_name(status), status_text(status)
            raise failures.status_error(number, name, text, "cuGraphLaunch", process().history)


class HeldGraph:
    """What the driver has of a graph, until it is recorded anew or dropped."""

    def __init__(self, device: Device, graph: Any) -> None:
        """`graph` is this one's from now on. The context of the device is current. Raises TileRuntimeError."""
        free_when_dropped(self, device, "cuGraphDestroy", graph)
        self.executable: Any = call("cuGraphInstantiate", graph, 0)
        free_when_dropped(self, device, "cuGraphExecDestroy", self.executable)  # one that runs ends first


class RecordedKernels:
    """The kernels of one program in a graph. `buffer` has the words that `words` (arrays of addresses) point to."""

    def __init__(self, failure_record: FailureRecord | None, frame: Any, taken: Sequence[int], scalars: Any) -> None:
        self.failure_record = failure_record
        self._frame = frame
        self._taken = tuple(taken)
        self._scalars = tuple(scalars)
        self._nodes: list[tuple[Any, Any]] = []

    @property
    def ends_with_a_kernel(self) -> bool:
        """Whether no memory was given back after the last kernel, and there is one."""
        return bool(self._nodes) and not self._taken

    def add(self, kernel: KernelCode, function: Any, blocks: int, words: int, stream: int) -> None:
        """Notes the kernel that was launched last on the captured stream."""
        parameters = bindings().CUDA_KERNEL_NODE_PARAMS()
        parameters.func = function
        parameters.gridDimX, parameters.gridDimY, parameters.gridDimZ = blocks, 1, 1
        parameters.blockDimX, parameters.blockDimY, parameters.blockDimZ = kernel.threads, 1, 1
        parameters.sharedMemBytes = kernel.shared_bytes
        parameters.kernelParams = words
        self._nodes.append((_last_node(stream), parameters))

    def update(self, executable: Any, pointers: Sequence[int]) -> bool:
        """Has the kernels run on tensors at these addresses. False where the driver refuses."""
        frame = self._frame
        frame.pack(frame.buffer, 0, *pointers, *self._taken, *self._scalars)
        for node, parameters in self._nodes:
            (status,) = bindings().cuGraphExecKernelNodeSetParams(executable, node, parameters)
            if int(status) != 0:
                return False
        return True


def _last_node(stream: int) -> Any:
    """What the next thing on a captured stream would depend on: the last one."""
    info: tuple[Any, ...] = call("cuStreamGetCaptureInfo", stream_handle(stream))
    nodes: list[Any] = info[3]  # status, id, graph, nodes, what is known of the edges, how many
    assert len(nodes) == 1, "the stream was not alone"
    return nodes[0]


def own_stream(device: Device) -> int:
    """A stream of the device that nobody else uses, for captures, and for memory that lasts."""
    streams = process().streams
    if device.number not in streams:
        with process().lock, current(device):
            if device.number not in streams:
                streams[device.number] = call("cuStreamCreate", 1)  # CU_STREAM_NON_BLOCKING
    return int(streams[device.number])
