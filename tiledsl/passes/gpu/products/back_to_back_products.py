"""Which loops have products that feed on each other as those of attention do, and the parts that they are cut into:
scores, what is computed of them, and sums that take that (`back_to_back_loops.py` and `scores_apart.py` of
`roles/products/`)."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Op, Value
from tiledsl.passes.gpu.layouts.operand_sources import depends_on
from tiledsl.passes.gpu.products.row_runs import says_where
from tiledsl.passes.gpu.products.streamed_loads import goes_to_products_alone, source_load
from tiledsl.passes.tile.loops.carried_values import carried_arguments, yielded

_ELEMENTWISE = (ops.Map, ops.Cast, ops.Broadcast, ops.Reshape)


@dataclass(frozen=True)
class Sum:
    """A product that a loop adds to what it carries. `number`: of the accumulator among what is carried. `behind`: what
    becomes of it in a turn, before the product is added."""

    dot: ops.Dot
    number: int
    behind: tuple[Op, ...]


@dataclass(frozen=True)
class Parts:
    """The parts of such a loop: products whose operands are only loaded (`scores`), what is computed of them and of
    what else the loop carries (`ahead`), and `sums` of products that take that."""

    scores: tuple[ops.Dot, ...]
    sums: tuple[Sum, ...]
    ahead: tuple[Op, ...]

    @property
    def lefts(self) -> tuple[Value, ...]:
        """The left operands of sums, each once."""
        return tuple(dict.fromkeys(one.dot.a for one in self.sums))


def parts_of_loop(loop: ops.Range, loads: AbstractSet[ops.Load]) -> Parts | None:
    """The parts of a loop that takes these loads from rings; None if it is not of that kind."""
    dots = [op for op in loop.body.ops if isinstance(op, ops.Dot)]
    if len(dots) < 2 or any(op.bodies or op.effect in ("write", "control") for op in loop.body.ops):
        return None
    scores = [dot for dot in dots if _is_first(dot, dots)]
    sums: list[Sum] = []
    for dot in dots:
        if dot not in scores:
            found = _sum_of(loop, dot)
            if found is None:
                return None
            sums.append(found)
    if not scores or not sums:
        return None
    behind = {op for one in sums for op in one.behind}
    given = yielded(loop.body)
    results = [one.dot.result for one in sums]
    if len(behind) != sum(len(one.behind) for one in sums) or any(one.dot.a.op in behind for one in sums):
        return None
    if any(v.op in behind for v in given if v not in results):
        return None
    if not all(goes_to_products_alone(load) for load in loads):
        return None  # stages are given back once their products are done
    apart: set[Op] = {*dots, *behind, *loads}
    for left in dict.fromkeys(one.dot.a for one in sums):
        if isinstance(left.op, ops.Cast) and all(user in dots for user in left.users):
            apart.add(left.op)  # it takes the registers of what is multiplied till then
    ahead = [
        op
        for op in loop.body.ops
        if op not in apart and not isinstance(op, ops.Yield) and not says_where(op, frozenset(loads))
    ]
    return Parts(tuple(scores), tuple(sums), tuple(ahead))


def _is_first(dot: ops.Dot, dots: Sequence[ops.Dot]) -> bool:
    """Whether a product takes nothing of others, but what it may be added to."""
    before = dots[: dots.index(dot)]
    if dot.acc is not None and not (isinstance(dot.acc.op, ops.Dot) and dot.acc.op in before):
        return False
    assert dot.parent is not None
    return source_load(dot.a) is not None or not depends_on(dot.a, dot.parent, set(dots))


def _sum_of(loop: ops.Range, dot: ops.Dot) -> Sum | None:
    """A product as a sum that the loop carries, if it is one, and only elementwise ops come before."""
    given = yielded(loop.body)
    if given.count(dot.result) != 1 or len(dot.result.shape) != 2 or len(dot.result.users) != 1:
        return None
    if source_load(dot.a) is not None:
        return None
    number = given.index(dot.result)
    argument = carried_arguments(loop, loop.body)[number]
    behind = _depending(loop.body, argument)
    if behind is None or behind[-1:] != [dot] or argument in given:
        return None
    return Sum(dot, number, tuple(behind[:-1]))


def _depending(body: Block, argument: Value) -> list[Op] | None:
    """The ops on the way from the accumulator to the product that ends it; None if there are others than elementwise
    ones."""
    reached: set[Value] = {argument}
    found: list[Op] = []
    for op in body.ops:
        if isinstance(op, ops.Yield) or not any(v in reached for v in op.operands):
            continue
        found.append(op)
        if isinstance(op, ops.Dot):
            return found if op.acc in reached and op.a not in reached and op.b not in reached else None
        if not isinstance(op, _ELEMENTWISE):
            return None
        reached.update(op.results)
    return None
