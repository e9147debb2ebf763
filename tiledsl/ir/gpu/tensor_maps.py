"""What `gpu.tma_load` and `gpu.tma_store` ask of TMA: a tensor map, and the boxes that one instruction each copies.

An instruction copies a box of a tensor to one piece of shared memory: the axis of unit stride fastest, then the others
in the order of the map's axes, and XORs the swizzle into the absolute address. So a tile is cut where the buffer does
not go on like that: by panels, and where an axis of a box would be longer than 256.

That the tensor's address and its strides are multiples of 16 bytes is what a launch checks. Along its unit axis a box
begins at a multiple of 16 bytes too, or TMA raises an illegal instruction: as observed on an H100, for loads of boxes
that began at odd elements of rows, and as others found (https://github.com/triton-lang/triton/issues/7385); the PTX
manual does not say it. Along other axes it may begin anywhere, in front of the tensor too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import prod

from tiledsl.ir.dtypes import DType
from tiledsl.ir.gpu.async_ops import TmaLoad, TmaStore, TmaWindows
from tiledsl.ir.gpu.matrix_descriptors import span_of
from tiledsl.ir.layouts.buffer_layout import SharedLayout
from tiledsl.ir.types import TensorType, TileType

MOST_AXES = 5
"""Of a tensor that TMA copies."""
MOST_ELEMENTS = 256
"""Of a box along an axis."""
UNIT_BYTES = 16
"""Of a tensor's address and strides, of a box's rows, and of where these begin, each a multiple."""
LEAST_PLACE, MOST_PLACE = -(1 << 31), (1 << 31) - 1
"""Between which boxes begin, along each axis."""
LINE_BYTES = 128
"""Of L2: a row of a box that starts within a line is asked for twice."""
ALIGNMENT = 128
"""Of what is copied in shared memory without a swizzle; swizzles ask for more."""


@dataclass(frozen=True)
class Windows:
    """Where windows begin along each axis of pixels, the fastest first: `positions` of them, `strides` apart, from
    pixel `lows` on."""

    positions: tuple[int, ...]
    strides: tuple[int, ...]
    lows: tuple[int, ...]


@dataclass(frozen=True)
class TensorMap:
    """`axes`: those of the tensor, that of unit stride first. `box`: how long a box is along each, 1 where it is not.

    `swizzle`: its span in bytes, 0 for none. `windows`: of a box that is pixels of windows; then its second axis counts
    positions.
    """

    dtype: DType
    axes: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    windows: Windows | None = None


MOST_PIXELS = 1024
"""Of a box of windows."""
CORNERS = {3: 1 << 15, 4: 1 << 7, 5: 1 << 4}
"""Where the first and the last window may begin, by the rank of the tensor: from so many pixels before the image, or
its end, to one less behind."""
PLACES = {3: 1 << 16, 4: 1 << 8, 5: 1 << 5}
"""How far into a window a place may lie, by the rank of the tensor: less than so many pixels."""
MOST_STRIDE = 8
"""Of windows."""


def last_corner(size: int, positions: int, stride: int, low: int) -> int:
    """Where the last window along an axis of pixels begins, from the last pixel on."""
    return low + (positions - 1) * stride - (size - 1)


def elements_of_unit(dtype: DType) -> int:
    """At multiples of how many elements boxes begin along the unit axis of a tensor: 8 of f16."""
    return max(1, UNIT_BYTES // dtype.bytes)


def box_alignment(buffer: TileType) -> int:
    """At multiples of how many bytes boxes begin in a buffer."""
    layout = buffer.layout
    assert isinstance(layout, SharedLayout)
    return layout.alignment if span_of(layout.swizzle) else ALIGNMENT


@dataclass(frozen=True)
class Box:
    """What one instruction copies: from `start` along the axes of the tile, to `offset` from its place in the buffer.

    The offset is in bytes, before the swizzle.
    """

    start: tuple[int, ...]
    offset: int


@dataclass(frozen=True)
class Part:
    """The run of one axis of the tile that each block of a cluster copies: block b from `b * size` on.

    In the buffer it begins `offset` bytes after that of the block before: 0 if each block has only its own part.
    """

    axis: int
    size: int
    offset: int


def tensor_map_of(op: TmaLoad | TmaStore, cluster: int) -> TensorMap:
    """The map of all instructions that the op becomes. Raises ValueError, in words that follow the op's name."""
    return _plan_of(op, cluster).map


def boxes_of(op: TmaLoad | TmaStore, cluster: int, block: int = 0) -> tuple[Box, ...]:
    """The instructions that the op becomes in one block of a cluster. Raises ValueError as `tensor_map_of`."""
    plan = _plan_of(op, cluster)
    if plan.part is None or not block:
        return plan.boxes
    part = plan.part
    along = [block * part.size if axis == part.axis else 0 for axis in range(len(op.shape))]
    return tuple(
        Box(tuple(a + b for a, b in zip(box.start, along)), box.offset + block * part.offset) for box in plan.boxes
    )


