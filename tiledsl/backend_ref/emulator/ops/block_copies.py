"""Copies between the shared memory of the blocks of a cluster (`gpu.exchange`), which go on in the background."""

from __future__ import annotations

import numpy as np

from tiledsl.backend_ref.emulator.agents.agent import Agent
from tiledsl.backend_ref.emulator.agents.async_groups import UnderWay
from tiledsl.backend_ref.emulator.agents.mbarriers import mbarrier_at
from tiledsl.backend_ref.emulator.ops.shared_buffers import claim_bytes, read_bytes
from tiledsl.backend_ref.scalar_functions import Array
from tiledsl.ir.gpu.async_ops import Exchange
from tiledsl.ir.gpu.async_rules import part_bytes


def exchange(agent: Agent, op: Exchange) -> tuple[Array, ...]:
    """The first thread of the team in each block begins to send every block its part."""
    if agent.leads:
        for block in range(agent.program.blocks):
            _send(agent, op, block)
    return ()


def _send(agent: Agent, op: Exchange, block: int) -> None:
    """To one block. Both blocks must not end before that one's mbarrier has counted the bytes."""
    program = agent.program
    barrier = mbarrier_at(agent, op, op.barriers, op.index, block)
    who = agent.under_way(op, barrier.component, barrier.phase + 1, is_async=True)
    run = np.arange(part_bytes(op.target), dtype=np.int64)
    source = run + agent.block * program.stride + agent.integer(op.source) + block * part_bytes(op.source)
    target = run + block * program.stride + agent.integer(op.target) + agent.block * part_bytes(op.target)
    threads = np.full(run.shape, agent.first_thread)
    found = read_bytes(agent, op, who, source, threads)
    claim_bytes(agent, op, who, target, threads)
    phase, clock = barrier.phase, agent.clock.copy()
    for concerned in {block, agent.block}:
        program.expect_from_afar(op, concerned, barrier, None)
    program.memory[target] = 0xFF
    early = found if program.chance() else None

    def land() -> None:
        program.memory[target] = program.memory[source] if early is None else early
        barrier.count(op, program.name, phase, run.size, clock)

    program.take_off(UnderWay(op, land))
