"""Which loads of a loop can be asked for some turns before they are needed."""

from __future__ import annotations

from collections.abc import Iterable

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Index, Op, Value
from tiledsl.ir.types import TileType
from tiledsl.passes.analysis.effects import tensors_written
from tiledsl.passes.gpu.layouts.infer_layouts import tensor_of

ASYNC_BYTES = (4, 8, 16)
"""What `cp.async` copies at a time."""


def is_known_ahead(loop: ops.Range, load: ops.Load, inside: set[Op]) -> bool:
    """Whether the subscripts of a load are known a few blocks before: they depend on the loop by its block alone.
    `inside`: the ops of the loop."""
    return indices_known_ahead(loop, load.indices, inside)


def indices_known_ahead(loop: ops.Range, indices: Iterable[Index], inside: set[Op]) -> bool:
    """The same of some subscripts."""
    block = loop.body.arguments[0]
    for index in indices:
        if isinstance(index, Value) and index is not block:
            if isinstance(index.type, TileType) and index.shape:
                return False
            if index.op is not None and index.op in inside:
                return False
            if index.op is None and isinstance(index.owner, Block) and index.owner is loop.body:
                return False
    return True


def may_be_copied_ahead(load: ops.Load, grid: ops.Grid, alignment: int) -> bool:
    """Whether copies of a load run ahead of its loop, if rows of its tensor start at multiples of so many bytes: of
    what is filled with zeros and not written meanwhile."""
    loop = None if load.parent is None else load.parent.parent
    if not isinstance(loop, ops.Range) or load.other is not None or load.tensor in tensors_written([grid]):
        return False
    tensor = tensor_of(load)
    widest = max(tensor.dtype.bytes, alignment if tensor.unit is not None else 1)
    return widest >= min(ASYNC_BYTES) and is_known_ahead(loop, load, set(loop.body.walk()))
