"""What accesses of tensors and of buffers have to be, for the declarations of GPU ops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiledsl.ir.layouts.buffer_layout import SharedLayout
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.ir.type_rules import require, require_scalar_integer, tensor_type, tile_type
from tiledsl.ir.types import TensorType, TileType, format_shape, scalar

if TYPE_CHECKING:
    from tiledsl.ir.gpu.gpu_ops import Atomic, Copy, Load, Read, Store, Write


def check_access(op: Load | Store | Atomic | Copy, shape: tuple[int, ...], rank: int) -> None:
    """Subscripts and extents of an access of a tensor by a tile of `shape` fit."""
    tensor: TensorType = tensor_type(op.tensor)
    require(len(op.indices) == len(op.axes) == len(tensor.shape), "one subscript and one tile axis per tensor axis")
    require(len(op.extents) == len(op.masked), "one extent per masked axis")
    require(all(0 <= axis < rank for axis in op.masked), "a masked axis is none of the tile's")
    for index, axis in zip(op.indices, op.axes):
        type_ = tile_type(index)
        require(type_.dtype.is_integer, f"subscript %{index.name} must be of integers, not {type_.dtype}")
        require(-1 <= axis < rank, f"tile axis {axis} of rank {rank}")
        require(
            not type_.shape or (axis == -1 and type_.shape == shape), "a subscript is a scalar or has the tile's shape"
        )
    for extent in op.extents:
        require_scalar_integer(extent)


def check_flat(op: Load | Store, rank: int) -> None:
    """What goes on from row to row is a run along the last axis of its tensor."""
    if op.flat:
        plain = op.axes[-1] == rank - 1 and all(not index.shape for index in op.indices)
        require(plain and not op.checked, "the last axis of a flat tile runs along the last axis of its tensor")


def check_steps(op: Load) -> None:
    """Runs that are read for the sake of some elements are whole pieces of 16 bytes."""
    if op.step > 1:
        run = op.step * op.vector * tensor_type(op.tensor).dtype.bytes
        plain = not op.ragged and not op.checked and op.axes[-1] >= 0
        require(plain and run % 16 == 0 and 0 <= op.phase < op.step, "steps are those of whole vectors along an axis")


def check_repeats(op: Load) -> None:
    """Elements that several slots share go along one axis of the tile, and fill whole vectors."""
    if op.repeat > 1:
        unit = tensor_type(op.tensor).unit
        plain = not op.ragged and not op.flat and op.step == 1 and unit is not None and unit not in op.checked
        fills = op.vector % op.repeat == 0 or op.repeat % op.vector == 0
        require(plain and fills and unit is not None and op.axes[unit] >= 0, "repeated elements fill whole vectors")


def register_type(tensor: TensorType, shape: tuple[int, ...], layout: object) -> TileType:
    if not shape:
        return scalar(tensor.dtype)
    require(isinstance(layout, RegisterLayout) and layout.shape == shape, f"the layout is not one of {list(shape)}")
    assert isinstance(layout, RegisterLayout)
    return TileType(tensor.dtype, shape, "register", layout)


def static_shape(type_: TileType) -> tuple[int, ...]:
    sizes = tuple(dim for dim in type_.shape if isinstance(dim, int))
    require(len(sizes) == len(type_.shape), f"{format_shape(type_.shape)} is not known")
    return sizes


def buffer_type(value: object) -> TileType:
    type_ = tile_type(value)  # pyright: ignore[reportArgumentType]
    require(type_.level == "shared" and isinstance(type_.layout, SharedLayout), "must be a buffer in shared memory")
    return type_


def check_places(op: Copy | Read | Write, buffer: object, rank: int) -> None:
    shape = buffer_type(buffer).shape
    require(len(op.offsets) == len(shape), "one offset per axis of the buffer")
    require(len(op.places) == rank, "one buffer axis per axis of the tile")
    require(len(set(op.places)) == rank, "two axes of the tile run along one of the buffer")
    require(all(0 <= place < len(shape) for place in op.places), "an axis that the buffer does not have")
    for offset in op.offsets:
        require_scalar_integer(offset)


def layout_in_buffer(layout: RegisterLayout, places: tuple[int, ...], buffer: TileType, cluster: int) -> RegisterLayout:
    """The layout by whose coordinates a tile in `layout` is found in a buffer.

    Buffers belong to blocks. Where one is `cluster` times shorter than the tile along an axis, each block has its own
    run of that axis there.
    """
    shorter = any(size == buffer.shape[place] * cluster for size, place in zip(layout.shape, places))
    return layout.part_of_block(cluster) if cluster > 1 and shorter else layout
