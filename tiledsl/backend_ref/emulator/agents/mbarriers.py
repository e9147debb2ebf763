"""Mbarriers: arrivals, expected bytes, phases; and the ops that use them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tiledsl.backend_ref.emulator.agents.clocks import LEADS, PASSES, Clock
from tiledsl.backend_ref.emulator.agents.conflicts import fail_conflict
from tiledsl.backend_ref.emulator.agents.waiting import Steps, Waiting
from tiledsl.backend_ref.scalar_functions import Array
from tiledsl.ir.core import Op, Value
from tiledsl.ir.gpu.async_ops import MbarrierArrive, MbarrierExpect, Mbarriers, MbarrierWait
from tiledsl.ir.layouts.layout import WARP
from tiledsl.support.errors import Label, fail

if TYPE_CHECKING:
    from tiledsl.backend_ref.emulator.agents.agent import Agent

BYTES = 8


@dataclass(eq=False)
class Mbarrier:
    """One mbarrier of one block. Its component of time counts the phases that are over."""

    name: str
    op: Mbarriers
    component: int
    arrivals: int
    initialised: tuple[int, int]
    """The component and step of time at which it was."""
    pending: int = field(init=False)
    bytes: int = 0
    """Expected and not there yet in this phase; below 0: there before they were expected."""
    phase: int = 0
    """That is on now."""
    clock: Clock | None = None
    over: Clock | None = None
    """What those knew who ended the phases so far."""
    passes: dict[int, list[tuple[Agent, Op, int]]] = field(default_factory=dict[int, Any])
    """Who has waited for each phase, and which of its waits that was."""

    def __post_init__(self) -> None:
        self.pending = self.arrivals

    def arrive(self, agent: Agent, op: Op, count: int, clock: Clock, expected: int = 0) -> None:
        """Some arrivals at once, after `expected` more bytes."""
        if count > self.pending:
            fail(
                "emulator-arrivals", op.location, program=agent.program.name, op=op.name, count=count,
                mbarrier=self.name, phase=self.phase, pending=self.pending, arrivals=self.arrivals,
            )  # fmt: skip
        self._learn(clock)
        self.bytes += expected
        self.pending -= count
        self._end_phase(op)

    def count(self, op: Op, program: str, phase: int, copied: int, clock: Clock) -> None:
        """Bytes have come that were sent for `phase`."""
        if phase != self.phase:
            fail(
                "emulator-bytes", op.location, program=program, op=op.name, phase=phase, mbarrier=self.name,
                now=self.phase,
            )  # fmt: skip
        self._learn(clock)
        self.bytes -= copied
        self._end_phase(op)

    def _learn(self, clock: Clock) -> None:
        if self.clock is None:
            self.clock = clock.copy()
        else:
            self.clock.join(clock)

    def _end_phase(self, op: Op) -> None:
        if self.pending == 0 and self.bytes == 0:
            assert self.clock is not None
            self._check_passed(op, self.clock)
            self.phase += 1
            self.pending = self.arrivals
            if self.over is not None:
                self.clock.join(self.over)
            self.clock.learn(self.component, self.phase)
            self.over, self.clock = self.clock, None

    def _check_passed(self, op: Op, clock: Clock) -> None:
        """A phase must not end before all who wait for the one before have gone on: they would find its parity gone."""
        for agent, wait, count in self.passes.pop(self.phase - 1, []):
            if not clock.has_seen(agent.program.component(agent.number, PASSES), count):
                label = Label(wait.location, "the wait")
                fail(
                    "emulator-overtaken", op.location, labels=[label], program=agent.program.name, op=op.name,
                    mbarrier=self.name, phase=self.phase, who=agent.name, before=self.phase - 1,
                )  # fmt: skip

    def state(self) -> str:
        """What the phase that is on lacks."""
        lacks = [f"{self.arrivals - self.pending} of {self.arrivals} arrivals"]
        if self.bytes > 0:
            lacks.append(f"{self.bytes} expected bytes have not come")
        if self.bytes < 0:
            lacks.append(f"{-self.bytes} bytes have come that nobody expected")
        return f"phase {self.phase} is on, with {', '.join(lacks)}"


# The ops


def mbarriers(agent: Agent, op: Mbarriers) -> tuple[Array, ...]:
    """The first thread of each block initialises them."""
    program = agent.program
    if agent.leads:
        program.add_mbarriers(op, agent.block, (program.component(agent.number, LEADS), agent.step))
        _claim(agent, op)
    return (np.asarray(program.starts[op], np.int64),)


def _claim(agent: Agent, op: Mbarriers) -> None:
    """They take bytes that others must have done with, and that hold nothing to be read."""
    program = agent.program
    start = agent.block * program.stride + program.starts[op]
    run = np.arange(start, start + BYTES * op.count, dtype=np.int64)
    threads = np.full(run.shape, agent.first_thread)
    conflict = program.shadow.write(agent.accessor(op, threads), run, threads)
    if conflict is not None:
        fail_conflict(agent, op, conflict, program.place_name(conflict.unit))
    program.shadow.initialised[run] = False


def mbarrier_at(agent: Agent, op: Op, barriers: Value, index: Value, block: int) -> Mbarrier:
    """The mbarrier of a block, which must be initialised for certain."""
    program = agent.program
    made = barriers.op
    assert isinstance(made, Mbarriers)
    number = agent.integer(index)
    if not 0 <= number < made.count:
        fail(
            "emulator-shared-bounds", op.location, program=program.name, op=op.name, buffer=barriers.name,
            place=number, axis=0, size=made.count,
        )  # fmt: skip
    found = program.mbarriers.get((made, block, number))
    if found is None or not agent.knows(*found.initialised, thread=block * program.block_threads):
        name = f"%{barriers.name}[{number}]"
        fail("emulator-mbarrier-uninitialised", op.location, program=program.name, op=op.name, mbarrier=name)
    return found


def expect(agent: Agent, op: MbarrierExpect) -> tuple[Array, ...]:
    if agent.leads:
        barrier = mbarrier_at(agent, op, op.barriers, op.index, agent.block)
        barrier.arrive(agent, op, 1, agent.release(alone=True), op.bytes)
    return ()


def arrive(agent: Agent, op: MbarrierArrive) -> tuple[Array, ...]:
    """Threads arrive at the mbarrier of their own block, or at those of all blocks."""
    alone = op.by == "role"
    if alone and not agent.leads:
        return ()
    count = {"thread": agent.size, "warp": agent.size // WARP, "role": 1}[op.by]
    clock = agent.release(alone=alone)
    for target in range(agent.program.blocks) if op.scope == "cluster" else (agent.block,):
        barrier = mbarrier_at(agent, op, op.barriers, op.index, target)
        if target != agent.block:
            agent.program.expect_from_afar(op, target, barrier, (agent.number, agent.step))
        barrier.arrive(agent, op, count, clock)
    return ()


def wait(agent: Agent, op: MbarrierWait) -> Steps:
    parity = agent.integer(op.parity)
    if parity not in (0, 1):
        fail(
            "emulator-parity", op.location, program=agent.program.name, op=op.name, parity=parity,
            mbarriers=op.barriers.name,
        )  # fmt: skip
    barrier = mbarrier_at(agent, op, op.barriers, op.index, agent.block)

    def is_over() -> bool:
        return barrier.phase & 1 != parity

    while not is_over():
        yield Waiting(op, is_over, lambda: f"parity {parity} of {barrier.name}: {barrier.state()}")
    _pass(agent, op, barrier, parity)
    return ()


def _pass(agent: Agent, op: MbarrierWait, barrier: Mbarrier, parity: int) -> None:
    """Goes on. What phase that is must not depend on who was fast.

    An agent that knows of `known` phases that they are over can mean the last one of them, or the next one. If it goes
    on at a later one, the wait might as well have been over two phases before, or never.
    """
    over, known = barrier.phase - 1, int(agent.clock.seen[barrier.component])
    meant = known - 1 if known & 1 != parity else known
    if over > meant:
        fail(
            "emulator-phase", op.location, program=agent.program.name, who=agent.name, op=op.name, parity=parity,
            mbarrier=barrier.name, phase=over, missed=meant,
        )  # fmt: skip
    if barrier.over is not None:
        agent.clock.join(barrier.over)
    agent.passes += 1
    barrier.passes.setdefault(over, []).append((agent, op, agent.passes))
