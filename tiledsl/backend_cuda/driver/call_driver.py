"""The CUDA driver through `cuda.bindings`: started at its first use, and its errors in our words.

>>> call("cuDeviceGetCount")
1
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NoReturn

from tiledsl.backend_cuda.driver.failures import LaunchHistory, status_error
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import fail


@dataclass
class Process:
    """What this process has of CUDA. There is one; tests put another in its place."""

    bindings: Any = None
    """The module `cuda.bindings.driver`, once the driver has been started."""
    forked: bool = False
    """Whether this is the child of a process that had started the driver."""
    devices: dict[int, Any] = field(default_factory=dict[int, Any])
    """By number; see `devices.py`."""
    pools: dict[int, Any] = field(default_factory=dict[int, Any])
    """Of scratch memory, by the number of the device; see `scratch_memory.py`."""
    streams: dict[int, Any] = field(default_factory=dict[int, Any])
    """Of our own, by the number of the device; see `graphs.py`."""
    handles: dict[int, Any] = field(default_factory=dict[int, Any])
    """Of streams, by their addresses; see `streams.py`."""
    records: list[Any] = field(default_factory=list[Any])
    """Of all programs that can fail on the device; see `failure_records.py`."""
    history: LaunchHistory = field(default_factory=LaunchHistory)
    lock: Any = field(default_factory=threading.RLock)


_process = Process()


def process() -> Process:
    """The state of this process."""
    return _process


def replace_process(new: Process) -> Process:
    """Puts `new` in the place of the state and gives the old one: for tests, with a driver of their own."""
    global _process
    old, _process = _process, new
    return old


def _after_fork() -> None:
    _process.lock = threading.RLock()  # another thread may have held it
    _process.forked = _process.forked or _process.bindings is not None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def bindings() -> Any:
    """The module of the driver's calls; the driver is started at the first use.

    Raises TileRuntimeError without the package, without a driver, without a device, and in a forked process.
    """
    process = _process
    if process.forked:
        fail("cuda-forked", caller_location())
    if process.bindings is None:
        with process.lock:
            if process.bindings is None:
                process.bindings = _started(_imported())
    return process.bindings


def _imported() -> Any:
    try:
        return import_module("cuda.bindings.driver")  # here: it costs start-up time, and a CPU does not need it
    except ImportError:
        fail("cuda-no-bindings", caller_location())


def _started(module: Any) -> Any:
    try:
        (status,) = module.cuInit(0)
    except RuntimeError as error:  # what cuda.bindings raises where libcuda is missing
        fail("cuda-no-driver", caller_location(), reason=str(error).splitlines()[0])
    if int(status) != 0:
        _raise(module, status, "cuInit")
    return module


def call(name: str, *arguments: object) -> Any:
    """Calls a function of the driver: gives what it gives, None or a tuple of several. Raises TileRuntimeError."""
    module = bindings()
    status, *values = getattr(module, name)(*arguments)
    if int(status) != 0:
        _raise(module, status, name)
    return None if not values else values[0] if len(values) == 1 else tuple(values)


def _raise(module: Any, status: Any, name: str) -> NoReturn:
    raise status_error(int(status), status_name(status), _text(module, status), name, _process.history)


def status_name(status: Any) -> str:
    """`CUDA_ERROR_ILLEGAL_ADDRESS`"""
    return str(getattr(status, "name", status))


def status_text(status: Any) -> str:
    """What the driver says of a status, in its words."""
    return _text(bindings(), status)


def _text(module: Any, status: Any) -> str:
    _, text = module.cuGetErrorString(status)
    return text.decode() if isinstance(text, bytes) else str(text)
