"""The state of one program of a launch: its shared memory, mbarriers, barriers, and what is under way."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tiledsl.backend_ref.emulator.agents.async_groups import UnderWay
from tiledsl.backend_ref.emulator.agents.clocks import KINDS, Clock
from tiledsl.backend_ref.emulator.agents.mbarriers import BYTES, Mbarrier
from tiledsl.backend_ref.emulator.agents.shadow import Shadow, TensorShadow
from tiledsl.backend_ref.emulator.agents.waiting import Barrier
from tiledsl.ir.core import Op
from tiledsl.ir.gpu.async_ops import Mbarriers
from tiledsl.ir.gpu.gpu_ops import Buffer, Launch
from tiledsl.ir.layouts.buffer_layout import SharedLayout
from tiledsl.ir.types import TileType
from tiledsl.support.errors import fail

if TYPE_CHECKING:
    from tiledsl.backend_ref.emulator.agents.agent import Agent

ALIGNMENT = 1024
"""Of buffers that have no place yet, and of each block's memory: what any swizzle asks for."""


@dataclass(frozen=True)
class Places:
    """Where buffers and mbarriers start, and how many bytes each block has."""

    starts: dict[Op, int]
    size: int


def place_buffers(launch: Launch) -> Places:
    """Those that are not allocated get places of their own behind those that are."""
    starts: dict[Op, int] = {}
    size = launch.shared_bytes
    for op in launch.body.walk():
        if isinstance(op, Buffer):
            layout = op.result.tile.layout
            assert isinstance(layout, SharedLayout)
            needed, alignment = layout.bytes(op.shape, op.dtype), layout.alignment
        elif isinstance(op, Mbarriers):
            needed, alignment = BYTES * op.count, BYTES
        else:
            continue
        start = op.offset
        if start < 0:
            start = -(-size // ALIGNMENT) * ALIGNMENT
            size = start + needed
        elif start + needed > launch.shared_bytes:
            fail("emulator-shared-end", op.location, op=op.name, needed=needed, start=start, size=launch.shared_bytes)
        elif start % alignment:
            fail(
                "emulator-misaligned", op.location, program="the launch", op=op.name, width=alignment,
                place=f"byte {start}",
            )  # fmt: skip
        starts[op] = start
    return Places(starts, -(-size // ALIGNMENT) * ALIGNMENT)


@dataclass(frozen=True)
class Appointment:
    """Something that a block must not end before: it is counted at a phase of one of the block's mbarriers.

    `remote`: the component and step of time of another block's agent that does it; None for a copy.
    """

    op: Op
    block: int
    barrier: Mbarrier
    phase: int
    remote: tuple[int, int] | None


@dataclass(eq=False)
class Program:
    """One program. Addresses are of a block's memory, which begins at a multiple of `stride`."""

    launch: Launch
    number: int
    name: str
    """For messages: `program m = 0:64`."""
    starts: dict[Op, int]
    stride: int
    components: int
    agents: int
    random: random.Random | None
    """Decides who goes on, and when what is under way is done. None: all in step, and at once."""
    tensors: dict[int, TensorShadow]
    """Of the tensors that the launch writes to, by the identity of their arrays."""
    memory: npt.NDArray[np.uint8] = field(init=False)
    shadow: Shadow = field(init=False)
    mbarriers: dict[tuple[Mbarriers, int, int], Mbarrier] = field(
        default_factory=dict[tuple[Mbarriers, int, int], Mbarrier]
    )
    barriers: dict[tuple[str, int, int], Barrier] = field(default_factory=dict[tuple[str, int, int], Barrier])
    """By kind, number and first block."""
    appointments: list[Appointment] = field(default_factory=list[Appointment])
    flights: list[UnderWay] = field(default_factory=list[UnderWay])
    members: list[Agent] = field(default_factory=list["Agent"])

    def __post_init__(self) -> None:
        total = self.blocks * self.stride
        self.memory = np.full(total, 0xFF, np.uint8)
        self.shadow = Shadow(total)
        self._guarded = np.zeros(total, np.int32)
        self._guards: list[Mbarrier] = []
        self._lent = np.zeros(total, np.int32)
        self._borrowers: list[Op] = []

    @property
    def blocks(self) -> int:
        return self.launch.cluster

    @property
    def block_threads(self) -> int:
        return self.launch.threads

    def component(self, agent: int, kind: int) -> int:
        """The component of time of what an agent has under way."""
        return self.agents + KINDS * agent + kind

    def kind_of(self, component: int) -> tuple[int, int]:
        """The agent and the kind of a component; the kind of an mbarrier's phases is above those of agents."""
        agent, kind = divmod(component - self.agents, KINDS)
        return (agent, kind) if agent < self.agents else (-1, KINDS)

    def add_mbarriers(self, op: Mbarriers, block: int, initialised: tuple[int, int]) -> None:
        """Mbarriers of one block begin with phase 0."""
        first = self.agents * (1 + KINDS) + len(self.mbarriers)
        start = block * self.stride + self.starts[op]
        run = np.arange(start, start + BYTES * op.count, dtype=np.int64)
        taken = self.guard_at(run)
        if taken is not None:
            where, other = self.place_name(taken[0]), f"the mbarrier {taken[1].name}"
            fail(
                "emulator-mbarrier-overwritten", op.location, program=self.name, op=op.name, where=where, mbarrier=other
            )
        for number in range(op.count):
            name = f"%{op.result.name}[{number}]" + (f" of block {block}" if self.blocks > 1 else "")
            barrier = Mbarrier(name, op, first + number, op.arrivals, initialised)
            self.mbarriers[op, block, number] = barrier
            self._guards.append(barrier)
            self._guarded[start + BYTES * number : start + BYTES * (number + 1)] = len(self._guards)

    def mbarrier_of(self, component: int) -> Mbarrier | None:
        """The one whose phases a component counts."""
        return next((found for found in self.mbarriers.values() if found.component == component), None)

    def guard_at(self, addresses: npt.NDArray[np.int64]) -> tuple[int, Mbarrier] | None:
        """The first address that is one of an mbarrier."""
        if not self._guards:
            return None
        hit = self._guarded[addresses]
        if not hit.any():
            return None
        at = int(np.argmax(hit != 0))
        return int(addresses[at]), self._guards[int(hit[at]) - 1]

    def lend(self, addresses: npt.NDArray[np.int64], buffer: Op) -> tuple[int, Op] | None:
        """Leaves bytes to the folds of a cluster that go through `buffer`. Gives one that another buffer's go through.

        Blocks write there at any time, so that it is nobody else's for all of the program.
        """
        if buffer not in self._borrowers:
            self._borrowers.append(buffer)
        number = self._borrowers.index(buffer) + 1
        found = self.lent_at(addresses, number)
        self._lent[addresses] = number
        return found

    def lent_at(self, addresses: npt.NDArray[np.int64], mine: int = 0) -> tuple[int, Op] | None:
        """The first address that is left to the folds of a cluster."""
        if not self._borrowers:
            return None
        number = self._lent[addresses]
        other = (number != 0) & (number != mine)
        if not other.any():
            return None
        at = int(np.argmax(other))
        return int(addresses[at]), self._borrowers[int(number[at]) - 1]

    def barrier(self, kind: str, number: int, block: int, threads: int) -> Barrier:
        """The barrier of that name; made when somebody first comes to it."""
        key = (kind, number, block)
        if key not in self.barriers:
            names = {"block": "the barrier of the block", "cluster": "the barrier of the cluster"}
            names["role"] = f"the barrier of the role from thread {number} on"
            name = names.get(kind, f"named barrier {number}")
            if self.blocks > 1 and kind != "cluster":
                name += f" of block {block}" if kind != "block" else f" {block}"
            self.barriers[key] = Barrier(name, threads)
        return self.barriers[key]

    @property
    def coordinates(self) -> str:
        """Which program it is, in words."""
        return self.name.removeprefix("program ")

    # Under way

    def expect_from_afar(self, op: Op, block: int, barrier: Mbarrier, remote: tuple[int, int] | None) -> None:
        """A block must not end before something is counted at one of its mbarriers, in the phase that is on."""
        self.appointments.append(Appointment(op, block, barrier, barrier.phase, remote))

    def take_off(self, flight: UnderWay) -> None:
        """Lets something be done in the background."""
        self.flights.append(flight)

    def land_one(self) -> None:
        """Lets one of them be done."""
        number = 0 if self.random is None else self.random.randrange(len(self.flights))
        self.flights.pop(number).land()

    def chance(self) -> bool:
        """One way or the other."""
        return self.random is not None and self.random.random() < 0.5

    # Words

    def agent_name(self, number: int) -> str:
        """Which threads an agent is."""
        return self.members[number].name

    def thread_name(self, thread: int) -> str:
        """A thread of the program, by the number that marks have."""
        if thread < 0:
            return "several threads"
        block, own = divmod(thread, self.block_threads)
        return f"thread {own}" + (f" of block {block}" if self.blocks > 1 else "")

    def place_name(self, address: int) -> str:
        """`byte 16 of %a (stage 1)`."""
        block, byte = divmod(address, self.stride)
        of_block = f" of block {block}" if self.blocks > 1 else ""
        for op, start in self.starts.items():
            if not isinstance(op, Buffer):
                continue
            type_: Any = op.result.type
            size = type_.layout.bytes(op.shape, op.dtype)
            if start <= byte < start + size:
                stage = ""
                if len(op.shape) > 2 and isinstance(type_, TileType):
                    stage = f" (stage {(byte - start) * op.shape[0] // size})"
                return f"byte {byte - start} of %{op.result.name}{stage}{of_block}"
        return f"byte {byte} of shared memory{of_block}"


def start_clock(program: Program) -> Clock:
    """What every agent knows in the beginning."""
    return Clock.start(program.agents, program.components)
