"""How long a device takes for launches, by its own clock."""

from __future__ import annotations

from collections.abc import Callable

from tiledsl.backend_cuda.driver.call_driver import call
from tiledsl.backend_cuda.driver.devices import current, device_of
from tiledsl.backend_cuda.driver.streams import stream_handle


def device_seconds(device: int, stream: int, launch: Callable[[], None]) -> float:
    """Seconds from the start to the end of what `launch` puts on the stream; waits for it.

    Raises TileRuntimeError for a fault of what was launched.
    """
    handle = stream_handle(stream)
    with current(device_of(device)):
        start, end = call("cuEventCreate", 0), call("cuEventCreate", 0)
        try:
            call("cuEventRecord", start, handle)
            launch()
            call("cuEventRecord", end, handle)
            call("cuEventSynchronize", end)
            return float(call("cuEventElapsedTime", start, end)) / 1e3
        finally:
            call("cuEventDestroy", start)
            call("cuEventDestroy", end)
