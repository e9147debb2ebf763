"""Subscripts as sums of multiples of values: what tells the blocks of a tensor apart that a program touches.

`%start + %number * 64` is one %start, 64 times %number, and 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiledsl.ir.core import Block, Op, Value
from tiledsl.ir.dtypes import i64
from tiledsl.ir.tile_ops import Constant, For, Map


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
