"""What a product is combined with, brought by the threads that load: rings of the grid itself, one stage ahead.

    for k in tile.range(K): acc = tile.dot(a[m, k], b[k, n], acc)
    out[m, n] = acc + bias[n] + beside[m, n]          a ring for `beside`, one for all that is the same for all rows

They come while the last steps are multiplied, so that nobody waits for memory between a product and its store. A tile
lies in its stage as the result does on its way out, which may go through the same memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.gpu.tensor_maps import ALIGNMENT, MOST_AXES, UNIT_BYTES
from tiledsl.ir.layouts.buffer_layout import SharedLayout
from tiledsl.passes.analysis.effects import tensors_written
from tiledsl.passes.gpu.layouts.infer_layouts import tensor_of, tile_axes
from tiledsl.passes.gpu.layouts.operand_sources import are_independent
from tiledsl.passes.gpu.lower.lowering import Lowering
from tiledsl.passes.gpu.plans.product_plans.footprint import COMPUTED_SLOTS, RESERVED_BYTES
from tiledsl.passes.gpu.products.streamed_loads import DeclinedError, Feed, check_index, source_load
from tiledsl.passes.gpu.roles.bulk_stores import ended_ring
from tiledsl.passes.gpu.roles.rings import Ring, StreamedLoad, operand_layout


def beside_feeds(grid: ops.Grid, feeds: Sequence[Feed], alignment: Callable[[ops.Load], int]) -> tuple[Feed, ...]:
    """The loads behind the loop of a grid's products that can be made ahead: whole tiles of the result one by one,
    and those of its columns together. None for products that feed on each other."""
    loop = feeds[0].block.parent
    if len(feeds) != 1 or not isinstance(loop, ops.Range) or loop.parent is not grid.body:
        return ()
    if not are_independent([op for op in loop.body.ops if isinstance(op, ops.Dot)], loop.body):
        return ()
    shape = feeds[0].dot.result.shape
    behind = grid.body.ops[grid.body.ops.index(loop) + 1 :]
    written = tensors_written([grid])
    loads = [op for op in behind if isinstance(op, ops.Load) and _comes_by_tma(op, grid, alignment, written)]
    tiles = [op for op in loads if op.result.shape == shape and len(shape) == 2]
    rows = tuple(op for op in loads if op.result.shape == shape[-1:])
    found = [Feed(grid.body, (op,), feeds[0].dot) for op in tiles]
    return (*found, Feed(grid.body, rows, feeds[0].dot)) if rows else tuple(found)


def _comes_by_tma(
    op: ops.Load, grid: ops.Grid, alignment: Callable[[ops.Load], int], written: frozenset[Value]
) -> bool:
    tensor = tensor_of(op)
    plain = op.other is None and op.result.tile.level == "register" and op.tensor not in written
    if not plain or tensor.unit is None or tile_axes(op)[tensor.unit] != len(op.result.shape) - 1:
        return False
    if len(tensor.shape) > MOST_AXES or tensor.dtype.bits < 16 or alignment(op) % UNIT_BYTES:
        return False
    try:
        for index in op.indices:
            check_index(index, grid, None)
    except DeclinedError:
        return False
    return True


def beside_rings(state: Lowering, feeds: Sequence[Feed], rings: Sequence[Ring], consumers: int) -> list[Ring]:
    """Rings for those of the feeds that there is room for beside `rings` and the result; consumers in turn need a stage
    each."""
    machine, grid = state.machine, state.grid
    room = machine.shared_bytes_of_block(grid.resident) - RESERVED_BYTES
    room -= sum(stream.bytes * ring.stages for ring in rings for stream in ring.streams)
    room -= _scratch_bytes(state, feeds) + _computed_bytes(state, rings) * consumers
    staged = _staged_bytes(state, feeds, rings) * consumers
    found: list[Ring] = []
    for feed in feeds:
        needed = sum(_bytes(state, op) for op in feed.loads) * consumers
        lends = consumers == 1 and len(feed.loads) == 1 and needed == staged
        aligned = consumers == 1 or all(_bytes(state, op) % ALIGNMENT == 0 for op in feed.loads)
        if needed + (0 if lends else staged) > room or not aligned:
            continue
        room -= needed
        ring = Ring(state, feed, consumers, {}, [_stream(state, op, consumers) for op in feed.loads])
        if lends and staged > room:
            ring.lends, staged = True, 0
        found.append(ring)
    return found


def _staged_bytes(state: Lowering, feeds: Sequence[Feed], rings: Sequence[Ring]) -> int:
    """Of the tiles that are stored, those that do not go out through a ring of the loop."""
    every = [_bytes(state, op) for op in _stores(feeds)]
    rows_alone = all(len(load.result.shape) < 2 for feed in feeds for load in feed.loads)
    lent = bool(every) and rows_alone and ended_ring(state, rings, every[0]) is not None
    return sum(every[1:] if lent else every)


def _stores(feeds: Sequence[Feed]) -> list[ops.Store]:
    return [op for op in feeds[0].block.ops if isinstance(op, ops.Store) and len(op.value.shape) >= 2] if feeds else []


def _scratch_bytes(state: Lowering, feeds: Sequence[Feed]) -> int:
    """Of folds along rows, at most."""
    folds = [op for op in feeds[0].block.ops if isinstance(op, ops.Reduce)] if feeds else []
    rows = state.capacities.of(feeds[0].dot.result.shape[-2]) if feeds else 0
    across = state.grid.across
    each = 4 * rows * state.grid.across // state.grid.cluster
    groups = state.grid.warps[1]
    return len(folds) * each * (groups if across == 1 else 2 * (across + groups))


def _computed_bytes(state: Lowering, rings: Sequence[Ring]) -> int:
    """Of right operands that each role writes itself."""
    dots = {op for ring in rings for op in ring.block.ops if isinstance(op, ops.Dot) and source_load(op.b) is None}
    sizes = (math.prod(state.capacities.shape(dot.b.shape)) * dot.b.dtype.bytes for dot in dots)
    return COMPUTED_SLOTS * sum(sizes) // state.grid.across


def _sizes(state: Lowering, op: Op) -> list[int]:
    """Of what each block of a cluster has of a tile."""
    value = op.value if isinstance(op, ops.Store) else op.results[0]
    sizes = list(state.capacities.shape(value.shape))
    sizes[-1] //= state.grid.across
    if len(sizes) > 1:
        sizes[-2] = sizes[-2] * state.grid.across // state.grid.cluster
    return sizes


def _bytes(state: Lowering, op: ops.Load | ops.Store) -> int:
    return math.prod(_sizes(state, op)) * tensor_of(op).dtype.bytes


def _stream(state: Lowering, op: ops.Load, stages: int) -> StreamedLoad:
    sizes = _sizes(state, op)
    layout = SharedLayout((0,)) if len(sizes) == 1 else operand_layout(sizes, 1, op.result.dtype.bytes)
    staged = replace(layout, order=(0, *(1 + axis for axis in layout.order)))
    buffer = state.buffer((stages, *sizes), op.result.dtype, staged, op.result.name or op.tensor.name)
    whole = state.capacities.shape(op.result.shape)
    return StreamedLoad(op, buffer, True, tuple(whole), math.prod(sizes) * op.result.dtype.bytes, None)
