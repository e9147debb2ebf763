"""What passes know of a GPU: a table of its memories, registers and instructions, by architecture.

>>> gpu_machine("sm_90").shared_bytes_per_block >> 10
227

An architecture is compared by its `capability`, an integer: sm_100 is newer than sm_90, which text would not say. GPUs
of one architecture differ in their multiprocessors and in their memory, so these may stand behind its name, the memory
in GB/s. An H100 has as many multiprocessors as an H200, which is the one of the table:

>>> gpu_machine("sm_90:132x3350").memory_bytes_per_second
3350000000000.0
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import NoReturn

from tiledsl.support.errors import fail
from tiledsl.support.location import BUILTIN, Location

COPY_SHARE = 0.88
"""Of the maker's bandwidth, what a plain copy reaches."""


WINDOW_ROW_CLOCKS = 1.25
WINDOW_ROW_BYTES = 47
"""Per clock, where all multiprocessors ask for them."""
WINDOW_OUTSIDE_CLOCKS = 0.21
REQUEST_BYTES = 64
"""Of L2, that a row of windows is brought by."""


@dataclass(frozen=True)
class Speeds:
    """How fast the parts of one multiprocessor are, per clock unless said otherwise, and what they wait for."""

    clock: float
    """Clocks per second, under products that keep the device within its power."""
    products: tuple[tuple[int, int], ...]
    """Multiply-adds of the fastest matrix instructions, by the bytes of an operand's element."""
    mma_share: float
    """Of that, what `mma.sync` reaches."""
    power_limit: float
    """The share of these multiply-adds that the device has power for, in the long run."""
    exponentials: int
    """`ex2` and its like."""
    instructions: int
    """Of threads: single multiply-adds in f32, compares, conversions of pairs."""
    shared_bytes: int
    l2_bytes: float
    """From the L2 cache, of all multiprocessors together."""
    l2_bytes_each: int
    """The most that one multiprocessor takes in."""
    peer_bytes: int
    """To the shared memory of other blocks of a cluster, by bulk copies."""
    latency: int
    """Clocks from the start of a copy to its end in shared memory, when it comes from the L2 cache."""
    memory_latency: int
    """The same from memory."""
    launch: float
    """Seconds that an empty kernel takes."""
    doubles: float = 2
    """Of threads: single multiply-adds in f64."""
    double_products: float = 2
    """Multiply-adds in f64 by `mma.sync`, which has no faster kin there; or by single ones, where these are as fast."""
    measured: bool = False
    """Whether these were measured on the device; else they follow from what the maker states, and are less sure."""

    def row_of_windows(
        self, row_bytes: int, outside: float = 0.0, share: float = 1.0, start: int = REQUEST_BYTES
    ) -> float:  # fmt: skip
        """Clocks of a multiprocessor in which TMA brings a row of a box of windows ("im2col"), where L2 has it:
        32 bytes 1.9, 64 bytes 2.4, 128 bytes 4 to 4.6. `outside`: bytes at its end that no pixel has; of 16 channels of
        which 8 are there a row took 5.3. Where a `share` of the multiprocessors asks for rows, each gets its bytes
        sooner, up to what one can take in: 128 bytes in 3.1, where a third of them does. Found from whole convolutions
        on an H200, not measured by itself. `start`: rows begin at multiples of so many bytes; what lies across 64 bytes
        is asked for twice: rows of 64 bytes took 3.7 and 3.9 at multiples of 32, 4.8 and 5.2 at multiples of 16 (on an
        H100)."""
        rate = min(self.l2_bytes_each, WINDOW_ROW_BYTES / share)
        within = REQUEST_BYTES - min(start, REQUEST_BYTES)
        asked = max(1.0, (row_bytes + within) / REQUEST_BYTES) / -(-row_bytes // REQUEST_BYTES)
        return (WINDOW_ROW_CLOCKS + row_bytes / rate) * asked + outside * WINDOW_OUTSIDE_CLOCKS

    def products_of(self, element_bytes: int) -> int:
        """Multiply-adds per clock for operands of so many bytes per element, at most 4."""
        return dict(self.products)[element_bytes]

    def mma_of(self, element_bytes: int) -> float:
        """The same by `mma.sync`, f64 too."""
        return self.double_products if element_bytes > 4 else self.products_of(element_bytes) * self.mma_share


@dataclass(frozen=True)
class GpuMachine:
    """The figures of one GPU that code is made for. Sizes are in bytes.

    What belongs to the architecture (limits, instructions) is the same for all its GPUs. Multiprocessors, L2 and
    bandwidth are those of its best-known GPU, until a device at hand says otherwise.
    """

    name: str
    """`sm_90`, with no letter behind it: the full set of instructions of that architecture is always meant. Of a GPU
    that is not the one of the table `sm_90:132x3350`."""
    capability: int
    """90 for sm_90."""
    multiprocessors: int
    shared_bytes_per_block: int
    """The most that a block can ask for."""
    shared_bytes_per_multiprocessor: int
    """Every resident block takes 1 KiB of it beyond what it asks for."""
    max_threads_per_multiprocessor: int
    max_blocks_per_multiprocessor: int
    l2_bytes: int
    memory_bytes_per_second: float
    """As the maker states it; a copy reaches about nine tenths."""
    speeds: Speeds
    block_bytes: int = 1024
    """Of a multiprocessor's shared memory, that each block takes for itself."""
    registers: int = 65536
    """32-bit registers per multiprocessor, and the most that one block can have."""
    max_threads_per_block: int = 1024

    @property
    def copied_bytes_per_second(self) -> float:
        """Of memory, read and written together, as a plain copy reaches it."""
        return COPY_SHARE * self.memory_bytes_per_second

    def shared_bytes_of_block(self, resident: int) -> int:
        """The most that a block can ask for where so many share a multiprocessor."""
        return min(self.shared_bytes_per_block, self.shared_bytes_per_multiprocessor // resident - self.block_bytes)

    @property
    def max_cluster(self) -> int:
        """Blocks that can form a cluster on every GPU of the architecture; 1 where there are no clusters."""
        return 8 if self.has_clusters else 1

    @property
    def largest_cluster(self) -> int:
        """Blocks that can form a cluster on the large GPUs of the architecture, if the launch asks for it."""
        return 16 if self.capability in (90, 100, 103) else self.max_cluster

    @property
    def has_warpgroups(self) -> bool:
        """Products by warpgroups out of shared memory (`wgmma`), copies of boxes by one thread (TMA)."""
        return self.capability == 90

    def multiprocessors_in_clusters(self, cluster: int) -> int:
        """How many multiprocessors clusters of that size can use at once: a cluster stays within a part of the device.

        An H200 has room for 66 clusters of 2 blocks that need a multiprocessor each, 30 of 4 and 15 of 8, as the
        driver tells: parts differ in size, and what is left of each goes to waste.
        """
        usable = self.multiprocessors if cluster <= 2 else self.multiprocessors * 10 // 11
        return usable // cluster * cluster

    @property
    def has_async_copy(self) -> bool:
        """Copies from global to shared memory that pass no register (`cp.async`)."""
        return self.capability >= 80

    @property
    def has_clusters(self) -> bool:
        """Clusters of blocks that reach each other's shared memory."""
        return self.capability >= 90


HOPPER_SPEEDS = Speeds(
    clock=1.755e9,
    products=((4, 1024), (2, 2048), (1, 4096)),
    mma_share=0.62,
    power_limit=0.86,
    exponentials=16,
    instructions=128,
    shared_bytes=128,
    l2_bytes=9000,
    l2_bytes_each=70,
    peer_bytes=9,
    latency=750,
    memory_latency=1250,
    launch=3.1e-6,
    doubles=64,
    double_products=128,
    measured=True,
)
"""Of an H200. The maker's peak of 989e12 operations per second in 16 bits is at 1.83 GHz. Its peak of 67e12 in f64 is
128 multiply-adds a clock, by instructions for 16 rows; those for 8 rows reach half."""


def _stated(
    ghz: float,
    products: int,
    instructions: int,
    l2_bytes: float,
    *,
    mma_share: float = 1.0,
    narrow: int = 2,
    doubles: tuple[int, int] = (2, 2),
) -> Speeds:
    """What the maker states of a GPU: its clock, multiply-adds per clock of 16-bit operands (`narrow` times as many of
    8 bits), of single instructions, and bytes of L2 per clock; of f64 one by one and by `mma.sync`. The rest is about
    the same for all of them."""
    return Speeds(
        clock=ghz * 1e9, products=((4, products // 2), (2, products), (1, products * narrow)), mma_share=mma_share,
        power_limit=0.9, exponentials=16, instructions=instructions, shared_bytes=128, l2_bytes=l2_bytes,
        l2_bytes_each=64, peer_bytes=9, latency=600, memory_latency=1000, launch=3e-6, doubles=doubles[0],
        double_products=doubles[1],
    )  # fmt: skip


def _machine(
    capability: int,
    multiprocessors: int,
    shared: int,
    threads: int,
    blocks: int,
    l2: float,
    bandwidth: float,
    speeds: Speeds,
) -> GpuMachine:
    """A row of the table; `shared` in KiB, `l2` in MiB, `bandwidth` in GB/s."""
    return GpuMachine(
        name=f"sm_{capability}",
        capability=capability,
        multiprocessors=multiprocessors,
        shared_bytes_per_block=shared << 10,
        shared_bytes_per_multiprocessor=shared + 1 << 10,  # the 1 KiB that a block takes for itself
        max_threads_per_multiprocessor=threads,
        max_blocks_per_multiprocessor=blocks,
        l2_bytes=int(l2 * (1 << 20)),
        memory_bytes_per_second=bandwidth * 1e9,
        speeds=speeds,
    )


GPU_MACHINES: dict[str, GpuMachine] = {
    machine.name: machine
    for machine in (
        _machine(80, 108, 163, 2048, 32, 40, 2039, _stated(1.41, 1024, 64, 5120, doubles=(32, 64))),  # A100, 80 GB
        _machine(86, 84, 99, 1536, 16, 6, 768, _stated(1.8, 512, 128, 1536)),  # A6000
        _machine(89, 142, 99, 1536, 24, 96, 864, _stated(2.5, 512, 128, 3072)),  # L40S
        _machine(90, 132, 227, 2048, 32, 50, 4800, HOPPER_SPEEDS),  # H200
        _machine(
            100, 148, 227, 2048, 32, 126, 8000, _stated(1.85, 4096, 128, 10000, mma_share=0.25, doubles=(64, 64))
        ),  # B200
        _machine(103, 148, 227, 2048, 32, 126, 8000, _stated(1.9, 4096, 128, 10000, mma_share=0.25)),  # B300
        _machine(120, 170, 99, 1536, 24, 96, 1792, _stated(2.4, 256, 128, 5000)),  # RTX 5090
        _machine(121, 48, 99, 1536, 24, 24, 273, _stated(2.4, 256, 128, 2000)),  # GB10
    )
}
"""The architectures that code can be made for, oldest first, by name."""

OLDEST = next(iter(GPU_MACHINES.values()))

_NAME = re.compile(r"(sm_(\d+))[af]?(?::(\d+)x(\d+))?")
_ALIKE = 0.35
"""A device whose memory is within so much of that of the table's GPU, and that has as many multiprocessors, is planned
for as that one: what was fitted on one carries over better than its memory does. On an H100, 60 programs whose plans
differ took 1% longer by plans for its own memory than by those for an H200, three apart that had poor plans there."""
_STEP = 50
"""GB/s, to which a device's memory is rounded: clocks that differ a little between two of a kind make one machine."""


def gpu_machine(name: str, location: Location | None = None) -> GpuMachine:
    """The machine of an architecture: `sm_90`, or `sm_90a`, which means the same; or that of another GPU of it, by its
    multiprocessors and its memory in GB/s: `sm_90:132x3350`.

    Raises TileUnsupportedError for one that is too old, and for a name that is none.
    """
    found = _machine_called(name)
    if found is not None:
        return found
    match = _NAME.fullmatch(name)
    if match is not None and int(match[2]) < OLDEST.capability:
        fail("gpu-too-old", location, name=match[1], oldest=OLDEST.name)
    _unknown(name, location, _of_generation(int(match[2])) if match else None)


@cache
def _machine_called(name: str) -> GpuMachine | None:
    match = _NAME.fullmatch(name)
    table = GPU_MACHINES.get(match[1]) if match is not None else None
    if match is None or table is None or match[3] is None:
        return table
    multiprocessors, gigabytes = int(match[3]), int(match[4])
    if not multiprocessors or not gigabytes:
        return None
    own = f"{table.name}:{multiprocessors}x{gigabytes}"
    return replace(table, name=own, multiprocessors=multiprocessors, memory_bytes_per_second=gigabytes * 1e9)


def architecture_of(name: str) -> str:
    """What machine code for a machine is made for: `sm_90` for `sm_90:132x3350`. Other names are left as they are."""
    return name.partition(":")[0]


def machine_of_device(
    capability: int, multiprocessors: int, memory_bytes_per_second: float, location: Location | None = None
) -> GpuMachine:
    """The machine that plans for a device are made for: the one of the table, where it is as large and about as fast
    (35%), else one with the device's own multiprocessors and memory (0: not known). All else is as the table has it.

    Raises TileUnsupportedError as `machine_of_capability`.
    """
    table = machine_of_capability(capability, location)
    rate = memory_bytes_per_second or table.memory_bytes_per_second
    if multiprocessors == table.multiprocessors and abs(rate / table.memory_bytes_per_second - 1) <= _ALIKE:
        return table
    return gpu_machine(f"{table.name}:{multiprocessors}x{in_steps(rate)}", location)


def in_steps(bytes_per_second: float) -> int:
    """A memory's rate in GB/s, as names of machines have it."""
    return max(1, round(bytes_per_second / 1e9 / _STEP)) * _STEP


def machine_with_warpgroups(arch: str) -> GpuMachine | None:
    """The machine of a target that has TMA and products by warpgroups; None for CPUs and other GPUs.

    Raises TileUnsupportedError as `gpu_machine`."""
    machine = gpu_machine(arch, BUILTIN) if arch.startswith("sm_") else None
    return machine if machine is not None and machine.has_warpgroups else None


def machine_of_capability(capability: int, location: Location | None = None) -> GpuMachine:
    """The table whose code runs on a device of that capability.

    Up to 89 that may be the next older of its generation: code made for sm_86 runs on a device of capability 87. From
    90 on code is made with the instructions of one architecture, and runs there only.
    Raises TileUnsupportedError where there is none.
    """
    name = f"sm_{capability}"
    return GPU_MACHINES.get(name) or _of_generation(capability) or gpu_machine(name, location)


def _of_generation(capability: int) -> GpuMachine | None:
    """The newest machine whose plain code runs on a device of that capability."""
    older = [m for m in GPU_MACHINES.values() if m.capability // 10 == capability // 10 and m.capability <= capability]
    return older[-1] if older and capability < 90 else None


def _unknown(name: str, location: Location | None, instead: GpuMachine | None) -> NoReturn:
    known = ", ".join(f"`{known}`" for known in GPU_MACHINES)
    hint = f"compile for `{instead.name}`, whose code runs there too" if instead else f"choose one of {known}"
    if instead is None and _NAME.fullmatch(name):
        hint += "; on that GPU, `python -m benchmarks.gpu machine` measures the row that the table of machines lacks"
    fail("gpu-unknown", location, name=name, hint=hint)
