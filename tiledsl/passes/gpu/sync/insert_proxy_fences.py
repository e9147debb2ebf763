"""Puts proxy fences where threads hand memory over to TMA or to products of warpgroups, and nowhere else.

    gpu.write(%s, %x, [%0, %0])                    gpu.write(%s, %x, [%0, %0])
    gpu.barrier()                          =>      gpu.proxy_fence()
    gpu.tma_store(%t, [%m, %n], %s, ...)           gpu.barrier()
                                                   gpu.tma_store(%t, [%m, %n], %s, ...)

Before and after: form `gpu`, with the barriers that it needs (`insert-barriers`). After: between an access through the
generic proxy and one of the same bytes through the async proxy, one of which writes, there is on every path a fence by
the threads that made the first one, and after it what tells the others: a barrier, or an arrival.

The state at a point is what these threads did through the generic proxy, whether it is fenced, and the last barrier
since. Three things need fences:

    within a role               TMA or a product meets an access that is not fenced: the fence comes before the last
                                barrier between them
    between roles               an arrival at an mbarrier, or at a named barrier, that a role hears of which loads by
                                TMA what was read here, say: the fence comes before the arrival; or before the last
                                barrier, where one thread arrives for all
    before the roles            as within a role

A fence comes before the loop or branch that it would be in where all that it is for lies before that. It speaks of
global memory too where a tensor is handed over. What went through the async proxy needs no fence: who waits for it sees
it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from tiledsl.ir.core import Module, Op
from tiledsl.ir.gpu.async_ops import MbarrierArrive, MbarrierExpect, NamedBarrier, ProxyFence
from tiledsl.ir.gpu.gpu_ops import Barrier, Launch, Wait
from tiledsl.ir.gpu.gpu_rules import role_around
from tiledsl.ir.verifier import Form
from tiledsl.passes.gpu.sync.follow_memory import ClashError, MemoryFlow, fold_across_blocks, place_after
from tiledsl.passes.gpu.sync.memory_effects import Access, accesses, buffer_of, is_of_buffer, may_share, scratch_of
from tiledsl.passes.gpu.sync.role_signals import RoleSignals, conflict, speaks_for_all
from tiledsl.passes.manager import PassContext


@dataclass(frozen=True)
class InsertProxyFences:
    """Adds the proxy fences that a program needs to those that it has. Running it again changes nothing."""

    name: ClassVar[str] = "insert-proxy-fences"
    requires: ClassVar[Form] = Form.GPU
    gives: ClassVar[Form] = Form.GPU

    def run(self, module: Module, context: PassContext) -> Module:
        for launch in list(module.walk()):
            if not isinstance(launch, Launch):
                continue
            for op, scope in _Fences(launch).fewest().items():
                assert op.parent is not None
                op.parent.insert_before(op, ProxyFence(op.location, scope=scope))
        return module


@dataclass(frozen=True)
class Touched:
    """An access through the generic proxy. `barrier`: the last one since, unless the access was fenced before it."""

    access: Access
    fenced: bool = False
    barrier: Op | None = None


@dataclass(frozen=True)
class State:
    """What threads did through the generic proxy that they have not fenced, or told nobody of; and copies under way."""

    touched: frozenset[Touched] = frozenset()
    under_way: frozenset[Access] = frozenset()

    def __or__(self, other: State) -> State:
        return State(self.touched | other.touched, self.under_way | other.under_way)

    def after_iteration(self, loop: Op) -> State:
        """As the next iteration of the loop sees it, and what comes after the loop."""
        return State(
            frozenset(replace(one, access=one.access.after_iteration(loop)) for one in self.touched),
            frozenset(access.after_iteration(loop) for access in self.under_way),
        )

    def after(self, access: Access) -> State:
        """The access has happened too."""
        return replace(self, touched=self.touched | {Touched(access)})

    def after_barrier(self, barrier: Op) -> State:
        """Threads have met."""
        return replace(self, touched=frozenset(replace(one, barrier=barrier) for one in self.touched if not one.fenced))

    def after_fence(self, scope: str) -> State:
        """A fence that comes after a barrier is of use after another one."""
        fenced = (
            replace(one, fenced=one.fenced or is_of_buffer(one.access) or scope == "global") for one in self.touched
        )
        return replace(self, touched=frozenset(fenced))

    def after_wait(self, wait: Wait) -> State:
        """Copies count as written. Only a wait for all of them leaves none under way."""
        done = frozenset(Touched(Access("write", access.place, wait)) for access in self.under_way)
        return State(self.touched | done, self.under_way if wait.groups else frozenset())


class _Fences(MemoryFlow[State]):
    """Follows the state through a launch that has fences of some scope before some ops."""

    def __init__(self, launch: Launch) -> None:
        super().__init__(launch)
        self.signals = RoleSignals(launch)
        self.order = {op: number for number, op in enumerate(launch.walk())}
        touched = {op: accesses(op, cluster=launch.cluster > 1) for op in self.order}
        self.async_accesses = {op: [a for a in group if a.is_async] for op, group in touched.items()}
        every = [access for group in self.async_accesses.values() for access in group]
        self.generic_accesses = {
            op: [a for a in group if not a.is_async and any(may_share(a, other) for other in every)]
            for op, group in touched.items()
        }

    def start(self) -> State:
        return State()

    def after_inserted(self, op: Op, what: str, state: State) -> State:
        return state.after_fence(what)

    def after_op(self, op: Op, state: State) -> State:
        match op:
            case ProxyFence():
                return state.after_fence(op.scope)
            case Barrier():
                return state.after_barrier(op)
            case NamedBarrier():
                self.check_told(op, state)
                return state.after_barrier(op) if op.action == "sync" else state
            case MbarrierExpect() | MbarrierArrive():
                self.check_told(op, state)
                return state
            case Wait():
                return state.after_wait(op)
            case _:
                return self.access(op, state)

    def access(self, op: Op, state: State) -> State:
        for access in self.async_accesses[op]:
            self.check(op, state, lambda one, access=access: conflict(access, one.access) and not _is_due(one))
        if scratch_of(op) is not None:
            return self.fold(op, state)
        for access in self.generic_accesses[op]:
            if access.kind == "copy":
                state = replace(state, under_way=state.under_way | {access})
            else:
                state = state.after(access)
        return state

    def fold(self, op: Op, state: State) -> State:
        """Its threads meet, and read what was written before."""
        plan = fold_across_blocks(self.launch, op)
        if plan is not None:
            return state.after_barrier(op) if plan.warps else state
        scratch = scratch_of(op)
        assert scratch is not None
        return state.after_barrier(op).after(Access("read", buffer_of(scratch), op))

    def check_told(self, op: Op, state: State) -> None:
        """Those of other roles who hear of it go on to what they do by TMA or by products."""
        alone = speaks_for_all(op)

        def is_untold(one: Touched) -> bool:
            done = _is_due(one) if alone else one.fenced
            own = role_around(one.access.at) is self.role
            return not done and own and self.signals.matters(op, one.access, to_async=True)

        if self.role is not None:
            self.check(op, state, is_untold, before_barrier=alone)

    def check(
        self, op: Op, state: State, is_missing: Callable[[Touched], bool], *, before_barrier: bool = True
    ) -> None:
        """Raises ClashError where a fence is missing, with the last place where it can be, or one farther out."""
        missing = [one for one in state.touched if is_missing(one)]
        if not missing:
            return
        anchors = {one: one.barrier if before_barrier and one.barrier is not None else op for one in missing}
        anchor = max(anchors.values(), key=lambda place: self.order[place])
        served = [one.access for one in missing if anchors[one] is anchor]
        scope = "shared" if all(map(is_of_buffer, served)) else "global"
        place = place_after(served, anchor)
        if self.inserted.get(place) in (scope, "global"):  # there is no barrier on some way from there
            place = anchor
        raise ClashError(place, "global" if self.inserted.get(place) == "global" else scope)


def _is_due(one: Touched) -> bool:
    """Fenced, and only a barrier is missing: not this pass's matter."""
    return one.fenced and one.barrier is None
