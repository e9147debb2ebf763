"""Fields of records: accesses of one element of each short row, where the rows of a tensor lie one behind the other.

x of f32[M, 4]:  x[m, 2] is a field of a record of 4;  x[m, :] is all of it
"""

from __future__ import annotations

from collections.abc import Set
from typing import TypeAlias, Union

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.types import AxisType, TensorType
from tiledsl.passes.analysis.sizes import constant_of

MOST_FIELDS = 16
"""Elements of a record at most."""

Access: TypeAlias = Union[ops.Load, ops.Store]


def field_of(op: Access) -> int | None:
    """Which field of its records an access is of; None where it is of none."""
    type_ = op.tensor.type
    assert isinstance(type_, TensorType)
    rank = len(type_.shape)
    if rank < 2 or type_.unit != rank - 1:
        return None
    length, index, before = type_.shape[-1], op.indices[-1], op.indices[-2]
    if not isinstance(length, int) or not 1 < length <= MOST_FIELDS:
        return None
    if not isinstance(index, Value) or not isinstance(before, Value) or not isinstance(before.type, AxisType):
        return None
    number = None if isinstance(index.type, AxisType) or index.shape else constant_of(index)
    return number if number is not None and 0 <= number < length else None


def record_length(op: Access) -> int:
    """How many elements a record has."""
    assert isinstance(op.tensor.type, TensorType)
    length = op.tensor.type.shape[-1]
    assert isinstance(length, int), "a record has a known length"
    return length


def are_joined(op: Access, fields: Set[int]) -> bool:
    """Whether accesses of these fields of the records of one are made together: several loads, or stores of all."""
    return len(fields) > 1 if isinstance(op, ops.Load) else len(fields) == record_length(op)
