"""Numbers that integer scalars are known to be multiples of.

%start = tile.start(%i)                    of blocks of 128: 128
%end   = tile.map([%start, %64]) {fn = add}        64
"""

from __future__ import annotations

import math

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.passes.analysis.splats import number_of


def divisor(value: Value) -> int:
    """A number that an integer scalar is known to be a multiple of; 0 for 0."""
    number = number_of(value)
    if isinstance(number, int):
        return abs(number)
    match value.op:
        case ops.Cast(source=source):
            return divisor(source)
        case ops.Start(axis=axis):
            return math.gcd(start_divisor(axis), _block(axis))
        case ops.Map(fn="mul") as op:
            return divisor(op.inputs[0]) * divisor(op.inputs[1])
        case ops.Map(fn="add" | "sub" | "minimum" | "maximum") as op:
            return math.gcd(divisor(op.inputs[0]), divisor(op.inputs[1]))
        case _:
            return 1


def start_divisor(axis: Value) -> int:
    """What the first coordinate of all blocks of an axis is a multiple of; 0 for 0."""
    owner = axis.op_around
    return divisor(owner.start) if isinstance(owner, ops.Range) else 0


def _block(axis: Value) -> int:
    """The size of an axis's blocks; 1 where it is not said yet."""
    owner = axis.op_around
    if not isinstance(owner, (ops.Grid, ops.Range)):
        return 1
    size = owner.blocks[owner.body.arguments.index(axis)]
    return size.size if size.kind == "fixed" else 1
