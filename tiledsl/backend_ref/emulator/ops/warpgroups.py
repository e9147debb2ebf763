"""Products by warpgroups (`gpu.wgmma`): operands read through descriptors, accumulators in flight, groups."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import numpy as np

from tiledsl.backend_ref.emulator.agents.agent import Agent, InFlight, Transfer, fault, static
from tiledsl.backend_ref.emulator.agents.async_groups import Groups, groups_of
from tiledsl.backend_ref.emulator.agents.clocks import PRODUCTS
from tiledsl.backend_ref.emulator.agents.shadow import NOBODYS
from tiledsl.backend_ref.emulator.agents.waiting import Steps, Waiting
from tiledsl.backend_ref.emulator.ops.products import by_warps, fragment_cells, from_warps, multiply_add
from tiledsl.backend_ref.emulator.ops.shared_buffers import peek_bytes, read_bytes, shared_layout, uninitialised
from tiledsl.backend_ref.scalar_functions import Array
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import to_numpy
from tiledsl.ir.gpu.async_ops import Wgmma, WgmmaCommit, WgmmaFence, WgmmaWait
from tiledsl.ir.gpu.matrix_descriptors import MatrixDescriptor, element_addresses, shared_operand
from tiledsl.ir.gpu.warpgroup_instructions import WARPGROUP, WarpgroupInstruction, warpgroup_instruction
from tiledsl.ir.layouts.layout import WARP, Integers, RegisterLayout
from tiledsl.support.errors import Label, fail


def wgmma(agent: Agent, op: Wgmma) -> tuple[InFlight, ...]:
    instruction = warpgroup_instruction(op.instruction)
    if instruction is None:
        return fault(op, f"there is no instruction {op.instruction}")
    groups = groups_of(agent, PRODUCTS)
    acc: Any = agent.values[op.acc]
    accumulate = op.accumulate is None or bool(agent.array(op.accumulate))
    _check_fenced(agent, op, op.acc, acc)
    a_registers: Array | None = None
    if op.a.tile.level == "register":
        a_registers = agent.untouched(op.a)
        _check_fenced(agent, op, op.a, a_registers)
        agent.background_operands.append((groups.next, op.a, a_registers, op))
    place = _place(agent, op, instruction)
    a_bytes = None if a_registers is not None else _use(agent, op, "a", place, groups)
    b_bytes = _use(agent, op, "b", place, groups)
    flight = InFlight(op, groups.next, np.empty((agent.size, op.result.layout.slots), _kind(op.acc)))

    def compute() -> None:
        before = acc.array if isinstance(acc, InFlight) else acc
        matrices = by_warps(before if accumulate else np.zeros_like(before), place.acc_cells, place.group)
        if a_registers is not None:
            left = _register_rows(a_registers, op, instruction, place)
        else:
            assert a_bytes is not None
            left = _elements(agent, a_bytes, op.a)
        right = _elements(agent, b_bytes, op.b)
        total = _products(matrices, left, right, op, instruction)
        flight.array[...] = from_warps(total, place.acc_cells, flight.array.shape, place.group)
        flight.done = True

    ready = not isinstance(acc, InFlight) or acc.done
    if ready and agent.program.chance():
        compute()
        groups.begin(op, lambda: None)
    else:
        flight.array[...] = _poison(flight.array)
        groups.begin(op, compute)
    return (flight,)


def _kind(value: Value) -> np.dtype[Any]:
    return np.dtype(to_numpy(value.dtype))


def _poison(array: Array) -> Any:
    return np.nan if array.dtype.kind not in "iu" else -1


def _check_fenced(agent: Agent, op: Wgmma, value: Value, found: Any) -> None:
    """Registers that were touched are seen after a fence only; those in flight need none."""
    if agent.touched is not None and not isinstance(found, InFlight) and id(found) in agent.touched:
        fail("emulator-wgmma-fence", op.location, program=agent.program.name, op=op.name, value=value.name)


# Where operands are


class _Place:
    """Which part of a product an agent has, which is some whole warpgroups, or one warp of a warpgroup.

    `first`: its first warpgroup. `warp`: which one of it; None for whole warpgroups, of which there are `count`.
    """

    def __init__(
        self, acc: RegisterLayout, instruction: WarpgroupInstruction, first: int, count: int, warp: int | None
    ) -> None:
        self.warp = warp
        self.group = WARPGROUP if warp is None else WARP
        """Threads that have matrices together."""
        cells = fragment_cells(acc, instruction.accumulator_fragment)
        self.mine = np.ones(len(cells), np.bool_)
        """Which of a warpgroup's rows the agent has."""
        if warp is not None:
            self.mine = cells[:, 0] // (acc.slots * WARP) == warp
        self.acc_cells = self.of_agent(cells, acc.slots)
        tiles = acc.divided(instruction.accumulator_fragment)
        assert tiles is not None
        rows, columns = (axis[first : first + count] for axis in tiles.table)
        self.rows = np.array([np.unique(line) for line in rows]) * instruction.m
        """Where each warpgroup's rows begin, tile by tile: [warpgroups, tiles]."""
        self.columns = np.array([np.unique(line) for line in columns]) * instruction.n

    def of_agent(self, cells: Integers, slots: int) -> Integers:
        """The rows of a warpgroup's fragments that the agent has, by its own registers."""
        return cells[self.mine] - (0 if self.warp is None else self.warp * WARP * slots)


