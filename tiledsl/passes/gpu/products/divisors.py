"""Numbers that integer scalars are known to be multiples of.

%start = tile.start(%i)                    of blocks of 128: 128
%end   = tile.map([%start, %64]) {fn = add}        64
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.symbolic import Dim
from tiledsl.passes.analysis.splats import number_of


def _unknown(size: Dim) -> int:
    del size
    return 1


def divisor(value: Value, of_size: Callable[[Dim], int] = _unknown, open_block: int = 1) -> int:
    """A number that an integer scalar is known to be a multiple of; 0 for 0. `of_size`: the same of a size.
    `open_block`: what blocks are whose size is not said yet."""
    number = number_of(value)
    if isinstance(number, int):
        return abs(number)
    known = of_size, open_block
    match value.op:
        case ops.Size(value=size):
            return size if isinstance(size, int) else of_size(size)
        case ops.Cast(source=source):
            return divisor(source, *known)
        case ops.Start(axis=axis):
            return first_divisor(axis, *known)
        case ops.Map(fn="mul") as op:
            return divisor(op.inputs[0], *known) * divisor(op.inputs[1], *known)
        case ops.Map(fn="add" | "sub" | "minimum" | "maximum") as op:
            return math.gcd(divisor(op.inputs[0], *known), divisor(op.inputs[1], *known))
        case _:
            return 1


def first_divisor(axis: Value, of_size: Callable[[Dim], int] = _unknown, open_block: int = 1) -> int:
    """What the first coordinate of each block of an axis, perhaps shifted, is a multiple of; 0 for 0."""
    return math.gcd(start_divisor(axis, of_size, open_block), _block(axis, open_block))


def start_divisor(axis: Value, of_size: Callable[[Dim], int] = _unknown, open_block: int = 1) -> int:
    """The same of the first one of all blocks; 0 for 0."""
    if isinstance(axis.op, ops.Shift):
        before = start_divisor(axis.op.axis, of_size, open_block)
        return math.gcd(before, divisor(axis.op.offset, of_size, open_block))
    owner = axis.op_around
    return divisor(owner.start, of_size, open_block) if isinstance(owner, ops.Range) else 0


def _block(axis: Value, open_block: int) -> int:
    """The size of an axis's blocks."""
    while isinstance(axis.op, ops.Shift):
        axis = axis.op.axis
    owner = axis.op_around
    if not isinstance(owner, (ops.Grid, ops.Range)):
        return 1
    size = owner.blocks[owner.body.arguments.index(axis)]
    return size.size if size.kind == "fixed" else open_block
