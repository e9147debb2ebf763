"""Tensors of other sizes, by interpolation between their elements.

Each element of the result is a sum of some elements of an axis. Which, and their weights, are tables that are made once
for the sizes at hand, in f64; axes go one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, cast

import numpy as np

from tiledsl import tile
from tiledsl.frontend.trace.trace_shapes import entries_of
from tiledsl.ops.checks import as_tensor, axis_of, refuse_option, widened
from tiledsl.ops.images.axes import per_axis
from tiledsl.ops.images.pooling import adaptive_avg_pool
from tiledsl.ops.indexing import axis_option

Table = Any
"""An array of NumPy."""

MODES = ("nearest", "linear", "cubic")
COORDINATES = (
    "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric", "tf_crop_and_resize",
    "tf_half_pixel_for_nn",
)  # fmt: skip
ROUNDINGS: dict[str, Callable[[Table], Table]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5), "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor, "ceil": np.ceil,
}  # fmt: skip
MOST_DENOMINATOR = 4096
"""Of the fraction that a scale is taken for."""
MOST_TAPS = 8
"""More elements than these are summed by a fold."""


@tile.kernel
def resize(
    x: Any,
    sizes: Any = None,
    scales: Any = None,
    axes: Any = None,
    mode: str = "nearest",
    *,
    coordinates: str = "half_pixel",
    rounding: str = "round_prefer_floor",
    cubic: float = -0.75,
    antialias: bool = False,
    exclude_outside: bool = False,
    parts: Any = None,
    outside: float | None = None,
) -> Any:
    """`x` with other sizes along some axes (default all), as ONNX's `Resize`.

    `sizes` are those of the axes, or `scales` how many elements become of one (sizes are rounded down; with both, the
    scales say where elements lie). `mode` is "nearest", with `rounding` "round_prefer_floor", "round_prefer_ceil",
    "floor" or "ceil"; "linear"; or "cubic", with the parameter `cubic`. `coordinates` is where element i lies in `x`:
    "half_pixel" (i + 0.5) / scale - 0.5, "asymmetric" i / scale, "align_corners" first and last onto each other,
    "tf_half_pixel_for_nn" (i + 0.5) / scale, "pytorch_half_pixel", "half_pixel_symmetric" or "tf_crop_and_resize" (with
    `parts`, a pair of shares for each axis, and the number `outside` for what lies beyond) as ONNX has them. Beyond the
    ends are the elements there, or with `exclude_outside` nothing. `antialias`: where the result is smaller, elements
    are means of as many more. In f32 for narrow floats; integers are rounded. Sizes are known, but for axes of scale
    1. Raises TileTypeError for other arguments.
    """
    name = "ops.resize"
    x = as_tensor(x)
    for parameter, value, choices in (
        ("mode", mode, MODES), ("coordinates", coordinates, COORDINATES), ("rounding", rounding, tuple(ROUNDINGS)),
    ):  # fmt: skip
        axis_option(name, parameter, value, choices)
    at = tuple(range(x.ndim)) if axes is None else tuple(axis_of(name, x, axis) for axis in entries_of(axes))
    given = entries_of(scales) if scales is not None else (None,) * len(at)
    shares = ((0.0, 1.0),) * len(at) if parts is None else entries_of(parts)
    if sizes is None and len(given) == len(shares) == len(at):
        left = [entry for entry in zip(at, given, shares) if not _stays(coordinates, entry[1], *entry[2])]
        at, given, shares = cast("Any", zip(*left)) if left else ((), (), ())
    wanted = _sizes(name, x, at, sizes, None if scales is None else given)
    y = x if mode == "nearest" else widened(x)
    beyond: Any = None
    for axis, size, scale, (start, stop) in zip(at, wanted, given, shares):
        length = x.shape[axis]
        ratio = size / length if scale is None else float(scale)
        extent = size if scale is None else ratio * length
        if size == length and _stays(coordinates, ratio, start, stop):
            continue
        place = _places(coordinates, size, length, ratio, extent, start, stop)
        if outside is not None:
            missed = ((place < 0) | (place > length - 1)).reshape(tuple(-1 if j == axis else 1 for j in range(x.ndim)))
            beyond = missed if beyond is None else beyond | missed
        if mode == "nearest":
            index = np.minimum(np.maximum(ROUNDINGS[rounding](place), 0), length - 1).astype(np.int64)
            y = tile.take(y, _computed(index, length, ratio), axis=axis)
        else:
            index, weights = _taps(mode, place, length, ratio if antialias else 1.0, cubic, exclude_outside)
            y = sum_taps(y, axis, index, weights, ratio)
    if mode != "nearest" and not x.dtype.is_float:
        y = tile.round(y)
    y = y.to(x.dtype)
    return y if beyond is None else tile.where(beyond, as_tensor(outside).to(x.dtype), y)


@tile.kernel
def interpolate(
    x: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool = False,
    antialias: bool = False,
) -> Any:
    """Images [N, C, ...] of one to three axes with other sizes, as PyTorch's `interpolate`.

    `size` or `scale_factor` is a number for all axes of the image, or one for each. `mode` is "nearest",
    "nearest-exact", "linear" (also "bilinear", "trilinear"), "bicubic" or "area".
    """
    name = "ops.interpolate"
    x = as_tensor(x)
    modes = ("nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic", "cubic", "area")
    axis_option(name, "mode", mode, modes)
    rank = max(x.ndim - 2, 1)
    axes = tuple(range(2, x.ndim))
    sizes = None if size is None else per_axis(name, "size", size, 1, rank)
    scales = None
    if scale_factor is not None:
        scales = entries_of(scale_factor) * (1 if isinstance(scale_factor, (tuple, list)) else rank)
    if mode == "area":
        return adaptive_avg_pool(x, _sizes(name, x, axes, sizes, scales))
    if mode.startswith("nearest"):
        exact = mode == "nearest-exact"
        return resize(
            x, sizes, scales, axes, coordinates="half_pixel" if exact else "asymmetric",
            rounding="round_prefer_ceil" if exact else "floor",
        )  # fmt: skip
    if align_corners:
        sizes, scales = _sizes(name, x, axes, sizes, scales), None
    kind = "cubic" if "cubic" in mode else "linear"
    return resize(
        x, sizes, scales, axes, kind, coordinates="align_corners" if align_corners else "half_pixel",
        antialias=antialias, exclude_outside=antialias, cubic=-0.5 if antialias else -0.75,
    )  # fmt: skip


def _sizes(name: str, x: Any, axes: tuple[int, ...], sizes: Any, scales: Any) -> tuple[int, ...]:
    """The sizes of the result. Raises TileTypeError unless there is one, or a scale, for each axis."""
    given = sizes if sizes is not None else scales
    parameter = "sizes" if sizes is not None else "scales"
    if given is None or len(entries_of(given)) != len(axes):
        refuse_option(name, parameter, given, f"{len(axes)} numbers", "give a size or a scale for each axis")
    if not all(isinstance(x.shape[axis], int) and x.shape[axis] > 0 for axis in axes):
        refuse_option(name, "axes", axes, "axes whose sizes are known and above 0", "give the sizes as numbers")
    if sizes is not None:
        return tuple(int(n) for n in entries_of(sizes))
    return tuple(max(math.floor(x.shape[axis] * float(scale)), 0) for axis, scale in zip(axes, entries_of(scales)))


def _stays(coordinates: str, scale: Any, start: float, stop: float) -> bool:
    """Whether the elements of an axis lie where they are, whatever its size: two of them say it for all."""
    return scale == 1 and np.array_equal(_places(coordinates, 2, 2, 1.0, 2, start, stop), (0, 1))


def _places(coordinates: str, size: int, length: int, scale: float, extent: float, start: float, stop: float) -> Table:
    """Where each element of the result lies in the axis; `extent` is its size before it was rounded down."""
    i: Table = np.arange(size, dtype=np.float64)
    half = (i + 0.5) / scale - 0.5
    match coordinates:
        case "asymmetric":
            return i / scale
        case "align_corners":
            return i * (length - 1) / (extent - 1) if extent > 1 else i * 0
        case "tf_half_pixel_for_nn":
            return (i + 0.5) / scale
        case "pytorch_half_pixel":
            return half if size > 1 else i * 0
        case "half_pixel_symmetric":
            return length / 2 * (1 - size / (scale * length)) + half
        case "tf_crop_and_resize":
            if size == 1:
                return i + 0.5 * (start + stop) * (length - 1)
            return start * (length - 1) + i * (stop - start) * (length - 1) / (size - 1)
        case _:
            return half


def _taps(
    mode: str, place: Table, length: int, scale: float, cubic: float, exclude_outside: bool
) -> tuple[Table, Table]:
    """The elements [size, taps] that each element of the result sums, and their weights; `scale` below 1 makes the
    taps wider."""
    scale = min(scale, 1.0)
    reach = 1 if mode == "linear" else 2
    first = math.floor(-reach / scale) + 1
    steps: Table = np.arange(first, 2 - first)
    whole: Table = np.floor(place)
    distance = np.abs(whole[:, None] + steps - place[:, None]) * scale
    if mode == "linear":
        weights = np.maximum(1 - distance, 0)
    else:
        near = ((cubic + 2) * distance - (cubic + 3)) * distance * distance + 1
        far = ((cubic * distance - 5 * cubic) * distance + 8 * cubic) * distance - 4 * cubic
        weights = np.where(distance <= 1, near, np.where(distance < 2, far, 0))
    index = whole[:, None] + steps
    if exclude_outside:
        weights = np.where((index >= 0) & (index < length), weights, 0)
    total = weights.sum(axis=1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    return np.minimum(np.maximum(index, 0), length - 1).astype(np.int64), weights


def sum_taps(x: Any, axis: int, index: Table, weights: Table, ratio: float | None = None) -> Any:
    """Sums of some elements of an axis: element i of the result has those at index[i], with weights[i]. `ratio`: how
    many become of one, where the table is that of a resize."""
    weights = weights.astype(np.float64 if x.dtype == tile.f64 else np.float32)
    after = (1,) * (x.ndim - axis - 1)
    used = [t for t in range(index.shape[1]) if weights[:, t].any()] or [0]
    if len(used) > MOST_TAPS:
        each = weights.reshape((*weights.shape, *after))
        return tile.sum(tile.take(x, index, axis=axis) * each, axis=axis + 1)
    total: Any = 0
    for t in used:
        place = _computed(index[:, t], x.shape[axis], ratio)
        total = total + tile.take(x, place, axis=axis) * weights[:, t].reshape((-1, *after))
    return total


def _computed(index: Table, length: Any, ratio: float | None) -> Any:
    """A table of the elements of an axis that a resize reads as what it is made of, if that is a quotient of integers:
    (i * a + b) // c within the axis. Kernels know then how far apart neighbours are, and that all are inside."""
    size = len(index)
    if ratio is None or size < 2 or not isinstance(length, int):
        return index
    i: Table = np.arange(size, dtype=np.int64)
    steps = [
        Fraction(1 / ratio).limit_denominator(MOST_DENOMINATOR),
        Fraction(length, size),
        Fraction(length - 1, size - 1),
    ]
    for step in dict.fromkeys(steps):
        for start in (Fraction(0), Fraction(1, 2), step / 2, step / 2 - Fraction(1, 2)):
            a, b, c = _over_one(step, start)
            middle = (size // 2 * a + b) // c
            at = b + (int(index[size // 2]) - middle) * c
            whole = (i * a + at) // c
            if np.array_equal(np.minimum(np.maximum(whole, 0), length - 1), index):
                place: Any = (tile.arange(size) * a + at) // c
                place = tile.maximum(place, 0) if whole.min() < 0 else place
                return tile.minimum(place, length - 1) if whole.max() >= length else place
    return index


def _over_one(step: Fraction, start: Fraction) -> tuple[int, int, int]:
    """Two fractions as numerators and a denominator that they share."""
    c = math.lcm(step.denominator, start.denominator)
    return int(step * c), int(start * c), c