def _place(agent: Agent, op: Wgmma, instruction: WarpgroupInstruction) -> _Place:
    threads = agent.size
    whole = threads % WARPGROUP == 0 and agent.start % WARPGROUP == 0
    if not whole and threads != WARP:
        fault(op, f"{agent.name} are no whole warpgroups")
    first, count = agent.start // WARPGROUP, max(1, threads // WARPGROUP)
    warp = None if whole else agent.start % WARPGROUP // WARP
    try:
        return _places(op.acc.layout, instruction, first, count, warp)
    except ValueError as error:
        return fault(op, str(error))


@lru_cache(maxsize=1024)
def _places(acc: RegisterLayout, instruction: WarpgroupInstruction, first: int, count: int, warp: int | None) -> _Place:
    return _Place(acc, instruction, first, count, warp)


def _mates(agent: Agent) -> list[Agent]:
    """The agents that are its warpgroups together, itself among them."""
    first = agent.start // WARPGROUP
    return [
        other for other in agent.program.members
        if other.team is agent.team and (other is agent or other.start // WARPGROUP == first)
    ]  # fmt: skip


def _use(agent: Agent, op: Wgmma, which: Literal["a", "b"], place: _Place, groups: Groups) -> Integers:
    """Marks the bytes of an operand as read until the group is done, and gives the addresses of its elements.

    [warpgroups, rows of M or N, K]
    """
    buffer, offsets = (op.a, op.a_offsets) if which == "a" else (op.b, op.b_offsets)
    starts = [agent.integer(offset) for offset in offsets]
    key = (op, which, agent.start, agent.stop, agent.integer(buffer), *starts)
    found: Any = agent.common.transfers.get(key)
    if found is None:
        addresses = _addresses(agent, op, which, place, starts)
        width = buffer.dtype.bytes
        flat = np.unique(addresses)
        used = np.reshape(flat[:, None] + np.arange(width), -1)
        found = Transfer(addresses, addresses, used, np.full(used.shape, NOBODYS))
        agent.common.transfers[key] = found
    component = agent.program.component(agent.number, PRODUCTS)
    who = agent.under_way(op, component, groups.next, is_async=True)
    if which == "a":
        _check_rows(agent, op, found.inside)
        peek_bytes(agent, op, who, found.bytes, found.threads)
    else:
        read_bytes(agent, op, who, found.bytes, found.threads)
    return found.inside


def _check_rows(agent: Agent, op: Wgmma, addresses: Integers) -> None:
    """Rows of the left operand that nothing was written to make rows of the product that hold nothing either: those
    may be left out, all of a row and all rows after it. (A warp has its own rows alone.)"""
    initialised: Any = agent.program.shadow.initialised[addresses]
    rows: Any = initialised.all(axis=2)
    ends = rows[:, 1:] & ~rows[:, :-1]
    if (initialised.any(axis=2) & ~rows).any() or ends.any() or not (rows[:, 0].all() or agent.size == WARP):
        where = uninitialised(agent, addresses)
        fail("emulator-uninitialised", op.location, program=agent.program.name, op=op.name, where=where)


def _addresses(agent: Agent, op: Wgmma, which: Literal["a", "b"], place: _Place, starts: list[int]) -> Integers:
    """What the tensor cores read by the descriptors that the instructions are given."""
    buffer, axes = (op.a, op.a_axes) if which == "a" else (op.b, op.b_axes[::-1])
    outer_axis, k_axis = axes
    instruction = warpgroup_instruction(op.instruction)
    assert instruction is not None
    shape = static(buffer.shape)
    lengths = {outer_axis: 1, k_axis: op.depth}
    for axis, (start, size) in enumerate(zip(starts, shape)):
        if not 0 <= start <= size - lengths.get(axis, 1):
            fail(
                "emulator-shared-bounds", op.location, program=agent.program.name, op=op.name, buffer=buffer.name,
                place=start, axis=axis, size=size,
            )  # fmt: skip
    try:
        operand = shared_operand(buffer.tile, outer_axis, k_axis, instruction, which)
    except ValueError as error:
        return fault(op, f"%{buffer.name} {error}")
    program = agent.program
    at = int(shared_layout(buffer).linear(shape, starts)) * buffer.dtype.bytes + agent.integer(buffer)
    all_outer = op.acc.layout.shape[0 if which == "a" else 1]
    rows = instruction.m if which == "a" else instruction.n
    size = shape[outer_axis]
    of_block = size if size * program.blocks == all_outer and program.blocks > 1 else 0
    found: list[Integers] = []
    for group, outers in enumerate(place.rows if which == "a" else place.columns):
        block = (agent.start + group * WARPGROUP) // agent.team.threads
        parts: list[Integers] = []
        for outer in outers.tolist():
            mine = outer - block * of_block
            if not 0 <= starts[outer_axis] + mine <= size - rows:
                fail(
                    "emulator-shared-bounds", program=program.name, location=op.location, op=op.name,
                    buffer=buffer.name, place=starts[outer_axis] + mine, axis=outer_axis, size=size,
                )  # fmt: skip
            steps = [
                element_addresses(
                    MatrixDescriptor.decode(operand.descriptor(at + operand.step(mine, k)).encode()),
                    operand.k_major, rows, instruction.k, buffer.dtype.bytes,
                )
                for k in range(0, op.depth, instruction.k)
            ]  # fmt: skip
            parts.append(np.concatenate(steps, axis=1) + block * program.stride)
        found.append(np.concatenate(parts, axis=0))
    stacked = np.stack(found)
    return stacked[:, place.mine] if which == "a" else stacked


def _elements(agent: Agent, addresses: Integers, value: Value) -> Array:
    """The elements at these addresses."""
    width = value.dtype.bytes
    found: Any = agent.program.memory[addresses[..., None] + np.arange(width)]
    return found.view(to_numpy(value.dtype))[..., 0]


def _register_rows(registers: Array, op: Wgmma, instruction: WarpgroupInstruction, place: _Place) -> Array:
    """`a` in registers: [warpgroups, rows, K]."""
    try:
        cells = fragment_cells(op.a.layout, instruction.a_fragment)
    except ValueError as error:
        return fault(op, str(error))
    return by_warps(registers, place.of_agent(cells, op.a.layout.slots), place.group)


def _products(acc: Array, left: Array, right: Array, op: Wgmma, instruction: WarpgroupInstruction) -> Array:
    if left.shape[1] != acc.shape[1] or right.shape[1] != acc.shape[2]:
        fault(op, f"a warpgroup has {acc.shape[1:]} of the accumulator, {left.shape[1]} rows, {right.shape[1]} columns")
    return multiply_add(left, np.swapaxes(right, 1, 2), acc, op.acc.dtype, tf32="tf32" in instruction.name)


# Groups


def fence(agent: Agent, op: WgmmaFence) -> tuple[Array, ...]:
    del op
    if agent.touched is not None:
        agent.touched.clear()
    return ()


def commit(agent: Agent, op: WgmmaCommit) -> tuple[Array, ...]:
    del op
    groups_of(agent, PRODUCTS).commit()
    return ()


def _late(agent: Agent, group: int) -> str:
    """Those of its warpgroup that have not committed so many groups."""
    return ", ".join(mate.name for mate in _mates(agent) if groups_of(mate, PRODUCTS).committed < group)


def wait(agent: Agent, op: WgmmaWait) -> Steps:
    """Products are made by all four warps of a warpgroup: none is done before all have begun it.

    But a warp learns of its own part only: the others may still read what it has done with.
    """
    groups = groups_of(agent, PRODUCTS)
    done = groups.committed - op.groups
    while _late(agent, done):
        yield Waiting(op, lambda: not _late(agent, done), lambda: f"{_late(agent, done)} to begin the same products")
    groups.wait(op.groups)
    agent.clock.learn(agent.program.component(agent.number, PRODUCTS), done)
    found: list[Any] = [agent.values[value] for value in op.values]
    results: list[Array] = []
    for value, one in zip(op.values, found):
        if isinstance(one, InFlight) and one.group > done:
            label = Label(one.op.location, "the product")
            fail(
                "emulator-accumulator-unwaited", op.location, labels=[label], program=agent.program.name, op=op.name,
                value=value.name, by=one.op.name, unfinished=op.groups, groups=groups.committed - one.group
                if one.group <= groups.committed else "commit it first",
            )  # fmt: skip
        results.append(one.array if isinstance(one, InFlight) else one)
    _check_operands_kept(agent, op, found, done)
    return tuple(results)


def _check_operands_kept(agent: Agent, op: WgmmaWait, found: list[Any], done: int) -> None:
    """Operands in registers must be named where their products end: else their registers are free for other values."""
    left: list[tuple[int, Value, Array, Wgmma]] = []
    for group, value, registers, product in agent.background_operands:
        if group > done:
            left.append((group, value, registers, product))
        elif not any(registers is one for one in found):
            label = Label(product.location, "the product")
            fail(
                "emulator-operand-registers", op.location, labels=[label], program=agent.program.name, op=op.name,
                by=product.name, value=value.name,
            )  # fmt: skip
    agent.background_operands = left
