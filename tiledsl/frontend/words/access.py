"""Subscripts of tensors: which part of a tensor they select, and the loads and stores of it."""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.frontend.words.lowering import Lowering
from tiledsl.frontend.words.values import (
    Access,
    AxisBlock,
    Coordinate,
    Operand,
    SliceText,
    Static,
    Subscript,
    Tensor,
    TensorAxis,
    Tile,
    size_of,
)
from tiledsl.ir import tile_ops
from tiledsl.ir.core import Index, Value
from tiledsl.ir.symbolic import Dim, ceildiv
from tiledsl.ir.type_rules import broadcast_shapes, indexed_shape
from tiledsl.ir.types import WHOLE, Level, Shape, Slice, TensorType, TileType, format_shape
from tiledsl.support.errors import Label, fail
from tiledsl.support.location import Location


def tensor_type(tensor: Tensor) -> TensorType:
    """The type of the whole tensor, axes in its own order, not in the view's."""
    assert isinstance(tensor.value.type, TensorType)
    return tensor.value.type


def view_shape(tensor: Tensor) -> Shape:
    """The shape of the view."""
    shape = tensor_type(tensor).shape
    return tuple(shape[axis] for axis in tensor.permutation)


def expand_subscripts(
    subscripts: Sequence[Subscript], rank: int, name: str, location: Location
) -> list[Subscript | None]:
    """One entry per axis, None where a new axis goes: `...` and missing entries become `:`."""
    given = [s for s in subscripts if not _is_static(s, None) and not _is_static(s, ...)]
    missing = rank - len(given)
    if missing < 0:
        fail("subscript-count", location, name=name, rank=rank, count=len(given))
    ellipses = [s for s in subscripts if _is_static(s, ...)]
    if len(ellipses) > 1:
        fail("subscript-ellipsis", location)
    rest: list[Subscript | None] = [SliceText(None, None, location)] * missing
    entries: list[Subscript | None] = []
    for subscript in subscripts:
        if _is_static(subscript, ...):
            entries += rest
        else:
            entries.append(None if _is_static(subscript, None) else subscript)
    return entries if ellipses else entries + rest


def _is_static(subscript: Subscript, value: object) -> bool:
    return isinstance(subscript, Operand) and isinstance(subscript.value, Static) and subscript.value.value is value


def select(low: Lowering, tensor: Tensor, subscripts: Sequence[Subscript]) -> Access:
    """The part of a tensor that subscripts select. Raises TileShapeError and TileTypeError where they do not fit."""
    entries = expand_subscripts(subscripts, len(tensor.permutation), tensor.name, low.location)
    indices: list[Index] = [WHOLE] * len(tensor.permutation)
    written: list[object] = []  # what each axis of the result is, in the order of the subscript
    seen: list[AxisBlock] = []
    axes = iter(tensor.permutation)
    for entry in entries:
        if entry is None:
            written.append(None)
            continue
        axis = next(axes)
        if isinstance(entry, Operand) and isinstance(entry.value, AxisBlock):
            if any(entry.value.value is other.value for other in seen):
                low.fail_at(entry, "axis-used-twice", name=tensor.name)
            seen.append(entry.value)
        index = _index(low, tensor, axis, entry)
        indices[axis] = index
        if is_gather(index):
            written += [] if "gathered" in written else ["gathered"]
        elif keeps_axis(index):
            written.append(axis)
    stepped = [entry for entry in entries if isinstance(entry, SliceText) and entry.step != 1]
    if stepped and sum(map(is_gather, indices)) > 1:
        fail("slice-step-gather", stepped[0].location, name=tensor.name)
    rank = _gathered_rank(low, tensor, indices)
    gathered = [("gathered", i) for i in range(rank)]
    result = [part for item in written for part in (gathered if item == "gathered" else [item])]
    stored: list[object] = []
    for axis, index in enumerate(indices):
        if is_gather(index):
            stored += [] if gathered[0] in stored else gathered
        elif keeps_axis(index):
            stored.append(axis)
    permutation = tuple(stored.index(item) for item in result if item is not None)
    new_axes = tuple(position for position, item in enumerate(result) if item is None)
    return Access(tensor, tuple(indices), permutation, new_axes)


