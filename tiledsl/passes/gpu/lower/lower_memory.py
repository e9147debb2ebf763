"""Lowers loads, stores and atomics; parts of tiles and reshapes, which go through shared memory.

    %x = tile.load(%t, [%m, :]) : tile<bf16, [m, N], register>
=>  %x = gpu.load(%t, [%m_start, %zero], [%m_extent, %N]) {axes = [0, 1], masked = [0, 1], vector = 8, ...}
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Index, Value
from tiledsl.ir.dtypes import bool_
from tiledsl.ir.fold_identities import fold_identity
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.layouts.buffer_layout import SharedLayout
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.ir.layouts.shared_layouts import choose_shared_layout
from tiledsl.ir.lying import step_and_phase
from tiledsl.ir.types import AxisType, Shape, Slice, TensorType, Whole
from tiledsl.passes.analysis.sizes import constant_of
from tiledsl.passes.gpu.layouts.access_layouts import contiguous_bytes
from tiledsl.passes.gpu.layouts.gathered_layouts import coordinate_layout, gather_axis, gather_rank, is_tile_index
from tiledsl.passes.gpu.layouts.infer_layouts import access_order, tile_axes
from tiledsl.passes.gpu.layouts.shared_accesses import plain_access, shared_layout, static_shape, whole_vector
from tiledsl.passes.gpu.lower.flat_rows import load_flat, store_flat
from tiledsl.passes.gpu.lower.lowering import Lowering, Staged
from tiledsl.passes.gpu.lower.repeated_loads import load_repeated
from tiledsl.passes.gpu.lower.scalar_lowering import MOST_MULTIPLE
from tiledsl.passes.gpu.products.row_starts import row_start
from tiledsl.support.powers_of_two import power_of_two_in

SECTOR_BYTES = 32
"""What global memory moves at least: accesses in smaller pieces waste what is around them."""
WORTH_CONVERTING = 512
"""Elements below which a tile is stored as it is, however scattered."""


@dataclass(frozen=True)
class Subscripts:
    """The operands of an access in GPU form."""

    indices: tuple[Value, ...]
    axes: tuple[int, ...]
    masked: tuple[int, ...]
    extents: tuple[Value, ...]
    checked: tuple[int, ...]


def lower_load(state: Lowering, op: ops.Load) -> None:
    """A load in the layout that inference gave it, or, of a value without one, in a plain one."""
    if not op.result.shape:
        subscripts = scalar_subscripts(state, op)
        other = None if op.other is None else state.scalar(op.other)
        loaded = state.emit(
            gpu.Load, name=op.result.name, tensor=state.tensors[op.tensor], indices=subscripts.indices, extents=(),
            other=other, axes=subscripts.axes, checked=subscripts.checked, shape=(),
        ).result  # fmt: skip
        state.define(op.result, loaded)
        return
    state.define(op.result, load_as(state, op, state.layout(op.result)))


def load_as(state: Lowering, op: ops.Load, layout: RegisterLayout) -> Value:
    """The tile of a load in one layout."""
    flat = load_flat(state, op, layout)
    if flat is not None:
        return flat
    repeated = load_repeated(state, op, layout, row_alignment(state, op.tensor))
    if repeated is not None:
        return repeated
    subscripts = tile_subscripts(state, op, op.result.shape, layout)
    vector, ragged = vector_and_tail(state, op, layout, subscripts)
    step, phase, run = _steps(state, op, layout, subscripts)
    vector = max(vector, run)
    return state.emit(
        gpu.Load, name=op.result.name, tensor=state.tensors[op.tensor], indices=subscripts.indices,
        extents=subscripts.extents, other=None if op.other is None else state.scalar(op.other), axes=subscripts.axes,
        masked=subscripts.masked, checked=subscripts.checked, vector=vector, ragged=ragged and not run,
        step=step, phase=phase, shape=layout.shape, layout=layout,
    ).result  # fmt: skip


def lower_store(state: Lowering, op: ops.Store) -> None:
    """A store, from the layout that the value has, unless that would scatter a large tile over memory."""
    if not op.value.shape:
        subscripts = scalar_subscripts(state, op)
        state.emit(
            gpu.Store, tensor=state.tensors[op.tensor], indices=subscripts.indices, value=state.scalar(op.value),
            extents=(), axes=subscripts.axes, checked=subscripts.checked,
        )  # fmt: skip
        return
    if store_flat(state, op):
        return
    layout = store_layout(state, op)
    value = state.tile(op.value, layout)
    subscripts = tile_subscripts(state, op, op.value.shape, layout)
    vector, ragged = vector_and_tail(state, op, layout, subscripts)
    state.emit(
        gpu.Store, tensor=state.tensors[op.tensor], indices=subscripts.indices, value=value,
        extents=subscripts.extents, axes=subscripts.axes, masked=subscripts.masked, checked=subscripts.checked,
        vector=vector, ragged=ragged, alike=stores_alike(state, op),
    )  # fmt: skip


def stores_alike(state: Lowering, op: ops.Store) -> bool:
    """Whether other programs may store to the same places, and then the same."""
    axes = [index for index in op.indices if isinstance(index, Value) and isinstance(index.type, AxisType)]
    return any(state.block(axis).shared for axis in axes)


def store_layout(state: Lowering, op: ops.Store) -> RegisterLayout:
    """The layout of the stored value: its own, or one that writes whole sectors, if its own does not."""
    order = access_order(op)
    assert isinstance(op.tensor.type, TensorType)
    bytes_ = op.tensor.type.dtype.bytes
    # rows that start anywhere are written element by element, neighbours by neighbours
    suited = state.inference.access(op.value.shape, order, bytes_, max(1, row_alignment(state, op.tensor) // bytes_))
    own = state.inference.of(op.value)
    if own is None:
        return suited
    if state.grid.splits > 1 or not state.stays_in_block(own, suited):  # its columns are in several blocks
        return own
    unit = op.tensor.type.unit
    runs = unit is not None and tile_axes(op)[unit] >= 0
    large = math.prod(own.shape) >= WORTH_CONVERTING
    fast = order[-1]
    at_once = contiguous_bytes(own, fast, bytes_)
    if not state.grid.roles and state.inference.slides(op.value.shape[fast]):
        # runs of threads, which rows that begin anywhere take by elements
        at_once = min(at_once, max(bytes_, row_alignment(state, op.tensor)) if own.vector(fast) > 1 else at_once)
    scattered = at_once < min(SECTOR_BYTES, own.shape[fast] * bytes_)
    if runs and large and scattered and contiguous_bytes(suited, fast, bytes_) > at_once:
        state.remark(
            op, f"the tile is stored through shared memory, {fast_bytes(suited, fast, bytes_)} bytes at a time"
        )
        return suited
    return own


def fast_bytes(layout: RegisterLayout, axis: int, element_bytes: int) -> int:
    """How many bytes one thread stores at once."""
    return min(16, layout.vector(axis) * element_bytes)


def lower_atomic(state: Lowering, op: ops.Atomic) -> None:
    """An atomic. Its result is told to all threads through shared memory, if anybody asks for it."""
    if op in state.private:
        state.private[op](op)
        return
    if not op.value.shape:
        layout = state.replicated
        value = state.filled(state.scalar(op.value), layout)
        subscripts = scalar_subscripts(state, op)
    else:
        layout = state.layout(op.value)
        value = state.tile(op.value, layout)
        subscripts = tile_subscripts(state, op, op.value.shape, layout)
    before = state.emit(
        gpu.Atomic, name=op.result.name, tensor=state.tensors[op.tensor], indices=subscripts.indices, value=value,
        extents=subscripts.extents, fn=op.fn, axes=subscripts.axes, masked=subscripts.masked,
        checked=subscripts.checked,
    ).result  # fmt: skip
    if not op.result.users:
        return
    if op.value.shape and layout.replicas == 1:
        state.define(op.result, before)
        return
    buffer = state.shared_copy(before, [])
    if op.value.shape:
        state.define(op.result, state.read(buffer, layout, name=op.result.name))
        return
    zero = state.constant(0)
    state.define(op.result, read_scalar(state, buffer, [zero], op.result.name))


def read_scalar(state: Lowering, buffer: Value, offsets: Sequence[Value], name: str) -> Value:
    """One element of a buffer, for all threads."""
    return state.emit(gpu.Read, name=name, buffer=buffer, offsets=list(offsets), places=(), shape=()).result


# Subscripts


def scalar_subscripts(state: Lowering, op: ops.Load | ops.Store | ops.Atomic) -> Subscripts:
    """The subscripts of one element."""
    indices = tuple(state.start_of(index) for index in op.indices)
    checked = tuple(axis for axis in range(len(indices)) if axis not in op.in_bounds)
    return Subscripts(indices, (-1,) * len(indices), (), (), checked)


def tile_subscripts(
    state: Lowering, op: ops.Load | ops.Store | ops.Atomic, shape: Shape, layout: RegisterLayout
) -> Subscripts:
    """The subscripts of a tile; gathers in the layout of the tile, for each element."""
    axes = tile_axes(op)
    ragged = state.ragged(shape)
    rank = gather_rank(op)
    at = gather_axis(op) if rank else 0
    indices: list[Value] = []
    for index in op.indices:
        if isinstance(index, Value) and is_tile_index(index):
            indices.append(_spread(state, index, layout, at, rank))
        else:
            indices.append(state.start_of(index))
    checked = tuple(axis for axis in range(len(indices)) if axis not in op.in_bounds)
    masked, extents = tuple(axis for axis, _ in ragged), tuple(extent for _, extent in ragged)
    return Subscripts(tuple(indices), tuple(axes), masked, extents, checked)


def _spread(state: Lowering, index: Value, layout: RegisterLayout, at: int, rank: int) -> Value:
    """Coordinates to gather at, repeated over all axes of the tile in `layout`; theirs begin at axis `at`."""
    source = coordinate_layout(layout, at, rank, index.shape)
    missing = rank - len(index.shape)
    value = state.tile(index, source)
    value = state.builder.cast(value, value.dtype)
    if source is layout:
        return value
    # as NumPy broadcasts: under axes of size 1, then repeated
    shape = [1] * layout.rank
    for a in range(len(index.shape)):
        shape[at + missing + a] = source.shape[a]
    middle = source
    for axis, size in enumerate(shape):
        inside = at + missing <= axis < at + rank
        middle = middle if inside else middle.expanded(axis)
        assert middle.shape[axis] == size
    if middle != value.layout or middle.shape != value.layout.shape:
        value = state.reshaped(value, middle)
    return value if middle.shape == layout.shape else state.filled(value, layout)


def access_vector(
    state: Lowering,
    op: ops.Load | ops.Store,
    layout: RegisterLayout,
    subscripts: Subscripts,
) -> int:
    """How many elements can be accessed at once: neighbours in slots and in memory, aligned, valid all or none."""
    return min(_aligned_vector(state, op, layout, subscripts), _vector_of_extent(state, op, subscripts))


def vector_and_tail(
    state: Lowering, op: ops.Load | ops.Store, layout: RegisterLayout, subscripts: Subscripts
) -> tuple[int, bool]:
    """How many elements are accessed at once, and whether an extent may end within them."""
    whole = _vector_of_extent(state, op, subscripts)
    aligned = _aligned_vector(state, op, layout, subscripts)
    shape = op.value.shape if isinstance(op, ops.Store) else op.result.shape
    sizes = [shape[axis] for axis in subscripts.axes if axis in subscripts.masked]
    if aligned <= whole or any(isinstance(size, int) and size < aligned for size in sizes):
        return min(aligned, whole), False
    return aligned, True


def _aligned_vector(state: Lowering, op: ops.Load | ops.Store, layout: RegisterLayout, subscripts: Subscripts) -> int:
    """How many elements of a thread are neighbours in memory, aligned to their size."""
    assert isinstance(op.tensor.type, TensorType)
    unit = op.tensor.type.unit
    if unit is None or subscripts.axes[unit] < 0:
        return 1
    axis = subscripts.axes[unit]
    if _is_gathered_along(op, axis):
        return 1
    bytes_ = op.tensor.type.dtype.bytes
    limit = row_alignment(state, op.tensor) // bytes_
    start = start_multiple(state, op.indices[unit])
    run = layout.vector(axis)
    if unit in subscripts.checked:  # all of a vector are inside, or none, where the tensor ends with one too
        whole = state.size_multiple(op.tensor.type.shape[unit])
        limit = min(limit, whole, _vector_of_extent(state, op, subscripts))
    return max(1, min(power_of_two_in(run), 16 // bytes_, limit, start))


def _steps(state: Lowering, op: ops.Load, layout: RegisterLayout, subscripts: Subscripts) -> tuple[int, int, int]:
    """The step and the phase of a tensor, and of how many elements a run is that is read for their sake: (1, 0, 0)
    where elements are read one by one."""
    number, bytes_ = state.tensor_number(op.tensor), op.result.dtype.bytes
    lying = state.plan.steps[number] if number < len(state.plan.steps) else 0
    axis = subscripts.axes[-1] if subscripts.axes else -1
    if not lying or axis < 0 or subscripts.checked or op.result.dtype == bool_ or _is_gathered_along(op, axis):
        return 1, 0, 0
    step, phase = step_and_phase(lying)
    extent = state.extent_multiple(op.result.shape[axis]) if axis in subscripts.masked else MOST_MULTIPLE
    start = start_multiple(state, op.indices[-1])
    vector = min(power_of_two_in(layout.vector(axis)), 16 // bytes_, start, extent)
    return (step, phase, vector) if vector > 1 and step * vector * bytes_ % 16 == 0 else (1, 0, 0)


def _vector_of_extent(state: Lowering, op: ops.Load | ops.Store, subscripts: Subscripts) -> int:
    """How many neighbours are all inside of the extents, or none of them."""
    assert isinstance(op.tensor.type, TensorType)
    unit = op.tensor.type.unit
    axis = -1 if unit is None else subscripts.axes[unit]
    shape = op.value.shape if isinstance(op, ops.Store) else op.result.shape
    return state.extent_multiple(shape[axis]) if axis in subscripts.masked else MOST_MULTIPLE


def _is_gathered_along(op: ops.Load | ops.Store, axis: int) -> bool:
    """Whether coordinates that are gathered at may differ along an axis of the tile."""
    gathers = [index for index in op.indices if isinstance(index, Value) and is_tile_index(index)]
    rank = max((len(gather.shape) for gather in gathers), default=0)
    at = axis - gather_axis(op) if gathers else -1
    return 0 <= at < rank and any(len(gather.shape) >= rank - at and gather.shape[at - rank] != 1 for gather in gathers)


def row_alignment(state: Lowering, tensor: Value) -> int:
    """The bytes that every row of a tensor starts at a multiple of, at most 16."""
    number = state.tensor_number(tensor)
    return state.plan.alignment[number] if number < len(state.plan.alignment) else 16


def load_alignment(state: Lowering, load: ops.Load) -> int:
    """The bytes that what a load reads of every row starts at a multiple of, at most 16."""
    return row_start(load, row_alignment(state, load.tensor), state.size_multiple)


def start_multiple(state: Lowering, index: Index) -> int:
    """A power of two that the first coordinate of a subscript is a multiple of."""
    match index:
        case Whole():
            return MOST_MULTIPLE
        case Slice():
            start = index.start
            return math.gcd(start, MOST_MULTIPLE) if isinstance(start, int) else state.size_multiple(start)
        case Value(type=AxisType()):
            return state.block(index).multiple
        case Value():
            return state.multiple(index)


# Through shared memory: parts of tiles, and reshapes


def lower_extract(state: Lowering, op: ops.Extract) -> None:
    """A part of a tile: what other threads hold is read from shared memory."""
    if 0 in op.source.shape or 0 in op.result.shape:
        state.define(op.result, _nothing(state, op.result))
        return
    if isinstance(op.source.op, ops.Stack) and op.source in state.staged:
        buffer = state.staged[op.source].buffer
    else:
        source = state.any(op.source)
        state.stay_in_block(source.layout, "a part of a tile")
        shared = SharedLayout(tuple(range(len(op.source.shape))))
        buffer = state.buffer(static_shape(source), source.dtype, shared, source.name)
        state.write(buffer, source)
    offsets: list[Value] = []
    places: list[int] = []
    for axis, (index, room) in enumerate(zip(op.indices, static_shape(buffer))):
        start = state.start_of(index)
        if not isinstance(index, Whole) and constant_of(start) is None:
            # a part of no elements may begin behind the last one, where there is no buffer any more; and the last
            # element of none stands in front of the first
            start = state.builder.map("minimum", start, state.constant(room - 1))
            start = state.builder.map("maximum", start, state.constant(0))
        offsets.append(start)
        if isinstance(index, (Whole, Slice)):
            places.append(axis)
    if not op.result.shape:
        state.define(op.result, read_scalar(state, buffer, offsets, op.result.name))
        return
    layout = state.layout(op.result)
    state.define(op.result, state.read(buffer, layout, offsets=offsets, places=places, name=op.result.name))


def lower_stack(state: Lowering, op: ops.Stack) -> None:
    """Tiles side by side: in shared memory, where each is written to its place and parts of all are read from."""
    layout = state.layout(op.sources[0])
    state.stay_in_block(layout, "tiles that are stacked")
    shape = (*layout.shape[: op.axis], len(op.sources), *layout.shape[op.axis :])
    places = tuple(axis for axis in range(len(shape)) if axis != op.axis)
    dtype = op.result.dtype
    accesses = [plain_access(layout, places, dtype)]
    for user in op.result.users:
        if isinstance(user, ops.Extract) and user.result.shape:
            kept = [axis for axis, index in enumerate(user.indices) if isinstance(index, (Whole, Slice))]
            accesses.append(plain_access(state.layout(user.result), tuple(kept), dtype))
    buffer = state.buffer(
        shape, dtype, choose_shared_layout(shape, dtype, tuple(dict.fromkeys(accesses))), op.result.name
    )
    shared = shared_layout(buffer)
    vector = whole_vector(layout, shared, shape, dtype, places) if shared.order[-1] != op.axis else 1
    for number, source in enumerate(op.sources):
        offsets = [state.constant(number if axis == op.axis else 0) for axis in range(len(shape))]
        value = state.tile(source, layout)
        state.emit(gpu.Write, buffer=buffer, value=value, offsets=offsets, places=places, vector=vector)
    state.staged[op.result] = Staged(buffer, tuple(range(len(shape))))


def lower_reshape(state: Lowering, op: ops.Reshape) -> None:
    """A reshape that moves elements: written under one shape, read under the other.

    Rows of the buffer are as long as the true extents are, so these must be known on all axes but the first.
    """
    if 0 in op.result.shape:
        state.define(op.result, _nothing(state, op.result))
        return
    source = state.any(op.source)
    state.stay_in_block(source.layout, "a reshape")
    shared = SharedLayout(tuple(range(len(op.source.shape))))
    before = _true_shape(state, op.source.shape)
    after = _true_shape(state, op.result.shape)
    room = math.prod(before)
    # the first axes may have room for more than the other shape has
    while math.prod(after) > room:
        before = (before[0] + 1, *before[1:])
        room = math.prod(before)
    if math.prod(after) < room:
        inner = math.prod(after[1:])
        rows = -(-room // inner)
        before_inner = math.prod(before[1:])
        while rows * inner % before_inner != 0:
            rows += 1
        after = (rows, *after[1:])
        before = (rows * inner // before_inner, *before[1:])
    buffer = state.buffer(before, source.dtype, shared, source.name)
    state.write(buffer, source)
    other = SharedLayout(tuple(range(len(after))))
    view = state.emit(gpu.View, buffer=buffer, shape=after, layout=other).result
    state.define(op.result, state.read(view, state.layout(op.result), name=op.result.name))


def _nothing(state: Lowering, value: Value) -> Value:
    """A part of a tile without elements: 0, or a tile that has none either, but room that nobody looks at."""
    zero = state.constant(fold_identity("add", value.dtype), value.dtype)
    return state.filled(zero, state.layout(value)) if value.shape else zero


def _true_shape(state: Lowering, shape: Shape) -> tuple[int, ...]:
    first = state.capacities.of(shape[0]) if shape else 1
    rest = tuple(dim if isinstance(dim, int) else state.capacities.of(dim) for dim in shape[1:])
    head = shape[0] if shape and isinstance(shape[0], int) else first
    assert isinstance(head, int)
    return (head, *rest) if shape else ()
