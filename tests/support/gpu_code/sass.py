"""What machine code does, read from nvdisasm: which instructions, how wide the accesses, which matrix products.

kernel = disassemble(cubin)["gemm"]
assert kernel.widths("LDGSTS") == {16} and not kernel.local
assert kernel.products == {("HMMA", (16, 8, 16), "F32.BF16")}
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tiledsl.backend_cuda.build.cubin import Cubin
from tiledsl.backend_cuda.frame.names import kernel_of


class Product(NamedTuple):
    """A matrix instruction: its unit, its shape (M, N, K) and the dtypes it names.

    HMMA computes f16 unless it says BF16 or TF32; the first dtype is the accumulator's where there are two. Products of
    f8 by `mma.sync` are HMMA of f16, behind a conversion, on sm_90 and sm_100.
    """

    unit: str
    shape: tuple[int, int, int]
    dtypes: str


@dataclass(frozen=True)
class Disassembly:
    """The instructions of one kernel, without those that never run."""

    name: str
    opcodes: tuple[str, ...]
    """With all suffixes (`LDG.E.128`), in the order of the code."""

    @cached_property
    def counts(self) -> Counter[str]:
        """How often each instruction stands in the code, by the part of its name before the first dot."""
        return Counter(opcode.partition(".")[0] for opcode in self.opcodes)

    def widths(self, *mnemonics: str) -> set[int]:
        """The bytes per thread of the accesses of these kinds: `LDG`, `STG`, `LDGSTS`, `LDS`, `STS`, `LDSM`, `STSM`."""
        return {width(opcode) for opcode in self.opcodes if opcode.partition(".")[0] in mnemonics}

    @property
    def global_loads(self) -> set[int]:
        """Bytes per thread of the loads from global memory, copies to shared memory included."""
        return self.widths("LDG", "LD", "LDGSTS")

    @property
    def global_stores(self) -> set[int]:
        """Bytes per thread of the stores to global memory."""
        return self.widths("STG", "ST")

    @property
    def local(self) -> bool:
        """Whether the kernel reads or writes local memory: spills, or arrays that are indexed at run time."""
        return bool(self.counts["LDL"] or self.counts["STL"])

    def beside_products(self, start: str) -> int:
        """The most instructions of a kind between products that were begun, or a wait for some, and the next wait."""
        found = most = 0
        for opcode in self.opcodes:
            if opcode.startswith("WARPGROUP.DEPBAR"):
                most = max(most, found)
            if opcode.startswith(("HGMMA", "WARPGROUP.DEPBAR")):
                found = 0
            found += opcode.startswith(start)
        return most

    @cached_property
    def products(self) -> set[Product]:
        """The kinds of matrix instructions."""
        return {product for opcode in self.opcodes if (product := matrix_product(opcode))}


_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16, "256": 32}


def width(opcode: str) -> int:
    """Bytes per thread that a load or a store moves: `LDG.E.128` gives 16, `LDSM.16.M88.4` (four matrices) too."""
    mnemonic, *suffixes = opcode.split(".")
    if mnemonic in ("LDSM", "STSM"):
        return 4 * int(suffixes[-1]) if suffixes[-1].isdecimal() else 4
    return next((_WIDTHS[suffix] for suffix in suffixes if suffix in _WIDTHS), 4)


_UNITS = {"HMMA", "IMMA", "QMMA", "DMMA", "OMMA", "HGMMA", "IGMMA", "QGMMA", "UTCHMMA", "UTCIMMA", "UTCQMMA"}
# DMMA tells M alone where the rest follows from it.
_SHAPES = {
    "16816": (16, 8, 16), "1688": (16, 8, 8), "1684": (16, 8, 4), "16832": (16, 8, 32), "16864": (16, 8, 64),
    "8816": (8, 8, 16), "884": (8, 8, 4), "8": (8, 8, 4),
}  # fmt: skip


def matrix_product(opcode: str) -> Product | None:
    """What a matrix instruction computes: `HMMA.16816.F32.BF16`, `HGMMA.64x256x16.F32.BF16`; None for another one."""
    unit, _, rest = opcode.partition(".")
    if unit not in _UNITS:
        return None
    shape, _, dtypes = rest.partition(".")
    if sizes := re.fullmatch(r"(\d+)x(\d+)x(\d+)", shape):
        return Product(unit, (int(sizes[1]), int(sizes[2]), int(sizes[3])), dtypes)
    return Product(unit, _SHAPES.get(shape, (0, 0, 0)), dtypes)


def disassemble(cubin: Cubin) -> dict[str, Disassembly]:
    """The kernels of a cubin by name. Skips the test, saying so, where nvdisasm is not installed."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "program.cubin"
        file.write_bytes(cubin.code)
        command = [str(disassembler()), "--emit-json", "--print-code", "--no-dataflow", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"nvdisasm fails: {done.stderr}"
    _, functions = json.loads(done.stdout)
    names = {kernel.name for kernel in cubin.kernels}
    found: dict[str, list[str]] = {}
    for function in functions:
        # What a kernel calls stands in its own section, behind it.
        name = kernel_of(function["function-name"])
        owner = name if name in names else next(reversed(found), "")
        found.setdefault(owner, []).extend(_opcodes(function["sass-instructions"]))
    return {name: Disassembly(name, tuple(opcodes)) for name, opcodes in found.items()}


def _opcodes(instructions: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """The names of instructions; those under a predicate that never holds only fill time slots."""
    return (entry["opcode"] for entry in instructions if entry.get("predicate") not in ("@!PT", "@!UPT"))


@cache
def disassembler() -> Path:
    """Where nvdisasm lies, from the wheel `nvidia-cuda-nvdisasm`. Skips the test if it is not installed."""
    try:
        listed = files("nvidia-cuda-nvdisasm") or []
    except PackageNotFoundError:
        pytest.skip("nvdisasm is not installed: pip install nvidia-cuda-nvdisasm")
    found = [Path(str(entry.locate())) for entry in listed if entry.stem == "nvdisasm"]
    if not found:
        pytest.skip("the package nvidia-cuda-nvdisasm has no nvdisasm")
    return found[0]
