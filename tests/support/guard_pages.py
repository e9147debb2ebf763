"""Memory that ends where no access is allowed: who reads or writes past the end of an array is stopped at once.

`pytest --guard-pages` lets the arguments, outputs and scratch of everything that runs on the CPU end at such pages. A
fault ends the process: tests/e2e/processes/test_guard_pages.py runs a choice of tests in one of their own.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest

from tiledsl.api.kernels.kernel import Kernel
from tiledsl.backend_cpu.calls import threads
from tiledsl.runtime.calls import launch
from tiledsl.runtime.modules import module_calls

Array = npt.NDArray[Any]

available = sys.platform == "linux"
_NO_ACCESS = 0
_FILL = 0x5A
_installed = False


def memory_before_a_guard(size: int) -> npt.NDArray[np.uint8]:
    """`size` bytes whose last one lies before a page that can be neither read nor written."""
    whole = -(-max(size, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
    pages = mmap.mmap(-1, whole + mmap.PAGESIZE)  # unmapped when the last array of it is gone
    memory: npt.NDArray[np.uint8] = np.frombuffer(pages, np.uint8)
    guard = ctypes.c_void_p(memory.ctypes.data + whole)
    if ctypes.CDLL(None, use_errno=True).mprotect(guard, mmap.PAGESIZE, _NO_ACCESS) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")
    used = memory[whole - size : whole]
    used[...] = _FILL  # so that what is never written shows
    return used


def empty(shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """A new row-major array whose last element lies before a guard page."""
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    return np.ndarray(tuple(shape), dtype, memory_before_a_guard(size))


def copy(array: Array) -> Array:
    """The same elements under the same strides; the last byte that the array reaches lies before a guard page."""
    if array.size == 0:
        return array
    steps = [(size - 1) * stride for size, stride in zip(array.shape, array.strides)]
    before, behind = -sum(s for s in steps if s < 0), sum(s for s in steps if s > 0)
    memory = memory_before_a_guard(before + behind + array.itemsize)
    made: Array = np.ndarray(array.shape, array.dtype, memory, before, array.strides)
    made[...] = array
    return made


def placed(arguments: Sequence[Any]) -> list[Any]:
    """The arguments of a call with their arrays before guard pages, if those are installed."""
    return [copy(cast("Array", a)) if _installed and isinstance(a, np.ndarray) else a for a in arguments]


def take_back(arguments: Sequence[Any], used: Sequence[Any]) -> None:
    """Writes to the arrays of `arguments` what a call wrote to those that stood for them."""
    for argument, array in zip(arguments, used):
        if argument is not array and argument.flags.writeable:
            argument[...] = array


def install(patch: pytest.MonkeyPatch) -> None:
    """Lets the arguments, outputs and scratch of kernels on the CPU end at guard pages from now on."""
    global _installed
    _installed = True
    kept: dict[threads.Scratch, npt.NDArray[np.uint8]] = {}

    def at_least(scratch: threads.Scratch, size: int) -> int:
        kept[scratch] = memory_before_a_guard(size)
        return kept[scratch].ctypes.data

    patch.setattr(threads.Scratch, "at_least", at_least)
    patch.setattr(launch, "empty", empty)
    patch.setattr(module_calls, "empty", empty)
    patch.setattr(Kernel, "__call__", _with_placed_arguments(Kernel.__call__))


def _with_placed_arguments(call: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(call)
    def placed_call(kernel: Kernel, *arguments: Any, **named: Any) -> Any:
        # with `out` they may be the same arrays
        used = placed(arguments) if named.get("out") is None else arguments
        result = call(kernel, *used, **named)
        take_back(arguments, used)
        return result

    return placed_call
