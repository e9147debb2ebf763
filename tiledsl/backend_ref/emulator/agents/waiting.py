"""What agents wait for, besides mbarriers: barriers of some number of threads, and meetings of a whole team."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from tiledsl.backend_ref.emulator.agents.clocks import Clock
from tiledsl.ir.core import Op
from tiledsl.support.errors import Label, fail

if TYPE_CHECKING:
    from tiledsl.backend_ref.emulator.agents.agent import Agent


@dataclass(frozen=True)
class Waiting:
    """Why an agent cannot go on. `what` says in words what for."""

    op: Op
    ready: Callable[[], bool]
    what: Callable[[], str]


Pause: TypeAlias = Waiting | None
"""What an agent's coroutine yields: what it waits for, or None where another one may go first."""
Steps: TypeAlias = Generator[Pause, None, Any]


@dataclass(eq=False)
class _Round:
    """Of a barrier: from the first who comes until all have come."""

    present: int = 0
    first: tuple[Agent, Op] | None = None
    clock: Clock | None = None
    """What those knew who came."""
    arrivals: list[tuple[Agent, Op, int]] = field(default_factory=list[Any])
    """Who came, by which op, at which step of its time."""
    is_over: bool = False


@dataclass(eq=False)
class Barrier:
    """A barrier for `threads` threads, over and over again."""

    name: str
    threads: int
    one_place: bool = False
    """Whether all must come to the same op."""
    round: _Round = field(default_factory=_Round)
    """That is on now."""
    last: list[tuple[Agent, Op, int]] = field(default_factory=list[Any])
    """The arrivals of the round before."""

    @property
    def present(self) -> int:
        """How many threads have come."""
        return self.round.present

    def come(self, agent: Agent, op: Op, threads: int, clock: Clock) -> None:
        """Some threads arrive."""
        now = self.round
        if now.first is None:
            now.first = (agent, op)
        other, by = now.first
        if self.one_place and by is not op:
            label = Label(by.location, f"{other.name} came here")
            fail(
                "emulator-divergence", op.location, labels=[label], program=agent.program.name,
                who=agent.name, op=op.name, other=other.name, by=by.name,
            )  # fmt: skip
        if now.present + threads > self.threads:
            fail(
                "emulator-barrier-threads", op.location, program=agent.program.name, op=op.name, count=threads,
                barrier=self.name, present=now.present, threads=self.threads,
            )  # fmt: skip
        self._check_last_is_over(agent, op)
        now.present += threads
        now.arrivals.append((agent, op, int(clock.seen[agent.number])))
        if now.clock is None:
            now.clock = clock.copy()
        else:
            now.clock.join(clock)
        if now.present == self.threads:
            now.is_over = True
            self.round, self.last = _Round(), now.arrivals

    def wait(self, agent: Agent, op: Op, threads: int, clock: Clock) -> Steps:
        """Some threads arrive and wait for the others."""
        now = self.round
        self.come(agent, op, threads, clock)
        while not now.is_over:
            yield Waiting(op, lambda: now.is_over, self._missing)
        assert now.clock is not None
        agent.clock.join(now.clock)

    def _check_last_is_over(self, agent: Agent, op: Op) -> None:
        """Who comes must know that all had come for the round before: else it might have been counted for that one."""
        for other, by, step in self.last:
            if other is not agent and not agent.clock.has_seen(other.number, step):
                label = Label(by.location, f"{other.name} came here")
                fail(
                    "emulator-barrier-turn", op.location, labels=[label], program=agent.program.name, op=op.name,
                    who=agent.name, barrier=self.name, other=other.name,
                )  # fmt: skip

    def _missing(self) -> str:
        return f"{self.name}, where {self.present} of {self.threads} threads are"


@dataclass(eq=False)
class _Gathering:
    op: Op
    parts: dict[int, Any] = field(default_factory=dict[int, Any])
    results: dict[int, Any] | None = None


@dataclass(eq=False)
class Meeting:
    """Where all agents of a team bring a part of a value each, and each takes its part of what is made of them."""

    agents: int
    _open: _Gathering | None = None

    def bring(
        self, agent: Agent, op: Op, part: Any, make: Callable[[dict[int, Any]], dict[int, Any]]
    ) -> Generator[Pause, None, Any]:
        """Gives the agent's part of the result. The last to come makes it: parts and results are by agents' numbers."""
        if self._open is None:
            self._open = _Gathering(op)
        gathering = self._open
        if gathering.op is not op:
            by = gathering.op
            other = next(iter(gathering.parts))
            fail(
                "emulator-divergence", op.location, labels=[Label(by.location, "where the other is")],
                program=agent.program.name, who=agent.name, op=op.name,
                other=agent.program.agent_name(other), by=by.name,
            )  # fmt: skip
        gathering.parts[agent.number] = part
        if len(gathering.parts) == self.agents:
            self._open = None
            gathering.results = make(gathering.parts)
        while gathering.results is None:
            yield Waiting(
                op, lambda: gathering.results is not None,
                lambda: f"the other warps, of which {len(gathering.parts)} of {self.agents} parts are there",
            )  # fmt: skip
        return gathering.results[agent.number]
