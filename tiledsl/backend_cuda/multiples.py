"""What integer scalars of a program are multiples of."""

from __future__ import annotations

from math import gcd

from tiledsl.ir.core import Function, Value
from tiledsl.ir.facts import facts_of
from tiledsl.ir.gpu_ops import Launch
from tiledsl.ir.tile_ops import Constant, For, Map, Size

MOST = 64
"""Multiples of more are of no use."""


class Multiples:
    """Powers of two, up to `MOST`, that scalars of one function are always multiples of."""

    def __init__(self, function: Function) -> None:
        self._facts = facts_of(function)
        self._known: dict[Value, int] = {}

    def of(self, value: Value) -> int:
        """A power of two that an integer scalar is a multiple of."""
        if value not in self._known:
            self._known[value] = 1  # a value that depends on itself, through a loop
            found = self._find(value)
            self._known[value] = gcd(found, MOST)
        return self._known[value]

    def _find(self, value: Value) -> int:
        match value.op:
            case Constant() as op:
                return int(op.value)
            case Size() as op:
                number = MOST
                while number > 1 and not self._facts.divisible(op.value, number):
                    number //= 2
                return number
            case Map() as op if op.fn in ("add", "sub", "minimum", "maximum"):
                return gcd(*map(self.of, op.inputs))
            case Map() as op if op.fn == "mul":
                return self.of(op.inputs[0]) * self.of(op.inputs[1])
            case None:
                return self._of_argument(value)
            case _:
                return 1

    def _of_argument(self, value: Value) -> int:
        block = value.owner
        if block is None or not hasattr(block, "parent"):
            return 1
        match block.parent:
            case Launch() as op:
                return op.blocks[op.body.arguments.index(value)]
            case For() as op if op.body.arguments[0] is value:
                return gcd(self.of(op.start), self.of(op.step))
            case _:
                return 1
