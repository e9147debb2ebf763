"""CUDA C to machine code by NVRTC, which needs no GPU.

The arithmetic is IEEE's: division and square root are rounded correctly, subnormals are kept. One liberty is taken
unless it is refused: a multiplication and an addition may be contracted into one instruction that rounds once, which
is what every GPU compiler does and twice as fast.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from tiledsl.backend_cuda.build.architectures import nvrtc_architecture
from tiledsl.backend_cuda.build.cubin import Cubin, cubin_of
from tiledsl.backend_cuda.frame.source_map import line_of_ptx, user_location
from tiledsl.passes.gpu_machine import architecture_of, gpu_machine
from tiledsl.support.errors import fail
from tiledsl.support.location import Location

_OPTIONS = (
    "--minimal",  # leaves out what only headers of the CUDA runtime need: a sixth of the time of a small kernel
    "--ptxas-options=-v",  # the report that resources are read from
    "--diag-suppress=177,550",  # names that are not used: generated code has some, and they cost nothing
)


@dataclass(frozen=True)
class CompilerMessage:
    """One complaint about CUDA C (`stage` is "c") or about the PTX made of it ("ptx").

    `line` counts from 1 within that text and is None where the message names none. `detail` holds the excerpt below the
    message: the line, and a caret.
    """

    severity: str
    text: str
    stage: str = "c"
    line: int | None = None
    detail: tuple[str, ...] = ()


def compile_cubin(
    source: str, arch: str, name: str, locations: Sequence[Location] = (), *, contract: bool = True
) -> Cubin:
    """Compiles CUDA C for an architecture (`sm_90`, in its full form).

    `name` is what messages call the program. `locations` are places in the user's file that the source was made for,
    the first of them for all of it. `contract` lets a multiplication and an addition become one fused instruction.

    Raises TileUnsupportedError where the source does not compile, pointing to the user's line that the comments of the
    source name (see `source_map.py`), or for an architecture that this NVRTC does not have; TileRuntimeError without
    NVRTC.
    """
    here = locations[0] if locations else None
    machine = gpu_machine(arch, here)
    target = nvrtc_architecture(machine, supported_capabilities(), nvrtc_version(), here)
    options = [f"--gpu-architecture={target}", f"--fmad={str(contract).lower()}", *_OPTIONS]
    result = _compile(source, name, options)
    if not result.succeeded:
        _fail_to_compile(source, name, options, result, locations)
    cubin = cubin_of(result.code, architecture_of(machine.name), result.log)
    if not cubin.kernels:  # a report without any was seen once, on a machine that compiled much at the same time
        result = _compile(source, name, options)
        cubin = cubin_of(result.code, architecture_of(machine.name), result.log)
    return cubin


@dataclass(frozen=True)
class _Result:
    """What a compilation left: the code if it succeeded, the PTX if it came so far."""

    succeeded: bool
    log: str
    code: bytes = b""
    ptx: str = ""


def _compile(source: str, name: str, options: Sequence[str]) -> _Result:
    nvrtc = load_nvrtc()
    status, program = nvrtc.nvrtcCreateProgram(source.encode(), f"{name}.cu".encode(), 0, None, None)
    _check(status, "nvrtcCreateProgram")
    try:
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
        log = _text(program, "ProgramLog").decode(errors="replace")
        log = re.sub(r"(?m)^ptxas info *: Compile time = .*\n?", "", log).strip()  # two runs must give the same log
        if status == nvrtc.nvrtcResult.NVRTC_SUCCESS:
            return _Result(True, log, code=_text(program, "CUBIN"))
        if status == nvrtc.nvrtcResult.NVRTC_ERROR_BUILTIN_OPERATION_FAILURE:
            fail("nvrtc-missing", None, reason=log)  # its second library
        return _Result(False, log or str(status), ptx=_text(program, "PTX").decode(errors="replace"))
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _text(program: object, what: str) -> bytes:
    """The log, the code or the PTX of a program; nothing where there is none. Texts end in a zero byte, which goes."""
    nvrtc = load_nvrtc()
    status, size = getattr(nvrtc, f"nvrtcGet{what}Size")(program)
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS or not size:
        return b""
    # cuda.bindings writes to it in place. One byte is the zero at the end, which Python's only b"\0" then stays.
    buffer = bytes(size)
    (status,) = getattr(nvrtc, f"nvrtcGet{what}")(program, buffer)
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        return b""
    return buffer if what == "CUBIN" else buffer.rstrip(b"\0")


def _check(status: object, function: str) -> None:
    if status != load_nvrtc().nvrtcResult.NVRTC_SUCCESS:
        fail("nvrtc-missing", None, reason=f"{function} gives {status}")


@cache
def load_nvrtc() -> Any:
    """The binding, with the library behind it loaded. Raises TileRuntimeError if either is not there."""
    try:
        # Here, not above: 0.08 s, and 0.07 s more for the library, that a kernel from the disk cache never pays.
        from cuda.bindings import (
            nvrtc,  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]  # compiled, no stubs
        )

        cast(Any, nvrtc).nvrtcVersion()  # the library is loaded by the first call
    except (ImportError, OSError, RuntimeError) as error:  # no binding; no library (a RuntimeError of cuda.pathfinder)
        reason = str(error).strip().splitlines()
        fail("nvrtc-missing", None, reason=reason[0] if reason else type(error).__name__)
    return cast(Any, nvrtc)


@cache
def nvrtc_identity() -> str:
    """Which NVRTC there is, for the keys of cached code: what pip installed, else the version that the library tells.

    To load the library takes longer than everything else that code from the disk needs. Raises TileRuntimeError without
    NVRTC.
    """
    installed: set[str] = set()
    for folder in sys.path:
        with contextlib.suppress(OSError), os.scandir(folder or ".") as entries:
            installed.update(e.name for e in entries if e.name.startswith(_WHEEL) and e.name.endswith(".dist-info"))
    return " ".join(sorted(installed)) or nvrtc_version()


_WHEEL = "nvidia_cuda_nvrtc"


@cache
def nvrtc_version() -> str:
    """`13.0`, say. Raises TileRuntimeError without NVRTC."""
    _, major, minor = load_nvrtc().nvrtcVersion()
    return f"{major}.{minor}"


@cache
def supported_capabilities() -> tuple[int, ...]:
    """The architectures that this NVRTC compiles for, as integers. Raises TileRuntimeError without NVRTC."""
    _, capabilities = load_nvrtc().nvrtcGetSupportedArchs()
    return tuple(capabilities)


# Failures


def _fail_to_compile(
    source: str, name: str, options: Sequence[str], result: _Result, locations: Sequence[Location]
) -> None:
    messages = messages_of(result.log, name)
    if any(message.stage == "ptx" and message.line for message in messages):
        # Once more, with the lines of CUDA C noted in the PTX: only those who meet an error pay for them.
        result = _compile(source, name, [*options, "--generate-line-info"])
        messages = messages_of(result.log, name)
    errors = [message for message in messages if message.severity == "error"] or messages
    first = errors[0] if errors else CompilerMessage("error", result.log)
    line = line_of_ptx(result.ptx, first.line or 0) if first.stage == "ptx" else first.line
    location = user_location(source, line or 0, locations)
    notes = [note for message in errors[:3] for note in _notes(message, name)]
    if first.stage == "ptx" and line:
        notes.append(f"in line {line} of {name}.cu: {source.splitlines()[line - 1].strip()}")
    if len(errors) > 3:
        notes.append(f"and {len(errors) - 3} more errors")
    fail("cuda-compile-failed", location, notes=notes, reason=first.text)


def _notes(message: CompilerMessage, name: str) -> list[str]:
    place = f"{name}.cu({message.line}): " if message.stage == "c" and message.line else ""
    return ["\n    ".join([f"NVRTC: {place}{message.text}", *message.detail])]


_C_MESSAGE = re.compile(
    r"^(?P<file>.+?)\((?P<line>\d+)\): (?P<severity>error|warning|remark|catastrophic error)[^:]*: (?P<text>.*)$"
)
_PTX_MESSAGE = re.compile(
    r"^\s*ptxas (?:application ptx input, line (?P<line>\d+); )?(?P<severity>error|warning|fatal) *: (?P<text>.*)$"
)
_OTHER_ERROR = re.compile(r"^(?:nvrtc: |Command-line )?error: (?P<text>.*)$")


def messages_of(log: str, name: str) -> tuple[CompilerMessage, ...]:
    """The errors and warnings of NVRTC's log on program `name`, in its order."""
    found: list[CompilerMessage] = []
    lines = log.splitlines()
    for number, text in enumerate(lines):
        if match := _C_MESSAGE.match(text):
            detail: list[str] = []
            for below in lines[number + 1 :]:
                if not below.strip():
                    break
                detail.append(below.rstrip())
            line = int(match["line"]) if match["file"] == f"{name}.cu" else None
            severity = match["severity"].split()[-1]
            found.append(CompilerMessage(severity, match["text"], "c", line, tuple(detail)))
        elif match := _PTX_MESSAGE.match(text):
            severity = "note" if match["severity"] == "fatal" else match["severity"]  # it only says that errors came
            found.append(CompilerMessage(severity, match["text"], "ptx", int(match["line"]) if match["line"] else None))
        elif match := _OTHER_ERROR.match(text):
            found.append(CompilerMessage("error", match["text"]))
    return tuple(found)
