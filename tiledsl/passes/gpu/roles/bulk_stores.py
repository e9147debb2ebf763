"""Stores by TMA: a tile goes to a buffer, and from there to memory while its threads go on.

    gpu.bulk_wait() {groups = 0, read = true}         the buffer is free again
    gpu.write(%buffer, %tile) {method = matrix}
    gpu.tma_store(%t, [%m, %n], %buffer)
    gpu.bulk_commit()

Barriers and fences between these are put there by `insert-proxy-fences` and `insert-barriers`. Where a block makes one
tile, the buffer is the memory of a ring whose loop has ended:

    %buffer = gpu.reuse(%b) {shape = [128, 256], ...}
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Index, Op, Value
from tiledsl.ir.dtypes import DType
from tiledsl.ir.gpu import async_ops
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.gpu.tensor_maps import MOST_AXES, MOST_ELEMENTS, UNIT_BYTES
from tiledsl.ir.layouts.buffer_layout import SharedLayout
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.types import AxisType, TileType, Whole
from tiledsl.passes.gpu.layouts.infer_layouts import tensor_of, tile_axes
from tiledsl.passes.gpu.layouts.operand_sources import are_independent
from tiledsl.passes.gpu.layouts.shared_accesses import matrix_method, shared_layout, static_shape, whole_vector
from tiledsl.passes.gpu.lower.lower_memory import row_alignment, stores_alike
from tiledsl.passes.gpu.lower.lowering import Lowering
from tiledsl.passes.gpu.plans.product_plans.footprint import RESERVED_BYTES, SUM_BYTES
from tiledsl.passes.gpu.products.streamed_loads import ends_at, goes_to_products_alone
from tiledsl.passes.gpu.roles.rings import Ring, operand_layout

SECTOR_BYTES = 32
"""Of memory."""


def stores_in_bulk(state: Lowering, op: ops.Store) -> bool:
    """Whether TMA can make a store of a role."""
    tensor, shape = tensor_of(op), op.value.shape
    if not state.grid.roles or len(shape) < 2 or len(tensor.shape) > MOST_AXES or tensor.dtype.bits < 8:
        return False
    if state.grid.splits > 1:  # each block has a little, which its threads store as memory likes it
        return False
    if row_alignment(state, op.tensor) % UNIT_BYTES:
        return False
    if tensor.unit is None or tile_axes(op)[tensor.unit] != len(shape) - 1:
        return False
    if any(state.capacities.of(dim) != 1 for dim in shape[:-2]) or _goes_out_of_registers(state, op):
        return False
    layout = state.inference.of(op.value)
    if layout is None or not _divides_rows(state, layout):
        return False
    return all(_ends_with_tensor(index, tensor.shape[axis]) for axis, index in enumerate(op.indices))


def _goes_out_of_registers(state: Lowering, op: ops.Store) -> bool:
    """Whether threads store a tile themselves: warpgroups share its rows, no ring that is done with has room for it,
    and neighbours in a row hold a whole sector of memory."""
    dtype = op.value.dtype
    if state.grid.warps[1] == 1 or dtype.bytes < SUM_BYTES or op.parent is None:
        return False
    loops = [loop for loop in op.parent.ops if isinstance(loop, ops.Range)]
    dots = [[one for one in loop.body.ops if isinstance(one, ops.Dot)] for loop in loops]
    if all(are_independent(inside, loop.body) for inside, loop in zip(dots, loops)):
        return False
    rings = [ring for rings in state.rings.values() for ring in rings]
    bytes_ = math.prod(state.capacities.shape(op.value.shape)) * dtype.bytes
    return not (_is_first(op) and ended_ring(state, rings, bytes_) is not None)


def _divides_rows(state: Lowering, layout: RegisterLayout) -> bool:
    """Whether each block of a cluster has rows of its own, and whole rows, or else columns of its own of all rows."""
    cluster, axis = state.grid.cluster, layout.rank - 2 if state.grid.across == 1 else layout.rank - 1
    first = layout.thread_digits[0] if layout.thread_digits else None
    return cluster == 1 or (first is not None and first.axis == axis and first.size % cluster == 0)


def _ends_with_tensor(index: Index, size: Dim) -> bool:
    """Whether what a block has beyond its end is outside of the tensor too, so that it is not written."""
    match index:
        case Whole():
            return True
        case Value(type=AxisType()):
            grid = index.op_around
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
    shape = _part_of_block(state, layout)
    lent = lent_ring(state, op)
    buffer = _buffer_for(state, op, shape) if lent is None else lent.streams[0].buffer
    shared, places = shared_layout(buffer), (0, 1) if lent is None else (1, 2)
    if state.grid.programs or not _is_of_grid(op):  # another store may have gone before
        state.emit(async_ops.BulkWait, groups=0, read=True)
    part = layout if state.grid.cluster == 1 else layout.part_of_block(state.grid.cluster)
    method = matrix_method(part, shared, static_shape(buffer), value.dtype, places)
    vector = whole_vector(part, shared, static_shape(buffer), value.dtype, places) if method == "plain" else 1
    zeros = [state.constant(0)] * len(buffer.shape)
    state.emit(
        gpu.Write, buffer=buffer, value=value, offsets=zeros, places=places, vector=vector, method=method,
    )  # fmt: skip
    axes = tuple(axis - (rank - 2) if axis >= rank - 2 else -1 for axis in tile_axes(op))
    state.emit(
        async_ops.TmaStore, tensor=state.tensors[op.tensor], indices=[state.start_of(index) for index in op.indices],
        buffer=buffer, offsets=zeros, axes=axes, places=places, shape=layout.shape, alike=stores_alike(state, op),
    )  # fmt: skip
    state.emit(async_ops.BulkCommit)
    beside = state.grid.programs and lent is None
    state.remark(op, "stored by TMA, while the next block is begun" if beside else "stored by TMA")


def _buffer_for(state: Lowering, op: ops.Store, shape: tuple[int, int]) -> Value:
    """A buffer for a tile on its way out: of its own, or in the memory of a ring that is done with."""
    dtype, name = op.value.dtype, op.tensor.name
    layout = _result_layout(shape, dtype.bytes)
    rings = [ring for rings in state.rings.values() for ring in rings]
    if _is_of_grid(op) and _is_first(op):
        ended = ended_ring(state, rings, layout.bytes(shape, dtype))
        if ended is not None:
            return state.emit(gpu.Reuse, name=name, buffer=ended, shape=shape, dtype=dtype, layout=layout).result
    return state.buffer(shape, dtype, layout, name)


def _result_layout(shape: tuple[int, int], element_bytes: int) -> SharedLayout:
    """The layout of a tile on its way out: swizzled, or whole rows one after the other where a swizzle would cut them
    into boxes of one sector: 128 rows of 240 elements into 1920."""
    layout = operand_layout(shape, 1, element_bytes)
    if layout.panel * element_bytes == SECTOR_BYTES and shape[1] <= MOST_ELEMENTS:
        return SharedLayout(layout.order)
    return layout


def _is_first(op: ops.Store) -> bool:
    assert op.parent is not None
    return next(store for store in op.parent.ops if isinstance(store, ops.Store)) is op


def ended_ring(state: Lowering, rings: Iterable[Ring], bytes_: int) -> Value | None:
    """The largest buffer of a ring that a loop of products reads, if it has room for so many bytes and nobody loads
    into it after the loop: each block makes one tile, and there is one loop."""
    grid = state.grid
    if grid.programs or grid.roles == "pingpong" or grid.splits > 1:
        return None
    of_loops = [ring for ring in rings if isinstance(ring.block.parent, ops.Range)]
    if len({ring.block for ring in of_loops}) != 1:
        return None
    buffers = [stream.buffer for ring in of_loops for stream in ring.streams]
    rooms = [shared_layout(buffer).bytes(static_shape(buffer), buffer.dtype) for buffer in buffers]
    room, number = max((room, -number) for number, room in enumerate(rooms))
    return buffers[-number] if room >= bytes_ else None


def _is_of_grid(op: ops.Store) -> bool:
    """Whether a store comes once for each block of the grid, in no loop."""
    return op.parent is not None and isinstance(op.parent.parent, ops.Grid)


def _part_of_block(state: Lowering, layout: RegisterLayout) -> tuple[int, int]:
    """The shape of what each block of a cluster has of a matrix."""
    across = state.grid.across
    return layout.shape[-2] * across // state.grid.cluster, layout.shape[-1] // across


def lent_ring(state: Lowering, op: ops.Store) -> Ring | None:
    """A ring of the grid itself whose stage has been read for the last time when a store comes, and is as large: the
    store goes through it. Where a program goes on to other blocks, only for lack of room: their loads wait for it."""
    layout = state.inference.of(op.value)
    if op.parent is None or layout is None or not stores_in_bulk(state, op):
        return None
    shape, dtype = _part_of_block(state, layout), op.value.dtype
    wanted = operand_layout(shape, 1, dtype.bytes)
    wanted = replace(wanted, order=(0, *(1 + axis for axis in wanted.order)))
    for ring in state.rings.get(op.parent, ()):
        buffers = [stream.buffer for stream in ring.streams]
        fits = [(b.shape, b.dtype, b.tile.layout) for b in buffers] == [((1, *shape), dtype, wanted)]
        short = not state.grid.programs or ring.lends or _is_short(state, shape, dtype)
        kept = any(not goes_to_products_alone(load) for load in ring.feed.loads) and bool(ring.feed.uses)
        kept = kept or any(_reaches_another(load.result, op) for load in ring.feed.loads)
        if fits and _is_first(op) and ring.stages == 1 and short and not kept:  # what else reads it may do so later
            return ring
    return None


def _reaches_another(tile: Value, store: ops.Store) -> bool:
    """Whether another store takes something that is computed of a tile: that may be read when this one is done."""
    seen, work = set[Op](), [*tile.users]
    while work:
        user = work.pop()
        if user in seen or user is store:
            continue
        seen.add(user)
        if user.effect == "write":
            return True
        work += [later for result in user.results for later in result.users]
    return False


def _is_short(state: Lowering, shape: tuple[int, int], dtype: DType) -> bool:
    """Whether there is no shared memory for a buffer of that shape beside the rings."""
    rings = [ring for rings in state.rings.values() for ring in rings]
    total = sum(stream.bytes * ring.stages for ring in rings for stream in ring.streams)
    return total + math.prod(shape) * dtype.bytes + RESERVED_BYTES > state.machine.shared_bytes_of_block(
        state.grid.resident
    )


def drain_stores(state: Lowering) -> None:
    """At the end of a role: what it stores has been read and written."""
    if any(isinstance(inner, async_ops.TmaStore) for inner in state.builder.block.walk()):
        state.emit(async_ops.BulkWait, groups=0)
