"""What is asked of a library for products of matrices, where it is looked for, and the one of this process."""

from __future__ import annotations

import ctypes
import os
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from tiledsl.passes.gpu.plan import LibraryPlan
from tiledsl.passes.library.library_product import MatmulCall

NAME = "cuBLASLt"
MISSING = "cuBLASLt is not installed (`pip install tiledsl[library]`)"


class LibraryMissingError(Exception):
    """Why there is no library in this process."""


class ReadyCall(Protocol):
    """A call with its algorithm. Threads may share it."""

    def __call__(self, addresses: Sequence[int], workspace: int, stream: int, /) -> None:
        """Launches on a stream of the current context. `addresses`: of A, B, D and the bias (0: there is none).
        Raises NoLibraryCallError with the library's status."""
        ...


class Library(Protocol):
    """A library on this machine. The context of the device is current."""

    version: int

    def algorithms(self, call: MatmulCall, alignment: Sequence[int], count: int, device: int, /) -> list[LibraryPlan]:
        """At most so many algorithms for a call, the one that it would take first. `alignment`: of A, B, D and the
        bias, in bytes. Sums are added up in one order. Raises NoLibraryCallError."""
        ...

    def ready(self, call: MatmulCall, plan: LibraryPlan, device: int, /) -> ReadyCall:
        """A call by an algorithm. Raises NoLibraryCallError where the library does not have it for the call."""
        ...


_FILES = re.compile(r"(?:libcublasLt\.so\.(\d+)|cublasLt64_(\d+)\.dll)$")
_SYSTEM = ("cublasLt64_13.dll", "cublasLt64_12.dll") if sys.platform == "win32" else (
    "libcublasLt.so.13", "libcublasLt.so.12",
)  # fmt: skip
"""By which names the system's loader is asked where no wheel has it."""
_lock = threading.Lock()
_found: list[Library | str] = []
"""The library of this process, or why there is none; nothing: nobody has asked."""


def library() -> Library:
    """The library of this process. Raises LibraryMissingError."""
    with _lock:
        if not _found:
            _found.append(_opened())
        (found,) = _found
    if isinstance(found, str):
        raise LibraryMissingError(found)
    return found


def replace_library(new: Library | str | None) -> None:
    """Puts another in its place: for tests. A text says why there is none; None: it is looked for again."""
    with _lock:
        _found[:] = [] if new is None else [new]
    mark.cache_clear()


def why_no_library(version: int) -> str | None:
    """Why a plan that was measured with this version of the library cannot be followed; None if it can."""
    try:
        own = library().version
    except LibraryMissingError as error:
        return str(error)
    return None if own == version else f"it is of cuBLASLt {version}, and that is {own}"


@cache
def mark() -> str:
    """Changes where another library is installed. Loads none."""
    if _found:
        (found,) = _found
        return found if isinstance(found, str) else str(found.version)
    found_files = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in _files()]
    return str(found_files)


def _files() -> Iterator[Path]:
    """Libraries that wheels have brought, the newest version first."""
    spec = find_spec("nvidia")
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    found: list[tuple[int, Path]] = []
    for folder in folders:
        for pattern in ("*/lib/libcublasLt.so.*", "*/bin/cublasLt64_*.dll", "*/bin/x86_64/cublasLt64_*.dll"):
            for path in Path(folder).glob(pattern):
                if match := _FILES.search(path.name):
                    found.append((int(match[1] or match[2]), path))
    yield from (path for _, path in sorted(found, reverse=True))


def _opened() -> Library | str:
    from tiledsl.backend_cuda.library.cublaslt import CublasLt  # ctypes prototypes: for those who use it

    for name in (*map(os.fspath, _files()), *_SYSTEM):
        with suppress(OSError, AttributeError):  # it is not there, or is too old to have all functions
            return CublasLt(ctypes.CDLL(name))
    return MISSING
