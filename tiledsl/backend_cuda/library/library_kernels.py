"""A call of a library on one device, bound to tensors that lie in some way: what `BoundKernels` is for kernels of ours.

In a graph it becomes kernels of the library's. For tensors at other addresses it is captured once more by itself, and
the nodes of the graph are given the parameters of those that it became then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tiledsl.backend_cuda.driver import failures
from tiledsl.backend_cuda.driver.call_driver import bindings, call, process, status_name, status_text
from tiledsl.backend_cuda.driver.devices import current, device_of
from tiledsl.backend_cuda.driver.graphs import own_stream
from tiledsl.backend_cuda.driver.scratch_memory import HeldScratch, ScratchMemory
from tiledsl.backend_cuda.driver.services import AllocatedMemory
from tiledsl.backend_cuda.driver.streams import is_capturing, stream_handle
from tiledsl.backend_cuda.library.library import LibraryMissingError, ReadyCall, library
from tiledsl.passes.gpu.plan import LibraryPlan
from tiledsl.passes.library.library_product import LibraryProduct, NoLibraryCallError, call_of
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import TileError, fail
from tiledsl.support.location import Location
from tiledsl.support.options import read_options

MOST_NODES = 8
"""Kernels that one call becomes, at most."""


class BoundLibrary:
    """A call of a library. Threads may share it."""

    def __init__(
        self,
        product: LibraryProduct,
        plan: LibraryPlan,
        strides: Sequence[Sequence[int]],
        device: int,
        named: tuple[str, Location],
        description: object,
    ) -> None:
        """`named`: the kernel's name and place in the user's program, for messages. Raises NoLibraryCallError where the
        library is not there, or has no such call; TileRuntimeError for a device that there is not."""
        self.name, self.location = named
        self.description = description
        self.device = device_of(device)
        self._call = call_of(product, strides)
        with current(self.device):
            try:
                own = library()
                if own.version != plan.version:
                    raise NoLibraryCallError(f"it is of cuBLASLt {plan.version}, and that is {own.version}")
                self._ready: ReadyCall = own.ready(self._call, plan, device)
            except LibraryMissingError as error:
                raise NoLibraryCallError(str(error)) from error
        self._scratch = ScratchMemory(self.device, [plan.workspace]) if plan.workspace else None
        self._own = AllocatedMemory(plan.workspace, self.device, own_stream(self.device))
        """Memory for launches in graphs, which come one after the other: to take it at each would take time."""
        self._remember = process().history.add
        self._synchronous = read_options().synchronous

    @property
    def launcher(self) -> Callable[[Sequence[int], Sequence[int | float], int], None]:
        """As `BoundDeviceProgram.launcher`."""
        return self.__call__

    def __call__(self, pointers: Sequence[int], scalars: Sequence[int | float], stream: int) -> None:
        """As `BoundKernels.__call__`."""
        del scalars
        with current(self.device):
            taken = (0,) if self._scratch is None else self._scratch.taken(stream)
            try:
                self.launch(pointers, taken[0], stream)
            finally:
                if self._scratch is not None:
                    self._scratch.give_back(taken, stream)
            self._remember(self)
            if self._synchronous and not is_capturing(stream):
                self._wait(stream)

    def launch(self, pointers: Sequence[int], workspace: int, stream: int) -> None:
        """Launches, with memory beside the tensors. The context of the device is current. Raises TileRuntimeError."""
        bias = self._call.bias
        first, second, out = self._call.tensors
        addresses = (pointers[first], pointers[second], pointers[out], pointers[bias] if bias >= 0 else 0)
        try:
            self._ready(addresses, workspace, stream)
        except NoLibraryCallError as error:
            fail("library-call", caller_location(), kernel=self.name, reason=error)

    def prepare(self, pointers: Sequence[int], scalars: Sequence[int | float], stream: int) -> Callable[[], None]:
        """As `BoundKernels.prepare`."""
        del scalars
        held = None if self._scratch is None else HeldScratch(self._scratch, self.device, stream)
        places = tuple(pointers)

        def launch() -> None:
            with current(self.device):
                self.launch(places, 0 if held is None else held.pointers[0], stream)
                self._remember(self)
                if self._synchronous and not is_capturing(stream):
                    self._wait(stream)

        return launch

    def record(
        self, pointers: Sequence[int], scalars: Sequence[int | float], stream: int, behind: bool
    ) -> RecordedLibrary:
        """As `BoundKernels.record`."""
        del scalars, behind
        with current(self.device):
            before = last_nodes(stream)
            self.launch(pointers, self._own.address, stream)
            return RecordedLibrary(self, self._own.address, nodes_since(before, stream))

    def _wait(self, stream: int) -> None:
        (status,) = bindings().cuStreamSynchronize(stream_handle(stream))
        if int(status) in failures.FAULTS:
            raise failures.fault_error(status_name(status), status_text(status), process().history, sure=self)
        if int(status) != 0:
            name, text = status_name(status), status_text(status)
            raise failures.status_error(int(status), name, text, "cuStreamSynchronize", process().history)
        process().history.forget()


class RecordedLibrary:
    """A call in a graph. `nodes`: the kernels that it became, in order; None: not all of them are kernels in a row."""

    failure_record = None
    ends_with_a_kernel = False
    """What comes behind it begins when it has ended: of kernels of others it is not known whether they may overlap."""

    def __init__(self, bound: BoundLibrary, workspace: int, nodes: Sequence[Any] | None) -> None:
        self._bound = bound
        self._workspace = workspace
        self._nodes = nodes

    def update(self, executable: Any, pointers: Sequence[int]) -> bool:
        """As `Recorded.update`."""
        if self._nodes is None:
            return False
        try:
            with process().lock, current(self._bound.device):
                return self._updated(executable, pointers, self._nodes)
        except TileError:
            return False  # the graph is recorded anew, which says what is wrong

    def _updated(self, executable: Any, pointers: Sequence[int], nodes: Sequence[Any]) -> bool:
        stream = own_stream(self._bound.device)
        mode = bindings().CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        call("cuStreamBeginCapture", stream_handle(stream), mode)
        try:
            self._bound.launch(pointers, self._workspace, stream)
            others = nodes_since((), stream)
        finally:
            graph = call("cuStreamEndCapture", stream_handle(stream))
        try:
            if others is None or len(others) != len(nodes):
                return False
            for node, other in zip(nodes, others):
                parameters = call("cuGraphKernelNodeGetParams", other)
                (status,) = bindings().cuGraphExecKernelNodeSetParams(executable, node, parameters)
                if int(status) != 0:
                    return False
            return True
        finally:
            call("cuGraphDestroy", graph)


def last_nodes(stream: int) -> tuple[Any, ...]:
    """What the next thing on a captured stream would depend on."""
    info: tuple[Any, ...] = call("cuStreamGetCaptureInfo", stream_handle(stream))
    return tuple(info[3] or ())  # status, id, graph, nodes, what is known of the edges, how many


def nodes_since(before: Sequence[Any], stream: int) -> list[Any] | None:
    """The nodes that a captured stream has got since `before` was last, if they are kernels in a row."""
    known = {int(node) for node in before}
    kernel = bindings().CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL
    found: list[Any] = []
    nodes = last_nodes(stream)
    while nodes and not {int(node) for node in nodes} <= known:
        if len(nodes) != 1 or len(found) == MOST_NODES or call("cuGraphNodeGetType", nodes[0]) != kernel:
            return None
        found.append(nodes[0])
        every, _, count = call("cuGraphNodeGetDependencies", nodes[0], MOST_NODES)
        nodes = tuple(every[:count])
    return found[::-1]


def bound_library(
    product: LibraryProduct,
    plan: LibraryPlan | None,
    strides: Sequence[Sequence[int]],
    device: int,
    named: tuple[str, Location],
    description: object,
) -> BoundLibrary | str:
    """The call; or why there is none here."""
    assert plan is not None
    try:
        return BoundLibrary(product, plan, strides, device, named, description)
    except NoLibraryCallError as error:
        return str(error)
