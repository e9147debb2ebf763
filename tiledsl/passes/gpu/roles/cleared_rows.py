"""Rows of right operands behind the end of a loop that does not end with their tensor: what the tensor has there may be
infinite or NaN, and 0 times that is not 0.

    load into the stage, which is full when all has come; where the turn is not whole, another mbarrier says so
    if the turn is not whole: wait for that one; write zeros to the rows beyond the end; then the stage is full

Where a loop ends with its tensor, TMA fills up with zeros. Of left operands that are computed padding is 0 anyway, and
what is computed of padding elsewhere is nobody's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Value
from tiledsl.ir.dtypes import i32, i64
from tiledsl.ir.gpu import async_ops
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.gpu.tensor_maps import UNIT_BYTES
from tiledsl.ir.layouts.layout import WARP
from tiledsl.ir.types import scalar
from tiledsl.passes.gpu.layouts.access_layouts import access_layout
from tiledsl.passes.gpu.layouts.shared_accesses import shared_layout, static_shape, whole_vector
from tiledsl.passes.gpu.lower.lowering import Lowering
from tiledsl.passes.gpu.products.streamed_loads import Feed


class ClearedRows:
    """Of the rings of a role that loads: an mbarrier behind those of the stages, for what comes last in a loop, before
    others are told. Each last turn takes it through two phases, so that it is in the first one again for the next."""

    def __init__(self, feed: Feed, stages: int, buffers: Sequence[tuple[Value, int]]) -> None:
        """`buffers`: of stages, and the axis of each (of the tile's) that has rows to clear."""
        self.block = feed.block.arguments[0]
        self.stages = stages
        self.buffers = buffers

    def fill(self, state: Lowering, full: Value, stage: Value, load: Callable[[Value], None]) -> None:
        """Loads into a stage, by `load(index)` of an mbarrier, and clears what is beyond the end. There is one copy of
        the loads, for either mbarrier."""
        place = state.block(self.block)
        room = static_shape(self.buffers[0][0])[1 + self.buffers[0][1]]
        if place.extent is None:
            load(stage)
            return
        landed, first = state.constant(self.stages, i32), state.constant(0, i32)
        ends = state.builder.map("lt", place.extent, state.constant(room))
        load(state.builder.map("where", ends, landed, stage))
        with state.when(ends):
            state.emit(async_ops.MbarrierWait, barriers=full, index=landed, parity=first)
            state.emit(async_ops.MbarrierArrive, barriers=full, index=landed, by="warp")
            state.emit(async_ops.MbarrierWait, barriers=full, index=landed, parity=state.constant(1, i32))
            for buffer, axis in self.buffers:
                _clear(state, buffer, 1 + axis, stage, place.extent)
            state.emit(async_ops.MbarrierArrive, barriers=full, index=stage, by="warp")


def _clear(state: Lowering, buffer: Value, axis: int, stage: Value, first: Value) -> None:
    """Writes zeros to rows from `first` on, one after the other."""
    sizes, other = static_shape(buffer), 3 - axis
    shape = [1, sizes[other]] if axis == 1 else [sizes[other], 1]
    vector = UNIT_BYTES // buffer.dtype.bytes
    layout = access_layout(shape, [axis - 1, other - 1], WARP, vector, buffer.dtype.bytes)
    places = (1, 2)
    body = Block([(scalar(i64), "row")])
    with state.scope(body):
        zeros = state.filled(state.constant(0.0 if buffer.dtype.is_float else 0, buffer.dtype), layout)
        offsets = [stage, state.constant(0), state.constant(0)]
        offsets[axis] = body.arguments[0]
        width = whole_vector(layout, shared_layout(buffer), sizes, buffer.dtype, places)
        state.emit(gpu.Write, buffer=buffer, value=zeros, offsets=offsets, places=places, vector=width)
        state.emit(ops.Yield)
    state.emit(
        ops.For, types=[], start=first, stop=state.constant(sizes[axis]), step=state.constant(1), initial=[], body=body
    )
