"""Reductions, scans and sorts: on whole tiles, put together from the registers of all threads."""

from __future__ import annotations

import numpy as np

from tiledsl.backend_ref.emulator.agents.agent import Agent, static
from tiledsl.backend_ref.emulator.agents.conflicts import fail_conflict
from tiledsl.backend_ref.emulator.agents.shadow import NOBODYS
from tiledsl.backend_ref.emulator.agents.waiting import Steps
from tiledsl.backend_ref.emulator.ops.registers import check_replicas, check_same_layout, spread, whole
from tiledsl.backend_ref.emulator.ops.shared_buffers import fail_lent, meet_in_team, shared_layout
from tiledsl.backend_ref.folding import fold_tiles, scan_tiles
from tiledsl.backend_ref.scalar_functions import Array
from tiledsl.ir.core import Op, Value
from tiledsl.ir.gpu.gpu_ops import Reduce, Scan, Sort, View
from tiledsl.ir.layouts.fold_plans import plan_fold

Meeting = Reduce | Scan | Sort


def reduce(agent: Agent, op: Reduce) -> Steps:
    return (yield from _fold(agent, op))


def scan(agent: Agent, op: Scan) -> Steps:
    return (yield from _fold(agent, op))


def sort(agent: Agent, op: Sort) -> Steps:
    return (yield from _fold(agent, op))


def _fold(agent: Agent, op: Meeting) -> Steps:
    """All agents bring their registers. Where there is a buffer they meet at barriers too, as the code does."""
    sources = (op.source,) if isinstance(op, Sort) else op.sources
    for source in sources:
        check_same_layout(op, [source], sources[0])
    registers = [agent.array(source) for source in sources]
    for source, held in zip(sources, registers):
        if source.shape:
            check_replicas(agent, op, source.layout, held)
    if op.buffer is not None:
        yield from _use_scratch(agent, op, op.buffer)

    def make(parts: dict[int, list[Array]]) -> dict[int, tuple[Array, ...]]:
        order = sorted(parts)
        tiles = [
            whole(agent, op, source, np.concatenate([parts[number][i] for number in order]))
            for i, source in enumerate(sources)
        ]
        folded = _made_of(agent, op, tiles)
        found: dict[int, list[Array]] = {number: [] for number in order}
        for value, tile in zip(op.results, folded):
            all_registers = spread(value.layout, tile) if value.shape else tile
            for number in order:
                other = agent.program.members[number]
                found[number].append(all_registers[other.start : other.stop] if value.shape else all_registers)
        return {number: tuple(results) for number, results in found.items()}

    return (yield from agent.team.meeting.bring(agent, op, registers, make))


def _made_of(agent: Agent, op: Meeting, tiles: list[Array]) -> tuple[Array, ...]:
    match op:
        case Reduce():
            return fold_tiles(agent, op, tiles)
        case Scan():
            return scan_tiles(agent, op, tiles)
        case Sort():
            return (np.sort(tiles[0], axis=op.axis),)


def _use_scratch(agent: Agent, op: Meeting, buffer: Value) -> Steps:
    """All threads write partial results, meet, and read what others wrote.

    Folds across a cluster write in halves of the buffer that take turns: what was read is not written again before all
    have met, and who waits for values alone does not meet the others of its block.
    """
    size = shared_layout(buffer).bytes(static(buffer.shape), buffer.dtype)
    start = agent.integer(buffer)
    plan = plan_fold(op.sources[0].layout, op.axes, agent.team.threads) if isinstance(op, Reduce) else None
    in_turns = plan is not None and bool(plan.blocks)
    program = agent.program
    run = np.arange(start, start + size) + agent.block * program.stride
    lent = program.lend(run, _buffer_op(buffer)) if in_turns else program.lent_at(run)
    if lent is not None:
        fail_lent(agent, op, lent)
    conflict = program.shadow.check_write(agent.accessor(op, _nobody(run)), run, _nobody(run))
    if conflict is not None:
        fail_conflict(agent, op, conflict, program.place_name(conflict.unit))
    if plan is None or not in_turns or plan.warps:
        yield from meet_in_team(agent, op)
    program.shadow.forget(run)
    if not in_turns:
        program.memory[run] = 0xFF
        _mark_read_by_all(agent, op, run)


def _buffer_op(buffer: Value) -> Op:
    found = buffer.op
    while isinstance(found, View):
        found = found.buffer.op
    assert found is not None
    return found


def _nobody(run: Array) -> Array:
    """No thread's own: all threads write all of it, as far as anybody knows."""
    return np.full(run.shape, NOBODYS, np.int64)


def _mark_read_by_all(agent: Agent, op: Meeting, run: Array) -> None:
    """Several threads have read it since the barrier."""
    who = agent.accessor(op, _nobody(run))
    for number in (agent.first_thread, agent.first_thread + 1):
        conflict = agent.program.shadow.read(who, run, np.full(run.shape, number, np.int64))
        assert conflict is None
