"""How long tiles of a grid with products are needed: what is the same whatever its plan.

for j in tile.range(K):
    scores = tile.dot(q[h, i, :], k[h, j, :].mT)      q: all of the loop; k: to here, ahead of the loop all of it
    acc = tile.dot(weights(scores), v[h, j, :], acc)  scores: not behind this product, which takes what is left
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Op, Value
from tiledsl.ir.types import TileType
from tiledsl.passes.gpu.layouts.operand_sources import elementwise_inputs
from tiledsl.passes.gpu.products.load_parts import operand_load
from tiledsl.passes.nest.loop_nest import LoopNest, NestDot
from tiledsl.passes.tile.loops.carried_values import carried_arguments


class ProductFlow:
    """Of one grid. `places`: of each op among all of the grid. `needed`: from which op to which each load
    that products read from shared memory is needed there; `needed_ahead`: the same of those that run ahead of their
    loops, in stages. `carried`: tiles that the loops around a product carry; `adds`: whether it adds to one of them.
    `beside`: the products before it whose results are needed behind it too."""

    def __init__(self, nest: LoopNest, ahead: Callable[[ops.Load], bool]) -> None:
        """`ahead`: whether a load can be copied so many turns before as there are stages."""
        self.nest = nest
        self.places = {op: number for number, op in enumerate(nest.grid.walk())}
        dots = [dot.op for dot in nest.dots]
        readers: dict[ops.Load, list[ops.Dot]] = {}
        for dot in dots:
            for load in _loads(dot):
                readers.setdefault(load, []).append(dot)
        self.needed = {load: self._time_of(load, readers[load]) for load in readers}
        loops = {load: load.parent.parent for load in readers if load.parent is not None and ahead(load)}
        self.needed_ahead = {
            load: (self.places[loop], self._end(loop)) for load, loop in loops.items() if loop is not None
        }
        self.carried = {dot.op: tuple(_carried(dot)) for dot in nest.dots}
        self.adds = {dot: dot.acc is not None and _comes_of(dot.acc, self.carried[dot]) for dot in dots}
        self.beside = {dot: [one for one in dots if one.result is not dot.acc and _outlives(one, dot)] for dot in dots}

    def _time_of(self, load: ops.Load, users: list[ops.Dot]) -> tuple[int, int]:
        """From the load to the last product, or to the end of the loop that it stands in."""
        return self.places[load], max(self._end(_within(dot, load.parent)) for dot in users)

    def _end(self, op: Op) -> int:
        return max(self.places[inner] for inner in op.walk())


def _loads(dot: ops.Dot) -> Iterator[ops.Load]:
    for value in (dot.a, dot.b):
        load = operand_load(value)
        if load is not None:
            yield load


def _within(op: Op, block: Block | None) -> Op:
    """The op of a block that an op is, or stands in."""
    around = None if op.parent is None else op.parent.parent
    return op if op.parent is block or around is None else _within(around, block)


def _carried(dot: NestDot) -> Iterator[Value]:
    for loop in dot.loops:
        for value in carried_arguments(loop.op, loop.op.body):
            if isinstance(value.type, TileType) and value.shape:
                yield value


def _comes_of(value: Value, carried: tuple[Value, ...]) -> bool:
    """Whether a tile is one that a loop carries, rescaled perhaps."""
    return any(found in carried for found, _ in elementwise_inputs(value))


def _outlives(dot: ops.Dot, other: ops.Dot) -> bool:
    """Whether the result of a product goes, element by element, into something behind a later one of its block."""
    block = dot.parent
    if block is None or block is not other.parent:
        return False
    place = {op: number for number, op in enumerate(block.ops)}
    seen, work = {dot.result}, [dot.result]
    while work and place[dot] < place[other]:
        for user in work.pop().users:
            if place.get(user, len(place)) > place[other] and not isinstance(user, ops.Yield):
                return True
            if isinstance(user, (ops.Map, ops.Cast, ops.Transpose, ops.Broadcast)) and user.result not in seen:
                seen.add(user.result)
                work.append(user.result)
    return False
