"""Waiting for kernels on CUDA devices."""

from __future__ import annotations

import sys

from tiledsl.support.errors import TileError


def synchronize(device: int | None = None, stream: int | None = None) -> None:
    """Waits until all kernels on the device have ended, or those on the stream; by default on all devices.

    Raises TileRuntimeError if one of them failed: an assertion, with the line that made it, or a fault, with the
    kernels that may have caused it. `stream` is the address of a CUDA stream's handle, of device 0 if none is named.
    """
    if "tiledsl.backend_cuda.driver.call_driver" not in sys.modules:
        return  # nothing was launched
    from tiledsl.backend_cuda.driver import services  # needed only where a device was used

    try:
        services.synchronize(device, stream)
    except TileError as error:
        raise error.with_traceback(None) from error.__cause__  # the user's lines, not the compiler's
