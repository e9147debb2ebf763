"""Buffers in shared memory: reads, writes, copies by threads (`gpu.copy`), barriers of the block and the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, TypeAlias, Union

import numpy as np
import numpy.typing as npt

from tiledsl.backend_ref.emulator.agents.agent import Agent, Transfer, fault, poison, static
from tiledsl.backend_ref.emulator.agents.async_groups import groups_of
from tiledsl.backend_ref.emulator.agents.clocks import COPIES
from tiledsl.backend_ref.emulator.agents.conflicts import fail_conflict
from tiledsl.backend_ref.emulator.agents.shadow import Accessor
from tiledsl.backend_ref.emulator.agents.waiting import Steps
from tiledsl.backend_ref.emulator.ops.bank_conflicts import note_conflicts
from tiledsl.backend_ref.emulator.ops.global_memory import check_vectors, read_tensor
from tiledsl.backend_ref.emulator.ops.matrices import check_matrices
from tiledsl.backend_ref.emulator.ops.registers import check_replicas, is_writer
from tiledsl.backend_ref.scalar_functions import Array, apply
from tiledsl.ir.core import Op, Value
from tiledsl.ir.dtypes import to_numpy
from tiledsl.ir.fold_identities import PAIRWISE
from tiledsl.ir.gpu.access_rules import layout_in_buffer
from tiledsl.ir.gpu.async_ops import NamedBarrier, ProxyFence, Turn
from tiledsl.ir.gpu.gpu_ops import Barrier, Buffer, Combine, Commit, Copy, Read, Reuse, View, Wait, Write
from tiledsl.ir.gpu.warpgroup_instructions import WARPGROUP
from tiledsl.ir.layouts.buffer_layout import SharedLayout
from tiledsl.ir.layouts.layout import Integers, RegisterLayout, replicate
from tiledsl.support.errors import Label, fail

Bytes: TypeAlias = npt.NDArray[np.uint8]


def shared_layout(value: Value) -> SharedLayout:
    """The layout of a buffer."""
    layout = value.tile.layout
    assert isinstance(layout, SharedLayout)
    return layout


def buffer(agent: Agent, op: Buffer) -> tuple[Array, ...]:
    return (np.asarray(agent.program.starts[op], np.int64),)


def view(agent: Agent, op: View) -> tuple[Array, ...]:
    for value in (op.buffer, op.result):
        layout = shared_layout(value)
        if layout.padding or layout.swizzle is not None or layout.panel:
            fault(op, f"%{value.name} lies as {layout}: a view is of plain rows")
    return (agent.array(op.buffer),)


def reuse(agent: Agent, op: Reuse) -> tuple[Array, ...]:
    return (agent.array(op.buffer),)


# Bytes and who uses them


def read_bytes(agent: Agent, op: Op, who: Accessor, addresses: Integers, threads: Integers) -> Bytes:
    """The bytes at these addresses, of any shape, each read by one thread (flat). All were written to."""
    where = uninitialised(agent, addresses)
    if where:
        fail("emulator-uninitialised", op.location, program=agent.program.name, op=op.name, where=where)
    return peek_bytes(agent, op, who, addresses, threads)


def uninitialised(agent: Agent, addresses: Integers) -> str:
    """The first byte that nothing was written to, in words; nothing if there is none."""
    flat = np.reshape(addresses, -1)
    missing = agent.program.shadow.first_uninitialised(flat)
    return "" if missing is None else agent.program.place_name(int(flat[missing]))


def peek_bytes(agent: Agent, op: Op, who: Accessor, addresses: Integers, threads: Integers) -> Bytes:
    """As `read_bytes`, whether or not something was written to them."""
    flat = np.reshape(addresses, -1)
    program = agent.program
    conflict = program.shadow.read(who, flat, threads)
    if conflict is not None:
        fail_conflict(agent, op, conflict, program.place_name(conflict.unit))
    return program.memory[addresses]


def claim_bytes(agent: Agent, op: Op, who: Accessor, addresses: Integers, threads: Integers) -> None:
    """Marks bytes (flat) as written, each by one thread."""
    program = agent.program
    guard = program.guard_at(addresses)
    if guard is not None:
        where, barrier = program.place_name(guard[0]), barrier_name(guard[1].name)
        fail(
            "emulator-mbarrier-overwritten", op.location, program=program.name, op=op.name, where=where,
            mbarrier=barrier,
        )  # fmt: skip
    lent = program.lent_at(addresses)
    if lent is not None:
        fail_lent(agent, op, lent)
    conflict = program.shadow.write(who, addresses, threads)
    if conflict is not None:
        fail_conflict(agent, op, conflict, program.place_name(conflict.unit))


def fail_lent(agent: Agent, op: Op, lent: tuple[int, Op]) -> NoReturn:
    """Others may write to these bytes at any time."""
    where, buffer = agent.program.place_name(lent[0]), lent[1].result.name
    label = Label(lent[1].location, "that buffer")
    fail(
        "emulator-scratch", op.location, labels=[label], program=agent.program.name, op=op.name, where=where,
        buffer=buffer,
    )  # fmt: skip


def barrier_name(name: str) -> str:
    """With its kind."""
    return f"the mbarrier {name}"


def bytes_of(elements: Array) -> Bytes:
    """[elements, bytes]"""
    flat: Any = np.ascontiguousarray(elements)
    return np.reshape(flat.view(np.uint8), (len(flat), elements.itemsize))


# Accesses by threads

MOST_TRANSFERS = 256
"""That are remembered."""
AnyTransfer: TypeAlias = Union[Read, Write, Copy]


def transfer_of(agent: Agent, op: AnyTransfer, layout: RegisterLayout) -> Transfer:
    """Where each thread accesses the buffer. Checks that the instructions can do it."""
    starts = [agent.integer(offset) for offset in op.offsets]
    remembered = agent.common.transfers
    key = (op, agent.start, agent.stop, agent.integer(op.buffer), *starts)
    found = remembered.get(key)
    if found is None:
        if len(remembered) >= MOST_TRANSFERS:
            remembered.clear()
        found = remembered[key] = _resolve(agent, op, layout, starts)
    note_conflicts(agent, op, found)
    return found


def _resolve(agent: Agent, op: AnyTransfer, layout: RegisterLayout, starts: Sequence[int]) -> Transfer:
    shape = static(op.buffer.shape)
    inside = np.ones((agent.size, layout.slots), np.bool_)
    coordinates: list[Integers] = []
    part = layout_in_buffer(layout, op.places, op.buffer.tile, agent.program.blocks)
    table = agent.table(part)
    for axis, (start, size) in enumerate(zip(starts, shape)):
        if axis in op.places:
            along = op.places.index(axis)
            place = table[along] + start
            inside &= (place >= 0) & (place < size)
            beyond = start < 0 or start >= size
        else:
            beyond = not 0 <= start < size
            place = np.full(inside.shape, start, np.int64)
        if beyond:
            fail(
                "emulator-shared-bounds", op.location, program=agent.program.name, op=op.name,
                buffer=op.buffer.name, place=start, axis=axis, size=size,
            )  # fmt: skip
        coordinates.append(np.where(inside, place, 0))
    offsets = shared_layout(op.buffer).offset(shape, op.buffer.dtype, coordinates)
    block = agent.rows[:, None] // agent.team.threads
    if isinstance(op, Write) and op.block >= 0:
        block = np.full_like(block, op.block)
    addresses = np.asarray(offsets + agent.integer(op.buffer) + block * agent.program.stride)
    addresses = np.broadcast_to(addresses, inside.shape)
    if isinstance(op, Copy) or op.method == "plain":
        check_vectors(agent, op, addresses, inside, op.buffer.dtype.bytes, op.vector, f"%{op.buffer.name}")
    else:
        check_matrices(op, addresses, inside)
    moved = inside
    if not isinstance(op, Read):
        moved = inside & is_writer(layout, agent.team.threads)[agent.start : agent.stop, None]
    width = op.buffer.dtype.bytes
    by = np.broadcast_to(agent.marks()[:, None], moved.shape)[moved]
    return Transfer(inside, moved, addresses[moved][:, None] + np.arange(width), np.repeat(by, width))


def all_threads(agent: Agent) -> RegisterLayout:
    """How a scalar lies that all threads hold."""
    return replicate(agent.threads, 0)


def read(agent: Agent, op: Read) -> tuple[Array, ...]:
    transfer = transfer_of(agent, op, op.result.layout if op.shape else all_threads(agent))
    dtype = op.result.dtype
    registers = poison(dtype, transfer.inside.shape)
    found: Any = peek_bytes(agent, op, agent.accessor(op, transfer.threads), transfer.bytes, transfer.threads)
    where = uninitialised(agent, transfer.bytes)
    if len(found):
        kind = to_numpy(dtype)
        registers[transfer.moved] = found[:, 0] != 0 if kind == np.bool_ else found.view(kind)[:, 0]
    result = registers if op.shape else np.asarray(registers[0, 0])
    if where:  # whoever uses it is wrong, not who reads ahead what is never used
        agent.undefined[id(result)] = (result, op, where)
    return (result,)


def write(agent: Agent, op: Write) -> tuple[Array, ...]:
    layout = op.value.layout if op.value.shape else all_threads(agent)
    registers = np.broadcast_to(agent.array(op.value), (agent.size, layout.slots))
    transfer = transfer_of(agent, op, layout)
    if op.value not in agent.first_only:
        check_replicas(agent, op, layout, registers, transfer.inside)
    who = agent.accessor(op, transfer.threads)
    claim_bytes(agent, op, who, np.reshape(transfer.bytes, -1), transfer.threads)
    agent.program.memory[transfer.bytes] = bytes_of(registers[transfer.moved])
    return ()


def combine(agent: Agent, op: Combine) -> tuple[Array, ...]:
    """One thread after the other."""
    layout, dtype = op.value.layout, op.value.dtype
    shape = (agent.size, layout.slots)
    value, place = (np.broadcast_to(agent.array(one), shape) for one in (op.value, op.index))
    inside = (place >= 0) & (place < static(op.buffer.shape)[0])
    for one, registers in ((op.value, value), (op.index, place)):
        if one not in agent.first_only:
            check_replicas(agent, op, layout, registers, inside)
    moved = inside & is_writer(layout, agent.team.threads)[agent.start : agent.stop, None]
    blocks = np.broadcast_to((agent.rows // agent.team.threads)[:, None], shape)
    addresses = agent.integer(op.buffer) + blocks * agent.program.stride + np.where(moved, place, 0) * dtype.bytes
    bytes_ = addresses[moved][:, None] + np.arange(dtype.bytes)
    threads = np.repeat(np.broadcast_to(agent.marks()[:, None], shape)[moved], dtype.bytes)
    where = uninitialised(agent, bytes_)
    if where:
        fail("emulator-uninitialised", op.location, program=agent.program.name, op=op.name, where=where)
    claim_bytes(agent, op, agent.accessor(op, threads, atomic=True), np.reshape(bytes_, -1), threads)
    function = PAIRWISE.get(op.fn, op.fn)
    memory: Any = agent.program.memory
    kind: Any = to_numpy(dtype)
    for at, new in zip(bytes_, value[moved]):
        old = memory[at].view(kind)[0]
        memory[at] = bytes_of(np.asarray([new if function == "exchange" else apply(function, old, new)], kind))[0]
    return ()


# Copies that threads begin


def copy(agent: Agent, op: Copy) -> tuple[Array, ...]:
    layout = op.layout
    assert isinstance(layout, RegisterLayout)
    size = op.buffer.dtype.bytes * op.vector
    if size not in (4, 8, 16):
        fault(op, f"copies {size} bytes at a time, not 4, 8 or 16")
    if layout.threads != agent.threads:
        fault(op, f"{layout} is of {layout.threads} threads, there are {agent.threads}")
    registers = read_tensor(agent, op, layout, None, op.vector)
    transfer = transfer_of(agent, op, layout)
    groups = groups_of(agent, COPIES)
    component = agent.program.component(agent.number, COPIES)
    who = agent.under_way(op, component, groups.next, is_async=False)
    claim_bytes(agent, op, who, np.reshape(transfer.bytes, -1), transfer.threads)
    memory, data = agent.program.memory, bytes_of(registers[transfer.moved])

    def land() -> None:
        memory[transfer.bytes] = data

    if agent.program.chance():
        land()
        groups.begin(op, lambda: None)
    else:
        memory[transfer.bytes] = 0xFF
        groups.begin(op, land)
    return ()


def commit(agent: Agent, op: Commit) -> tuple[Array, ...]:
    del op
    groups_of(agent, COPIES).commit()
    return ()


def wait(agent: Agent, op: Wait) -> tuple[Array, ...]:
    agent.landed[agent.program.component(agent.number, COPIES)] = groups_of(agent, COPIES).wait(op.groups)
    return ()


# Barriers


def barrier(agent: Agent, op: Barrier) -> Steps:
    yield from meet(agent, op, op.scope == "cluster")
    return ()


def meet(agent: Agent, op: Op, cluster: bool) -> Steps:
    """All threads of the block, or of the cluster, arrive before any goes on."""
    program, threads = agent.program, agent.program.block_threads
    if cluster:
        found = program.barrier("cluster", 0, 0, threads * program.blocks)
    else:
        found = program.barrier("block", 0, agent.block, threads)
    found.one_place = not cluster or agent.team.threads == threads
    yield from found.wait(agent, op, agent.size, agent.release())


def meet_in_team(agent: Agent, op: Op) -> Steps:
    """All threads of the block, or of the role, arrive before any goes on."""
    if agent.team.threads == agent.program.block_threads:
        yield from meet(agent, op, False)
        return
    found = agent.program.barrier("role", agent.team.first, agent.block, agent.team.threads)
    found.one_place = True
    yield from found.wait(agent, op, agent.size, agent.release())


def named_barrier(agent: Agent, op: NamedBarrier) -> Steps:
    found = agent.program.barrier("named", op.id, agent.block, op.threads)
    if found.threads != op.threads and found.present == 0:
        found.threads = op.threads
    if found.threads != op.threads:
        fail(
            "emulator-barrier-threads", op.location, program=agent.program.name, op=op.name, count=agent.size,
            barrier=found.name, present=found.present, threads=found.threads,
        )  # fmt: skip
    if op.action == "sync":
        yield from found.wait(agent, op, agent.size, agent.release())
    else:
        found.come(agent, op, agent.size, agent.release())
    return ()


def turn(agent: Agent, op: Turn) -> Steps:
    """Of a run of warpgroups the first one waits, and the last one hands on; of a single warp, its warpgroup."""
    groups = agent.team.threads // WARPGROUP
    start = agent.start - agent.block * agent.team.threads
    first, last = start // WARPGROUP, (start + agent.size - 1) // WARPGROUP
    threads = min(agent.size, WARPGROUP)
    if op.action in ("take", "end"):
        if op.action == "take" or first == 0:
            found = agent.program.barrier("named", op.id + first, agent.block, 2 * WARPGROUP)
            yield from found.wait(agent, op, threads, agent.release())
    elif op.action == "pass" or last == groups - 1:
        found = agent.program.barrier("named", op.id + (last + 1) % groups, agent.block, 2 * WARPGROUP)
        found.come(agent, op, threads, agent.release())
    return ()


def proxy_fence(agent: Agent, op: ProxyFence) -> tuple[Array, ...]:
    agent.fence(globally=op.scope == "global")
    return ()