def keeps_axis(index: Index) -> bool:
    """Whether a subscript leaves its axis in the result (a scalar drops it)."""
    return not isinstance(index, Value) or not isinstance(index.type, TileType) or bool(index.type.shape)


def is_gather(index: Index) -> bool:
    """Whether a subscript is an int tile."""
    return isinstance(index, Value) and isinstance(index.type, TileType) and bool(index.type.shape)


def _gathered_rank(low: Lowering, tensor: Tensor, indices: Sequence[Index]) -> int:
    shape: Shape | None = ()
    for index in indices:
        if isinstance(index, Value) and isinstance(index.type, TileType):
            before, shape = shape, broadcast_shapes(shape, index.type.shape)
            if shape is None:
                first, second = format_shape(before), format_shape(index.type.shape)
                low.fail("gather-shapes", name=tensor.name, first=first, second=second)
    return len(shape)


def _index(low: Lowering, tensor: Tensor, axis: int, entry: Subscript) -> Index:
    """The IR subscript for one axis of a tensor."""
    dim = tensor_type(tensor).shape[axis]
    if isinstance(entry, SliceText):
        return (slice_index if entry.step == 1 else _stepped_index)(low, entry, dim, tensor.name)
    match entry.value:
        case AxisBlock(value=value, stop=stop, name=name) | Coordinate(value=value, stop=stop, name=name):
            if stop is None and isinstance(entry.value, AxisBlock) and not entry.value.is_shifted:
                stop = low.sizes_of_blocks.setdefault(value, tensor_type(tensor).shape[axis])
            if stop is not None:
                settle_size(low, tensor, axis, stop, name)
            return value
        case Tile(value=value):
            if not value.dtype.is_integer:
                low.fail_at(entry, "subscript-dtype", dtype=value.dtype, name=tensor.name)
            return value
        case _:
            return low.integer(coordinate(low, entry, dim, tensor.name))


def coordinate(low: Lowering, entry: Operand, dim: Dim, name: str) -> Dim:
    """A compile-time coordinate, or a size, in an axis of `dim`. A negative literal counts from the end.

    One that is computed means what it would mean at run time: below 0 it lies outside.
    """
    size = size_of(entry.value)
    if size is None:
        low.fail_at(entry, "subscript-kind", name=name)
    size = low.sizes.resolve(size)
    if isinstance(size, int) and entry.is_literal:
        if isinstance(dim, int) and not -dim <= size < dim:
            low.fail_at(entry, "subscript-range", name=name, dim=dim)
        size = dim + size if size < 0 else size
    return size


def slice_index(low: Lowering, entry: SliceText, dim: Dim, name: str) -> Index:
    """`start:stop` of an axis of `dim`. Bounds are sizes; negative literals count from the end."""
    if entry.start is None and entry.stop is None:
        return WHOLE
    start, stop = _bounds(low, entry, dim, name, (0, dim))
    extent = stop - start
    if isinstance(extent, int) and extent < 0:
        fail("slice-range", entry.location, name=name, start=start, stop=stop, dim=dim)
    for bound, position in ((entry.start, start), (entry.stop, stop)):
        outside = isinstance(dim, int) and isinstance(position, int) and not 0 <= position <= dim
        if bound is not None and bound.is_literal and outside:
            fail("slice-range", entry.location, name=name, start=start, stop=stop, dim=dim)
    return Slice(start, stop)


def _bounds(low: Lowering, entry: SliceText, dim: Dim, name: str, defaults: tuple[Dim, Dim]) -> tuple[Dim, Dim]:
    """Where a slice starts and stops. Raises TileTypeError for what is no size."""
    bounds: list[Dim] = []
    for bound, default in zip((entry.start, entry.stop), defaults):
        size = default if bound is None else size_of(bound.value)
        if size is None:
            assert bound is not None
            low.fail_at(bound, "slice-bound", name=name)
        size = low.sizes.resolve(size)
        from_end = bound is not None and bound.is_literal and isinstance(size, int) and size < 0
        bounds.append(dim + size if from_end else size)
    return bounds[0], bounds[1]


