"""Follows what happened to memory through a launch, for passes that put something in where two accesses clash.

Loops go to a fixed point, branches are joined. Each role begins with what happened before the roles; what happens in it
is no other role's matter here. What is put in stands before some op; in the end those go that have become needless.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from tiledsl.ir.core import Block, Op
from tiledsl.ir.gpu.async_ops import Role
from tiledsl.ir.gpu.gpu_ops import Launch, Reduce
from tiledsl.ir.gpu.gpu_rules import role_around
from tiledsl.ir.layouts.fold_plans import FoldPlan, plan_fold
from tiledsl.ir.tile_ops import (
    Broadcast,
    Cast,
    Constant,
    For,
    If,
    Map,
    Random,
    Range,
    Reshape,
    Size,
    Transpose,
    While,
    Yield,
)
from tiledsl.passes.gpu.layouts.linear_indices import ops_around
from tiledsl.passes.gpu.sync.memory_effects import Access


class _State(Protocol):
    """What happened up to some point."""

    def __or__(self, other: Any, /) -> Any:
        """What happened on either way to a point."""
        ...

    def after_iteration(self, loop: Op, /) -> Any:
        """As the next iteration of the loop sees it, and what comes after the loop."""
        ...


AnyState = TypeVar("AnyState", bound=_State)


class ClashError(Exception):
    """Something of kind `what` is missing before that op."""

    def __init__(self, before: Op, what: str) -> None:
        super().__init__(before, what)
        self.before = before
        self.what = what


class MemoryFlow(ABC, Generic[AnyState]):
    """Follows the state through a launch that has something `inserted` before some ops."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.inserted: Mapping[Op, str] = {}
        self.role: Role | None = None
        """That it is in."""

    @abstractmethod
    def start(self) -> AnyState:
        """When the launch begins."""

    @abstractmethod
    def after_inserted(self, op: Op, what: str, state: AnyState) -> AnyState:
        """After what stands before `op`."""

    @abstractmethod
    def after_op(self, op: Op, state: AnyState) -> AnyState:
        """After an op that is no control flow. Raises ClashError where something is missing before it."""

    def fewest(self) -> dict[Op, str]:
        """What must be inserted before which ops, each of it needed."""
        needed: dict[Op, str] = {}
        while True:
            clash = self.clash(needed)
            if clash is None:
                break
            assert needed.get(clash.before) != clash.what, f"another {clash.what} before {clash.before} is no help"
            needed[clash.before] = clash.what
        for op in sorted(needed, key=lambda op: -_depth(op)):
            fewer = {other: what for other, what in needed.items() if other is not op}
            if self.clash(fewer) is None:
                needed = fewer
        return needed

    def clash(self, inserted: Mapping[Op, str]) -> ClashError | None:
        """What these do not suffice for."""
        self.inserted = inserted
        self.role = None
        try:
            self._block(self.launch.body, self.start())
        except ClashError as clash:
            return clash
        return None

    def _block(self, block: Block, state: AnyState) -> AnyState:
        for op in block.ops:
            if op in self.inserted:
                state = self.after_inserted(op, self.inserted[op], state)
            state = self._step(op, state)
        return state

    def _step(self, op: Op, state: AnyState) -> AnyState:
        if type(op) in _IN_REGISTERS:
            return state
        match op:
            case If():
                return self._block(op.then, state) | self._block(op.otherwise, state)
            case For() | Range() | While():
                return self._loop(op, state)
            case Role():
                self.role = op
                self._block(op.body, state)
                self.role = None
                return state
            case _:
                return self.after_op(op, state)

    def _loop(self, op: For | Range | While, state: AnyState) -> AnyState:
        """To a fixed point; a loop may also end before its first iteration."""
        while True:
            checked = self._block(op.condition, state) if isinstance(op, While) else state
            following = state | self._block(op.body, checked).after_iteration(op)
            if following == state:
                return checked
            state = following


_IN_REGISTERS: frozenset[type[Op]] = frozenset(
    (Constant, Size, Map, Cast, Broadcast, Reshape, Transpose, Random, Yield)
)
"""Most ops of a launch: they touch no memory and wait for nobody."""


def _depth(op: Op) -> int:
    return len(ops_around(op.parent)) if op.parent is not None else 0


def place_after(earlier: Iterable[Access], op: Op) -> Op:
    """The op, or the outermost one around it that lies after all that the accesses are in.

    Where that is a role, it is the first one of the launch: all threads meet before it.
    """
    busy = {around for access in earlier if access.at.parent for around in ops_around(access.at.parent)}
    place = op
    assert op.parent is not None
    for around in ops_around(op.parent):
        if around in busy:
            break
        place = around
    if isinstance(place, Role) and place.parent is not None:
        return next(other for other in place.parent.ops if isinstance(other, Role))
    return place


def fold_across_blocks(launch: Launch, op: Op) -> FoldPlan | None:
    """The plan of a fold that goes through the memory of other blocks of the cluster."""
    if launch.cluster == 1 or not isinstance(op, Reduce):
        return None
    role = role_around(op)
    plan = plan_fold(op.sources[0].layout, op.axes, launch.threads if role is None else role.threads)
    return plan if plan.blocks else None
