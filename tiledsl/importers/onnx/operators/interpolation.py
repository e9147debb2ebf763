"""Images at other places: resized, sampled on a grid, pooled over regions.

Where sizes are known the places are too: NumPy computes them and their shares when the model is imported, and the
formula is a few gathers with weights along each axis.
"""

# traced tensors have no types, nor have the objects of ONNX
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tiledsl import tile
from tiledsl.importers.onnx.call import Call
from tiledsl.importers.onnx.model import Array
from tiledsl.importers.onnx.operators.floats import in_floats, narrowed
from tiledsl.importers.onnx.register import operator


def _origin(mode: str, scale: float, size: int, length: int, roi: tuple[float, float]) -> Array:
    """The coordinate in an axis of `size` elements of each of the `length` elements of the result."""
    at = np.arange(length, dtype=np.float64)
    exact = size * scale
    match mode:
        case "asymmetric":
            return at / scale
        case "align_corners":
            return at * (size - 1) / (exact - 1) if exact != 1 else at * 0
        case "pytorch_half_pixel":
            return (at + 0.5) / scale - 0.5 if length > 1 else at * 0
        case "half_pixel_symmetric":
            shift = size / 2 * (1 - length / exact)
            return shift + (at + 0.5) / scale - 0.5
        case "tf_crop_and_resize":
            start, end = roi
            if length > 1:
                return start * (size - 1) + at * (end - start) * (size - 1) / (length - 1)
            return at * 0 + 0.5 * (start + end) * (size - 1)
        case "tf_half_pixel_for_nn":
            return (at + 0.5) / scale
        case _:
            return (at + 0.5) / scale - 0.5


ORIGINS = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize",
    "tf_half_pixel_for_nn",
)  # fmt: skip
NEAREST: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _cubic(distance: Array, a: float) -> Array:
    """The share of an element at a distance, in cubic interpolation."""
    d = np.abs(distance)
    near = (a + 2) * d**3 - (a + 3) * d**2 + 1
    far = a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def _shares(mode: str, x: Array, scale: float, size: int, a: float, antialias: bool, exclude: bool) -> Any:
    """The elements that each place takes, and their shares: two arrays [taps, places]."""
    stretch = 1 / scale if antialias and scale < 1 else 1.0
    reach = {"linear": 1, "cubic": 2}[mode] * stretch
    first = np.floor(x - reach).astype(np.int64) + 1
    taps = math.ceil(2 * reach) if stretch == 1 else math.ceil(2 * reach) + 1
    places = first + np.arange(taps)[:, None]
    distance = (places - x) / stretch
    weights = np.maximum(1 - np.abs(distance), 0) if mode == "linear" else _cubic(distance, a)
    outside = (places < 0) | (places >= size)
    if exclude:
        weights = np.where(outside, 0, weights)
    total = weights.sum(axis=0)
    if exclude or stretch != 1:
        weights = weights / np.where(total == 0, 1, total)
    return np.clip(places, 0, size - 1), weights


def _along(x: Any, axis: int, places: Array, weights: Array | None) -> Any:
    """The elements at some places of an axis; sums of several with weights."""
    if weights is None:
        return tile.take(x, places, axis=axis)
    result: Any = 0
    for row, share in zip(places, weights):
        shares = share.astype(np.float64 if x.dtype == tile.f64 else np.float32)
        result = result + tile.take(x, row, axis=axis) * shares.reshape((-1,) + (1,) * (x.ndim - 1 - axis))
    return result


def resized(
    x: Any, axes: list[int], scales: list[float], lengths: list[int], rois: list[tuple[float, float]], *,
    mode: str = "nearest", origin: str = "half_pixel", nearest: str = "round_prefer_floor", cubic: float = -0.75,
    antialias: bool = False, exclude: bool = False, extrapolated: float = 0.0,
) -> Any:  # fmt: skip
    """A tensor with other lengths of some axes."""

    def formula(x: Any) -> Any:
        outside: Any = None
        for axis, scale, length, roi in zip(axes, scales, lengths, rois):
            size = x.shape[axis]
            at = _origin(origin, scale, size, length, roi)
            if length == size and np.array_equal(at, np.arange(size)):
                continue
            if origin == "tf_crop_and_resize":
                gone = ((at < 0) | (at > size - 1)).reshape((-1,) + (1,) * (x.ndim - 1 - axis))
                outside = (axis, gone) if outside is None else (axis, gone, outside)
            if mode == "nearest":
                places = np.clip(NEAREST[nearest](at), 0, size - 1).astype(np.int64)
                x = _along(x, axis, places, None)
            else:
                x = _along(x, axis, *_shares(mode, at, scale, size, cubic, antialias, exclude))
        while outside is not None:
            x = tile.where(outside[1], tile.full((), extrapolated, x.dtype), x)
            outside = outside[2] if len(outside) > 2 else None
        return x

    return in_floats(formula, x) if mode != "nearest" and x.dtype.is_float else _of_integers(formula, x, mode)


