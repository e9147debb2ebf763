"""Decides who goes on: agents take turns as a random generator has it, and what is under way lands when it says so."""

from __future__ import annotations

from collections.abc import Iterator

from tiledsl.backend_ref.emulator.agents.agent import Agent
from tiledsl.backend_ref.emulator.agents.program import Program
from tiledsl.backend_ref.emulator.agents.waiting import Pause, Steps, Waiting
from tiledsl.support.errors import Label, fail

_BURSTS = (1, 1, 2, 4, 16, 256)
"""How many pauses an agent may run through before it is another one's turn."""
_MOODS = (0.0, 0.3, 1.0)
"""How likely it is that something under way lands before the next turn: late, in between, at once."""


def turns_of_agents(program: Program, coroutines: dict[Agent, Steps]) -> Iterator[None]:
    """Runs all of them to their ends, by a turn of one of them at a time. Raises TileRuntimeError where nobody can go
    on."""
    draw = program.random
    mood = 1.0 if draw is None else draw.choice(_MOODS)
    waiting: dict[Agent, Pause] = dict.fromkeys(coroutines)
    while waiting:
        ready = [agent for agent, reason in waiting.items() if reason is None or reason.ready()]
        if program.flights and (not ready or mood == 1.0 or (draw is not None and draw.random() < mood)):
            program.land_one()
            continue
        if not ready:
            _fail_deadlock(program, {agent: reason for agent, reason in waiting.items() if reason is not None})
        agent = ready[0] if draw is None else draw.choice(ready)
        burst = _BURSTS[-1] if draw is None else draw.choice(_BURSTS)
        try:
            for _ in range(burst):
                waiting[agent] = next(coroutines[agent])
                if waiting[agent] is not None:
                    break
        except StopIteration:
            del waiting[agent]
        yield


def _fail_deadlock(program: Program, waiting: dict[Agent, Waiting]) -> None:
    """Nobody can go on, and nothing is under way that would change it."""
    groups: dict[tuple[str, str], list[Agent]] = {}
    for agent, reason in waiting.items():
        groups.setdefault((str(reason.op.location), f"`{reason.op.name}` waits for {reason.what()}"), []).append(agent)
    labels: list[Label] = []
    for (_, text), agents in groups.items():
        names = ", ".join(agent.name for agent in agents[:4]) + (", ..." if len(agents) > 4 else "")
        labels.append(Label(waiting[agents[0]].op.location, f"{names}: {text}"))
    first = next(iter(waiting.values()))
    more = f"; so it is with {len(labels) - 1} more" if len(labels) > 1 else ""
    gone = [agent.name for agent in program.members if agent not in waiting and agent.is_over]
    notes = [f"at their ends already: {', '.join(gone[:6])}{', ...' if len(gone) > 6 else ''}"] if gone else []
    fix = "count who arrives at what is waited for, how often, and for which parity each one waits"
    fail(
        "emulator-deadlock", first.op.location, labels=labels, notes=notes, program=program.name,
        first=labels[0].text, more=more, fix=fix,
    )  # fmt: skip
