"""Memory for the scratch tensors of a program, while it runs.

It comes from a pool that the driver keeps for each device: taken and given back in the order of a stream, so that runs
on other streams have memory of their own, and a graph that is captured has the two among its nodes. Nothing is waited
for, and what is given back stays in the pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tiledsl.backend_cuda.driver import failures
from tiledsl.backend_cuda.driver.call_driver import bindings, call, process, status_name, status_text
from tiledsl.backend_cuda.driver.devices import Device, current, free_when_dropped
from tiledsl.backend_cuda.driver.streams import stream_handle
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import fail

ALIGNMENT = 256
"""Of each tensor, in bytes."""
_KEPT_BYTES = 2**64 - 1
"""That a pool keeps while nobody uses them: all."""


class ScratchMemory:
    """Memory for tensors of so many bytes each, one behind the other."""

    def __init__(self, device: Device, sizes: Sequence[int]) -> None:
        self._device = device
        self._offsets: list[int] = []
        self.bytes = 0
        for size in sizes:
            self._offsets.append(self.bytes)
            self.bytes += -(-max(size, 1) // ALIGNMENT) * ALIGNMENT

    def taken(self, stream: int) -> tuple[int, ...]:
        """The addresses of all, for what comes next on the stream. The context of the device is current.

        Raises TileResourceError where there is no memory left, TileRuntimeError for a fault of the driver.
        """
        pool = _pool(self._device)
        status, pointer = bindings().cuMemAllocFromPoolAsync(self.bytes, pool, stream_handle(stream))
        if int(status) == failures.OUT_OF_MEMORY:
            wanted = f"{self.bytes} bytes of scratch memory"
            fail("cuda-memory", caller_location(), device=self._device.number, wanted=wanted)
        if int(status) != 0:
            name, text = status_name(status), status_text(status)
            raise failures.status_error(int(status), name, text, "cuMemAllocFromPoolAsync", process().history)
        first = int(pointer)
        return tuple(first + offset for offset in self._offsets)

    def give_back(self, pointers: Sequence[int], stream: int) -> None:
        """What is on the stream by now is the last that uses them. The context of the device is current."""
        call("cuMemFreeAsync", pointers[0], stream_handle(stream))


class HeldScratch:
    """Scratch memory that is taken once, for launches that are repeated; given back when it is dropped."""

    def __init__(self, memory: ScratchMemory, device: Device, stream: int) -> None:
        with current(device):
            self.pointers = memory.taken(stream)
        free_when_dropped(self, device, "cuMemFreeAsync", self.pointers[0], stream_handle(stream))


def _pool(device: Device) -> Any:
    """The pool of a device; there is one in a process."""
    found = process().pools.get(device.number)
    if found is None:
        with process().lock:
            found = process().pools.get(device.number)
            if found is None:
                found = process().pools[device.number] = _new_pool(device)
    return found


def _new_pool(device: Device) -> Any:
    driver = bindings()
    wanted = driver.CUmemPoolProps()
    wanted.allocType = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    wanted.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    wanted.location.id = device.number
    pool = call("cuMemPoolCreate", wanted)
    threshold = driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
    call("cuMemPoolSetAttribute", pool, threshold, driver.cuuint64_t(_KEPT_BYTES))
    return pool