def _of_integers(formula: Callable[[Any], Any], x: Any, mode: str) -> Any:
    return narrowed(formula, x) if mode == "nearest" else formula(x.to(tile.f32)).to(x.dtype)


@operator("Resize", since=10, known=("scales",))
def resize_by_scales(x: Any, scales: Any, *, mode: str = "nearest", node: Call) -> Any:
    return upsample(x, scales, mode=mode, node=node)


@operator("Upsample", since=9, known=("scales",))
def upsample(x: Any, scales: Any, *, mode: str = "nearest", node: Call) -> Any:
    factors = [float(s) for s in np.ravel(scales)]
    lengths = [math.floor(n * s) for n, s in zip(x.shape, factors)]
    nowhere = [(0.0, 1.0)] * x.ndim
    return resized(x, list(range(x.ndim)), factors, lengths, nowhere, mode=mode, origin="asymmetric", nearest="floor")


@operator("Resize", since=11, known=("roi", "scales", "sizes"))
def resize(
    x: Any, roi: Any = None, scales: Any = None, sizes: Any = None, *, antialias: int = 0, axes: Any = None,
    coordinate_transformation_mode: str = "half_pixel", cubic_coeff_a: float = -0.75, exclude_outside: int = 0,
    extrapolation_value: float = 0.0, keep_aspect_ratio_policy: str = "stretch", mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor", node: Call,
) -> Any:  # fmt: skip
    if coordinate_transformation_mode not in ORIGINS:
        node.refuse("coordinate_transformation_mode", coordinate_transformation_mode, ", ".join(ORIGINS))
    if mode not in ("nearest", "linear", "cubic") or nearest_mode not in NEAREST:
        node.refuse("mode", mode, "nearest, linear or cubic")
    along = list(range(x.ndim)) if axes is None else [a % x.ndim for a in axes]
    old = [x.shape[a] for a in along]
    if scales is not None and np.size(scales):
        factors = [float(s) for s in np.ravel(scales)]
        lengths = [math.floor(n * s) for n, s in zip(old, factors)]
    else:
        lengths = [int(n) for n in np.ravel(sizes)]
        factors = [m / n for m, n in zip(lengths, old)]
        if keep_aspect_ratio_policy != "stretch":
            factor = min(factors) if keep_aspect_ratio_policy == "not_larger" else max(factors)
            factors = [factor] * len(factors)
            lengths = [math.floor(n * factor + 0.5) for n in old]
    corners = np.ravel(roi).tolist() if roi is not None and np.size(roi) else [0.0] * len(along) + [1.0] * len(along)
    rois = [(float(corners[i]), float(corners[len(along) + i])) for i in range(len(along))]
    return resized(
        x, along, factors, lengths, rois, mode=mode, origin=coordinate_transformation_mode, nearest=nearest_mode,
        cubic=cubic_coeff_a, antialias=bool(antialias), exclude=bool(exclude_outside),
        extrapolated=extrapolation_value,
    )  # fmt: skip


# Sampling at places that are data


@operator("GridSample", since=16)
def grid_sample(
    x: Any, grid: Any, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros", node: Call
) -> Any:
    """`grid` has coordinates from -1 to 1 for each axis of the image, the last axis first."""
    kinds = {"bilinear": "linear", "bicubic": "cubic", "linear": "linear", "cubic": "cubic", "nearest": "nearest"}
    if mode not in kinds or padding_mode not in ("zeros", "border", "reflection"):
        node.refuse("mode", mode, ", ".join(kinds))
    wide = tile.f64 if x.dtype == tile.f64 else tile.f32
    sizes = x.shape[2:]
    rank = len(sizes)
    at: list[Any] = []
    for i, size in enumerate(sizes):
        g = grid[..., rank - 1 - i].to(wide)
        at.append((g + 1.0) * 0.5 * float(size - 1) if align_corners else ((g + 1.0) * float(size) - 1.0) * 0.5)
    if kinds[mode] == "nearest":
        at = [tile.round(a) for a in at]
    if padding_mode != "zeros" and kinds[mode] != "cubic":
        at = [_bounded(a, size, padding_mode, align_corners) for a, size in zip(at, sizes)]
        if kinds[mode] == "nearest":
            at = [tile.round(a) for a in at]
    return _sampled(x, at, kinds[mode], padding_mode, align_corners, wide).to(x.dtype)


