"""What remains of integer scalars divided by a number, as far as ops say it: where accesses certainly do not begin.

%at = tile.map([%m_start, %3]) {fn = add}      blocks of 64: divided by 8, 3 remains
"""

from __future__ import annotations

import math
from collections.abc import Generator
from functools import partial
from typing import NamedTuple

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.gpu.gpu_ops import Launch
from tiledsl.support.follow import follow


class Remainder(NamedTuple):
    """`rest`, from 0 to `divisor` - 1, remains of a number divided by `divisor`; by 1, if nothing is known."""

    divisor: int
    rest: int


UNKNOWN = Remainder(1, 0)


def remainder(value: Value, divisor: int) -> Remainder:
    """What remains of an integer scalar divided by `divisor`, or by the largest number that divides it of which that is
    known."""
    return follow(partial(_remainder, divisor), value)


def _remainder(divisor: int, value: Value) -> Generator[Value, Remainder, Remainder]:
    match value.op:
        case ops.Constant(value=int(number)) | ops.Size(value=int(number)):
            return Remainder(divisor, number % divisor)
        case ops.Cast() as op if op.source.dtype.is_integer and op.source.dtype.bits <= op.dtype.bits:
            return (yield op.source)
        case ops.Map(fn="add" | "sub" | "mul" | "minimum" | "maximum") as op:
            left, right = (yield op.inputs[0]), (yield op.inputs[1])
            return _of_map(op.fn, divisor, left, right)
        case None:
            launch = value.op_around
            if isinstance(launch, Launch):
                block = launch.blocks[launch.body.arguments.index(value)]
                return Remainder(math.gcd(divisor, block), 0)
            return UNKNOWN
        case _:
            return UNKNOWN


def _of_map(fn: str, divisor: int, left: Remainder, right: Remainder) -> Remainder:
    common = math.gcd(left.divisor, right.divisor)
    match fn:
        case "add":
            return Remainder(common, (left.rest + right.rest) % common)
        case "sub":
            return Remainder(common, (left.rest - right.rest) % common)
        case "mul":  # (a + s) * (b + t), a of multiples of p and b of q: p q, p t and q s divide what is not s t
            p, s, q, t = *left, *right
            common = math.gcd(divisor, p * q, p * t, q * s)
            return Remainder(common, s * t % common)
        case _:  # either of the two
            common = math.gcd(common, left.rest - right.rest)
            return Remainder(common, left.rest % common)
