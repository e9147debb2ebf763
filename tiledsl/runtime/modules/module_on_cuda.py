"""Runs a schedule on a CUDA device: the first call launches its kernels, later ones a CUDA graph of them.

Where there is hardly anything to launch, and no memory within a call, it is launched at each call: a graph of one
kernel costs more than the kernel, and has to be told of every new address.

The graph has memory of its own for what lies within a call. Inputs and outputs lie where the caller has them: where an
address is not what it was, the kernels that it concerns are told before the launch. (Copying into and out of memory of
the graph would cost traffic at each call; allocators give the same addresses again and again, so there is mostly
nothing to tell.) The driver runs launches of one graph one after the other, also those of different streams.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

from tiledsl.runtime.arrays.address_rules import Addresses, Go
from tiledsl.runtime.arrays.cuda_arrays import DeviceView
from tiledsl.runtime.programs.device_services import DeviceEvent, DeviceGraph, DeviceServices, RecordedLaunch
from tiledsl.runtime.programs.memory_plan import ALIGNMENT, MemoryPlan, is_direct
from tiledsl.runtime.programs.program import BoundDeviceProgram, DeviceProgram
from tiledsl.runtime.programs.schedule import Operand, Schedule
from tiledsl.runtime.programs.step_alignment import step_alignment, step_lying
from tiledsl.support.location import Location
from tiledsl.support.when_dropped import when_dropped

MOST_STREAMS = 64
"""Streams whose last call is kept in mind."""

Allocate: TypeAlias = "Callable[[int, int], tuple[int, object]]"
"""Memory of so many bytes for the time of a call, in the order of a stream: its address, and what holds it."""


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
        self._addresses: Addresses = ()
        self.is_direct = is_direct(schedule, plan)
        self._owns = not self.is_direct or any(not isinstance(kept, DeviceView) for _, kept in weights.values())
        """Whether it has memory that is not the caller's, and so has to know when calls are done."""
        self._done: dict[int, DeviceEvent] = {}
        """The last call on each stream; one for all streams where calls run one after the other."""
        when_dropped(self, _end, services, self._done, device)
        self.bound: list[BoundDeviceProgram] = []
        known: dict[object, BoundDeviceProgram] = {}
        for step in schedule.steps:
            strides = tuple(tensor.view.strides for tensor in step.tensors)
            alignment, lying = step_alignment(schedule, step), step_lying(schedule, step)
            key = step.program, tuple(step.sizes.items()), strides, alignment, lying
            if key not in known:
                known[key] = programs[step.program].bind_cuda(step.sizes, strides, alignment, device, lying)
            self.bound.append(known[key])
        self._outer = (*schedule.inputs, *schedule.outputs)
        self._fixed = tuple(address for address, _ in weights.values())
        order = {buffer: n for n, buffer in enumerate((*self._outer, *weights))}
        self.kept = [(address, schedule.buffers[buffer].bytes) for buffer, (address, _) in weights.items()]
        """Where weights lie, and how many bytes they take."""
        self._places = [[self._place(order, tensor) for tensor in step.tensors] for step in schedule.steps]
        """For each tensor of each step: the number of an address among inputs, outputs, weights and the start of the
        arena, and how many bytes to add."""
        self._numbers = [tuple(n for n in step.numbers if not isinstance(n, Operand)) for step in schedule.steps]
        self._direct = list(zip([bound.launcher for bound in self.bound], self._places, self._numbers))
        self._users = [
            [number for number, step in enumerate(schedule.steps) if buffer in step.buffers] for buffer in self._outer
        ]
        """For each input and output, the steps that touch it."""

    def _place(self, order: Mapping[int, int], tensor: Operand) -> tuple[int, int]:
        added = tensor.view.offset * self.schedule.buffers[tensor.buffer].dtype.bytes
        if tensor.buffer in order:
            return order[tensor.buffer], added
        return len(order), self.plan.offsets[tensor.buffer] + added

    def launcher(self, allocate: Allocate) -> Go:
        """What runs on inputs, then outputs, at addresses (multiples of 16), as `run` does."""
        if not self.is_direct:
            return lambda addresses, numbers, stream: self.run(addresses, stream, allocate)
        places = self._places[0] if len(self.bound) == 1 else []
        if self._owns or not places or any(added for _, added in places):
            return self._launch_directly
        own, (launcher, _, numbers) = self._fixed, self._direct[0]
        if [place for place, _ in places] == list(range(len(self._outer))) and not numbers:
            return launcher
        if len(places) == 1:
            return self._launch_directly
        pick = itemgetter(*(place for place, _ in places))
        return lambda addresses, _, stream: launcher(pick((*addresses, *own)), numbers, stream)

    def run(self, addresses: Sequence[int], stream: int, allocate: Allocate) -> None:
        """Runs on inputs, then outputs, at these addresses (multiples of 16), on a stream. Nothing is waited for.

        Raises TileRuntimeError as launches do.
        """
        if self.is_direct:
            self._launch_directly(addresses, (), stream)
        elif self._services.is_capturing(stream):  # the caller's graph has launches and memory of its own
            self.run_once(addresses, stream, allocate)
        else:
            with self._lock:
                self._calls += 1
                if self._calls == 1:
                    self.run_once(addresses, stream, allocate)
                else:
                    self._replay(tuple(addresses), stream)
                self._end_of_call(0).mark(stream)

    def _launch_directly(self, addresses: Sequence[int], numbers: Sequence[int | float], stream: int) -> None:
        base = (*addresses, *self._fixed)
        for launcher, places, own in self._direct:
            launcher([base[place] + added for place, added in places], own, stream)
        if self._owns and not self._services.is_capturing(stream):
            with self._lock:
                self._end_of_call(stream).mark(stream)

    def _end_of_call(self, stream: int) -> DeviceEvent:
        event = self._done.get(stream)
        if event is None:
            if len(self._done) >= MOST_STREAMS:
                _end(self._services, dict(self._done), self.device)
                self._done.clear()
            event = self._done[stream] = self._services.event(self.device)
        return event

    def finish(self, stream: int) -> None:
        """What comes on the stream waits for all calls so far."""
        with self._lock:
            for event in self._done.values():
                event.before(stream)

    def run_once(self, addresses: Sequence[int], stream: int, allocate: Allocate) -> None:
        """`run`, by launches of the kernels, whether or not there is a graph of them."""
        start, held = allocate(self.plan.bytes + ALIGNMENT, stream) if self.plan.bytes else (0, None)
        for bound, pointers, numbers in self.launches(addresses, start):
            bound(pointers, numbers, stream)
        del held

    def _replay(self, addresses: Addresses, stream: int) -> None:
        if self._graph is None:
            own = self._services.own_stream(self.device)
            self._arena = self._services.allocate(max(1, self.plan.bytes) + ALIGNMENT, self.device, own)
            ready = self._services.event(self.device)
            ready.mark(own)
            ready.before(stream)
            self._end_of_call(0).before(stream)
            launches = self.launches(addresses, self._arena.address)
            name = self.schedule.name
            self._graph = self._services.record(self.device, name, self.location, launches)
            self._addresses = addresses
        elif self._addresses != addresses:
            self._move(addresses)
        self._graph.launch(stream)

    def _move(self, addresses: Addresses) -> None:
        assert self._graph is not None
        steps: set[int] = set()
        for old, new, users in zip(self._addresses, addresses, self._users):
            if old != new:
                steps.update(users)
        self._addresses = (-1,) * len(addresses)  # should the driver fail half-way, the next call tells all kernels
        base = self._base(addresses, self._arena.address)
        for step in steps:
            self._graph.update(step, self._pointers(base, step))
        self._addresses = addresses

    def launches(self, addresses: Sequence[int], arena: int) -> list[RecordedLaunch]:
        """What a call launches on inputs, then outputs, at addresses. `arena`: where `plan.bytes` and `ALIGNMENT` more
        bytes of memory are."""
        base = self._base(addresses, arena)
        return [(bound, self._pointers(base, n), self._numbers[n]) for n, bound in enumerate(self.bound)]

    def _base(self, addresses: Sequence[int], arena: int) -> tuple[int, ...]:
        return (*addresses, *self._fixed, -(-arena // ALIGNMENT) * ALIGNMENT)

    def _pointers(self, base: Sequence[int], step: int) -> list[int]:
        return [base[place] + added for place, added in self._places[step]]


def _end(services: DeviceServices, done: Mapping[int, DeviceEvent], device: int) -> None:
    """What a module has on its device is free once the last launch is done."""
    for event in done.values():
        event.before(services.own_stream(device))
