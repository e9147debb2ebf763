"""Subscripts as sums of multiples of values: what tells the blocks of a tensor apart that a program touches.

`%start + %number * 64` is one %start, 64 times %number, and 0.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from tiledsl.ir.core import Block, Op, Value
from tiledsl.ir.dtypes import i64
from tiledsl.ir.gpu.gpu_ops import Arange
from tiledsl.ir.tile_ops import Broadcast, Constant, Coordinates, For, Map, Reshape
from tiledsl.support.follow import follow


@dataclass(frozen=True)
class LinearIndex:
    """The sum of `terms`, each a value and its factor, and `constant`."""

    terms: frozenset[tuple[Value, int]]
    constant: int

    def step(self, loop: Op) -> int | None:
        """How much larger it is in the next iteration of a loop; None if that cannot be told."""
        total = 0
        for value, factor in self.terms:
            if isinstance(loop, For) and value is loop.body.arguments[0]:
                by = linear_index(loop.step)
                if by.terms:
                    return None
                total += factor * by.constant
            elif is_inside(value, loop):
                return None
        return total

    def in_order(self) -> list[tuple[Value, int]]:
        """The terms by the names of their values, so that what is made of them is the same in every run."""
        return sorted(
            self.terms, key=lambda term: (term[0].name, 0 if term[0].op is None else term[0].op.place, term[1])
        )

    def moved_to(self, constant: int) -> LinearIndex:
        """With another constant."""
        return LinearIndex(self.terms, constant)


@dataclass(frozen=True)
class LinearCoordinates:
    """Coordinates that grow by `step` for each element along one axis of their tile, from `sum` on; axis -1: that stay
    the same."""

    sum: LinearIndex
    axis: int
    step: int


_DEPTH = 8
"""How far sums of sums are followed."""


def linear_index(value: Value) -> LinearIndex:
    """An integer scalar as a sum; what is no sum is a term of its own. Narrow integers, which wrap, are none."""
    terms, constant = _sum(value, _DEPTH)
    return LinearIndex(frozenset((v, factor) for v, factor in terms.items() if factor), constant)


def _sum(value: Value, depth: int) -> tuple[dict[Value, int], int]:
    op = value.op
    if isinstance(op, Constant):
        return {}, int(op.value)
    if isinstance(op, Map) and op.fn in ("add", "sub", "mul") and value.dtype == i64 and depth:
        (terms, constant), (others, other) = (_sum(v, depth - 1) for v in op.inputs)
        if op.fn != "mul":
            sign = 1 if op.fn == "add" else -1
            for v, factor in others.items():
                terms[v] = terms.get(v, 0) + sign * factor
            return terms, constant + sign * other
        if not terms:
            terms, constant, others, other = others, other, terms, constant
        if not others:
            return {v: factor * other for v, factor in terms.items()}, constant * other
    return {value: 1}, 0


def is_inside(value: Value, around: Op) -> bool:
    """Whether a value is defined in one of the bodies of an op."""
    owner = value.owner
    block = owner.parent if isinstance(owner, Op) else owner
    return block is not None and around in ops_around(block)


def ops_around(block: Block) -> list[Op]:
    """The ops that a block is in, from the innermost outwards."""
    found: list[Op] = []
    here: Block | None = block
    while here is not None and here.parent is not None:
        found.append(here.parent)
        here = here.parent.parent
    return found


def linear_coordinates(value: Value) -> LinearCoordinates | None:
    """A tile of coordinates as a sum, those of a block as they come; None where it is none, or grows along several
    axes."""
    found = follow(_coordinates, value)
    return None if found is None else LinearCoordinates(found.sum, found.axis, found.step if found.axis >= 0 else 0)


def _coordinates(value: Value) -> Generator[Value, LinearCoordinates | None, LinearCoordinates | None]:
    op = value.op
    if not value.shape:
        return LinearCoordinates(linear_index(value), -1, 0)
    match op:
        case Arange():
            return LinearCoordinates(LinearIndex(frozenset(), 0), 0, 1)
        case Coordinates():
            return LinearCoordinates(LinearIndex(frozenset({(value, 1)}), 0), 0, 1)
        case Broadcast() | Reshape():
            source = yield op.source
            if source is None or source.axis < 0:
                return source
            axis = _axis_after(op, source.axis)
            return None if axis is None else LinearCoordinates(source.sum, axis, source.step)
        case Map() if op.fn in ("add", "sub", "mul") and value.dtype == i64:
            left = yield op.inputs[0]
            right = yield op.inputs[1]
            return None if left is None or right is None else _combined(op.fn, left, right)
        case _:
            return None


def _axis_after(op: Broadcast | Reshape, axis: int) -> int | None:
    """Which axis of the result an axis of the source is; None where it is taken apart."""
    before, after = op.source.shape, op.result.shape
    if isinstance(op, Broadcast):
        return axis + len(after) - len(before)
    long = [number for number, size in enumerate(after) if size != 1]
    own = [number for number, size in enumerate(before) if size != 1]
    if [before[n] for n in own] != [after[n] for n in long] or axis not in own:
        return None
    return long[own.index(axis)]


def _combined(fn: str, left: LinearCoordinates, right: LinearCoordinates) -> LinearCoordinates | None:
    if fn == "mul":
        if left.axis < 0 and not left.sum.terms:
            left, right = right, left
        if right.axis >= 0 or right.sum.terms:
            return None
        by = right.sum.constant
        return LinearCoordinates(_sum_of(left.sum, LinearIndex(frozenset(), 0), by, 0), left.axis, left.step * by)
    if left.axis >= 0 and right.axis >= 0 and left.axis != right.axis:
        return None
    sign = 1 if fn == "add" else -1
    total = _sum_of(left.sum, right.sum, 1, sign)
    return LinearCoordinates(total, max(left.axis, right.axis), left.step + sign * right.step)


def _sum_of(left: LinearIndex, right: LinearIndex, times: int, others: int) -> LinearIndex:
    terms: dict[Value, int] = {}
    for sum_, by in ((left, times), (right, others)):
        for value, factor in sum_.terms:
            terms[value] = terms.get(value, 0) + by * factor
    constant = times * left.constant + others * right.constant
    return LinearIndex(frozenset((v, factor) for v, factor in terms.items() if factor), constant)
