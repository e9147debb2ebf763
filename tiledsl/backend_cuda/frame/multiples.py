"""What integer scalars of a program are multiples of."""

from __future__ import annotations

from collections.abc import Generator
from math import gcd

from tiledsl.ir.core import Function, Value
from tiledsl.ir.facts import facts_of
from tiledsl.ir.gpu.gpu_ops import Launch
from tiledsl.ir.tile_ops import Constant, For, Map, Size
from tiledsl.support.follow import follow

MOST = 64
"""Multiples of more are of no use."""


class Multiples:
    """Powers of two, up to `MOST`, that scalars of one function are always multiples of."""

    def __init__(self, function: Function) -> None:
        self._facts = facts_of(function)
        self._known: dict[Value, int] = {}

    def of(self, value: Value) -> int:
        """A power of two that an integer scalar is a multiple of."""
        return follow(self._bounded, value, self._known)

    def _bounded(self, value: Value) -> Generator[Value, int, int]:
        self._known[value] = 1  # a value that depends on itself, through a loop
        found = yield from self._find(value)
        return gcd(found, MOST)

    def _find(self, value: Value) -> Generator[Value, int, int]:
        match value.op:
            case Constant() as op:
                return int(op.value)
            case Size() as op:
                number = MOST
                while number > 1 and not self._facts.divisible(op.value, number):
                    number //= 2
                return number
            case Map() as op if op.fn in ("add", "sub", "minimum", "maximum"):
                return gcd((yield op.inputs[0]), (yield op.inputs[1]))
            case Map() as op if op.fn == "mul":
                return (yield op.inputs[0]) * (yield op.inputs[1])
            case None:
                return (yield from self._of_argument(value))
            case _:
                return 1

    def _of_argument(self, value: Value) -> Generator[Value, int, int]:
        block = value.owner
        if block is None or not hasattr(block, "parent"):
            return 1
        match block.parent:
            case Launch() as op:
                return op.blocks[op.body.arguments.index(value)]
            case For() as op if op.body.arguments[0] is value:
                return gcd((yield op.start), (yield op.step))
            case _:
                return 1