def part_of(op: TmaLoad | TmaStore, cluster: int) -> Part | None:
    """What of the tile each block of a cluster copies; None if all of it. Raises ValueError as `tensor_map_of`."""
    return _plan_of(op, cluster).part


def bytes_of(op: TmaLoad | TmaStore, cluster: int) -> int:
    """How many bytes come into (or go from) the buffer of each block. Raises ValueError as `tensor_map_of`."""
    plan = _plan_of(op, cluster)
    total = prod(op.shape) * plan.map.dtype.bytes
    return total // cluster if plan.part is not None and not plan.part.offset else total


@dataclass(frozen=True)
class _Plan:
    map: TensorMap
    boxes: tuple[Box, ...]
    part: Part | None


def _plan_of(op: TmaLoad | TmaStore, cluster: int) -> _Plan:
    tensor, multicast = op.tensor.type, isinstance(op, TmaLoad) and op.multicast
    assert isinstance(tensor, TensorType)
    if isinstance(op, TmaWindows):
        return _windows_plan(op, tensor, cluster)
    return _plan(tensor, op.buffer.tile, op.axes, op.places, op.shape, cluster, multicast)


def _windows_plan(op: TmaWindows, tensor: TensorType, cluster: int) -> _Plan:
    """One instruction for each panel of channels: positions are not found by counting along one axis."""
    rank = len(tensor.shape)
    if cluster > 1:
        raise ValueError(f"copies windows in a cluster of {cluster}")
    if tensor.unit is None or tensor.unit in op.pixels:
        raise ValueError("copies windows of an image whose channels do not lie side by side")
    plan = _plan(tensor, op.buffer.tile, op.axes, op.places, op.shape, cluster, False, MOST_PIXELS)
    if any(box.start[0] for box in plan.boxes):
        raise ValueError(f"copies {op.shape[0]} positions, of which {MOST_PIXELS} fit a box, one after the other")
    if not all(0 < stride <= MOST_STRIDE for stride in op.strides):
        raise ValueError(f"has windows {list(op.strides)} apart, of which TMA knows {MOST_STRIDE}")
    if not all(-CORNERS[rank] <= low < CORNERS[rank] for low in op.lows):
        raise ValueError(f"has windows that begin {list(op.lows)} from the image, where TMA knows {CORNERS[rank]}")
    windows = Windows(op.positions[::-1], op.strides[::-1], op.lows[::-1])
    axes = (tensor.unit, *reversed(op.pixels))
    return replace(plan, map=replace(plan.map, axes=axes, windows=windows))


@lru_cache(maxsize=1024)
def _plan(
    tensor: TensorType,
    buffer: TileType,
    axes: tuple[int, ...],
    places: tuple[int, ...],
    shape: tuple[int, ...],
    cluster: int,
    multicast: bool,
    most: int = MOST_ELEMENTS,
) -> _Plan:
    layout, width = buffer.layout, tensor.dtype.bytes
    assert isinstance(layout, SharedLayout)
    sizes = tuple(dim for dim in buffer.shape if isinstance(dim, int))
    span = _check_tensor(tensor, layout, sizes)
    order = [places.index(axis) for axis in reversed(layout.order) if axis in places]
    if not order or tensor.unit is None or axes[tensor.unit] != order[0] or places[order[0]] != layout.order[-1]:
        raise ValueError("does not run along the fastest axis of its buffer where it runs along the tensor's unit axis")
    part, mine = _part(layout, sizes, places, shape, width, cluster, multicast)
    alignment = box_alignment(buffer)
    lengths = _box(layout, sizes, places, mine, width, alignment, most)
    inner = lengths[order[0]] * width
    if inner % UNIT_BYTES:
        raise ValueError(f"copies rows of {inner} bytes at a time, which must be a multiple of {UNIT_BYTES}")
    if span and inner != span:  # of narrower rows each takes the whole span in memory
        raise ValueError(f"copies rows of {inner} bytes at a time, which must be the {span} of its swizzle")
    boxes: list[Box] = []
    for start in product(*(range(0, size, length) for size, length in zip(mine, lengths))):
        boxes.append(Box(start, _linear(layout, sizes, places, start) * width))
    steps = [box.offset for box in boxes] + ([] if part is None else [part.offset])
    steps += _beginnings(layout, sizes, places, mine, width)
    if any(step % alignment for step in steps):
        raise ValueError(f"copies to places in {layout} that are no multiples of {alignment} bytes")
    running = [axes.index(axis) for axis in order]
    others = [axis for axis in reversed(range(len(axes))) if axes[axis] < 0]
    box = (*(lengths[axis] for axis in order), *(1 for _ in others))
    return _Plan(TensorMap(tensor.dtype, (*running, *others), box, span), tuple(boxes), part)


