"""What the tiles of a program are, once every block is the whole of its axis: tensors of a graph.

    for h, i in tile.grid(H, Q, block=(1, tile.auto)):
        x[h, i, :]                                           a tile [i, D]: a tensor [H, Q, D], `outer` is (h,)

By the law of ragged blocks a program means the same with blocks that are whole axes. An axis that goes one coordinate
at a time becomes a dimension in front of those of the tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Op, Value
from tiledsl.passes.graph.analysis.shapes import sizes_of


class NotPlainError(Exception):
    """An op of a tile program that whole tensors have no word for, with the reason."""

    def __init__(self, op: Op, reason: str) -> None:
        super().__init__(reason)
        self.op = op
        self.reason = reason


@dataclass(frozen=True, eq=False)
class Run:
    """An axis of a grid or a loop: `size` coordinates from `start` on, one at a time if `single`.

    Those opened later have higher numbers.
    """

    number: int
    name: str
    start: int
    size: int
    single: bool
    looped: bool


@dataclass(frozen=True, eq=False)
class Raised:
    """A tile as a tensor: its shape is that of the axes `outer`, in order, then that of the tile.

    `partial`: the axes of loops whose block it was folded over. That is a part of a sum, of no meaning by itself.
    """

    value: Value
    outer: tuple[Run, ...] = ()
    partial: frozenset[Run] = frozenset()

    @property
    def tile(self) -> tuple[int, ...]:
        """The shape of the tile."""
        return sizes_of(self.value)[len(self.outer) :]


@dataclass(eq=False)
class Carried:
    """A running fold of a loop at `depth`: what it starts from, and what has been folded into it so far."""

    initial: Raised
    depth: int
    fn: str = ""
    parts: list[Raised] = field(default_factory=list[Raised])

    def with_part(self, op: Op, fn: str, part: Raised) -> Carried:
        """The fold with one more part. Raises NotPlainError where another function was used before."""
        if self.fn not in ("", fn):
            raise NotPlainError(op, f"`{fn}` of what `{self.fn}` has been carried for")
        return Carried(self.initial, self.depth, fn, [*self.parts, part])


def aligned(builder: Builder, given: Sequence[Raised]) -> tuple[list[Value], tuple[Run, ...]]:
    """The tensors of operands of one op, all of one shape but for those of rank 0, and the outer axes that it has."""
    outer = tuple(sorted({run for raised in given for run in raised.outer}, key=lambda run: run.number))
    tile = next((raised.tile for raised in given if raised.tile), ())
    return [spread(builder, raised, outer, tile) for raised in given], outer


def spread(builder: Builder, raised: Raised, outer: Sequence[Run], tile: tuple[int, ...]) -> Value:
    """A tensor over `outer` and `tile`, of which it has some; one of rank 0 stays so."""
    value = raised.value
    if not sizes_of(value):
        return value
    inner = raised.tile or (1,) * len(tile)
    inner = (1,) * (len(tile) - len(inner)) + inner
    places = (*(run.size if run in raised.outer else 1 for run in outer), *inner)
    if places != sizes_of(value):
        value = builder.emit(ops.Reshape, source=value, shape=places).result
    shape = (*(run.size for run in outer), *tile)
    return value if shape == places else builder.emit(ops.Broadcast, source=value, shape=shape).result
