"""Loops and branches: each agent goes its own way through them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiledsl.backend_ref.emulator.agents.agent import Agent
from tiledsl.backend_ref.emulator.agents.waiting import Steps
from tiledsl.ir.dtypes import to_numpy
from tiledsl.ir.tile_ops import For, If, While
from tiledsl.support.errors import fail


def for_(agent: Agent, op: For) -> Steps:
    carried = _initial(agent, op)
    step = agent.integer(op.step)
    if step == 0:
        fail("reference-step", op.location)
    dtype = to_numpy(op.body.arguments[0].dtype)
    for index in range(agent.integer(op.start), agent.integer(op.stop), step):
        carried = yield from agent.steps(op.body, (np.asarray(index, dtype), *carried))
    return carried


MOST_TURNS = 100_000
"""Of a `tile.while`, before it is taken to wait for what never comes."""


def while_(agent: Agent, op: While) -> Steps:
    carried = _initial(agent, op)
    for _ in range(MOST_TURNS):
        goes_on = yield from agent.steps(op.condition, carried)
        if not bool(goes_on[0]):
            return carried
        carried = yield from agent.steps(op.body, carried)
        yield None  # it may wait for somebody
    fail("emulator-endless", op.location, program=agent.program.name, who=agent.name, op=op.name, turns=MOST_TURNS)


def if_(agent: Agent, op: If) -> Steps:
    chosen = op.then if bool(agent.array(op.condition)) else op.otherwise
    return (yield from agent.steps(chosen, ()))


def _initial(agent: Agent, op: For | While) -> tuple[Any, ...]:
    return tuple(agent.values[value] for value in op.initial)
