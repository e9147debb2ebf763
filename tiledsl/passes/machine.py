"""What passes know of a CPU: a table of its vectors, registers, caches and cores, or that of the machine at hand.

>>> named("avx2").vector_bytes
32
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from tiledsl.ir.dtypes import DType, bf16, f32, i8, i32, u8
from tiledsl.support.errors import fail
from tiledsl.support.location import Location
from tiledsl.support.suggest import suggest


@dataclass(frozen=True)
class CpuSpeeds:
    """How fast one core is, in its cycles: of one vector multiply-add each. Found from whole kernels on two cores with
    AVX-512, and taken for all machines; only ratios decide what is chosen."""

    clock: float = 3.0e9
    """Cycles per second, of one vector multiply-add each: not measured, for times that are shown alone."""
    launch: float = 4e-6
    """Seconds from a call to the first program, and from the last one back."""
    program: float = 300.0
    """To hand out a program and to enter it."""
    turn: float = 60.0
    """Of a loop over blocks."""
    vector: float = 1.0
    """For each other operation on a vector."""
    packed: float = 0.5
    """For each element of an operand that is packed."""
    memory_bytes: float = 6.0
    """Per cycle, that one core draws from memory beyond its own caches."""
    stream: float = 400.0
    """Until the prefetchers follow a tile."""
    run: float = 80.0
    """What each further run of contiguous addresses costs beside its bytes."""
    update: float = 4.0
    """For each element that one thread combines with memory by itself, unless whole vectors of neighbours are."""
    atomic: float = 8.5
    """For each element that one of several threads does: a compare-and-swap."""
    across: tuple[float, float, float] = (1.0, 5.0, 16.0)
    """For each element that is read across the order of memory, by how many lines are gone through before the first one
    comes again: few, as many as the first cache has, or more."""
    cache_bytes: tuple[float, float, float] = (64.0, 32.0, 10.0)
    """Per cycle, from the first cache, the second one, and beyond."""


CORE = CpuSpeeds()
DOUBLE_CORE = CpuSpeeds(clock=7.4e9)
"""Of cores with two multipliers of 512 bits: 7.2e9 multiply-adds a second were found in products on a Zen 5."""
PAIRED_CORE = CpuSpeeds(
    clock=6.4e9, program=600.0, turn=120.0, vector=2.0, packed=1.0, memory_bytes=3.0, stream=800.0, run=160.0,
    update=8.0, atomic=17.0, across=(2.0, 10.0, 32.0), cache_bytes=(32.0, 16.0, 5.0),
)  # fmt: skip
"""Of cores with two multipliers of 256 bits: what they compute in a cycle is as much as `CORE` does, in two of their
vectors, and all else takes as many of their cycles. 6.4e9 multiply-adds a second were found on a Zen 3."""
LINE_BYTES = 64
"""Of the caches of all machines."""


@dataclass(frozen=True)
class CpuMachine:
    """The figures of one CPU that code is made for. All sizes are in bytes."""

    name: str
    vector_bytes: int
    vector_registers: int
    l1_bytes: int
    """Data cache, per core."""
    l2_bytes: int
    """Per core."""
    l3_bytes: int
    """Shared by the cores; 0 if there is none."""
    cores: int
    """How many threads can run at once."""
    features: frozenset[str]
    """Instruction sets, in LLVM's spelling (`avx512bf16`, `fullfp16`)."""
    speeds: CpuSpeeds = CORE

    @property
    def copied_bytes_per_second(self) -> float:
        """That all cores together draw from memory."""
        return self.cores * self.speeds.memory_bytes * self.speeds.clock

    def lanes(self, dtype: DType) -> int:
        """Elements of `dtype` in one vector register."""
        return max(1, self.vector_bytes // dtype.bytes)

    def takes_together(self, group: int) -> bool:
        """Whether an instruction adds that many products along k to each sum: four of bytes, two of bf16, or one."""
        bits = self.vector_bytes * 8
        long_ = bits == 512 or (bits == 256 and "avx512vl" in self.features)
        match group:
            case 4:
                return (long_ and "avx512vnni" in self.features) or (bits == 256 and "avxvnni" in self.features)
            case 2:
                return long_ and "avx512bf16" in self.features
            case _:
                return group == 1


def products_in_lane(total: DType, left: DType, right: DType) -> int:
    """How many products of `left` and `right` along k are as wide as a sum of dtype `total`, and are added to it at a
    time where a machine has an instruction for it: four of bytes, two of bf16, else one."""
    if left == right and left in (i8, u8) and total == i32:
        return 4
    return 2 if left == right == bf16 and total == f32 else 1


_AVX2 = frozenset({"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "popcnt", "sse4.1", "sse4.2"})
_AVX512 = _AVX2 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}

MACHINES: dict[str, CpuMachine] = {
    machine.name: machine
    for machine in (
        CpuMachine("avx2", 32, 16, 32 << 10, 512 << 10, 16 << 20, 4, _AVX2, PAIRED_CORE),
        CpuMachine("avx512", 64, 32, 32 << 10, 1 << 20, 32 << 20, 8, _AVX512),
        CpuMachine("neon", 16, 32, 64 << 10, 1 << 20, 8 << 20, 4, frozenset({"neon"})),
        # What every x86-64 has, and what any CPU that is not known is taken for.
        CpuMachine("generic", 16, 16, 32 << 10, 256 << 10, 4 << 20, 2, frozenset()),
    )
}
"""Machines by name: for reproducible output whatever the machine at hand, and where nothing can be found out."""


def named(name: str, location: Location | None = None) -> CpuMachine:
    """The machine of that name; `cpu` is the one at hand. Raises TileUnsupportedError if there is none."""
    if name == "cpu":
        return host()
    if name not in MACHINES:
        hint = suggest(name, MACHINES, "machines: cpu, " + ", ".join(MACHINES))
        fail("machine-unknown", location, name=name, hint=hint)
    return MACHINES[name]


@cache
def describe_cpu(machine: CpuMachine) -> str:
    """A machine in words, which tell it from others: what measured times are times of."""
    sizes = "/".join(f"{size >> 10}" for size in (machine.l1_bytes, machine.l2_bytes, machine.l3_bytes))
    name = cpu_model(Path("/proc/cpuinfo")) if machine.name == "cpu" else machine.name
    return f"{name}, {machine.cores} cores, vectors of {machine.vector_bytes} bytes, caches of {sizes} KiB"


@cache
def host() -> CpuMachine:
    """The machine at hand: from /proc and /sys on Linux, else the nearest table with the number of cores set right."""
    return detect(Path("/"), platform.machine(), available_cores())


def available_cores() -> int:
    """How many CPUs this process may run on."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS, nor on Windows
        return max(1, len(os.sched_getaffinity(0)))
    return max(1, os.cpu_count() or 1)


def detect(root: Path, architecture: str, cores: int) -> CpuMachine:
    """The machine that the proc and sys file systems under `root` describe.

    `architecture` is what `platform.machine()` says. What cannot be read is taken from the nearest table.
    """
    is_arm = architecture.lower() in ("arm64", "aarch64")
    features = cpu_features(root / "proc" / "cpuinfo")
    if is_arm:
        base = MACHINES["neon"]
    elif features >= _AVX512:
        base = MACHINES["avx512"]
    elif {"avx2", "fma"} <= features or (not features and architecture.lower() in ("x86_64", "amd64")):
        base = MACHINES["avx2"]
    else:
        base = MACHINES["generic"]
    sizes = cache_sizes(root / "sys" / "devices" / "system" / "cpu" / "cpu0" / "cache")
    double = base.name == "avx512" and has_double_units(root / "proc" / "cpuinfo")
    # A machine that lists its caches and has no third level has none; one that lists nothing has the table's.
    l3 = sizes.get(3, 0) if sizes else base.l3_bytes
    return replace(
        base,
        name="cpu",
        l1_bytes=sizes.get(1, base.l1_bytes),
        l2_bytes=sizes.get(2, base.l2_bytes),
        l3_bytes=l3,
        cores=cores,
        features=features or base.features,
        speeds=DOUBLE_CORE if double else base.speeds,
    )


def cpu_model(cpuinfo: Path) -> str:
    """What a /proc/cpuinfo calls the first CPU; what Python knows of it where that cannot be read."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(names), "") or platform.processor() or platform.machine()


ZEN_5 = 26
"""The first family of AMD's processors whose vector units are 512 bits wide."""


def has_double_units(cpuinfo: Path) -> bool:
    """Whether cores of the first CPU in a /proc/cpuinfo are known to have two multipliers of 512 bits."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    said = [line.partition(":") for line in lines if line.startswith(("vendor_id", "cpu family"))][:2]
    known = {key.strip(): value.strip() for key, _, value in said}
    family = known.get("cpu family", "")
    return known.get("vendor_id") == "AuthenticAMD" and family.isdigit() and int(family) >= ZEN_5


# What Linux calls the instruction sets that compilers make something of, by what LLVM calls them.
_LINUX_NAMES = {
    "lzcnt": "abm", "neon": "asimd", "dotprod": "asimddp", "fullfp16": "asimdhp", "bmi": "bmi1", "sse4.1": "sse4_1",
    "sse4.2": "sse4_2", "avx512bf16": "avx512_bf16", "avx512fp16": "avx512_fp16", "avx512vnni": "avx512_vnni",
    "avx512vbmi2": "avx512_vbmi2", "avxvnni": "avx_vnni", "amx-bf16": "amx_bf16", "amx-int8": "amx_int8",
    "amx-tile": "amx_tile",
} | {
    name: name
    for name in (
        "avx", "avx2", "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vbmi", "avx512vl", "bf16", "bmi2", "f16c",
        "fma", "gfni", "i8mm", "popcnt", "sse", "sse2", "ssse3", "sve", "sve2",
    )
}  # fmt: skip


def cpu_features(cpuinfo: Path) -> frozenset[str]:
    """The instruction sets of the first CPU in a /proc/cpuinfo, in LLVM's spelling; empty if it cannot be read."""
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):  # x86 and ARM
            flags = set(value.split())
            return frozenset(name for name, linux_name in _LINUX_NAMES.items() if linux_name in flags)
    return frozenset()


_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def cache_sizes(directory: Path) -> dict[int, int]:
    """Bytes of the data or unified cache of each level that a sysfs cache directory lists; empty if there is none."""
    return dict(filter(None, map(_cache_level_and_size, sorted(directory.glob("index*")))))


def _cache_level_and_size(entry: Path) -> tuple[int, int] | None:
    try:
        level, kind, size = ((entry / name).read_text(encoding="ascii").strip() for name in ("level", "type", "size"))
        size_bytes = int(size.rstrip("KMG")) * _UNITS.get(size[-1:], 1)
        # A virtual machine may list a cache without saying how large it is.
        return None if kind == "Instruction" or size_bytes == 0 else (int(level), size_bytes)
    except (OSError, ValueError):
        return None
