"""Machine code for one GPU architecture, with what the assembler says that each kernel of it takes.

>>> compile_cubin(source, "sm_90", "gemm").kernel("gemm").registers
128
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field

from tiledsl.backend_cuda.frame.names import kernel_of


@dataclass(frozen=True)
class KernelResources:
    """What one kernel takes, as the assembler reports it. Bytes are per thread, but for those of shared and constant
    memory, which are per block and per kernel."""

    name: str
    registers: int
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0
    stack_bytes: int = 0
    """A thread's memory outside its registers: spills, arrays that are indexed at run time, arguments of calls."""
    static_shared_bytes: int = 0
    constant_bytes: int = 0
    """Parameters, literals and what the driver keeps beside them."""
    barriers: int = 0
    """Named barriers."""


@dataclass(frozen=True)
class Cubin:
    """The code of one program for `arch` (`sm_90`). `log` is what the compiler and the assembler had to say."""

    code: bytes = field(repr=False)
    arch: str
    log: str
    kernels: tuple[KernelResources, ...]

    def kernel(self, name: str) -> KernelResources:
        """What the kernel of that name takes."""
        return next(kernel for kernel in self.kernels if kernel.name == name)


def cubin_of(code: bytes, arch: str, log: str) -> Cubin:
    """The cubin with the resources that its assembler's report tells (`--ptxas-options=-v`), by name."""
    return Cubin(code, arch, log, kernels_of(log, code))


_ENTRY = re.compile(r"Compiling entry function '(?P<name>[^']+)'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_BARRIERS = re.compile(r"used (\d+) barriers")
_SHARED = re.compile(r"(\d+) bytes smem")


def kernels_of(log: str, code: bytes = b"") -> tuple[KernelResources, ...]:
    """The resources of each kernel of an assembler's report, by name; its constants are those of `code`.

    A kernel's report runs from the line that names it to that of the next. Functions that it calls report in between,
    and what they spill is the kernel's.
    """
    sizes = section_sizes(code)
    found: list[KernelResources] = []
    parts = _ENTRY.split(log)[1:]
    for name, report in zip(parts[::2], parts[1::2]):
        frames = [tuple(map(int, frame)) for frame in _STACK.findall(report)]
        used = next((line for line in report.splitlines() if _USED.search(line)), "")
        found.append(
            KernelResources(
                name=kernel_of(name),
                registers=_number(_USED, used),
                spill_store_bytes=sum(stores for _, stores, _ in frames),
                spill_load_bytes=sum(loads for _, _, loads in frames),
                stack_bytes=sum(stack for stack, _, _ in frames),
                static_shared_bytes=_number(_SHARED, used),
                constant_bytes=sum(
                    sizes[s] for s in sizes if re.fullmatch(rf"\.nv\.constant\d+\.{re.escape(name)}", s)
                ),
                barriers=_number(_BARRIERS, used),
            )
        )
    return tuple(sorted(found, key=lambda kernel: kernel.name))


def _number(pattern: re.Pattern[str], text: str) -> int:
    match = pattern.search(text)
    return int(match[1]) if match else 0


def section_sizes(code: bytes) -> dict[str, int]:
    """The bytes of each section of a 64-bit ELF file; nothing for what is none."""
    if code[:5] != b"\x7fELF\x02":
        return {}
    (table,) = struct.unpack_from("<Q", code, 0x28)
    entry_bytes, count, names = struct.unpack_from("<HHH", code, 0x3A)
    # Of each header: where its name starts among the names, where its bytes start, how many they are.
    headers = [struct.unpack_from("<I20xQQ", code, table + i * entry_bytes) for i in range(count)]
    start = headers[names][1]
    return {_text_at(code, start + name): size for name, _, size in headers}


def _text_at(code: bytes, start: int) -> str:
    return code[start : code.index(b"\0", start)].decode("utf-8", errors="replace")
