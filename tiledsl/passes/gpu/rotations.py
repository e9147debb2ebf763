"""Which loops with two products can be rotated, and the parts that they are cut into (see `rotated_loops.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Op, Value
from tiledsl.passes.gpu.rings import Ring
from tiledsl.passes.gpu.streamed_loads import goes_to_products_alone, source_load
from tiledsl.passes.tile.carried_values import carried_arguments, yielded

_ELEMENTWISE = (ops.Map, ops.Cast, ops.Broadcast, ops.Reshape)


@dataclass(frozen=True)
class Rotation:
    """The parts of such a loop. `number`: of the accumulator among what is carried."""

    scores: ops.Dot
    values: ops.Dot
    number: int
    ahead: tuple[Op, ...]
    behind: tuple[Op, ...]


def rotation_of(loop: ops.Range, rings: Sequence[Ring]) -> Rotation | None:
    """How a loop of a role can be rotated; None if it cannot, or has nothing of it."""
    dots = [op for op in loop.body.ops if isinstance(op, ops.Dot)]
    if len(dots) != 2 or any(op.bodies or op.effect in ("write", "control") for op in loop.body.ops):
        return None
    scores, values = dots
    given = yielded(loop.body)
    if [ring.feed.dot for ring in rings] != dots or given.count(values.result) != 1 or len(values.result.shape) != 2:
        return None
    number = given.index(values.result)
    argument = carried_arguments(loop, loop.body)[number]
    if len(values.result.users) != 1 or scores.acc is not None or source_load(values.a) is not None:
        return None
    behind = _depending(loop.body, argument)
    if behind is None or behind[-1:] != [values] or any(v.op in behind for v in given if v is not values.result):
        return None
    if argument in given or values.a.op in behind:
        return None
    loads = {load for ring in rings for load in ring.feed.loads}
    if not all(goes_to_products_alone(load) for load in loads):
        return None  # stages are given back once their products are done
    apart = {scores, *behind, *loads}
    if isinstance(values.a.op, ops.Cast) and len(values.a.users) == 1:
        apart.add(values.a.op)  # it takes the registers of what is multiplied till then
    ahead = [op for op in loop.body.ops if op not in apart and not isinstance(op, ops.Yield)]
    return Rotation(scores, values, number, tuple(ahead), tuple(behind[:-1]))


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
