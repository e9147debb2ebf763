"""What runs compiled programs without Python in between, compiled once in a process: see `launcher_text`."""

from __future__ import annotations

import ctypes
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from tiledsl.backend_cpu.calls.launcher_text import LAUNCHES, READS, SLEEP_BY_POSIX, SLEEP_IN_PYTHON
from tiledsl.runtime.programs.cache import compiler_identity, digest, disk_cache
from tiledsl.support.options import read_options

SLOT_WORDS = 64
"""Job, function, frame, scratch, state, whether the worker sleeps, whether somebody waits for it to be done, how often
to look before sleeping; from word 8 on a lock and two conditions, of 16 words each."""
LOOKS = 7
_MEASURED = 1000
_POSIX = ("pthread_mutex_init", "pthread_mutex_lock", "pthread_mutex_unlock")
_POSIX += ("pthread_cond_init", "pthread_cond_wait", "pthread_cond_signal")


@dataclass(frozen=True)
class Launcher:
    """Compiled. `serve`, of a slot, is what a worker calls; `run`, of a call, gives 0 or the launch that failed, from 1
    on; `prepare` makes a slot of zeroed memory. All of these let other threads of Python run. `read`, of a tuple, a
    table and room for addresses, gives 1 if the tuple has what the table says."""

    serve: Callable[[int], int]
    run: Callable[[int], int]
    prepare: Callable[[int], None]
    read: Callable[[object, int, int], int]
    sleeps: bool
    """Whether workers sleep where they are."""
    looks_per_second: float

    def looks(self, seconds: float) -> int:
        """How many looks take that long."""
        return int(seconds * self.looks_per_second)


@cache
def launcher() -> Launcher:
    """Compiled at the first call, for the life of the process: workers sleep in its code."""
    return compile_launcher(sys.platform != "win32" and all(hasattr(ctypes.CDLL(None), name) for name in _POSIX))


def compile_launcher(sleeps: bool) -> Launcher:
    """`sleeps`: whether there are POSIX threads to sleep with."""
    from tiledsl.backend_cpu.llvm import native  # imports llvmlite, which costs start-up time

    relax, declared = _relax(platform.machine())
    text = declared + LAUNCHES.replace("RELAX", relax) + (SLEEP_BY_POSIX if sleeps else SLEEP_IN_PYTHON) + READS
    code = native.LinkedCode(_object_code(text), ("await", "serve", "run", "prepare", "read"))
    # a worker is in this code until the process ends, whatever Python has dropped by then
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
    word, one = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p), ctypes.c_int64
    await_ = ctypes.CFUNCTYPE(one, ctypes.c_void_p, one, ctypes.c_void_p)(code.addresses["await"])
    return Launcher(
        word(code.addresses["serve"]), word(code.addresses["run"]),
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.addresses["prepare"]),
        ctypes.PYFUNCTYPE(one, ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p)(code.addresses["read"]),
        sleeps, _looks_per_second(await_),
    )  # fmt: skip


def _object_code(text: str) -> bytes:
    """Machine code, from the disk cache where that has it: 30 ms are a long time for a first call."""
    from tiledsl.backend_cpu.llvm import native  # as above

    options = read_options()
    if options.cache_directory is None:
        return native.object_code_as_written(text)
    disk = disk_cache(options.cache_directory, options.cache_bytes)
    entry = digest(["launcher", compiler_identity(), text, native.host_description()])
    code = disk.get(entry)
    if code is None:
        code = native.object_code_as_written(text)
        disk.put(entry, code)
    return code


def _relax(machine: str) -> tuple[str, str]:
    """An instruction that lets the other half of a core work while this one looks again and again; its declaration."""
    match machine.lower():
        case "x86_64" | "amd64":
            return "call void @llvm.x86.sse2.pause()", "declare void @llvm.x86.sse2.pause()\n"
        case "aarch64" | "arm64":
            return "call void @llvm.aarch64.hint(i32 1)", "declare void @llvm.aarch64.hint(i32)\n"
        case _:
            return "", ""


def _looks_per_second(await_: Callable[[int, int, int], int]) -> float:
    """How fast a thread looks, which differs by a factor of ten between CPUs."""
    never, looks = ctypes.c_int64(0), ctypes.c_int64(_MEASURED)
    seconds: list[float] = []
    for _ in range(3):
        start = time.perf_counter()
        await_(ctypes.addressof(never), 1, ctypes.addressof(looks))
        seconds.append(time.perf_counter() - start)
    return _MEASURED / max(min(seconds), 1e-9)
