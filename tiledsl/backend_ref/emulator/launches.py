"""Launches: cuts the threads of each program into agents, and runs the programs one after the other; some at a time
where they take their work from a counter."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence

import numpy as np

from tiledsl.backend_ref.emulator.agents.agent import Agent, InFlight, Shared, Team, fault
from tiledsl.backend_ref.emulator.agents.async_groups import check_all_landed, check_blocks_stay
from tiledsl.backend_ref.emulator.agents.clocks import KINDS
from tiledsl.backend_ref.emulator.agents.program import Places, Program, place_buffers, start_clock
from tiledsl.backend_ref.emulator.agents.scheduler import turns_of_agents
from tiledsl.backend_ref.emulator.agents.shadow import TensorShadow
from tiledsl.backend_ref.emulator.agents.waiting import Meeting, Steps
from tiledsl.backend_ref.emulator.ops.executors import CONCURRENT, EXECUTORS, PAUSES_BEFORE
from tiledsl.backend_ref.execution import Execution
from tiledsl.backend_ref.scalar_functions import Array
from tiledsl.ir import tile_ops
from tiledsl.ir.core import Block, Value
from tiledsl.ir.dtypes import to_numpy
from tiledsl.ir.gpu.async_ops import Mbarriers, Role, TmaStore, Wgmma
from tiledsl.ir.gpu.gpu_ops import Atomic, Launch, Store
from tiledsl.ir.gpu.gpu_rules import role_around
from tiledsl.ir.gpu.warpgroup_instructions import WARPGROUP
from tiledsl.ir.layouts.layout import WARP
from tiledsl.ir.types import TensorType
from tiledsl.support.progress import Progress

MOST_AGENTS = 16
"""In one team: what more warps there are run together."""
AT_ONCE = 4
"""Programs that run at a time where one learns what others did: more of them find nothing else."""
_COMPONENTS = 1 + KINDS
"""Of time, for each agent."""


class Launches:
    """Runs the launches of one emulation."""

    def __init__(self, shared: Shared, interleaving: random.Random | None) -> None:
        self.shared = shared
        self.interleaving = interleaving
        self.addresses: dict[Value, int] = {}
        """Of tensors, modulo 16, where they are not 0."""

    def run(self, execution: Execution, op: Launch) -> tuple[Array, ...]:
        """One program after the other, in row-major order or shuffled."""
        stops = [execution.integer(stop) for stop in op.stops]
        programs = list(itertools.product(*(range(0, stop, block) for stop, block in zip(stops, op.blocks))))
        if execution.order is not None:
            execution.order.shuffle(programs)
        self.shared.transfers.clear()
        self.shared.programs.clear()
        self.shared.addresses = {id(execution.values[v]): a for v, a in self.addresses.items() if v in execution.values}
        teams = [_Cut(op), *(_Cut(op, role) for role in op.body.ops if isinstance(role, Role))]
        places = place_buffers(op)
        tensors: dict[int, TensorShadow] = {}
        kinds = [to_numpy(argument.dtype) for argument in op.body.arguments]
        progress = Progress(execution.task, len(programs))
        at_once = AT_ONCE if _takes_work(op) else 1
        running: list[Iterator[None]] = []
        for number, starts in enumerate(programs):
            name = _program_name(op, starts, stops)
            self.shared.programs.append(name)
            cuts = _cuts(teams, self.interleaving)
            program = _new_program(op, number, name, places, len(cuts[0]), self.interleaving, tensors)
            if not number:
                _watch_written(execution, op, program)
            arguments = [np.asarray(start, kind) for start, kind in zip(starts, kinds)]
            running.append(_turns_of_program(execution, program, teams, cuts, arguments, self.shared))
            while len(running) == at_once or (running and number == len(programs) - 1):
                self._go_on(running, progress)
        return ()

    def _go_on(self, running: list[Iterator[None]], progress: Progress) -> None:
        """A turn of one of the programs that run, of each in turn where no generator decides; who is done leaves."""
        number = 0 if self.interleaving is None or len(running) == 1 else self.interleaving.randrange(len(running))
        program = running.pop(number)
        for _ in program:
            running.append(program)
            return
        progress.step()


def _takes_work(op: Launch) -> bool:
    """Whether a role of its programs combines something with memory: what one does depends on when others did it."""
    return any(isinstance(inner, Atomic) and role_around(inner) is not None for inner in op.body.walk())


class _Cut:
    """One body, and how its threads are cut into agents."""

    def __init__(self, launch: Launch, role: Role | None = None) -> None:
        self.body: Block = launch.body if role is None else role.body
        self.first = 0 if role is None else role.first
        self.threads = launch.threads if role is None else role.threads
        self.blocks = launch.cluster
        self.has_products = any(isinstance(op, Wgmma) and role_around(op) is role for op in self.body.walk())

    def agents(self, draw: random.Random | None) -> list[tuple[int, int]]:
        """Runs of threads, counted through the blocks: one for each block, or several."""
        if draw is None:
            return [(block * self.threads, (block + 1) * self.threads) for block in range(self.blocks)]
        unit = WARP
        if self.has_products and (self.threads // WARP * self.blocks > MOST_AGENTS or draw.random() < 0.25):
            unit = WARPGROUP
        units = max(1, self.threads // unit)
        most = max(1, min(units, MOST_AGENTS // self.blocks))
        count = most if self.has_products or draw.random() < 0.75 else draw.randint(1, most)
        edges = [units * i // count * unit for i in range(count)] + [self.threads]
        return [
            (block * self.threads + a, block * self.threads + b)
            for block in range(self.blocks)
            for a, b in itertools.pairwise(edges)
        ]

    def in_launch(self, thread: int, launch_threads: int) -> int:
        """The number of a thread of the body among all of the launch, counted through the blocks."""
        block, own = divmod(thread, self.threads)
        return block * launch_threads + self.first + own


def _cuts(teams: Sequence[_Cut], draw: random.Random | None) -> list[list[tuple[int, int]]]:
    """The agents of each body. Where there are roles, those of the launch are theirs, and one for each gap."""
    first, roles = teams[0], teams[1:]
    if not roles:
        return [first.agents(draw)]
    cuts = [role.agents(draw) for role in roles]
    begins = {block * first.threads for block in range(first.blocks)}
    for role, runs in zip(roles, cuts):
        begins |= {role.in_launch(start, first.threads) for start, _ in runs}
        begins |= {role.in_launch(stop - 1, first.threads) + 1 for _, stop in runs}
    edges = sorted(begins | {first.threads * first.blocks})
    return [list(itertools.pairwise(edges)), *cuts]


def _program_name(op: Launch, starts: Sequence[int], stops: Sequence[int]) -> str:
    parts = [
        f"{argument.name} = {start}" if block == 1 else f"{argument.name} = {start}:{min(start + block, stop)}"
        for argument, start, block, stop in zip(op.body.arguments, starts, op.blocks, stops)
    ]
    return f"program {', '.join(parts)}" if parts else "the program"


def _new_program(
    op: Launch,
    number: int,
    name: str,
    places: Places,
    agents: int,
    interleaving: random.Random | None,
    tensors: dict[int, TensorShadow],
) -> Program:
    mbarriers = sum(inner.count for inner in op.body.walk() if isinstance(inner, Mbarriers)) * op.cluster
    components = agents * _COMPONENTS + mbarriers
    return Program(op, number, name, places.starts, places.size, components, agents, interleaving, tensors)


def _watch_written(execution: Execution, op: Launch, program: Program) -> None:
    """Keeps account of the accesses of all tensors that the launch writes to."""
    for inner in op.body.walk():
        if isinstance(inner, (Store, Atomic, TmaStore)):
            array = execution.array(inner.tensor)
            if id(array) not in program.tensors:
                program.tensors[id(array)] = TensorShadow(max(1, array.size))


def _turns_of_program(
    execution: Execution,
    program: Program,
    teams: Sequence[_Cut],
    cuts: Sequence[Sequence[tuple[int, int]]],
    arguments: Sequence[Array],
    shared: Shared,
) -> Iterator[None]:
    """Runs a program, by a turn of one of its agents at a time."""
    first, roles = teams[0], teams[1:]
    members = _new_agents(execution, program, first, cuts[0], shared)
    yield from turns_of_agents(program, {agent: _body(agent, first, arguments) for agent in members})
    by_start = {agent.start: agent for agent in members}
    coroutines: dict[Agent, Steps] = {}
    for cut, runs in zip(roles, cuts[1:]):
        team = Team(cut.first, cut.threads, Meeting(len(runs)))
        for start, stop in runs:
            agent = by_start[cut.in_launch(start, first.threads)]
            _enter(agent, team, start, stop, cut.has_products)
            coroutines[agent] = _body(agent, cut, ())
    yield from turns_of_agents(program, coroutines)
    check_all_landed(program)
    check_blocks_stay(program)


def _enter(agent: Agent, team: Team, start: int, stop: int, has_products: bool) -> None:
    """An agent goes on in a role. Tiles from outside are laid out for other threads: they stay behind."""
    agent.team, agent.start, agent.stop = team, start, stop
    agent.is_over = False
    agent.touched = {} if has_products else None
    agent.values = {
        value: found for value, found in agent.values.items()
        if not (isinstance(found, InFlight) or (np.ndim(found) and not isinstance(value.type, TensorType)))
    }  # fmt: skip


def _new_agents(
    execution: Execution, program: Program, cut: _Cut, runs: Sequence[tuple[int, int]], shared: Shared
) -> list[Agent]:
    team = Team(cut.first, cut.threads, Meeting(len(runs)))
    for start, stop in runs:
        program.members.append(
            Agent(
                EXECUTORS, execution.sizes, execution.blocks, execution.output, None,
                values=dict(execution.values), symbols=execution.symbols, coordinates=[program.coordinates],
                program=program, team=team, number=len(program.members), start=start, stop=stop,
                clock=start_clock(program), concurrent=CONCURRENT, pauses_before=PAUSES_BEFORE, common=shared,
                touched={} if cut.has_products else None,
            )
        )  # fmt: skip
    return program.members


def _body(agent: Agent, cut: _Cut, arguments: Sequence[Array]) -> Steps:
    """All of a role, or what a launch does before its roles."""
    yield from agent.steps(cut.body, arguments)
    agent.is_over = True


def check_carried(launch: Launch) -> None:
    """What goes round a loop or out of a branch keeps its layout."""
    for op in launch.body.walk():
        match op:
            case tile_ops.For():
                groups: list[Sequence[Value]] = [op.body.arguments[1:], op.initial, _yielded(op.body)]
            case tile_ops.While():
                groups = [op.body.arguments, op.condition.arguments, op.initial, _yielded(op.body)]
            case tile_ops.If():
                groups = [_yielded(op.then), _yielded(op.otherwise)]
            case _:
                continue
        for group in groups:
            for value, result in zip(group, op.results):
                if value.type != result.type:
                    fault(op, f"%{value.name} is {value.type}, the result {result.type}")


def _yielded(body: Block) -> Sequence[Value]:
    last = body.terminator
    return last.operands if last is not None else ()
