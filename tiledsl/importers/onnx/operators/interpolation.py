"""Images at other places: resized, sampled on a grid, pooled over regions."""

# traced tensors have no types, nor have the objects of ONNX
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tiledsl import ops, tile
from tiledsl.importers.onnx.call import Call
from tiledsl.importers.onnx.model import Array
from tiledsl.importers.onnx.register import operator
from tiledsl.ops.images.deformed import deformed_convolution
from tiledsl.ops.images.resize import sum_taps

COORDINATES = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize",
    "tf_half_pixel_for_nn",
)  # fmt: skip
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
MODES = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", "cubic": "cubic", "bicubic": "cubic"}


def _in_floats(formula: Callable[[Any], Any], x: Any, mode: str) -> Any:
    """A formula of floats; sums of integers are cut to integers, where ops would round them."""
    return formula(x) if mode == "nearest" or x.dtype.is_float else formula(x.to(tile.f32)).to(x.dtype)


@operator("Resize", since=10, known=("scales",))
def resize_by_scales(x: Any, scales: Any, *, mode: str = "nearest", node: Call) -> Any:
    return upsample(x, scales, mode=mode, node=node)


@operator("Upsample", since=9, known=("scales",))
def upsample(x: Any, scales: Any, *, mode: str = "nearest", node: Call) -> Any:
    kind = MODES.get(mode) or node.refuse("mode", mode, ", ".join(MODES))
    factors = tuple(float(s) for s in np.ravel(scales))
    return _in_floats(
        lambda x: ops.resize(x, scales=factors, mode=kind, coordinates="asymmetric", rounding="floor"), x, kind
    )


@operator("Resize", since=11, known=("roi", "scales", "sizes"))
def resize(
    x: Any, roi: Any = None, scales: Any = None, sizes: Any = None, *, antialias: int = 0, axes: Any = None,
    coordinate_transformation_mode: str = "half_pixel", cubic_coeff_a: float = -0.75, exclude_outside: int = 0,
    extrapolation_value: float = 0.0, keep_aspect_ratio_policy: str = "stretch", mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor", node: Call,
) -> Any:  # fmt: skip
    coordinates = coordinate_transformation_mode
    if coordinates not in COORDINATES:
        node.refuse("coordinate_transformation_mode", coordinates, ", ".join(COORDINATES))
    if mode not in ("nearest", "linear", "cubic") or nearest_mode not in ROUNDINGS:
        node.refuse("mode", mode, "nearest, linear or cubic")
    along = tuple(range(x.ndim)) if axes is None else tuple(axes)
    lengths: Any = None
    factors: Any = None
    if scales is not None and np.size(scales):
        factors = tuple(float(s) for s in np.ravel(scales))
    else:
        lengths = tuple(int(n) for n in np.ravel(sizes))
        if keep_aspect_ratio_policy != "stretch":
            ratios = [wanted / x.shape[axis] for wanted, axis in zip(lengths, along)]
            factor = min(ratios) if keep_aspect_ratio_policy == "not_larger" else max(ratios)
            factors = (factor,) * len(along)
            lengths = tuple(math.floor(x.shape[axis] * factor + 0.5) for axis in along)
    parts: Any = None
    if coordinates == "tf_crop_and_resize" and roi is not None and np.size(roi):
        corners: list[float] = np.ravel(roi).tolist()
        parts = tuple(zip(corners[: len(along)], corners[len(along) :]))
    return _in_floats(
        lambda x: ops.resize(
            x, lengths, factors, along, mode, coordinates=coordinates, rounding=nearest_mode, cubic=cubic_coeff_a,
            antialias=bool(antialias), exclude_outside=bool(exclude_outside), parts=parts,
            outside=extrapolation_value if coordinates == "tf_crop_and_resize" else None,
        ), x, mode,
    )  # fmt: skip


@operator("GridSample", since=16)
def grid_sample(
    x: Any, grid: Any, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros", node: Call
) -> Any:
    """`grid` has coordinates from -1 to 1 for each axis of the image, the last axis first."""
    kind = MODES.get(mode) or node.refuse("mode", mode, ", ".join(MODES))
    return _in_floats(lambda x: ops.grid_sample(x, grid, kind, padding_mode, bool(align_corners)), x, kind)


@operator("DeformConv", since=19)
def deform_conv(
    x: Any, w: Any, offset: Any, b: Any = None, mask: Any = None, *, dilations: Any = None, group: int = 1,
    kernel_shape: Any = None, offset_group: int = 1, pads: Any = None, strides: Any = None, node: Call,
) -> Any:  # fmt: skip
    """A convolution of an image whose places within windows are moved by `offset`, and weighted by `mask`."""
    if x.ndim != 4:
        node.refuse("X", f"a tensor of {x.ndim} axes", "an image of two axes, with batch and channels")
    return deformed_convolution(
        x, w, offset, b, mask, stride=strides or (1, 1), padding=(pads or (0, 0))[:2],
        dilation=dilations or (1, 1), groups=group, offset_groups=offset_group,
    )  # fmt: skip


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
        along: list[tuple[Array, Array]] = []
        for start, stop, count, size in ((top, bottom, counts[0], height), (left, right, counts[1], width)):
            extent = stop - start if half else max(stop - start, 1.0)
            samples = sampling_ratio or max(math.ceil(extent / count), 1)
            at = start + (np.arange(count * samples) + 0.5) * extent / (count * samples)
            along.append(_bilinear(at, size))
        parts.append(_region(image, along, counts, mode))
    return tile.concat(tuple(parts), axis=0)


def _bilinear(at: Array, size: int) -> tuple[Array, Array]:
    """The two elements on both sides of each coordinate, and their shares; none where it is outside."""
    outside = (at < -1.0) | (at > size)
    bounded = np.clip(at, 0, None)
    low = np.minimum(np.floor(bounded).astype(np.int64), size - 1)
    high = np.minimum(low + 1, size - 1)
    part = np.where(low >= size - 1, 0.0, bounded - low)
    shares = np.stack([1 - part, part], axis=1) * ~outside[:, None]
    return np.stack([low, high], axis=1), shares


def _region(image: Any, along: list[tuple[Array, Array]], counts: tuple[int, int], mode: str) -> Any:
    if mode == "avg":
        y = image
        for axis, (places, shares) in zip((2, 3), along):
            y = sum_taps(y, axis, places, shares)
        return tile.mean(_cells(y, counts), axis=(3, 5)).to(image.dtype)
    best: Any = None
    for corner in itertools.product((0, 1), repeat=2):  # the largest of the four products of elements and shares
        y = image
        for axis, i, (places, shares) in zip((2, 3), corner, along):
            y = sum_taps(y, axis, places[:, i : i + 1], shares[:, i : i + 1])
        best = y if best is None else tile.maximum(best, y)
    return tile.max(_cells(best, counts), axis=(3, 5)).to(image.dtype)


def _cells(y: Any, counts: tuple[int, int]) -> Any:
    n, c, height, width = y.shape
    return y.reshape((n, c, counts[0], height // counts[0], counts[1], width // counts[1]))
