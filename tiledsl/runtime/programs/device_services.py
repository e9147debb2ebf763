"""What the runtime asks of the GPU back end, which stands above it: devices, memory, streams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from tiledsl.runtime.programs.program import BoundDeviceProgram
    from tiledsl.support.location import Location


class DeviceMemory(Protocol):
    """Memory on a device, freed when it is dropped."""

    @property
    def address(self) -> int: ...


class DeviceEvent(Protocol):
    """A point on a stream."""

    def mark(self, stream: int, /) -> None:
        """The event is what is on the stream now."""
        ...

    def before(self, stream: int, /) -> None:
        """What comes on the stream waits for the event; for nothing if it was never marked."""
        ...


class DeviceGraph(Protocol):
    """Launches that go as one. A launch of it comes after the earlier ones, whatever their streams. Not to be used by
    several threads at once."""

    def update(self, step: int, pointers: Sequence[int], /) -> None:
        """Launch number `step` has tensors at these addresses, from the next launch of the graph on."""
        ...

    def launch(self, stream: int, /) -> None:
        """Launches everything and waits for nothing. TileRuntimeError: as `BoundDeviceProgram.__call__`."""
        ...


RecordedLaunch: TypeAlias = "tuple[BoundDeviceProgram, Sequence[int], Sequence[int | float]]"
"""A program, the addresses of its tensors, and its numbers."""


class DeviceServices(Protocol):
    """Devices are numbered as CUDA_VISIBLE_DEVICES has them; streams are the addresses of their handles.

    Everything raises TileRuntimeError without a driver, and in a forked process.
    """

    def arch(self, device: int) -> str:
        """What code for the device is compiled for, as `sm_90`."""
        ...

    def at_hand(self, arch: str) -> list[str]:
        """The devices of an architecture, in words, each kind once. Raises nothing: none without a driver."""
        ...

    def allocate(self, size: int, device: int, stream: int) -> DeviceMemory:
        """New memory of `size` bytes, for use on the stream. TileResourceError if there is none left."""
        ...

    def device_of_address(self, address: int) -> int:
        """The device on which an address lies."""
        ...

    def copy_to_host(self, host: int, address: int, size: int, device: int, stream: int) -> None:
        """Copies to CPU memory at `host`, after all that is on the stream, and waits."""
        ...

    def copy_to_device(self, address: int, host: int, size: int, device: int, stream: int) -> None:
        """Copies CPU memory at `host` to the device, after all that is on the stream, and waits."""
        ...

    def is_capturing(self, stream: int) -> bool:
        """Whether a CUDA graph is made of what is launched on the stream."""
        ...

    def own_stream(self, device: int) -> int:
        """A stream that nobody else uses, for memory that lasts longer than a call."""
        ...

    def event(self, device: int) -> DeviceEvent:
        """A new event."""
        ...

    def record(self, device: int, name: str, location: Location, launches: Sequence[RecordedLaunch]) -> DeviceGraph:
        """A CUDA graph of these launches, one after the other. `name` and `location` are for messages."""
        ...

    def run_after(self, device: int, stream: int, earlier: int) -> None:
        """What comes on `stream` waits for what is on `earlier`."""
        ...


Services: TypeAlias = Callable[[], DeviceServices]
"""Loads the back end at its first use."""
