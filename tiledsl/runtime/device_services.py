"""What the runtime asks of the GPU back end, which stands above it: devices, memory, streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias


class DeviceMemory(Protocol):
    """Memory on a device, freed when it is dropped."""

    @property
    def address(self) -> int: ...


class DeviceServices(Protocol):
    """Devices are numbered as CUDA_VISIBLE_DEVICES has them; streams are the addresses of their handles.

    Everything raises TileRuntimeError without a driver, and in a forked process.
    """

    def arch(self, device: int) -> str:
        """What code for the device is compiled for, as `sm_90`."""
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

    def run_after(self, device: int, stream: int, earlier: int) -> None:
        """What comes on `stream` waits for what is on `earlier`."""
        ...


Services: TypeAlias = Callable[[], DeviceServices]
"""Loads the back end at its first use."""
