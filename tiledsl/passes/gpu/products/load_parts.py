"""Loads of products that read a part of what another load of the same block brings: one of them is enough.

    keys = c[b, j, :]                  [j, 576], brought
    values = c[b, j, :512]             the first 512 columns of it

A part ends with a whole step of an instruction, so that what stands behind its end is never multiplied. One that is
read out of what another load brings begins where that does, so that both stand at the same place of shared memory.
"""

from __future__ import annotations

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Index, Value
from tiledsl.ir.dtypes import DType
from tiledsl.ir.types import Slice, Whole

STEP_BYTES = 32
"""What a side of a part is a multiple of: no product takes more of it."""


def operand_load(value: Value) -> ops.Load | None:
    """The load that an operand is, perhaps transposed; None if it is computed, or stays in registers."""
    while isinstance(value.op, ops.Transpose):
        value = value.op.source
    load = value.op
    return load if isinstance(load, ops.Load) and load.result.tile.level == "shared" else None


def whole_of(load: ops.Load) -> ops.Load:
    """The load that brings what a load for products reads: another one of its block that has all of it, or itself."""
    if load.parent is None or not any(isinstance(index, Slice) for index in load.indices):
        return load
    others = (op for op in load.parent.ops if isinstance(op, ops.Load))
    return next((other for other in others if _is_part(load, other)), load)


def parts_of_load(load: ops.Load) -> tuple[ops.Load, ...]:
    """The loads of its block that read a part of what a load for products brings."""
    if load.parent is None or whole_of(load) is not load:
        return ()
    return tuple(op for op in load.parent.ops if isinstance(op, ops.Load) and _is_part(op, load))


def _is_part(load: ops.Load, other: ops.Load) -> bool:
    if other is load or other.tensor is not load.tensor:
        return False
    if any(one.other is not None or one.result.tile.level != "shared" for one in (load, other)):
        return False
    pairs, dtype = list(zip(load.indices, other.indices)), load.result.dtype
    return all(_begins(part, whole, dtype) for part, whole in pairs) and any(part != whole for part, whole in pairs)


def _begins(part: Index, whole: Index, dtype: DType) -> bool:
    """Whether a subscript is the same as another one, or the first elements of a whole axis."""
    if isinstance(part, Value) or isinstance(whole, Value):
        return part is whole
    first = isinstance(part, Slice) and part.start == 0 and is_whole_part(part, dtype)
    return part == whole or (isinstance(whole, Whole) and first)


def is_whole_part(index: Index, dtype: DType) -> bool:
    """Whether a subscript is a part of an axis that a product takes in whole steps."""
    if not isinstance(index, Slice):
        return False
    size = index.stop - index.start
    return isinstance(size, int) and size * dtype.bits % (8 * STEP_BYTES) == 0
