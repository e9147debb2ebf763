"""Groups of things under way: what an agent began and committed, and waits for group by group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tiledsl.backend_ref.emulator.agents.clocks import COPIES, PRODUCTS, READS
from tiledsl.ir.core import Op
from tiledsl.support.errors import fail

if TYPE_CHECKING:
    from tiledsl.backend_ref.emulator.agents.agent import Agent
    from tiledsl.backend_ref.emulator.agents.program import Program


@dataclass(eq=False)
class UnderWay:
    """Something that is done in the background, some time: `land` does what is left to do of it."""

    op: Op
    land: Callable[[], None]


@dataclass(eq=False)
class Groups:
    """Of one kind, of one agent. Groups are numbered from 1; `committed` is the number of the last one."""

    open: list[UnderWay] = field(default_factory=list[UnderWay])
    waiting: list[list[UnderWay]] = field(default_factory=list[list[UnderWay]])
    """Committed and not waited for, oldest first."""
    committed: int = 0

    @property
    def next(self) -> int:
        """The group that what is begun now will be in."""
        return self.committed + 1

    def begin(self, op: Op, land: Callable[[], None]) -> None:
        self.open.append(UnderWay(op, land))

    def commit(self) -> None:
        self.waiting.append(self.open)
        self.open = []
        self.committed += 1

    def wait(self, groups: int) -> int:
        """Completes all but the last `groups`, and gives the number of the last one that is done."""
        while len(self.waiting) > groups:
            for one in self.waiting.pop(0):
                one.land()
        return self.committed - len(self.waiting)

    def left(self) -> list[UnderWay]:
        """What nobody has waited for."""
        return [*(one for group in self.waiting for one in group), *self.open]


def groups_of(agent: Agent, kind: int) -> Groups:
    """The agent's groups of a kind."""
    found = agent.background.get(kind)
    if found is None:
        found = agent.background[kind] = Groups()
    return found


_FIX_COPY = "wait for the phase that counts the copy before the end"
_WORDS = {
    READS: ("bulk stores", "let the thread that stores `gpu.bulk_wait` before the end"),
    PRODUCTS: ("products", "put a `gpu.wgmma_wait` before the end"),
}


def check_all_landed(program: Program) -> None:
    """Nothing may be under way any more that needs the program's memory or registers."""
    for agent in program.members:
        for kind, groups in agent.background.items():
            left = groups.left()
            if not left:
                continue
            if kind == COPIES:  # they end by themselves; their bytes are of no use to anybody
                continue
            what, fix = _WORDS[kind]
            fail(
                "emulator-exit", left[0].op.location, program=program.name, op=left[0].op.name, what=what, are="are",
                fix=fix,
            )  # fmt: skip
    if program.flights:
        op = program.flights[0].op
        fail("emulator-exit", op.location, program=program.name, op=op.name, what="a copy", are="is", fix=_FIX_COPY)


def check_blocks_stay(program: Program) -> None:
    """No block may end before what is still to come to its mbarriers: one of its agents must know of it."""
    for one in program.appointments:
        agents = [agent for agent in program.members if agent.block == one.block]
        known = any(agent.clock.has_seen(one.barrier.component, one.phase + 1) for agent in agents)
        if one.remote is None:
            if not known:
                name, op = program.name, one.op
                fail("emulator-exit", op.location, program=name, op=op.name, what="a copy", are="may be", fix=_FIX_COPY)
        elif not known and not any(agent.clock.has_seen(*one.remote) for agent in agents):
            fail(
                "emulator-block-gone", one.op.location, program=program.name, op=one.op.name, block=one.block,
                mbarrier=one.barrier.name, phase=one.phase,
            )  # fmt: skip
