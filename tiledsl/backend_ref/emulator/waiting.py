"""What agents wait for, besides mbarriers: barriers of some number of threads, and meetings of a whole team."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from tiledsl.backend_ref.emulator.clocks import Clock
from tiledsl.ir.core import Op
from tiledsl.support.errors import Label, fail

if TYPE_CHECKING:
    from tiledsl.backend_ref.emulator.agent import Agent


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
class Barrier:
    """A barrier for `threads` threads, over and over again."""

    name: str
    threads: int
    one_place: bool
    """Whether all must come to the same op."""
    present: int = 0
    turn: int = 0
    first: tuple[Agent, Op] | None = None
    clock: Clock | None = None
    over: Clock | None = None
    """What the arrivals of the last turn knew."""

    def come(self, agent: Agent, op: Op, threads: int, clock: Clock) -> None:
        """Some threads arrive."""
        if self.first is None:
            self.first = (agent, op)
        other, by = self.first
        if self.one_place and by is not op:
            label = Label(by.location, f"where {other.name} is")
            fail(
                "emulator-divergence", op.location, labels=[label], program=agent.program.name,
                who=agent.name, op=op.name, other=other.name, by=by.name,
            )  # fmt: skip
        if self.present + threads > self.threads:
            fail(
                "emulator-barrier-threads", op.location, program=agent.program.name, op=op.name, count=threads,
                barrier=self.name, present=self.present, threads=self.threads,
            )  # fmt: skip
        self.present += threads
        if self.clock is None:
            self.clock = clock.copy()
        else:
            self.clock.join(clock)
        if self.present == self.threads:
            self.over, self.clock, self.first = self.clock, None, None
            self.present = 0
            self.turn += 1

    def wait(self, agent: Agent, op: Op, threads: int, clock: Clock) -> Steps:
        """Some threads arrive and wait for the others."""
        turn = self.turn
        self.come(agent, op, threads, clock)
        while self.turn == turn:
            yield Waiting(op, lambda: self.turn != turn, self._missing)
        assert self.over is not None
        agent.clock.join(self.over)

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
