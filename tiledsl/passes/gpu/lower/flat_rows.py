"""Moves whole rows of packed tensors as one run: by whole vectors between memory and shared memory.

    rows of 49 elements of 2 bytes, 128 of them: 12544 bytes that lie one behind the other
    by elements, as threads hold them    49 accesses of 2 bytes for each row, each of a warp in many lines
    as one run                           784 vectors of 16 bytes; each thread reads its row in shared memory

    %x = tile.load(%t, [%m, :]) : tile<f16, [m, 49]>
=>  %run = gpu.load(%t, [%m_start, %zero], [%count]) {axes = [-1, 0], masked = [0], vector = 8, flat = true, ...}
    %rows = gpu.buffer() {shape = [6272], ...}
    gpu.write(%rows, [%zero], %run) ...
    %view = gpu.view(%rows) {shape = [128, 49], ...}
    %x = gpu.read(%view, [%zero, %zero]) ...
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.layouts.buffer_layout import SharedLayout
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.ir.types import Shape, TensorType
from tiledsl.passes.gpu.layouts.access_layouts import access_layout
from tiledsl.passes.gpu.layouts.infer_layouts import is_rows
from tiledsl.passes.gpu.lower.lowering import Lowering
from tiledsl.support.powers_of_two import power_of_two_in

WIDEST = 16
"""Bytes of an access."""


@dataclass(frozen=True)
class FlatRun:
    """The rows of a block as one run: `room` elements at most, `rows` rows of the sizes `inner`."""

    start: Value
    """The number of the first row."""
    count: Value | None
    """How many elements there are; None for all that there is room for."""
    rows: int
    inner: tuple[int, ...]
    vector: int
    ragged: bool
    layout: RegisterLayout

    @property
    def room(self) -> int:
        return self.rows * math.prod(self.inner)


def load_flat(state: Lowering, op: ops.Load, layout: RegisterLayout) -> Value | None:
    """The tile of a load in one layout, by way of shared memory; None where it is no run, or better left alone."""
    run = None if op.other is not None else _flat_run(state, op, op.result.shape)
    if run is None:
        return None
    indices, extents = _subscripts(state, op, run)
    loaded = state.emit(
        gpu.Load, name=f"{op.result.name or op.tensor.name}_run", tensor=state.tensors[op.tensor], indices=indices,
        extents=extents, other=None, axes=_axes(op), masked=(0,) * len(extents), vector=run.vector, ragged=run.ragged,
        flat=True, shape=run.layout.shape, layout=run.layout,
    ).result  # fmt: skip
    buffer = state.buffer((run.room,), op.result.dtype, SharedLayout((0,)), op.result.name)
    state.write(buffer, loaded)
    return state.read(_by_rows(state, buffer, run), layout, name=op.result.name)


def store_flat(state: Lowering, op: ops.Store) -> bool:
    """Stores a tile by way of shared memory; False where it is no run, or better left alone."""
    run = _flat_run(state, op, op.value.shape)
    if run is None:
        return False
    value = state.any(op.value)
    buffer = state.buffer((run.room,), op.value.dtype, SharedLayout((0,)), op.value.name)
    state.write(_by_rows(state, buffer, run), value)
    indices, extents = _subscripts(state, op, run)
    state.emit(
        gpu.Store, tensor=state.tensors[op.tensor], indices=indices, value=state.read(buffer, run.layout),
        extents=extents, axes=_axes(op), masked=(0,) * len(extents), vector=run.vector, ragged=run.ragged, flat=True,
    )  # fmt: skip
    return True


def _flat_run(state: Lowering, op: ops.Load | ops.Store, shape: Shape) -> FlatRun | None:
    type_ = op.tensor.type
    assert isinstance(type_, TensorType)
    if not state.grid.flat or not is_rows(op) or len(op.in_bounds) < len(op.indices):
        return None
    number = state.tensor_number(op.tensor)
    packed = state.plan.packed[number] if number < len(state.plan.packed) else 0
    inner = tuple(dim for dim in shape[1:] if isinstance(dim, int))
    vector = min(WIDEST, packed) // type_.dtype.bytes
    if vector <= 1 or len(inner) != len(shape) - 1:
        return None
    (first, *_), length = op.indices, math.prod(inner)
    if not length:
        return None  # nothing moves
    assert isinstance(first, Value)
    vector = min(vector, power_of_two_in(state.block(first).multiple * length))
    rows, known = state.capacities.of(shape[0]), state.extent_multiple(shape[0]) * length
    ragged = bool(state.ragged(shape, [0]))
    threads = state.threads * vector
    padded = -(-rows * length // threads) * threads
    count = None
    if ragged:
        count = state.arithmetic("mul", state.size(shape[0]), length)
    elif padded != rows * length:
        count, known = state.constant(rows * length), rows * length
    layout = access_layout([padded], [0], state.threads, vector, type_.dtype.bytes)
    return FlatRun(state.start_of(first), count, rows, inner, vector, count is not None and known % vector != 0, layout)


def _subscripts(state: Lowering, op: ops.Load | ops.Store, run: FlatRun) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
    zeros = (state.constant(0),) * (len(op.indices) - 1)
    return (run.start, *zeros), () if run.count is None else (run.count,)


def _axes(op: ops.Load | ops.Store) -> tuple[int, ...]:
    return (*(-1,) * (len(op.indices) - 1), 0)


def _by_rows(state: Lowering, buffer: Value, run: FlatRun) -> Value:
    shape = (run.rows, *run.inner)
    return state.emit(gpu.View, buffer=buffer, shape=shape, layout=SharedLayout(tuple(range(len(shape))))).result
