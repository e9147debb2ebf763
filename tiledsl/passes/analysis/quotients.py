"""Loads along quotients of coordinates: neighbours of the tile share an element of the tensor.

w[n, k // 2]          two nibbles of a byte
s[n, k // 128]        a scale for each group
"""

from __future__ import annotations

from dataclasses import dataclass

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Index, Value
from tiledsl.ir.types import TensorType, TileType
from tiledsl.passes.analysis.sizes import constant_of


@dataclass(frozen=True)
class Quotient:
    """The coordinates of a block, each divided by a positive number and rounded down."""

    block: Value
    divisor: int


def quotient_of(index: Index) -> Quotient | None:
    """What a subscript is; None for any other."""
    match index:
        case Value(op=ops.Map(fn="floordiv", inputs=[Value(op=ops.Coordinates(axis=block)), divisor])):
            by = constant_of(divisor.op.source if isinstance(divisor.op, ops.Broadcast) else divisor)
            return Quotient(block, by) if isinstance(by, int) and by > 0 else None
        case _:
            return None


def repeated(op: ops.Load) -> Quotient | None:
    """The quotient by a power of two along which a load goes where neighbours of its tensor lie side by side. All other
    subscripts are blocks, ranges or scalars; the quotient is known to be inside of the tensor."""
    assert isinstance(op.tensor.type, TensorType)
    unit = op.tensor.type.unit
    gathers = [axis for axis, index in enumerate(op.indices) if _is_tile(index)]
    if unit is None or gathers != [unit] or unit not in op.in_bounds:
        return None
    quotient = quotient_of(op.indices[unit])
    return quotient if quotient is not None and quotient.divisor & (quotient.divisor - 1) == 0 else None


def repeats(op: ops.Load | ops.Store | ops.Atomic) -> int:
    """How many neighbours of the tile share an element of the tensor; 1 where each has its own."""
    quotient = repeated(op) if isinstance(op, ops.Load) else None
    return 1 if quotient is None else quotient.divisor


def _is_tile(index: Index) -> bool:
    return isinstance(index, Value) and isinstance(index.type, TileType) and bool(index.type.shape)
