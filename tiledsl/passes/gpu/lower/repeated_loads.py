"""Lowers loads along quotients of coordinates: threads read each element once and have it in several slots.

    %at = tile.map([%coordinates, 2]) {fn = floordiv}
    %b = tile.load(%w, [%n, %at]) : tile<u8, [n, k]>
=>  %b = gpu.load(%w, [%n_start, %k_start // 2], ...) {axes = [0, 1], repeat = 2, vector = 16, ...}

Blocks begin at multiples of the divisor, so that quotients of the tile's own coordinates may be added to that of the
first. Where all of a block has one quotient, a tile of one axis less is loaded, and repeated.
"""

from __future__ import annotations

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.ir.types import AxisType, TensorType
from tiledsl.passes.analysis.quotients import Quotient, repeated
from tiledsl.passes.gpu.layouts.infer_layouts import tile_axes
from tiledsl.passes.gpu.lower.lowering import Lowering
from tiledsl.support.powers_of_two import power_of_two_in

WIDEST = 16


def load_repeated(state: Lowering, op: ops.Load, layout: RegisterLayout, row_bytes: int) -> Value | None:
    """The tile of a load in one layout; None where it does not go along a quotient, or blocks begin within one.
    `row_bytes`: what every row of the tensor starts at a multiple of."""
    quotient = repeated(op)
    if quotient is None or not isinstance(quotient.block.type, AxisType):
        return None
    length, first = _block_of(state, quotient)
    by = quotient.divisor
    if not length or not _divides(state, min(by, length) if by % length == 0 else by, first):
        return None
    start = state.arithmetic("floordiv", state.block(quotient.block).start, by)
    if by % length == 0:
        return _load_one(state, op, layout, start)
    if length % by:
        return None
    most = _most(state, op, layout, quotient, length, first, row_bytes)
    apart = _load_apart(state, op, layout, start, by, most)
    return _load_runs(state, op, layout, start, quotient, most) if apart is None else apart


def _block_of(state: Lowering, quotient: Quotient) -> tuple[int, Value | None]:
    """How long a block is, and where the first one begins (None: at 0); 0 where that is not known."""
    around = quotient.block.op_around
    match around:
        case ops.Grid():
            return around.blocks[around.body.arguments.index(quotient.block)].size, None
        case ops.Range():
            return around.blocks[0].size, around.start
        case _:
            return 0, None


def _divides(state: Lowering, divisor: int, first: Value | None) -> bool:
    return first is None or state.divides(divisor, first)


def _most(
    state: Lowering, op: ops.Load, layout: RegisterLayout, quotient: Quotient, length: int, first: Value | None,
    row_bytes: int,
) -> int:  # fmt: skip
    """How many slots one access fills: neighbours in a thread, whose elements are aligned, and all there or none."""
    assert isinstance(op.tensor.type, TensorType)
    axis = _axis(op)
    run = power_of_two_in(layout.vector(axis))
    by, bytes_ = quotient.divisor, op.tensor.type.dtype.bytes
    extent = state.extent(op.result.shape[axis])
    if extent is not None:
        run = min(run, state.extent_multiple(op.result.shape[axis]))
    while run > by:
        elements = run // by
        fits = elements * bytes_ <= min(WIDEST, row_bytes) and length % run == 0
        if fits and _divides(state, run, first):
            break
        run //= 2
    return run


def _axis(op: ops.Load) -> int:
    """The tile axis along which the quotient goes."""
    return next(axis for axis in range(len(op.result.shape)) if axis not in tile_axes(op))


def _load_runs(
    state: Lowering, op: ops.Load, layout: RegisterLayout, start: Value, quotient: Quotient, vector: int
) -> Value:
    axis = _axis(op)
    indices, axes = _subscripts(state, op, start)
    ragged = state.ragged(op.result.shape)
    return state.emit(
        gpu.Load, name=op.result.name, tensor=state.tensors[op.tensor], indices=indices,
        extents=[extent for _, extent in ragged], other=None if op.other is None else state.scalar(op.other),
        axes=tuple(axis if along is None else along for along in axes), masked=tuple(axis for axis, _ in ragged),
        checked=_checked(op), vector=vector, repeat=quotient.divisor, shape=layout.shape, layout=layout,
    ).result  # fmt: skip


