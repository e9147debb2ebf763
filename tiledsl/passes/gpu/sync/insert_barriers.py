"""Puts barriers where threads exchange values through memory, and nowhere else.

    gpu.write(%s, %x, [%0, %0])                    gpu.write(%s, %x, [%0, %0])
    %y = gpu.read(%s, [%0, %0])            =>      gpu.barrier()
    gpu.write(%s, %y, [%0, %0])                    %y = gpu.read(%s, [%0, %0])
                                                   gpu.barrier()
                                                   gpu.write(%s, %y, [%0, %0])

Before and after: form `gpu`. After: between two accesses of the same bytes by different threads, one of which writes,
there is a barrier on every path. Tensors count as memory too: a program may read what it stored.

The state at a point is what was written, and what was read, since the last barrier; loops go to a fixed point. An
access that clashes with it gets a barrier before it, or before the loop or branch that it is in where all that it
clashes with lies before that. In the end those that have become needless go.

A `gpu.copy` is under way, no write yet, until a `gpu.wait`; from then on the bytes count as written, by the threads
that copied them. It clashes with what was read and written before it, and with nothing that is read while it is under
way: that is of another stage. So a pipelined loop needs no barrier where each thread reads what it has copied; else
one in each iteration, if it begins the next copy before it reads:

    wait; barrier; copy into stage (k + S - 1) % S; commit; read stage k % S

as that copy overwrites what was read before the barrier.

In a role its threads meet at a `gpu.named_barrier`, whose number no other role has. What was done before the roles is
made sure of before the first one. Accesses by different roles are put in order by mbarriers and named barriers that are
there already; here belongs only what lies within a role, or before all of them:

    gpu.wgmma_wait      the tensor cores have read the operands of this warp; other warps know after a barrier
    gpu.bulk_wait       the stores have read their buffers; those who did not begin them know after a barrier
    gpu.tma_store       begun by one thread: what the others wrote is there after a barrier
    gpu.mbarrier_expect, gpu.mbarrier_arrive {by = role}
                        one thread tells another role that all have done with a buffer: they meet before
    gpu.mbarriers       initialised by one thread: used after a barrier (of the cluster if other blocks arrive there)

What TMA loads is waited for at an mbarrier by those who use it. Roles of all blocks of a cluster have met where all of
their threads arrive at an mbarrier of each block, and then wait at their own. `insert-proxy-fences` comes after this
pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Union

from tiledsl.ir.core import Module, Op, Value
from tiledsl.ir.gpu.async_ops import (
    BulkWait,
    Exchange,
    MbarrierArrive,
    MbarrierExpect,
    MbarrierWait,
    NamedBarrier,
    Role,
    TmaLoad,
    TmaStore,
    Wgmma,
    WgmmaFence,
    WgmmaWait,
)
from tiledsl.ir.gpu.async_rules import NAMED_BARRIERS
from tiledsl.ir.gpu.gpu_ops import Barrier, Copy, Launch, Wait
from tiledsl.ir.gpu.gpu_rules import role_around, turn_barriers
from tiledsl.ir.verifier import Form
from tiledsl.passes.gpu.sync.follow_memory import ClashError, MemoryFlow, fold_across_blocks, place_after
from tiledsl.passes.gpu.sync.memory_effects import Access, accesses, buffer_of, is_of_buffer, overlap, scratch_of
from tiledsl.passes.gpu.sync.role_signals import RoleSignals, is_meeting, speaks_for_all
from tiledsl.passes.manager import PassContext
from tiledsl.support.errors import fail


@dataclass(frozen=True)
class InsertBarriers:
    """Adds the barriers that a program needs to those that it has. Running it again changes nothing.

    Raises TileResourceError where a role would have to meet those of other blocks (`barrier-cluster-role`), or has no
    number left for a barrier of its own (`barrier-numbers`).
    """

    name: ClassVar[str] = "insert-barriers"
    requires: ClassVar[Form] = Form.GPU
    gives: ClassVar[Form] = Form.GPU

    def run(self, module: Module, context: PassContext) -> Module:
        for op in list(module.walk()):
            if isinstance(op, Launch):
                _merge_neighbours(op)
                _insert(op)
        return module


def _merge_neighbours(launch: Launch) -> None:
    """Of barriers one after the other, one stays: the one that reaches farther."""
    for op in list(launch.walk()):
        for block in op.bodies.values():
            last: Barrier | None = None
            for inner in list(block.ops):
                if not isinstance(inner, Barrier):
                    last = None
                elif last is not None:
                    last.attributes["scope"] = "cluster" if "cluster" in (last.scope, inner.scope) else "block"
                    inner.erase()
                else:
                    last = inner


def _insert(launch: Launch) -> None:
    needed = _Barriers(launch).fewest()
    users = _users_of_numbers(launch) if needed else {}
    for op, scope in needed.items():
        assert op.parent is not None
        role = role_around(op)
        if role is None:
            op.parent.insert_before(op, Barrier(op.location, scope=scope))
            continue
        barrier = NamedBarrier(op.location, id=_number_of(role, users, op), threads=role.threads)
        users[barrier.id].append(barrier)
        op.parent.insert_before(op, barrier)


def _users_of_numbers(launch: Launch) -> dict[int, list[NamedBarrier]]:
    """The named barriers of each number, without those by which warpgroups take turns."""
    users: dict[int, list[NamedBarrier]] = {number: [] for number in NAMED_BARRIERS}
    for op in launch.walk():
        if isinstance(op, NamedBarrier):
            users[op.id].append(op)
    for number in turn_barriers(launch):
        del users[number]
    return users


def _number_of(role: Role, users: Mapping[int, Sequence[NamedBarrier]], at: Op) -> int:
    """Of the barrier at which a role meets: one that it has for itself already, or else one that nobody has."""
    own = [number for number, ops in users.items() if ops and all(_is_own(op, role) for op in ops)]
    free = [number for number, ops in users.items() if not ops]
    if not own and not free:
        fail("barrier-numbers", at.location, numbers=len(NAMED_BARRIERS))
    return (own or free)[0]


def _is_own(op: NamedBarrier, role: Role) -> bool:
    return role_around(op) is role and op.action == "sync" and op.threads == role.threads


_AnyWait = Union[Wait, WgmmaWait, BulkWait]


@dataclass(frozen=True)
class State:
    """What happened since the last barrier; and what is under way, which a barrier does not end: copies, what products
    read, what stores read and write.
    """

    written: frozenset[Access] = frozenset()
    read: frozenset[Access] = frozenset()
    under_way: frozenset[Access] = frozenset()

    def __or__(self, other: State) -> State:
        return State(self.written | other.written, self.read | other.read, self.under_way | other.under_way)

    def after_barrier(self, scope: str) -> State:
        """Threads of the block, or of the cluster, have met."""
        if scope == "cluster":
            return State(under_way=self.under_way)
        written, read = (frozenset(a for a in group if a.remote) for group in (self.written, self.read))
        return State(written, read, self.under_way)

    def after_meeting(self) -> State:
        """Threads of a role have met."""
        written, read = (
            frozenset(replace(a, met=True) for a in group if a.remote) for group in (self.written, self.read)
        )
        return State(written, read, self.under_way)

    def after_wait(self, wait: _AnyWait) -> State:
        """What was under way counts as done. Only a wait for all of it leaves none under way."""
        ended = frozenset(access for access in self.under_way if _is_awaited(access, wait))
        state = replace(self, under_way=self.under_way - ended if wait.groups == 0 else self.under_way)
        for access in ended:
            copied = Access("write", access.place, wait, threads=access.threads)
            state = state.after(copied if access.kind == "copy" else replace(access, at=wait))
        return state

    def after_iteration(self, loop: Op) -> State:
        """As the next iteration of the loop sees it, and what comes after the loop."""
        groups = (self.written, self.read, self.under_way)
        return State(*(frozenset(access.after_iteration(loop) for access in group) for group in groups))

    def after(self, access: Access) -> State:
        """The access has happened too."""
        added = frozenset((access,))
        match access.kind:
            case "read":
                return replace(self, read=self.read | added)
            case "copy":
                return self.with_under_way(access)
            case "write" | "atomic":
                return replace(self, written=self.written | added)

    def with_under_way(self, access: Access) -> State:
        """The access has begun."""
        return replace(self, under_way=self.under_way | {access})

    def clashes(self, access: Access) -> list[Access]:
        """What must lie behind a barrier before the access may happen."""
        apart = isinstance(access.at, Copy) and access.at.apart and is_of_buffer(access)
        groups = [self.written] if access.kind == "read" or apart else [self.written, self.read]
        return [other for group in groups for other in group if overlap(access, other)]


def _is_awaited(access: Access, wait: _AnyWait) -> bool:
    match wait:
        case Wait():
            return isinstance(access.at, Copy)
        case WgmmaWait():
            return isinstance(access.at, Wgmma)
        case BulkWait():
            return isinstance(access.at, TmaStore) and (is_of_buffer(access) or not wait.read)


class _Barriers(MemoryFlow[State]):
    """Follows the state through a launch that has barriers of some scope before some ops."""

    def __init__(self, launch: Launch) -> None:
        super().__init__(launch)
        self.cluster = launch.cluster > 1
        self.signals = RoleSignals(launch)
        touched = {op: accesses(op, cluster=self.cluster) for op in launch.walk()}
        written = {a.place for group in touched.values() for a in group if a.kind != "read"}
        # tensors that nothing writes can be read at any time
        self.touched = {
            op: tuple(a for a in group if is_of_buffer(a) or a.place in written) for op, group in touched.items()
        }

    def start(self) -> State:
        return State()

    def after_inserted(self, op: Op, what: str, state: State) -> State:
        return state.after_barrier(what) if role_around(op) is None else state.after_meeting()

    def after_op(self, op: Op, state: State) -> State:
        match op:
            case Barrier():
                return state.after_barrier(op.scope)
            case NamedBarrier():
                # whoever else comes: all threads of the role do
                return state.after_meeting() if op.action == "sync" else state
            case Wait() | WgmmaWait() | BulkWait():
                return state.after_wait(op)
            case MbarrierExpect() | MbarrierArrive() | MbarrierWait():
                self.check_mbarrier(op, op.barriers, state)
                if isinstance(op, MbarrierWait) and is_meeting(op, self.launch.cluster):
                    return state.after_barrier("cluster")
                if speaks_for_all(op):
                    self.check(op, self.untold(op, state))
                return state
            case TmaLoad() | Exchange():
                self.check_mbarrier(op, op.barriers, state)
                return self.access(op, state)
            case _:
                return self.access(op, state)

    def access(self, op: Op, state: State) -> State:
        scratch = scratch_of(op)
        if scratch is not None:
            plan = fold_across_blocks(self.launch, op)
            if plan is not None:
                # its memory is its own, and in the next run it uses another half of it
                return self.met(state) if plan.warps else state
            place = buffer_of(scratch)
            self.check(op, state.clashes(Access("write", place, op)))
            return self.met(state).after(Access("read", place, op))
        for access in self.touched.get(op, ()):
            self.check(op, self.clashes(access, state))
            if isinstance(op, (Wgmma, TmaStore)) or (isinstance(op, Exchange) and access.kind == "read"):
                state = state.with_under_way(access)
            elif not isinstance(op, (TmaLoad, Exchange)):  # who uses what comes waits for that at the mbarrier
                state = state.after(access)
        return state

    def met(self, state: State) -> State:
        """All threads of the block, or of the role, have met."""
        return state.after_barrier("block") if self.role is None else state.after_meeting()

    def clashes(self, access: Access, state: State) -> list[Access]:
        """As those of the state. In a role of a cluster, what each block stores is its own: it must not meet others."""
        found = state.clashes(access)
        if self.role is None or access.kind == "read":
            return found
        stored = [other for other in found if other.kind != "read" and role_around(other.at) is self.role]
        return [replace(o, remote=False) if o in stored else o for o in found if not (o in stored and o.met)]

    def check_mbarrier(self, op: Op, barriers: Value, state: State) -> None:
        self.check(op, state.clashes(Access("read", barriers, op)))

    def untold(self, op: Op, state: State) -> Iterator[Access]:
        """What other threads of the role did that the one which arrives does not know, and those who hear it need."""
        for access in (*state.written, *state.read):
            if not access.lone and role_around(access.at) is self.role and self.signals.matters(op, access):
                yield access

    def check(self, op: Op, clashes: Iterable[Access]) -> None:
        """Raises ClashError if there are any, with the outermost place that lies after all of them."""
        found = list(clashes)
        if not found:
            return
        place = _before_fence(place_after(found, op))
        scope = "cluster" if any(access.remote for access in found) else "block"
        if scope == "cluster" and role_around(place) is not None:
            fail("barrier-cluster-role", op.location, op=op.name, other=found[0].at.name)
        raise ClashError(place, scope)


def _before_fence(op: Op) -> Op:
    """Registers are fenced right before the products that read them: a barrier comes before both."""
    if not isinstance(op, Wgmma) or op.parent is None:
        return op
    for earlier in reversed(op.parent.ops[: op.parent.ops.index(op)]):
        if isinstance(earlier, WgmmaFence):
            return earlier
        if earlier.effect != "pure":
            break
    return op
