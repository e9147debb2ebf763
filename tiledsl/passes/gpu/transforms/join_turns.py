"""Joins turns of loops that wait for memory: what several turns load is asked for before the first of them computes.

    for t in 0 ... 1000:                          for t in 0 ... 1000 by 4:
      %e = gpu.load(%x, [%t, %m])                   %e_0, %e_1, %e_2, %e_3 = gpu.load(%x, [%t + 0 ... 3, %m])
      %s = fold of %state and %e            =>      %s_0 = fold of %state and %e_0; gpu.store(%y, [%t, %m], %s_0)
      gpu.store(%y, [%t, %m], %s)                   ...
      yield %s                                      yield %s_3

A recurrence that stores what it makes, or folds among threads, waits for memory in every turn: no compiler moves a load
over a store or a barrier. Loads of tensors that the launch writes stay where they are, and so does what depends on
what is carried. Turns that are left over go one by one, by a loop of their own. Loops that only read and compute are
written out by the back end, and those with products have stages.

Before and after: GPU form.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Module, Op, Value
from tiledsl.ir.dtypes import i64
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.gpu.async_ops import Role
from tiledsl.ir.verifier import Form
from tiledsl.passes.analysis.early_loads import depends_on, early_loads
from tiledsl.passes.analysis.sizes import constant_of
from tiledsl.passes.gpu.plan import JOINED_OPS, WRITTEN_OUT, joined_turns
from tiledsl.passes.manager import PassContext
from tiledsl.passes.tile.loops.carried_values import carried_arguments, yielded

Values = dict[Value, Value]
FOLDS = (gpu.Reduce, gpu.Scan)
MEETINGS = (*FOLDS, gpu.Convert, gpu.Read, gpu.Write)
"""What threads may meet for, in a turn."""
KNOWN = (gpu.Load, gpu.Store, gpu.Buffer, *MEETINGS)
"""What a turn may have besides what only computes."""


@dataclass(frozen=True)
class JoinTurns:
    """In launches whose threads all do the same: innermost loops whose loads are known before they begin."""

    name: ClassVar[str] = "join-turns"
    requires: ClassVar[Form] = Form.GPU
    gives: ClassVar[Form] = Form.GPU

    def run(self, module: Module, context: PassContext) -> Module:
        for launch in [op for op in module.walk() if isinstance(op, gpu.Launch)]:
            if any(isinstance(op, Role) for op in launch.walk()):
                continue
            written = {op.tensor for op in launch.walk() if isinstance(op, (gpu.Store, gpu.Atomic))}
            for op in list(launch.walk()):
                if isinstance(op, ops.For):
                    early = _early(op, written)
                    turns = _joined(op, early, launch.threads)
                    if turns[0] > 1:
                        context.remark(self.name, op.location, f"{turns[0]} turns load together what they read")
                        _Joining(op, early, turns).join()
        return module


def _early(loop: ops.For, written: Set[Value]) -> list[Op]:
    """Loads that a turn can make before it, and what they are subscripted by; nothing for a loop that is not joined."""
    body = loop.body.ops
    if constant_of(loop.step) != 1 or any(op.bodies for op in body if not isinstance(op, FOLDS)):
        return []
    if any(op.effect not in ("pure", "terminator") and not isinstance(op, KNOWN) for op in body):
        return []
    if not any(isinstance(op, (gpu.Store, *MEETINGS)) for op in body):
        return []  # it is written out
    return early_loads(loop.body, carried_arguments(loop, loop.body), written, (gpu.Load,), MEETINGS)


def _joined(loop: ops.For, early: Sequence[Op], threads: int) -> list[int]:
    """How many turns are joined, loop by loop."""
    loads = [op for op in early if isinstance(op, gpu.Load)]
    moving = [op for op in loads if depends_on(op, loop.body.arguments[0])]
    start, stop = constant_of(loop.start), constant_of(loop.stop)
    if any(isinstance(user, ops.Map) and user.fn == "mul" for user in loop.body.arguments[0].users):
        return [1]  # a turn is a block of coordinates, and loads enough
    if not moving or (start is not None and stop is not None and stop - start <= WRITTEN_OUT):
        return [1]
    most = JOINED_OPS // len(loop.body.ops)
    return list(dict.fromkeys(max(1, min(n, most)) for n in joined_turns(sum(map(_words, moving)), threads)))


def _words(load: gpu.Load) -> int:
    """Registers of a thread that a load fills."""
    slots = load.result.layout.slots if load.shape else 1
    return -(-slots * load.result.dtype.bytes // 4)


class _Joining:
    def __init__(self, loop: ops.For, early: Sequence[Op], turns: Sequence[int]) -> None:
        self.loop, self.turns = loop, turns
        number, before = loop.body.arguments[0], set(early)
        self.same = [op for op in early if not depends_on(op, number)]
        """Those that are alike in every turn."""
        self.early = [op for op in early if op not in set(self.same)]
        self.rest = [op for op in loop.body.ops[:-1] if op not in before]

    def join(self) -> None:
        """Puts loops of joined turns, each of what the one before left over, in place of the loop."""
        loop, parent = self.loop, self.loop.parent
        assert parent is not None
        build = Builder(Block(), loop.location)
        start, results = loop.start, tuple(loop.initial)
        for turns in self.turns:
            first, last = constant_of(start), constant_of(loop.stop)
            left = None if first is None or last is None else last - first
            if left == 0:
                break
            step, stop = (loop.step, loop.stop) if turns == 1 else self._turns(build, start, left, turns)
            if left is None or left >= turns:
                results, start = self._loop(build, start, stop, step, results, turns), stop
        for op in build.block.ops:
            parent.insert_before(loop, op)
        for old, new in zip(loop.results, results):
            old.replace_with(new)
        loop.erase()

    def _turns(self, build: Builder, start: Value, left: int | None, turns: int) -> tuple[Value, Value]:
        """The step of a loop of joined turns, and where it ends, if so many coordinates are left."""
        step = build.constant(turns, i64)
        if left is not None:
            known = constant_of(start)
            assert known is not None
            return step, build.constant(known + left // turns * turns, i64)
        some = build.map("maximum", build.map("sub", self.loop.stop, start), build.constant(0, i64))
        whole = build.map("floordiv", some, step)
        return step, build.map("add", start, build.map("mul", whole, step))

    def _loop(
        self, build: Builder, start: Value, stop: Value, step: Value, initial: Sequence[Value], turns: int
    ) -> tuple[Value, ...]:
        loop = self.loop
        number, *carried = loop.body.arguments
        body = Block([(value.type, value.name) for value in loop.body.arguments])
        inside = Builder(body, loop.location)
        turn, *state = body.arguments
        same: Values = {}
        _copy(inside, self.same, same)
        every: list[Values] = []
        for place in range(turns):
            at = inside.map("add", turn, inside.constant(place, i64)) if place else turn
            every.append({**same, number: at})
            _copy(inside, self.early, every[-1])
        for values in every:
            values.update(zip(carried, state))
            _copy(inside, self.rest, values)
            state = [values.get(value, value) for value in yielded(loop.body)]
        inside.emit(ops.Yield, values=state)
        return build.emit(
            ops.For, types=[value.type for value in loop.results], result_names=[value.name for value in loop.results],
            start=start, stop=stop, step=step, initial=list(initial), body=body,
        ).results  # fmt: skip


def _copy(build: Builder, found: Iterable[Op], values: Values) -> None:
    """Copies ops, which take and give what `values` says."""
    for op in found:
        build.block.append(op.clone(values))