def _load_apart(
    state: Lowering, op: ops.Load, layout: RegisterLayout, start: Value, by: int, vector: int
) -> Value | None:  # fmt: skip
    """Where threads have whole runs of what is one element, or parts of these: the tile as memory has it, an element
    for each part, and a view that repeats it, so that a loop may carry it as it came; None elsewhere."""
    axis = _axis(op)
    ragged, part = state.ragged(op.result.shape), by
    while (split := layout.split(axis, part)) is None and part % 2 == 0 and part > 2:
        part //= 2
    if split is None or (any(at == axis for at, _ in ragged) and state.extent_multiple(op.result.shape[axis]) % part):
        return None
    indices, axes = _subscripts(state, op, start)
    narrow = split.reduced([axis + 1])
    extents = [state.arithmetic("floordiv", extent, part) if at == axis else extent for at, extent in ragged]
    loaded = state.emit(
        gpu.Load, name=op.result.name, tensor=state.tensors[op.tensor], indices=indices, extents=extents,
        other=None if op.other is None else state.scalar(op.other),
        axes=tuple(axis if along is None else along for along in axes), masked=tuple(at for at, _ in ragged),
        checked=_checked(op), vector=max(1, vector // part), repeat=by // part, shape=narrow.shape, layout=narrow,
    ).result  # fmt: skip
    return repeated_along(state, loaded, layout, axis)


def repeated_along(state: Lowering, tile: Value, layout: RegisterLayout, axis: int) -> Value:
    """A tile whose elements are runs of neighbours along `axis`, as a view in the layout of all of these."""
    split = layout.split(axis, layout.shape[axis] // tile.layout.shape[axis])
    assert split is not None, "threads have whole runs"
    return state.reshaped(state.filled(state.reshaped(tile, tile.layout.expanded(axis + 1)), split), layout)


def _load_one(state: Lowering, op: ops.Load, layout: RegisterLayout, start: Value) -> Value:
    """All of the block reads one element of each row: these are loaded without the axis, and repeated along it."""
    axis = _axis(op)
    indices, axes = _subscripts(state, op, start)
    narrow = layout.reduced([axis])
    ragged = [(at, extent) for at, extent in state.ragged(op.result.shape) if at != axis]
    loaded = state.emit(
        gpu.Load, name=op.result.name, tensor=state.tensors[op.tensor], indices=indices,
        extents=[extent for _, extent in ragged], other=None if op.other is None else state.scalar(op.other),
        axes=tuple(-1 if along is None or along < 0 else along - (along > axis) for along in axes),
        masked=tuple(at - (at > axis) for at, _ in ragged), checked=_checked(op), shape=narrow.shape,
        layout=narrow if narrow.rank else None,
    ).result  # fmt: skip
    if not narrow.rank:
        return state.filled(loaded, layout)
    return state.filled(state.reshaped(loaded, narrow.expanded(axis)), layout)


def _subscripts(state: Lowering, op: ops.Load, start: Value) -> tuple[list[Value], list[int | None]]:
    """Where the tile begins along each axis of the tensor, and which of its own runs there; None for the quotient."""
    assert isinstance(op.tensor.type, TensorType)
    unit = op.tensor.type.unit
    indices = [start if axis == unit else state.start_of(index) for axis, index in enumerate(op.indices)]
    return indices, [None if axis == unit else along for axis, along in enumerate(tile_axes(op))]


def _checked(op: ops.Load) -> tuple[int, ...]:
    return tuple(axis for axis in range(len(op.indices)) if axis not in op.in_bounds)
