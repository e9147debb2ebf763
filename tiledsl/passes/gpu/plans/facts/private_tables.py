"""Updates of small tensors that programs make in shared memory first (privatisation).

    tile.atomic_add(y[places], 1.0)    5 million updates of 4096 elements in L2: 96 clocks between two of one sector
                                 =>    each program counts in a table of its own, and adds what it counted at its end

What is updated has one axis, and nothing else of the grid touches it. Shared memory adds integers at full rate, also
where all threads of a warp have the same place; floats it would add in loops that try again. So tables are of 32-bit
integers: those of the tensor, or, where one number is added to all, how often it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import DType, i32, u32
from tiledsl.ir.fold_identities import Number, fold_identity
from tiledsl.ir.symbolic import evaluate, symbols_of
from tiledsl.ir.types import TensorType
from tiledsl.passes.gpu.layouts.gathered_layouts import gather_rank

TABLE_BYTES = 32 << 10
"""Of all tables of a program."""
FOLDED = ("add", "max", "min", "and", "or", "xor")


@dataclass(frozen=True)
class PrivateTable:
    """The table for one atomic: `elements` of `dtype`, `start` before anything is known; `counted`: the number that is
    added to all, if how often is what the table says."""

    op: ops.Atomic
    elements: int
    dtype: DType
    start: Number
    counted: Number | None = None


def private_tables(grid: ops.Grid, sizes: Mapping[str, int]) -> list[PrivateTable]:
    """The tables for the atomics of a grid, as far as they can have some; `sizes` that are known, by symbol."""
    touched: dict[Value, int] = {}
    atomics: list[ops.Atomic] = []
    for op in grid.body.walk():
        if isinstance(op, (ops.Load, ops.Store, ops.Atomic)):
            touched[op.tensor] = touched.get(op.tensor, 0) + 1
        if isinstance(op, ops.Atomic):
            atomics.append(op)
    tables: list[PrivateTable] = []
    room = TABLE_BYTES
    for op in atomics:
        table = _table_of(op, sizes) if touched[op.tensor] == 1 else None
        if table is not None and table.elements * table.dtype.bytes <= room:
            room -= table.elements * table.dtype.bytes
            tables.append(table)
    return tables


def _table_of(op: ops.Atomic, sizes: Mapping[str, int]) -> PrivateTable | None:
    type_ = op.tensor.type
    assert isinstance(type_, TensorType)
    plain = len(type_.shape) == 1 and gather_rank(op) > 0 and op.fn in FOLDED and not op.result.users
    if not plain or not symbols_of(type_.shape[0]) <= sizes.keys():
        return None
    elements = evaluate(type_.shape[0], sizes)
    if elements < 1:
        return None
    if type_.dtype in (i32, u32):
        return PrivateTable(op, elements, type_.dtype, fold_identity(op.fn, type_.dtype))
    number = _number_of_all(op.value)
    if op.fn != "add" or number is None:
        return None
    return PrivateTable(op, elements, i32, 0, number)


def _number_of_all(value: Value) -> Number | None:
    """What every element of a tile is, if that is known."""
    while isinstance(value.op, (ops.Broadcast, ops.Reshape)):
        value = value.op.source
    return value.op.value if isinstance(value.op, ops.Constant) else None
