"""Stores by TMA: a tile goes to a buffer, and from there to memory while its threads go on.

    gpu.bulk_wait() {groups = 0, read = true}         the buffer is free again
    gpu.write(%buffer, %tile) {method = matrix}
    gpu.tma_store(%t, [%m, %n], %buffer)
    gpu.bulk_commit()

Barriers and fences between these are put there by `insert-proxy-fences` and `insert-barriers`.
"""

from __future__ import annotations

from tiledsl.ir import async_ops
from tiledsl.ir import gpu_ops as gpu
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Index, Value
from tiledsl.ir.layouts import RegisterLayout
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.tensor_maps import MOST_AXES, UNIT_BYTES
from tiledsl.ir.types import AxisType, TileType, Whole
from tiledsl.passes.gpu.infer_layouts import tensor_of, tile_axes
from tiledsl.passes.gpu.lowering import Lowering
from tiledsl.passes.gpu.rings import operand_layout
from tiledsl.passes.gpu.shared_accesses import whole_vector
from tiledsl.passes.gpu.streamed_loads import ends_at


def stores_in_bulk(state: Lowering, op: ops.Store) -> bool:
    """Whether TMA can make a store of a role."""
    tensor, shape = tensor_of(op), op.value.shape
    if not state.grid.schedule or len(shape) < 2 or len(tensor.shape) > MOST_AXES or tensor.dtype.bits < 8:
        return False
    number = state.tensor_number(op.tensor)
    alignment = state.plan.alignment[number] if number < len(state.plan.alignment) else UNIT_BYTES
    if alignment % UNIT_BYTES or tensor.unit is None or tile_axes(op)[tensor.unit] != len(shape) - 1:
        return False
    if any(state.capacities.of(dim) != 1 for dim in shape[:-2]):
        return False
    layout = state.inference.of(op.value)
    if layout is None or not _divides_rows(state, layout):
        return False
    return all(_ends_with_tensor(index, tensor.shape[axis]) for axis, index in enumerate(op.indices))


def _divides_rows(state: Lowering, layout: RegisterLayout) -> bool:
    """Whether each block of a cluster has rows of its own, and whole rows."""
    cluster = state.grid.cluster
    first = layout.thread_digits[0] if layout.thread_digits else None
    return cluster == 1 or (first is not None and first.axis == layout.rank - 2 and first.size % cluster == 0)


def _ends_with_tensor(index: Index, size: Dim) -> bool:
    """Whether what a block has beyond its end is outside of the tensor too, so that it is not written."""
    match index:
        case Whole():
            return True
        case Value(type=AxisType()):
            owner = index.owner
            grid = owner.parent if isinstance(owner, Block) else None
            return isinstance(grid, ops.Grid) and ends_at(grid.stops[grid.body.arguments.index(index)], size)
        case Value(type=TileType()):
            return not index.shape
        case _:
            return False


def lower_bulk_store(state: Lowering, op: ops.Store) -> None:
    """A store through a buffer of its own; `stores_in_bulk` says whether it can be."""
    layout = state.inference.of(op.value)
    assert layout is not None
    value = state.tile(op.value, layout)
    rank = layout.rank
    if rank > 2:
        layout = layout.reduced(list(range(rank - 2)))
        value = state.reshaped(value, layout)
    rows, columns = layout.shape
    shape = (rows // state.grid.cluster, columns)
    shared = operand_layout(shape, 1, value.dtype.bytes)
    buffer = state.buffer(shape, value.dtype, shared, op.tensor.name)
    state.emit(async_ops.BulkWait, groups=0, read=True)
    matrix = value.dtype.bits == 16
    part = layout if state.grid.cluster == 1 else layout.part_of_block(state.grid.cluster)
    vector = 1 if matrix else whole_vector(part, shared, shape, value.dtype, (0, 1))
    zero = state.constant(0)
    state.emit(
        gpu.Write, buffer=buffer, value=value, offsets=[zero, zero], places=(0, 1), vector=vector,
        method="matrix" if matrix else "plain",
    )  # fmt: skip
    axes = tuple(axis - (rank - 2) if axis >= rank - 2 else -1 for axis in tile_axes(op))
    state.emit(
        async_ops.TmaStore, tensor=state.tensors[op.tensor], indices=[state.start_of(index) for index in op.indices],
        buffer=buffer, offsets=[zero, zero], axes=axes, places=(0, 1), shape=layout.shape,
    )  # fmt: skip
    state.emit(async_ops.BulkCommit)
    state.remark(op, "stored by TMA, while the next block is begun" if state.grid.programs else "stored by TMA")


def drain_stores(state: Lowering) -> None:
    """At the end of a role: what it stores has been read and written."""
    if any(isinstance(inner, async_ops.TmaStore) for inner in state.builder.block.walk()):
        state.emit(async_ops.BulkWait, groups=0)
