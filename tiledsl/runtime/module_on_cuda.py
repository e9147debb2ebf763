"""Runs a schedule on a CUDA device: the first call launches its kernels, later ones a CUDA graph of them.

The graph has memory of its own for what lies within a call. Inputs and outputs lie where the caller has them: where an
address is not what it was, the kernels that it concerns are told before the launch. (Copying into and out of memory of
the graph would cost traffic at each call; allocators give the same addresses again and again, so there is mostly
nothing to tell.) The driver runs launches of one graph one after the other, also those of different streams.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tiledsl.runtime.device_services import DeviceEvent, DeviceGraph, DeviceServices, RecordedLaunch
from tiledsl.runtime.memory_plan import ALIGNMENT, MemoryPlan
from tiledsl.runtime.program import BoundDeviceProgram, DeviceProgram
from tiledsl.runtime.schedule import Operand, Schedule
from tiledsl.runtime.step_alignment import step_alignment
from tiledsl.support.location import Location
from tiledsl.support.when_dropped import when_dropped


class ModuleOnCuda:
    """A schedule whose programs are bound for one device, with its weights there. Threads may call it at once."""

    def __init__(
        self,
        schedule: Schedule,
        plan: MemoryPlan,
        programs: Sequence[DeviceProgram],
        weights: Mapping[int, tuple[int, object]],
        device: int,
        services: DeviceServices,
        location: Location,
    ) -> None:
        """`weights`, by the number of the buffer: where each lies on the device, and what keeps it there."""
        self.schedule = schedule
        self.plan = plan
        self.device = device
        self.location = location
        self._services = services
        self._weights = weights
        self._lock = threading.Lock()
        self._calls = 0
        self._graph: DeviceGraph | None = None
        self._arena: Any = None
        self._addresses: list[int] = []
        self._done = services.event(device)
        when_dropped(self, _end, services, self._done, device)
        self._fixed = {buffer: address for buffer, (address, _) in weights.items()}
        self.bound: list[BoundDeviceProgram] = []
        known: dict[object, BoundDeviceProgram] = {}
        for step in schedule.steps:
            strides = tuple(tensor.view.strides for tensor in step.tensors)
            alignment = step_alignment(schedule, step)
            key = step.program, tuple(step.sizes.items()), strides, alignment
            if key not in known:
                known[key] = programs[step.program].bind_cuda(step.sizes, strides, alignment, device)
            self.bound.append(known[key])
        self._scalars = [tuple(n for n in step.numbers if not isinstance(n, Operand)) for step in schedule.steps]
        self._outer = (*schedule.inputs, *schedule.outputs)
        self._users = [
            [number for number, step in enumerate(schedule.steps) if buffer in step.buffers] for buffer in self._outer
        ]
        """For each input and output, the steps that touch it."""

    def run(self, addresses: Sequence[int], stream: int, allocate: Callable[[int], tuple[int, object]]) -> None:
        """Runs on inputs, then outputs, at these addresses (multiples of 16), on a stream. Nothing is waited for.

        `allocate` gives memory for the time of a call, in the order of the stream: its address, and what holds it.
        Raises TileRuntimeError as launches do.
        """
        if self._services.is_capturing(stream):  # the caller's graph has launches and memory of its own
            self._launch(addresses, stream, allocate)
            return
        with self._lock:
            self._calls += 1
            if self._calls == 1:
                self._launch(addresses, stream, allocate)
            else:
                self._replay(addresses, stream)
            self._done.mark(stream)

    def _launch(self, addresses: Sequence[int], stream: int, allocate: Callable[[int], tuple[int, object]]) -> None:
        start, held = allocate(self.plan.bytes + ALIGNMENT) if self.plan.bytes else (0, None)
        for bound, pointers, numbers in self._launches(addresses, start):
            bound(pointers, numbers, stream)
        del held

    def _replay(self, addresses: Sequence[int], stream: int) -> None:
        if self._graph is None:
            own = self._services.own_stream(self.device)
            self._arena = self._services.allocate(max(1, self.plan.bytes) + ALIGNMENT, self.device, own)
            ready = self._services.event(self.device)
            ready.mark(own)
            ready.before(stream)
            self._done.before(stream)
            launches = self._launches(addresses, self._arena.address)
            name = self.schedule.name
            self._graph = self._services.record(self.device, name, self.location, launches)
            self._addresses = list(addresses)
        elif self._addresses != addresses:
            self._move(addresses)
        self._graph.launch(stream)

    def _move(self, addresses: Sequence[int]) -> None:
        assert self._graph is not None
        moved = [users for old, new, users in zip(self._addresses, addresses, self._users) if old != new]
        steps = {step for users in moved for step in users}
        self._addresses = []  # should the driver fail half-way, the next call tells all kernels
        launches = self._launches(addresses, self._arena.address, steps)
        for step, (_, pointers, _) in zip(sorted(steps), launches):
            self._graph.update(step, pointers)
        self._addresses = list(addresses)

    def _launches(self, addresses: Sequence[int], arena: int, only: set[int] | None = None) -> list[RecordedLaunch]:
        start = -(-arena // ALIGNMENT) * ALIGNMENT
        known = {buffer: start + offset for buffer, offset in self.plan.offsets.items()}
        known.update(self._fixed)
        known.update(zip(self._outer, addresses))
        launches: list[RecordedLaunch] = []
        for number, (step, bound) in enumerate(zip(self.schedule.steps, self.bound)):
            if only is None or number in only:
                pointers = [self._place(known, tensor) for tensor in step.tensors]
                launches.append((bound, pointers, self._scalars[number]))
        return launches

    def _place(self, known: Mapping[int, int], tensor: Operand) -> int:
        return known[tensor.buffer] + tensor.view.offset * self.schedule.buffers[tensor.buffer].dtype.bytes


def _end(services: DeviceServices, done: DeviceEvent, device: int) -> None:
    """What a module has on its device is free once the last launch is done."""
    done.before(services.own_stream(device))
