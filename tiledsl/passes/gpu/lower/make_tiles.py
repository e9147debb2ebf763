"""Makes tiles in a layout that is asked for, out of operands in the layouts that this takes.

An elementwise op, a transpose and the like give their result in any layout without moving anything between threads. So
the one op of TILE may become several in GPU form, each in a layout that some user wants.
"""

from __future__ import annotations

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.passes.gpu.layouts.unit_axes import broadcast_source_layout, reshaped_layout
from tiledsl.passes.gpu.lower.lower_memory import load_as
from tiledsl.passes.gpu.lower.lowering import Lowering


def make_tile(state: Lowering, value: Value, layout: RegisterLayout) -> Value | None:
    """The result of an op, in that layout; None for ops that give it in one layout only."""
    op = value.op
    if op is None:
        return None
    with state.builder.at(op.location):
        return _make(state, op, value, layout)


def _make(state: Lowering, op: Op, value: Value, layout: RegisterLayout) -> Value | None:
    name, types = value.name, [state.type_in(value, layout)]
    match op:
        case ops.Broadcast():
            source = op.source
            source = (
                state.tile(source, broadcast_source_layout(layout, source.shape))
                if source.shape
                else state.scalar(source)
            )
            return state.emit(ops.Broadcast, types=types, name=name, source=source, shape=layout.shape).result
        case ops.Arange():
            return state.emit(gpu.Arange, name=name, layout=layout).result
        case ops.Coordinates():
            counted = state.emit(gpu.Arange, layout=layout).result
            start = state.block(op.axis).start
            return state.emit(ops.Map, types=types, name=name, fn="add", inputs=(counted, start)).result
        case ops.Map():
            inputs = [state.tile(v, layout) if v.shape else state.scalar(v) for v in op.inputs]
            return state.emit(ops.Map, types=types, name=name, fn=op.fn, inputs=inputs).result
        case ops.Cast():
            source = state.tile(op.source, layout)
            return state.emit(ops.Cast, types=types, name=name, source=source, dtype=op.dtype).result
        case ops.Random():
            seed, offsets = state.scalar(op.seed), state.tile(op.offsets, layout)
            return state.emit(ops.Random, types=types, name=name, seed=seed, offsets=offsets, fn=op.fn).result
        case ops.Transpose():
            back = [op.permutation.index(axis) for axis in range(len(op.permutation))]
            source, permutation = state.tile(op.source, layout.permuted(back)), op.permutation
            return state.emit(ops.Transpose, types=types, name=name, source=source, permutation=permutation).result
        case ops.Reshape():
            before = reshaped_layout(layout, value.shape, op.source.shape)
            if before is None:
                return None
            source = state.tile(op.source, before)
            return state.emit(ops.Reshape, types=types, name=name, source=source, shape=layout.shape).result
        case ops.Load() if value.shape and op.tensor not in state.written:
            return load_as(state, op, layout)
        case _:
            return None
