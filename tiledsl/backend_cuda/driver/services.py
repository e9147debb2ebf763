"""What the runtime asks of this back end: devices, memory, streams; and waiting for all of them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import suppress
from typing import cast

from tiledsl.backend_cuda.driver import failures
from tiledsl.backend_cuda.driver.call_driver import bindings, call, process, status_name, status_text
from tiledsl.backend_cuda.driver.devices import (
    Device,
    Facts,
    current,
    device_count,
    device_of,
    devices_at_hand,
    free_when_dropped,
)
from tiledsl.backend_cuda.driver.failure_records import raise_failures
from tiledsl.backend_cuda.driver.graphs import GraphLaunch, LaunchedGraph, Recordable, own_stream
from tiledsl.backend_cuda.driver.streams import (
    Event,
    is_capturing,
    run_after,
    stream_handle,
    wait_for_device,
    wait_for_stream,
)
from tiledsl.passes.gpu_machine import architecture_of, machine_of_device
from tiledsl.runtime.programs.device_services import RecordedLaunch
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import TileError, fail
from tiledsl.support.location import Location

_SINCE_CUDA_4 = 4000
_DEVICE_ORDINAL = 9
_POINTER_ATTRIBUTE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64)
"""cuPointerGetAttribute: where the answer goes, which attribute, the address; gives a status."""


class AllocatedMemory:
    """Memory on a device; dropped, it is free for what comes on its stream afterwards."""

    def __init__(self, size: int, device: Device, stream: int) -> None:
        self.address = 0
        if size == 0:
            return
        with current(device):
            status, pointer = bindings().cuMemAllocAsync(size, stream_handle(stream))
        if int(status) == failures.OUT_OF_MEMORY:
            fail("cuda-memory", caller_location(), device=device.number, wanted=f"an output of {size} bytes")
        if int(status) != 0:
            name, text = status_name(status), status_text(status)
            raise failures.status_error(int(status), name, text, "cuMemAllocAsync", process().history)
        self.address = int(pointer)
        free_when_dropped(self, device, "cuMemFreeAsync", self.address, stream_handle(stream))


class CudaServices:
    """`DeviceServices` of the runtime."""

    def arch(self, device: int) -> str:
        return _machine_of(device_of(device))

    def at_hand(self, arch: str) -> list[str]:
        found: set[str] = set()
        for facts in devices_at_hand():
            with suppress(TileError):  # code is made for none like it
                same = architecture_of(_machine_of(facts)) == architecture_of(arch)
                found.update([facts.words] if same else [])
        return sorted(found)

    def allocate(self, size: int, device: int, stream: int) -> AllocatedMemory:
        return AllocatedMemory(size, device_of(device), stream)

    def device_of_address(self, address: int) -> int:
        if device_count() == 1:
            return 0
        # not by cuda.bindings: up to version 13.3 it gives 0 for every device
        function, _ = call("cuGetProcAddress", b"cuPointerGetAttribute", _SINCE_CUDA_4, 0)
        device = ctypes.c_int(0)
        status = _POINTER_ATTRIBUTE(int(function))(ctypes.byref(device), _DEVICE_ORDINAL, address)
        return device.value if status == 0 else 0

    def copy_to_host(self, host: int, address: int, size: int, device: int, stream: int) -> None:
        owner = device_of(device)
        with current(owner):
            if size:
                call("cuMemcpyDtoHAsync", host, address, size, stream_handle(stream))
            wait_for_stream(owner, stream)

    def copy_to_device(self, address: int, host: int, size: int, device: int, stream: int) -> None:
        owner = device_of(device)
        with current(owner):
            if size:
                call("cuMemcpyHtoDAsync", address, host, size, stream_handle(stream))
            wait_for_stream(owner, stream)

    def is_capturing(self, stream: int) -> bool:
        return is_capturing(stream)

    def own_stream(self, device: int) -> int:
        return own_stream(device_of(device))

    def event(self, device: int) -> Event:
        return Event(device_of(device))

    def record(self, device: int, name: str, location: Location, launches: Sequence[RecordedLaunch]) -> LaunchedGraph:
        wanted = [GraphLaunch(cast(Recordable, program), tuple(p), tuple(n)) for program, p, n in launches]
        return LaunchedGraph(device_of(device), name, location, wanted)

    def run_after(self, device: int, stream: int, earlier: int) -> None:
        run_after(device_of(device), stream, earlier)


def _machine_of(facts: Facts) -> str:
    """The name of the machine that code for a device is made for."""
    capability, here = int(facts.arch.removeprefix("sm_")), caller_location()
    return machine_of_device(capability, facts.multiprocessors, facts.memory_bytes_per_second, here).name


def synchronize(device: int | None, stream: int | None) -> None:
    """Waits for a stream, a device, or all devices in use, then raises what failed there (TileRuntimeError)."""
    if process().forked:
        bindings()
    used = list(process().devices.values())
    wanted = used if device is None and stream is None else [device_of(device or 0)]
    for one in wanted:
        if stream is None:
            wait_for_device(one)
        else:
            wait_for_stream(one, stream)
    if stream is None and len(wanted) == len(used):
        process().history.forget()
    raise_failures()
