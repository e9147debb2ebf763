"""Rotates loops whose products take what is made of others: the first products of a turn begin before the last ones of
the turn before (software pipelining, a modulo schedule of two stages).

    for turn in 0 ... count:                              first half of turn 0
      %s = gpu.wgmma(%q, %k, %zero); gpu.wgmma_commit()   for turn in 1 ... count:
      %scores = gpu.wgmma_wait([%s]) {groups = 0}           %s = gpu.wgmma(%q, %k, %zero); gpu.wgmma_commit()
      %p = ... of %scores                                   %o = gpu.wgmma(%p, %v, %scaled); gpu.wgmma_commit()
      %scaled = %acc * %w                            =>     %scores = gpu.wgmma_wait([%s]) {groups = 1}
      gpu.mbarrier_wait(%full_v, ...)                       %next = ... of %scores
      %o = gpu.wgmma(%p, %v, %scaled)                       %sum = gpu.wgmma_wait([%o, %p]) {groups = 0}
      gpu.wgmma_commit()                                    %after = %sum * %w
      %sum = gpu.wgmma_wait([%o, %p]) {groups = 0}          yield %next, %after
      yield %sum                                          second half of the last turn

So what is computed of scores goes on beside a product. The body is cut in two halves where it waits for the operands of
its last products; what the second half takes of the first one is carried, and belongs to the turn before. Of the first
half, what depends on the sums comes last. A warpgroup whose turn it is to multiply keeps it for the products of both.

Before and after: GPU form.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Module, Op, Value
from tiledsl.ir.dtypes import i64
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.gpu.async_ops import (
    MbarrierArrive,
    MbarrierWait,
    Role,
    Turn,
    Wgmma,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)
from tiledsl.ir.gpu.warpgroup_instructions import warpgroup_instruction
from tiledsl.ir.types import scalar
from tiledsl.ir.verifier import Form
from tiledsl.passes.analysis.sizes import constant_of
from tiledsl.passes.manager import PassContext
from tiledsl.passes.tile.loops.carried_values import carried_arguments, yielded

Values = dict[Value, Value]
MOST_STEPS = 32
"""Of left operands of the first products: what stands in front of the loop too lets assemblers keep a descriptor for
each, two registers of every thread. Scores of depth 576 beside 256 columns of sums spilled 68 to 172 bytes."""


@dataclass(frozen=True)
class RotateLoops:
    """In roles, those loops with two groups of products of which the second one takes what is made of the first one."""

    name: ClassVar[str] = "rotate-loops"
    requires: ClassVar[Form] = Form.GPU
    gives: ClassVar[Form] = Form.GPU

    def run(self, module: Module, context: PassContext) -> Module:
        for role in [op for op in module.walk() if isinstance(op, Role)]:
            for op in list(role.walk()):
                halves = _halves(op) if isinstance(op, ops.For) else None
                if halves is not None:
                    first = next(inner for inner in halves.begin if isinstance(inner, Wgmma))
                    context.remark(self.name, first.location, "begun before the product of the turn before is done")
                    _Rotation(halves).rotate()
        return module


@dataclass(frozen=True)
class _Halves:
    """The body of a loop, in two halves.

    Of the first one, `begin` is up to where its products have begun, `ahead` what goes on beside the last products of
    the turn before, `behind` what waits for them. Of the second one, `multiply` is up to where its products have begun,
    and `land` the rest.
    """

    loop: ops.For
    begin: tuple[Op, ...]
    ahead: tuple[Op, ...]
    behind: tuple[Op, ...]
    multiply: tuple[Op, ...]
    land: tuple[Op, ...]

    @property
    def first(self) -> tuple[Op, ...]:
        return (*self.begin, *self.ahead, *self.behind)

    @property
    def second(self) -> tuple[Op, ...]:
        return (*self.multiply, *self.land)


def _halves(loop: ops.For) -> _Halves | None:
    """How a loop is cut; None if it is not to be rotated."""
    body = loop.body.ops
    commits = [place for place, op in enumerate(body) if isinstance(op, WgmmaCommit)]
    waits = [place for place, op in enumerate(body) if isinstance(op, WgmmaWait)]
    if len(commits) != 2 or len(waits) != 2 or not commits[0] < waits[0] < commits[1] < waits[1]:
        return None
    if any(op.groups for op in body if isinstance(op, WgmmaWait)) or constant_of(loop.step) != 1:
        return None
    between = range(waits[0], commits[1])
    cut = next((n for n in between if isinstance(body[n], MbarrierWait)), None)
    if cut is None or any(op.bodies for op in body[cut:]) or _steps(body[: commits[0]]) > MOST_STEPS:
        return None
    second = body[cut:-1]
    made = {value for op in second for value in op.results}
    summed = {
        argument for argument, value in zip(carried_arguments(loop, loop.body), yielded(loop.body)) if value in made
    }
    late = _depending(body[waits[0] : cut], summed)
    if late is None or _depending(body[: waits[0]], summed - _taken_by(second)) != []:
        return None
    late += _last_steps(second)
    ahead = tuple(op for op in body[waits[0] : cut] if op not in late)
    split = commits[1] + 1
    while isinstance(body[split], Turn):
        split += 1
    return _Halves(
        loop, tuple(body[: waits[0]]), ahead, tuple(op for op in body[:cut] if op in late), tuple(body[cut:split]),
        tuple(body[split:-1]),
    )  # fmt: skip


def _steps(first: Sequence[Op]) -> int:
    """Steps of left operands in shared memory."""
    products = [(op, warpgroup_instruction(op.instruction)) for op in first if isinstance(op, Wgmma)]
    shared = [(op, one) for op, one in products if op.a.tile.level == "shared"]
    return sum(op.depth // one.k for op, one in shared if one is not None)


def _last_steps(second: Sequence[Op]) -> list[Op]:
    """What makes left operands of products narrow, or moves them: they take the registers of those of the turn before,
    which products read until they end."""
    found: list[Op] = []
    users = set(second)
    waiting = [op.a.op for op in second if isinstance(op, Wgmma)]
    while waiting:
        op = waiting.pop()
        if isinstance(op, (ops.Cast, gpu.Convert, gpu.Pad)) and op not in users and users.issuperset(op.result.users):
            found.append(op)
            users.add(op)
            waiting.append(op.source.op)
    return found


def _taken_by(found: Iterable[Op]) -> set[Value]:
    return {value for op in found for value in op.operands}


def _depending(found: Sequence[Op], values: Iterable[Value]) -> list[Op] | None:
    """The ops that take values, or what is made of them; None if one of them does more than to compute."""
    reached, taking = set(values), list[Op]()
    for op in found:
        if any(value in reached for inner in op.walk() for value in inner.operands):
            if op.effect != "pure":
                return None
            taking.append(op)
            reached.update(op.results)
    return taking


class _Rotation:
    def __init__(self, halves: _Halves) -> None:
        self.halves, self.loop = halves, halves.loop
        self.arguments, self.given = carried_arguments(self.loop, self.loop.body), yielded(self.loop.body)
        second = {value for op in halves.second for value in op.results}
        taken = list(dict.fromkeys(value for op in halves.second for value in op.operands))
        first = {value for op in halves.first for value in op.results}
        self.later = [n for n, value in enumerate(self.given) if value in second]
        """Of what the loop carries, that which the second half makes."""
        self.constants = [v for v in taken if v in first and isinstance(v.op, ops.Constant)]
        of_first = {argument for n, argument in enumerate(self.arguments) if n not in self.later}
        self.crossing = [v for v in taken if v in first | of_first and v not in self.constants]
        """What the second half takes of the first one."""
        self.behind = [n for n in self.later if self.arguments[n] in taken]
        """What the second half takes of itself, in the turn before."""
        self.others = [n for n in range(len(self.arguments)) if n not in self.later]

    def rotate(self) -> None:
        loop, parent = self.loop, self.loop.parent
        assert parent is not None
        early = self._early()
        build = Builder(Block(), loop.location)
        results = self._turns(build, early)
        start, stop = constant_of(loop.start), constant_of(loop.stop)
        if start is None or stop is None or stop <= start:
            results = self._if_any(build, results, early)
        for op in build.block.ops:
            parent.insert_before(loop, op)
        for old, new in zip(loop.results, results):
            old.replace_with(new)
        for op in (*early, loop):
            op.erase()

    def _early(self) -> list[Op]:
        """Stages that are given back right behind the loop: that need not wait for its last products."""
        loop, found = self.loop, list[Op]()
        assert loop.parent is not None
        for op in loop.parent.ops[loop.parent.index(loop) + 1 :]:
            if not isinstance(op, MbarrierArrive) or any(value in loop.results for value in op.operands):
                break
            found.append(op)
        return found

    def _if_any(self, build: Builder, results: Sequence[Value], early: Sequence[Op]) -> Sequence[Value]:
        """All that was built, if there is any turn; else what is carried is as before."""
        loop, then, otherwise = self.loop, build.block, Builder(Block(), self.loop.location)
        build.emit(ops.Yield, values=list(results))
        _copy(otherwise, early, {})
        otherwise.emit(ops.Yield, values=list(loop.initial))
        build.block = Block()
        condition = build.map("gt", loop.stop, loop.start)
        return build.emit(
            ops.If, types=[value.type for value in results], result_names=[value.name for value in loop.results],
            condition=condition, then=then, otherwise=otherwise.block,
        ).results  # fmt: skip

    def _turns(self, build: Builder, early: Sequence[Op]) -> list[Value]:
        loop, halves = self.loop, self.halves
        number = loop.body.arguments[0]
        turn: Values = {number: loop.start, **dict(zip(self.arguments, loop.initial))}
        _copy(build, (*halves.begin, *halves.ahead, *halves.behind), turn)
        carried = [
            *(turn[value] for value in self.crossing),
            *(loop.initial[n] for n in self.behind),
            *(turn.get(self.given[n], self.given[n]) for n in self.others),
        ]
        names = [v.name for v in (*self.crossing, *(self.arguments[n] for n in (*self.behind, *self.others)))]
        body = Block([(scalar(i64), number.name), *((value.type, name) for value, name in zip(carried, names))])
        inside = Builder(body, loop.location)
        inside.emit(ops.Yield, values=self._turn(inside, body.arguments[0], body.arguments[1:]))
        first = constant_of(loop.start)
        one = build.constant(1 if first is None else first + 1, i64)
        made = build.emit(
            ops.For, types=[value.type for value in carried], result_names=names,
            start=build.map("add", loop.start, one) if first is None else one, stop=loop.stop, step=loop.step,
            initial=carried, body=body,
        )  # fmt: skip
        _copy(build, early, {})
        before, others = self._parts(made.results)
        ended = self._second_half(build, before)
        _copy(build, [op for op in halves.second if not isinstance(op, Turn)], ended)
        results = dict(zip(self.others, others))
        results.update((n, ended[self.given[n]]) for n in self.later)
        return [results[n] for n in range(len(self.arguments))]

    def _turn(self, build: Builder, number: Value, carried: Sequence[Value]) -> list[Value]:
        """The first half of a turn, and the second one of the turn before."""
        halves = self.halves
        before, others = self._parts(carried)
        turn: Values = {self.loop.body.arguments[0]: number}
        turn.update(zip((self.arguments[n] for n in self.others), others))
        ended = self._second_half(build, before)
        _copy(build, [op for op in halves.begin if not _is_turn(op, "pass")], turn)
        multiply = [op for op in halves.multiply if not isinstance(op, WgmmaFence) and not _is_turn(op, "take")]
        _copy(build, multiply, ended)
        _copy(build, halves.ahead, turn, groups=1)
        _copy(build, halves.land, ended)
        turn.update((self.arguments[n], ended[self.given[n]]) for n in self.later)
        _copy(build, halves.behind, turn)
        return [
            *(turn[value] for value in self.crossing),
            *(ended[self.given[n]] for n in self.behind),
            *(turn.get(self.given[n], self.given[n]) for n in self.others),
        ]

    def _parts(self, carried: Sequence[Value]) -> tuple[Sequence[Value], Sequence[Value]]:
        """What the second half of the turn before takes, and all else that is carried."""
        before = len(self.crossing) + len(self.behind)
        return carried[:before], carried[before:]

    def _second_half(self, build: Builder, before: Sequence[Value]) -> Values:
        """What the second half of the turn before takes, by what it takes in its own turn."""
        values = dict(zip([*self.crossing, *(self.arguments[n] for n in self.behind)], before))
        _copy(build, [value.op for value in self.constants if value.op is not None], values)
        return values


def _is_turn(op: Op, action: str) -> bool:
    return isinstance(op, Turn) and op.action == action


def _copy(build: Builder, found: Iterable[Op], values: Values, groups: int = 0) -> None:
    """Copies ops, which take and give what `values` says. `groups`: of products that waits leave in flight."""
    for op in found:
        copy = op.clone(values)
        if isinstance(copy, WgmmaWait):
            copy.attributes["groups"] = groups
        build.block.append(copy)
