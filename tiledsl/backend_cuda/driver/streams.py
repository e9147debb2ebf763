"""Streams, which callers name by the address of their handle: 0 the default one, 1 and 2 the driver's special ones."""

from __future__ import annotations

from typing import Any

from tiledsl.backend_cuda.driver.call_driver import bindings, call, process
from tiledsl.backend_cuda.driver.devices import Device, current, device_count, free_when_dropped

_MOST_HANDLES = 1024


def stream_handle(stream: int) -> Any:
    """The handle, as calls of the driver take it."""
    handle = process().handles.get(stream)
    return _new_handle(stream) if handle is None else handle


def _new_handle(stream: int) -> Any:
    handle, handles = bindings().CUstream(stream), process().handles
    if len(handles) >= _MOST_HANDLES:
        handles.clear()
    handles[stream] = handle
    return handle


def is_capturing(stream: int) -> bool:
    """Whether a CUDA graph is made of what is launched on the stream, so that nothing may be waited for."""
    status, capturing = bindings().cuStreamIsCapturing(stream_handle(stream))
    if int(status) != 0:
        capturing = call("cuStreamIsCapturing", stream_handle(stream))  # which raises
    return int(capturing) != 0


def wait_for_stream(device: Device, stream: int) -> None:
    """Waits for all that was launched on the stream. Raises TileRuntimeError for a fault."""
    with current(device):
        call("cuStreamSynchronize", stream_handle(stream))


def wait_for_device(device: Device) -> None:
    """Waits for all that was launched on the device. Raises TileRuntimeError for a fault."""
    with current(device):
        call("cuCtxSynchronize")


def run_after(device: Device, stream: int, earlier: int) -> None:
    """What is launched on `stream` from now on starts when all that is on `earlier` now has ended."""
    if stream == earlier:
        return
    flags = bindings().CUevent_flags.CU_EVENT_DISABLE_TIMING
    with current(device):
        event = call("cuEventCreate", flags)
        try:
            call("cuEventRecord", event, stream_handle(earlier))
            call("cuStreamWaitEvent", stream_handle(stream), event, 0)
        finally:
            call("cuEventDestroy", event)  # the driver keeps it until it has happened


class Event:
    """A point on a stream of a device."""

    def __init__(self, device: Device) -> None:
        self._device = device
        with current(device):
            self._event = call("cuEventCreate", bindings().CUevent_flags.CU_EVENT_DISABLE_TIMING)
        self._record = bindings().cuEventRecord
        self._checks_context = device_count() > 1
        """With one device, a thread has its context or none, which the driver finds out."""
        free_when_dropped(self, device, "cuEventDestroy", self._event)  # the driver keeps it until it has happened

    def mark(self, stream: int) -> None:
        """The event is what is on the stream now."""
        if self._checks_context or int(self._record(self._event, stream_handle(stream))[0]) != 0:
            with current(self._device):
                call("cuEventRecord", self._event, stream_handle(stream))

    def before(self, stream: int) -> None:
        """What comes on the stream waits for the event; for nothing if it was never marked."""
        with current(self._device):
            call("cuStreamWaitEvent", stream_handle(stream), self._event, 0)
