"""Where kernels note that a `tile.assert_` failed: 16 bytes of host memory that the device writes to.

Two 64-bit words: the number of the assertion (0: all is well), and the program that it failed in. Reading them takes no
synchronisation; a failure is seen at the next call of the kernel after it happened, or by `tiledsl.synchronize()`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from tiledsl.backend_cuda.driver.call_driver import call, process
from tiledsl.backend_cuda.driver.devices import Device, current
from tiledsl.backend_cuda.frame.kernel_code import Assertion
from tiledsl.support.errors import TileError, make_error

_BYTES = 16
_PORTABLE_AND_MAPPED = 0x01 | 0x02


class FailureRecord:
    """The record of one loaded program. `address` is what its kernels are given."""

    def __init__(self, device: Device, assertions: Sequence[Assertion]) -> None:
        """Raises TileRuntimeError if the memory cannot be had."""
        self._assertions = tuple(assertions)
        with current(device):
            host = int(call("cuMemHostAlloc", _BYTES, _PORTABLE_AND_MAPPED))
            self.address = int(call("cuMemHostGetDevicePointer", host, 0))
        # never freed: a kernel may still be running when the program is dropped
        self.words: Any = (ctypes.c_int64 * 2).from_address(host)
        self.words[0] = self.words[1] = 0
        process().records.append(self)

    def taken(self) -> TileError | None:
        """The failure that is noted, if any. The record is clear again."""
        number, program = int(self.words[0]), int(self.words[1])
        if number <= 0:  # -1: it is being written at this moment
            return None
        self.words[0] = 0
        known = 1 <= number <= len(self._assertions)
        failed = self._assertions[number - 1] if known else None
        text = (failed.text if failed else "") or "the condition is false"
        place = failed.location if failed else None
        return make_error("assertion-failed", place, text=text, program=f"in program {program} of the grid")


def raise_failures() -> None:
    """Raises the first failure that any record holds; the others stay for the next time."""
    for record in process().records:
        failure = record.taken()
        if failure is not None:
            raise failure
