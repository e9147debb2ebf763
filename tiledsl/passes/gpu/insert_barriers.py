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

A `gpu.copy` is under way, no write yet, until a `gpu.wait`; from then on the bytes count as written. It clashes with
what was read and written before it, and with nothing that is read while it is under way: that is of another stage. So a
pipelined loop needs one barrier in each iteration, if it begins the next copy before it reads:

    wait; barrier; copy into stage (k + S - 1) % S; commit; read stage k % S

as that copy overwrites what was read before the barrier.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

from tiledsl.ir.core import Block, Module, Op
from tiledsl.ir.fold_plans import FoldPlan, plan_fold
from tiledsl.ir.gpu_ops import Barrier, Copy, Launch, Reduce, Wait
from tiledsl.ir.tile_ops import For, If, Range, While
from tiledsl.ir.verifier import Form
from tiledsl.passes.gpu.linear_indices import ops_around
from tiledsl.passes.gpu.memory_effects import Access, accesses, buffer_of, is_of_buffer, overlap, scratch_of
from tiledsl.passes.manager import PassContext


@dataclass(frozen=True)
class InsertBarriers:
    """Adds the barriers that a program needs to those that it has. Running it again changes nothing."""

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
    barriers: dict[Op, str] = {}
    flow = _Flow(launch)
    while True:
        try:
            flow.follow(barriers)
            break
        except ClashError as clash:
            barriers[clash.before] = clash.scope
    for op in sorted(barriers, key=lambda op: -_depth(op)):
        fewer = {other: scope for other, scope in barriers.items() if other is not op}
        try:
            flow.follow(fewer)
            barriers = fewer
        except ClashError:
            continue
    for op, scope in barriers.items():
        assert op.parent is not None
        op.parent.insert_before(op, Barrier(op.location, scope=scope))


def _depth(op: Op) -> int:
    return len(ops_around(op.parent)) if op.parent is not None else 0


@dataclass(frozen=True)
class State:
    """What happened since the last barrier; and the copies that are under way, which a barrier does not end."""

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

    def after_wait(self, wait: Wait) -> State:
        """Copies count as written. Only a wait for all of them leaves none under way."""
        done = frozenset(Access("write", access.place, wait) for access in self.under_way)
        return State(self.written | done, self.read, frozenset() if wait.groups == 0 else self.under_way)

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
                return replace(self, under_way=self.under_way | added)
            case "write" | "atomic":
                return replace(self, written=self.written | added)

    def clashes(self, access: Access) -> list[Access]:
        """What must lie behind a barrier before the access may happen."""
        apart = isinstance(access.at, Copy) and access.at.apart and is_of_buffer(access)
        groups = [self.written] if access.kind == "read" or apart else [self.written, self.read]
        return [other for group in groups for other in group if overlap(access, other)]


class ClashError(Exception):
    """A barrier of that scope is missing before that op."""

    def __init__(self, before: Op, scope: str) -> None:
        super().__init__(before, scope)
        self.before = before
        self.scope = scope


class _Flow:
    """Follows the state through a launch that has `barriers` before some ops, and stops at the first clash."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.barriers: dict[Op, str] = {}
        self.cluster = launch.cluster > 1
        touched = {op: accesses(op, cluster=self.cluster) for op in launch.walk()}
        written = {a.place for group in touched.values() for a in group if a.kind != "read"}
        # tensors that nothing writes can be read at any time
        self.touched = {
            op: tuple(a for a in group if is_of_buffer(a) or a.place in written) for op, group in touched.items()
        }

    def follow(self, barriers: dict[Op, str]) -> None:
        """Raises ClashError where these do not suffice."""
        self.barriers = barriers
        self.run(self.launch.body, State())

    def run(self, block: Block, state: State) -> State:
        for op in block.ops:
            if op in self.barriers:
                state = state.after_barrier(self.barriers[op])
            state = self.step(op, state)
        return state

    def step(self, op: Op, state: State) -> State:
        match op:
            case Barrier():
                return state.after_barrier(op.scope)
            case Wait():
                return state.after_wait(op)
            case If():
                return self.run(op.then, state) | self.run(op.otherwise, state)
            case For() | Range() | While():
                return self.loop(op, state)
            case _:
                return self.access(op, state)

    def loop(self, op: For | Range | While, state: State) -> State:
        """To a fixed point; a loop may also end before its first iteration."""
        while True:
            checked = self.run(op.condition, state) if isinstance(op, While) else state
            following = state | self.run(op.body, checked).after_iteration(op)
            if following == state:
                return checked
            state = following

    def access(self, op: Op, state: State) -> State:
        scratch = scratch_of(op)
        if scratch is not None:
            plan = self.fold_across_blocks(op)
            if plan is not None:
                # its memory is its own, and in the next run it uses another half of it
                return state.after_barrier("block") if plan.warps else state
            place = buffer_of(scratch)
            self.check(op, state.clashes(Access("write", place, op)))
            return state.after_barrier("block").after(Access("read", place, op))
        for access in self.touched.get(op, ()):
            self.check(op, state.clashes(access))
            state = state.after(access)
        return state

    def fold_across_blocks(self, op: Op) -> FoldPlan | None:
        """The plan of a fold that goes through the memory of other blocks of the cluster."""
        if not self.cluster or not isinstance(op, Reduce):
            return None
        plan = plan_fold(op.sources[0].layout, op.axes, self.launch.threads)
        return plan if plan.blocks else None

    def check(self, op: Op, clashes: Iterable[Access]) -> None:
        """Raises ClashError if there are any, with the outermost place that lies after all of them."""
        found = list(clashes)
        if not found:
            return
        busy = {around for access in found if access.at.parent for around in ops_around(access.at.parent)}
        before = op
        assert op.parent is not None
        for around in ops_around(op.parent):
            if around in busy:
                break
            before = around
        raise ClashError(before, "cluster" if any(access.remote for access in found) else "block")