def _bounded(a: Any, size: int, padding: str, align: int) -> Any:
    """Coordinates within an axis: the nearest one, or mirrored at the ends."""
    if padding == "reflection":
        low, high = (0.0, size - 1.0) if align else (-0.5, size - 0.5)
        span = high - low
        if span == 0:
            return a * 0.0
        turn = tile.abs(a - low) % (2 * span)
        a = tile.minimum(turn, 2 * span - turn) + low
    return tile.clip(a, 0.0, size - 1.0)


def _sampled(x: Any, at: list[Any], mode: str, padding: str, align: int, wide: Any) -> Any:
    """[N, C, ...] sampled at coordinates [N, ...] of each axis of the image."""
    sizes = x.shape[2:]
    n, c = x.shape[:2]
    taps: list[list[tuple[Any, Any]]] = []
    for a in at:
        first = tile.floor(a)
        part = a - first
        if mode == "nearest":
            taps.append([(a, None)])
        elif mode == "linear":
            taps.append([(first, 1.0 - part), (first + 1.0, part)])
        else:
            taps.append([(first + float(i - 1), _cubic_share(part - float(i - 1))) for i in range(4)])
    flat = x.to(wide).reshape((n, c, math.prod(sizes)))
    result: Any = 0
    for index in np.ndindex(*(len(t) for t in taps)):
        place: Any = 0
        share: Any = None
        inside: Any = None
        for axis, i in enumerate(index):
            coordinate, weight = taps[axis][i]
            size = sizes[axis]
            if mode == "cubic" and padding != "zeros":
                coordinate = _bounded(coordinate, size, padding, align)
            here = (coordinate >= 0) & (coordinate <= size - 1)
            inside = here if inside is None else inside & here
            place = place * size + tile.clip(coordinate, 0.0, size - 1.0).to(tile.i64)
            share = weight if share is None else share if weight is None else share * weight
        picked = _picked(flat, place)
        weight = inside.to(wide) if share is None else tile.where(inside, share, 0.0)
        result = result + tile.where(inside[:, None], picked * weight[:, None], 0.0)
    return result


def _cubic_share(distance: Any) -> Any:
    a, d = -0.75, tile.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1.0
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return tile.where(d <= 1.0, near, tile.where(d < 2.0, far, 0.0))


def _picked(flat: Any, place: Any) -> Any:
    """[N, C, L] at places [N, ...] of the last axis: [N, C, ...]."""
    n, c, length = flat.shape
    rest = place.shape[1:]
    row = tile.arange(n).reshape((n, 1) + (1,) * len(rest)) * c + tile.arange(c).reshape((1, c) + (1,) * len(rest))
    return tile.take(flat.reshape((n * c * length,)), row * length + place[:, None], axis=0)


