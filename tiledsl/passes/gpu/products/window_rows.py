"""Loads whose rows are positions of windows, one after the other: what TMA brings in its mode "im2col".

%image = floordiv(index(%i), 196)                     14 x 14 positions in each image
%row   = mod(floordiv(index(%i), 14), 14) + (%r - 1)  place %r of the window, which begins a pixel before the image
%column = mod(index(%i), 14) + (%s - 1)
tile.load(%x, [%image, %row, %column, %c])

Where several planes of images lie behind each other, a tile has the same rows of each:

%planes = broadcast(mul(arange(3), 32)) + broadcast(%image)          [3, i], of 32 images in each plane
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Index, Value
from tiledsl.ir.types import AxisType, TileType
from tiledsl.passes.analysis.scalars.scalar_limits import is_natural
from tiledsl.passes.analysis.splats import number_of


class Slide(NamedTuple):
    """Along one axis of pixels: how many `positions` there are, how far apart, and at which pixel the first window
    begins. `place`: the scalar that says what is read of a window, from pixel 0 of the image on; None for its first."""

    positions: int
    stride: int
    low: int
    place: Value | None


@dataclass(frozen=True)
class WindowRows:
    """`axis`: the block that counts positions. `pixels`: the tensor's axis of images, then those of pixels, the fastest
    last; `slides` along the latter. `channels`: the axis that lies beside. `image`: which one it is, where positions
    are counted in one alone. `apart`: how many images lie between a plane and the next one, where a tile has rows of
    several; else 0."""

    axis: Value
    image: Value | None
    pixels: tuple[int, ...]
    slides: tuple[Slide, ...]
    channels: int
    apart: int = 0


class _Digit(NamedTuple):
    """`row // divisor % modulus * stride + offset`, for each row of a block; `modulus` 0 for none."""

    axis: Value
    divisor: int
    modulus: int
    stride: int
    offset: Value | None
    low: int


def window_rows(load: ops.Load) -> WindowRows | None:
    """What a load reads of windows; None for one that does not count positions as TMA does."""
    found: dict[int, _Digit] = {}
    channels: list[int] = []
    images: dict[int, Value] = {}
    apart = 0
    for number, index in enumerate(load.indices):
        if isinstance(index, Value) and isinstance(index.type, TileType) and len(index.shape) == 2:
            planes = _planes(index)
            if planes is None or apart:
                return None
            index, apart = planes
        if isinstance(index, Value) and isinstance(index.type, AxisType):
            channels.append(number)
            continue
        if isinstance(index, Value) and isinstance(index.type, TileType) and not index.shape:
            images[number] = index
            continue
        digit = _digit(index)
        if digit is None:
            return None
        found[number] = digit
    order = sorted(found, key=lambda number: -found[number].divisor)
    if len(channels) != 1 or len(images) > 1 or not order or len({found[n].axis for n in order}) != 1:
        return None
    slid = [found[number] for number in (order if images else order[1:])]
    after = 1
    for digit in reversed(slid):
        if digit.divisor != after or not digit.modulus:
            return None
        after *= digit.modulus
    first = found[order[0]]
    counted = first.divisor == after and first.stride == 1 and not first.modulus and first.offset is None
    if not slid or not (images or counted):
        return None
    slides = tuple(Slide(d.modulus, d.stride, d.low, d.offset) for d in slid)
    image = next(iter(images.values()), None)
    return WindowRows(first.axis, image, (*images, *order), slides, channels[0], apart)


def _planes(index: Value) -> tuple[Value, int] | None:
    """The image of the first plane, for all rows of a block or for one row alone, and how many images there are between
    planes; None for other sums."""
    op = index.op
    if not (isinstance(op, ops.Map) and op.fn == "add"):
        return None
    left, right = (_spread(value) for value in op.inputs)
    for planes, image in ((left, right), (right, left)):
        number, apart = _beside_number(planes, "mul", 1)
        if isinstance(_spread(number).op, ops.Arange) and len(image.shape) < 2:
            return image, apart
    return None


def _spread(value: Value) -> Value:
    """What a tile repeats."""
    while isinstance(value.op, (ops.Broadcast, ops.Reshape)):
        value = value.op.source
    return value


def _digit(index: Index) -> _Digit | None:
    if not (isinstance(index, Value) and isinstance(index.type, TileType) and len(index.shape) == 1):
        return None
    value, offset = _beside_offset(index)
    value, stride = _beside_number(value, "mul", 1)
    value, modulus = _beside_number(value, "mod", 0)
    value, divisor = _beside_number(value, "floordiv", 1)
    if not isinstance(value.op, ops.Coordinates) or min(stride, divisor) < 1 or modulus < 0:
        return None
    low = 0 if offset is None else _low(offset)
    return None if low is None else _Digit(value.op.axis, divisor, modulus, stride, offset, low)


def _beside_offset(value: Value) -> tuple[Value, Value | None]:
    """The tile and the scalar of a sum of both; the value itself where it is none."""
    op = value.op
    if isinstance(op, ops.Map) and op.fn == "add":
        left, right = op.inputs
        for tile, scalar in ((left, right), (right, left)):
            if tile.shape and not scalar.shape:
                return tile, scalar
    return value, None


def _beside_number(value: Value, fn: str, otherwise: int) -> tuple[Value, int]:
    """The tile and the number of a map of both; the value itself where it is none."""
    op = value.op
    if isinstance(op, ops.Map) and op.fn == fn:
        left, right = op.inputs
        pairs = ((left, right), (right, left)) if fn == "mul" else ((left, right),)
        for tile, scalar in pairs:
            number = number_of(scalar)
            if tile.shape and isinstance(number, int):
                return tile, number
    return value, otherwise


def _low(offset: Value) -> int | None:
    """The least that a scalar is: what is not a number in its sum is not less than 0."""
    number = number_of(offset)
    if isinstance(number, int):
        return number
    op = offset.op
    if isinstance(op, ops.Map) and op.fn in ("add", "sub"):
        left, right = _low(op.inputs[0]), _low(op.inputs[1])
        if op.fn == "sub":
            right = number_of(op.inputs[1])
            if not isinstance(right, int):
                return 0 if is_natural(offset) else None
            right = -right
        return None if left is None or right is None else left + right
    return 0 if is_natural(offset) else None
