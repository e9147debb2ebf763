"""Which grids can have a role for scores and one for sums (`roles/products/scores_apart.py`), and what the one gives
the other.

    for j in tile.range(K):
        p, w = ... of tile.dot(q, k[j])          scores: p and w are given away in every turn,
        acc = tile.dot(p, v[j], acc * w)         sums
    out = acc / total                            and `total` behind the loop

What comes of sums behind the loop belongs to sums, all else to scores.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.types import TileType
from tiledsl.passes.gpu.layouts.operand_sources import are_independent
from tiledsl.passes.gpu.products.back_to_back_products import Parts, parts_of_loop
from tiledsl.passes.gpu.products.streamed_loads import DeclinedError, Feed, source_load
from tiledsl.passes.tile.loops.carried_values import carried_arguments

_PURE = (ops.Map, ops.Cast)
_CHEAP = (ops.Broadcast, ops.Reshape)


@dataclass(frozen=True)
class Apart:
    """A grid of that kind. `rows`: what a turn's sums take beside left operands, an element for each row. `ends`: the
    same behind the loop. `of_sums`: the ops behind the loop that sums' role makes."""

    loop: ops.Range
    parts: Parts
    rows: tuple[Value, ...]
    ends: tuple[Value, ...]
    of_sums: frozenset[Op]

    def reads(self, feed: Feed, *, scores: bool) -> bool:
        """Whether scores, or sums, read what a feed brings."""
        dots = self.parts.scores if scores else [one.dot for one in self.parts.sums]
        return any(source_load(operand) in feed.loads for dot in dots for operand in (dot.a, dot.b))


def apart_of(grid: ops.Grid, feeds: Iterable[Feed]) -> Apart:
    """How a grid is shared out. Raises DeclinedError, with a reason that follows "because"."""
    loads = {load for feed in feeds for load in feed.loads}
    loops = [op for op in grid.body.ops if isinstance(op, ops.Range)]
    found = [op for op in loops if any(isinstance(inner, ops.Dot) for inner in op.body.walk())]
    if len(loops) != 1 or found != loops or any(isinstance(op, ops.Dot) for op in grid.body.ops):
        raise DeclinedError("a role for scores wants one loop, and all products in it")
    (loop,) = loops
    dots = [op for op in loop.body.ops if isinstance(op, ops.Dot)]
    parts = (
        None if are_independent(dots, loop.body) else parts_of_loop(loop, {x for x in loads if x.parent is loop.body})
    )
    if parts is None:
        raise DeclinedError("the products of its loop are not scores and sums of these")
    if any(source_load(one.dot.b) is None for one in parts.sums):
        raise DeclinedError("what sums multiply with is computed, and their role computes nothing else")
    taken = [value for one in parts.sums for op in one.behind for value in op.operands]
    made = {value for one in parts.sums for op in one.behind for value in op.results}
    sums = [carried_arguments(loop, loop.body)[one.number] for one in parts.sums]
    rows = _rows_of([value for value in taken if value not in made and value not in sums], "in a turn")
    results = {loop.results[one.number] for one in parts.sums}
    of_sums, ends = _behind(grid, loop, results)
    return Apart(loop, parts, rows, _rows_of(ends, "behind the loop"), of_sums)


def _behind(grid: ops.Grid, loop: ops.Range, results: set[Value]) -> tuple[frozenset[Op], list[Value]]:
    """The ops behind the loop that come of sums, and what else they take."""
    reached, found = set(results), list[Op]()
    for op in grid.body.ops[grid.body.ops.index(loop) + 1 :]:
        if any(value in reached for inner in op.walk() for value in inner.operands):
            if op.bodies or not isinstance(op, (*_PURE, *_CHEAP, ops.Transpose, ops.Store)):
                raise DeclinedError("what comes of sums behind the loop is more than elementwise")
            found.append(op)
            reached.update(op.results)
    return frozenset(found), [value for op in found for value in op.operands if value not in reached]


def _rows_of(values: Iterable[Value], where: str) -> tuple[Value, ...]:
    """What has an element for each row, of which such values are repeated. Raises DeclinedError for others."""
    found: dict[Value, None] = {}
    for value in values:
        if not isinstance(value.type, TileType):
            continue
        while isinstance(value.op, _CHEAP) and value.shape:
            value = value.op.source
        if not value.shape or isinstance(value.op, (ops.Constant, ops.Size)):
            continue
        if len(value.shape) != 1 or not value.dtype.is_float or value.dtype.bits != 32:
            raise DeclinedError(f"sums take more than a float for each row {where}")
        found[value] = None
    return tuple(found)