def _stepped_index(low: Lowering, entry: SliceText, dim: Dim, name: str) -> Index:
    """`start:stop:step` as an int tile of the coordinates. What lies outside of the axis reads as any coordinate does.

    # x[::-1] is x[N - 1 - arange(N)]
    """
    low.require_in_grid(f"a slice of `{name}` with a step")
    step = entry.step
    start, stop = _bounds(low, entry, dim, name, (0, dim) if step > 0 else (dim - 1, -1))
    extent = ceildiv(stop - start, step) if step > 0 else ceildiv(start - stop, -step)
    if isinstance(extent, int) and extent < 0:
        fail("slice-range", entry.location, name=name, start=start, stop=stop, dim=dim)
    index = low.builder.emit(tile_ops.Arange, extent=extent).result
    for fn, number in (("mul", step), ("add", start)):
        if number != (1 if fn == "mul" else 0):
            index = low.builder.map(fn, index, low.builder.broadcast(low.integer(number), index.shape))
    return index


def settle_size(low: Lowering, tensor: Tensor, axis: int, stop: Dim, block: str) -> None:
    """A block that runs to `stop` subscripts an axis: unless the kernel has named the axis's size, the two are equal.

    So a wrong array is an error at the call, and not a kernel that quietly reads zeros. The first axis that a block
    with a run-time bound subscripts says what the bound belongs to.
    """
    key = TensorAxis(tensor.name if tensor.is_parameter else None, axis)
    if low.sizes.is_named(key):
        return
    dim, stop = low.sizes.resolve(tensor_type(tensor).shape[axis]), low.sizes.resolve(stop)
    known = isinstance(dim, int) or isinstance(stop, int)
    if not (low.sizes.unify(stop, dim) or (known and low.sizes.equate(stop, dim))):
        origins = [o for o in low.sizes.origins if (o.parameter, o.axis) == (key.parameter, key.axis)]
        labels = [Label(o.location, f"axis {axis} of `{tensor.name}` is taken to be {dim}") for o in origins[:1]]
        low.fail("block-other-axis", labels=labels, name=tensor.name, axis=axis, dim=dim, block=block, stop=stop)
    low.sizes.record(key, stop, low.location, block)


def selected_shape(low: Lowering, access: Access) -> Shape:
    """The shape of what an access selects, as it was written."""
    stored = indexed_shape(tensor_type(access.tensor).shape, resolved_indices(low, access))
    shape: list[Dim] = [stored[i] for i in access.permutation]
    for position in access.new_axes:
        shape.insert(position, 1)
    return tuple(shape)


def resolved_indices(low: Lowering, access: Access) -> tuple[Index, ...]:
    """The IR subscripts with sizes as they read now."""
    return tuple(
        Slice(low.sizes.resolve(i.start), low.sizes.resolve(i.stop)) if isinstance(i, Slice) else i
        for i in access.indices
    )


def emit_load(low: Lowering, access: Access, other: Value | None = None, level: Level | None = None) -> Value:
    """Reads what an access selects."""
    if low.grid is None:
        low.fail("load-outside-grid", name=access.tensor.name)
    type_ = tensor_type(access.tensor)
    low.require_supported(type_.dtype)
    indices = resolved_indices(low, access)
    result = TileType(type_.dtype, indexed_shape(type_.shape, indices), level)
    value = low.builder.emit(
        tile_ops.Load, types=[result], tensor=access.tensor.value, indices=indices, other=other
    ).result
    return to_written_order(low, access, value)


def to_written_order(low: Lowering, access: Access, value: Value) -> Value:
    """A tile as the IR's load gives it, in the order of axes that the user wrote."""
    if access.permutation != tuple(range(len(access.permutation))):
        value = low.builder.emit(tile_ops.Transpose, source=value, permutation=access.permutation).result
    if access.new_axes:
        value = low.builder.emit(tile_ops.Reshape, source=value, shape=selected_shape(low, access)).result
    return value


def to_stored_order(low: Lowering, access: Access, value: Value) -> Value:
    """A tile of an access's written shape, in the order of axes that the IR's store takes."""
    if access.new_axes:
        kept = tuple(d for i, d in enumerate(value.shape) if i not in access.new_axes)
        value = low.builder.emit(tile_ops.Reshape, source=value, shape=kept).result
    if access.permutation != tuple(range(len(access.permutation))):
        inverse = tuple(access.permutation.index(i) for i in range(len(access.permutation)))
        value = low.builder.emit(tile_ops.Transpose, source=value, permutation=inverse).result
    return value