def _check_tensor(tensor: TensorType, layout: SharedLayout, sizes: tuple[int, ...]) -> int:
    """What TMA cannot copy at all; gives the span of the swizzle."""
    if len(tensor.shape) > MOST_AXES:
        raise ValueError(f"copies of a tensor of {len(tensor.shape)} axes, of which TMA knows {MOST_AXES}")
    if tensor.unit is None:
        raise ValueError("copies of a tensor of which no axis is known to have unit stride")
    if tensor.dtype.bits < 8:
        raise ValueError(f"copies {tensor.dtype}, which is less than a byte")
    if layout.padding:
        raise ValueError(f"copies to a padded buffer in {layout}")
    span = span_of(layout.swizzle)
    if span is None:
        raise ValueError(f"has the swizzle {layout.swizzle}, which TMA does not know")
    if layout.panel and sizes[layout.order[-1]] % layout.panel:
        raise ValueError(f"copies to a buffer whose panels of {layout.panel} are not whole")
    return span


def _part(
    layout: SharedLayout,
    sizes: tuple[int, ...],
    places: tuple[int, ...],
    shape: tuple[int, ...],
    width: int,
    cluster: int,
    multicast: bool,
) -> tuple[Part | None, tuple[int, ...]]:
    """What each block copies of the tile, and the shape of that."""
    longer = [axis for axis, place in enumerate(places) if shape[axis] > sizes[place]]
    part: Part | None = None
    if longer:
        axis = longer[0]
        if len(longer) > 1 or shape[axis] != sizes[places[axis]] * cluster:
            raise ValueError(f"copies {list(shape)} to a buffer of {list(sizes)}")
        if multicast:
            raise ValueError("sends all of it to all blocks, but its buffer holds a part")
        part = Part(axis, sizes[places[axis]], 0)
    elif multicast and cluster > 1:
        if shape[0] % cluster:
            raise ValueError(f"sends {shape[0]} along its first axis in parts by {cluster} blocks")
        size = shape[0] // cluster
        start = [size, *[0] * (len(shape) - 1)]
        part = Part(0, size, _linear(layout, sizes, places, start) * width)
    if part is None:
        return None, shape
    return part, tuple(part.size if axis == part.axis else size for axis, size in enumerate(shape))


def _linear(layout: SharedLayout, sizes: tuple[int, ...], places: Sequence[int], start: Sequence[int]) -> int:
    """Where a coordinate of the tile is in the buffer, in elements."""
    coordinates = [0] * len(sizes)
    for place, value in zip(places, start):
        coordinates[place] = value
    return int(layout.linear(sizes, coordinates))


def _box(
    layout: SharedLayout,
    sizes: tuple[int, ...],
    places: tuple[int, ...],
    mine: tuple[int, ...],
    width: int,
    alignment: int,
    most: int,
) -> list[int]:
    """How long a box is along each axis of the tile: as long as it lies in one piece in the buffer."""
    lengths = [1] * len(mine)
    strides = layout.strides(sizes)
    whole = True  # what is faster is all of the buffer, so that the next axis goes on where it ends
    for position, place in enumerate(reversed(layout.order)):
        limit = layout.panel if position == 0 and layout.panel else sizes[place]
        axis = places.index(place) if place in places else None
        if whole and axis is not None:
            lengths[axis] = length = min(mine[axis], limit)
            if mine[axis] % length:
                raise ValueError(f"copies {mine[axis]} elements to panels of {limit}")
            if length > most:
                lengths[axis] = _longest(length, strides[place] * width, alignment)
        whole = whole and limit == (1 if axis is None else lengths[axis])
        if position == 1 and layout.panel:
            whole = whole and sizes[layout.order[-1]] == layout.panel
    return lengths


def _longest(size: int, step: int, alignment: int) -> int:
    """The longest divisor of `size` that a box can have, and after which the next one is aligned if that can be."""
    fits = [length for length in range(1, MOST_ELEMENTS + 1) if size % length == 0]
    return max([length for length in fits if length * step % alignment == 0] or fits)


def _beginnings(
    layout: SharedLayout, sizes: tuple[int, ...], places: tuple[int, ...], mine: tuple[int, ...], width: int
) -> list[int]:
    """How far apart tiles begin in the buffer, in bytes: at any place of other axes, at multiples of its size."""
    strides = layout.strides(sizes)
    apart = [strides[axis] for axis in range(len(sizes)) if axis not in places and sizes[axis] > 1]
    for axis, place in enumerate(places):
        if mine[axis] != sizes[place]:
            start = [mine[axis] if other == axis else 0 for other in range(len(mine))]
            apart.append(_linear(layout, sizes, places, start))
    return [step * width for step in apart]