@operator("DeformConv", since=19)
def deform_conv(
    x: Any, w: Any, offset: Any, b: Any = None, mask: Any = None, *, dilations: Any = None, group: int = 1,
    kernel_shape: Any = None, offset_group: int = 1, pads: Any = None, strides: Any = None, node: Call,
) -> Any:  # fmt: skip
    """A convolution of an image whose places within windows are moved by `offset`, and weighted by `mask`."""
    if x.ndim != 4:
        node.refuse("X", f"a tensor of {x.ndim} axes", "an image of two axes, with batch and channels")
    n, c = x.shape[:2]
    sizes, (rows, columns) = w.shape[2:], offset.shape[2:]
    steps, spread, given = strides or (1, 1), dilations or (1, 1), pads or (0, 0, 0, 0)
    wide = tile.f64 if x.dtype == tile.f64 else tile.f32
    taps = math.prod(sizes)
    moved = offset.to(wide).reshape((n * offset_group, *sizes, 2, rows, columns))
    at: list[Any] = []
    for axis, (count, step, d, size) in enumerate(zip((rows, columns), steps, spread, sizes)):
        first = (tile.arange(count) * step - given[axis]).reshape((-1, 1) if axis == 0 else (1, -1))
        within = (tile.arange(size) * d).reshape((-1, 1, 1, 1) if axis == 0 else (1, -1, 1, 1))
        at.append(moved[:, :, :, axis] + (first + within).to(wide))
    images = x.reshape((n * offset_group, c // offset_group, *x.shape[2:]))
    picked = _sampled(images, at, "linear", "zeros", 0, wide)
    if mask is not None:
        picked = picked * mask.to(wide).reshape((n * offset_group, 1, *sizes, rows, columns))
    parts = picked.reshape((n, group, c // group, taps, rows, columns))
    weights = w.to(wide).reshape((group, w.shape[0] // group, c // group, taps))
    y = tile.einsum("n g c t p q, g k c t -> n g k p q", parts, weights).reshape((n, w.shape[0], rows, columns))
    return (y if b is None else y + b.to(wide).reshape((1, -1, 1, 1))).to(x.dtype)


@operator("RoiAlign", since=10)
def roi_align_of_corners(
    x: Any, rois: Any, batch: Any, *, mode: str = "avg", output_height: int = 1, output_width: int = 1,
    sampling_ratio: int = 0, spatial_scale: float = 1.0, node: Call,
) -> Any:  # fmt: skip
    return roi_align(
        x, rois, batch, coordinate_transformation_mode="output_half_pixel", mode=mode, output_height=output_height,
        output_width=output_width, sampling_ratio=sampling_ratio, spatial_scale=spatial_scale, node=node,
    )  # fmt: skip


@operator("RoiAlign", since=16, known=("rois",))
def roi_align(
    x: Any, rois: Any, batch: Any, *, coordinate_transformation_mode: str = "half_pixel", mode: str = "avg",
    output_height: int = 1, output_width: int = 1, sampling_ratio: int = 0, spatial_scale: float = 1.0, node: Call,
) -> Any:  # fmt: skip
    """The mean (or the largest) of samples in the parts of each region; how many there are depends on its size."""
    half = 0.5 if coordinate_transformation_mode == "half_pixel" else 0.0
    boxes = np.asarray(rois, np.float64) * spatial_scale - half
    parts: list[Any] = []
    counts = (output_height, output_width)
    height, width = x.shape[2:]
    for i, (left, top, right, bottom) in enumerate(boxes.tolist()):
        image = tile.take(x, batch[i : i + 1].to(tile.i64), axis=0)
        along: list[tuple[Array, Array, Array]] = []
        for start, stop, count, size in ((top, bottom, counts[0], height), (left, right, counts[1], width)):
            extent = stop - start if half else max(stop - start, 1.0)
            samples = sampling_ratio or max(math.ceil(extent / count), 1)
            at = start + (np.arange(count * samples) + 0.5) * extent / (count * samples)
            along.append(_bilinear(at, size))
        parts.append(_region(image, along, counts, mode))
    return tile.concat(tuple(parts), axis=0)


def _bilinear(at: Array, size: int) -> tuple[Array, Array, Array]:
    """The two elements on both sides of each coordinate, and their shares; none where it is outside."""
    outside = (at < -1.0) | (at > size)
    bounded = np.clip(at, 0, None)
    low = np.minimum(np.floor(bounded).astype(np.int64), size - 1)
    high = np.minimum(low + 1, size - 1)
    part = np.where(low >= size - 1, 0.0, bounded - low)
    return np.stack([low, high]), np.stack([1 - part, part]) * ~outside, outside


def _region(image: Any, along: list[tuple[Array, Array, Array]], counts: tuple[int, int], mode: str) -> Any:
    if mode == "avg":
        y = image
        for axis, (places, shares, _) in zip((2, 3), along):
            y = _along(y, axis, places, shares)
        return tile.mean(_cells(y, counts), axis=(3, 5)).to(image.dtype)
    rows, columns = along
    best: Any = None
    for i in range(2):  # the largest of the four products of elements and shares
        for j in range(2):
            corner = _along(_along(image, 2, rows[0][i : i + 1], rows[1][i : i + 1]), 3, columns[0][j : j + 1],
                            columns[1][j : j + 1])  # fmt: skip
            best = corner if best is None else tile.maximum(best, corner)
    return tile.max(_cells(best, counts), axis=(3, 5))


def _cells(y: Any, counts: tuple[int, int]) -> Any:
    n, c, height, width = y.shape
    return y.reshape((n, c, counts[0], height // counts[0], counts[1], width // counts[1]))
