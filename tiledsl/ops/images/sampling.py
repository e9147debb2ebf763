"""Images read at computed places, and channels put beside each other."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from tiledsl import tile
from tiledsl.ops.checks import as_tensor, axis_of, refuse_option, refuse_rank, refuse_shapes, require_float, widened
from tiledsl.ops.indexing import axis_option, linear


@tile.kernel
def grid_sample(
    x: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool = False
) -> Any:
    """y[n, c, p, q] = x[n, c] at the place grid[n, p, q] = (x, y), from (-1, -1) to (1, 1) over the image.

    `x` is [N, C, H, W] and `grid` [N, P, Q, 2], or [N, C, D, H, W] and [N, O, P, Q, 3], or of any other number of axes.
    `mode` is "bilinear" (also "linear"), "nearest" or "bicubic" (also "cubic"). Beyond the image are zeros, by
    `padding_mode` "border" the nearest elements, by "reflection" the image mirrored. `align_corners`: -1 and 1 are the
    centres of the first and the last element, else their outer edges. In f32 for narrow floats; the dtype of `x`, which
    is a float but for "nearest". Raises TileShapeError if shapes do not fit.
    """
    name = "ops.grid_sample"
    x, grid = as_tensor(x), as_tensor(grid)
    require_float(name, grid)
    axis_option(name, "mode", mode, ("bilinear", "nearest", "bicubic", "linear", "cubic"))
    axis_option(name, "padding_mode", padding_mode, ("zeros", "border", "reflection"))
    if mode != "nearest":
        require_float(name, x)
    rank = x.ndim - 2
    if rank < 1:
        refuse_rank(name, x, "[N, C, ...]", "give images with an axis of the batch and one of channels")
    if grid.ndim != rank + 2 or grid.shape[-1] != rank or grid.shape[0] != x.shape[0]:
        reason = f"a grid has the batch of the images, and {rank} numbers last"
        refuse_shapes(name, grid, x, reason, "give images and grid as many axes")
    places: list[Any] = []
    for axis in range(rank):
        size = x.shape[2 + axis]
        along = widened(grid[..., rank - 1 - axis])
        places.append((along + 1.0) * ((size - 1) * 0.5) if align_corners else ((along + 1.0) * size - 1.0) * 0.5)
    return sample(x, places, mode, padding_mode, align_corners).to(x.dtype)


def sample(
    x: Any, places: Sequence[Any], mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool = False
) -> Any:
    """y[n, c, ...] = x[n, c] at coordinates [N, ...] of its other axes, each of which may lie between elements.

    Modes as in `grid_sample`. Sums are in f32 for narrow floats, and not rounded.
    """
    sizes = x.shape[2:]
    if "cubic" not in mode:
        places = [_within(place, size, padding_mode, align_corners) for place, size in zip(places, sizes)]
    if mode == "nearest":
        return _read(x, [tile.round(place).to(tile.i64) for place in places])
    taps: list[list[tuple[Any, Any]]] = []
    for place, size in zip(places, sizes):
        first = tile.floor(place)
        share = place - first
        each = _cubic(share) if "cubic" in mode else [(0, 1.0 - share), (1, share)]
        taps.append(
            [(_tap(first + float(step), size, mode, padding_mode, align_corners), weight) for step, weight in each]
        )
    total: Any = 0.0
    for chosen in itertools.product(*taps):
        weight: Any = math.prod(weight for _, weight in chosen)
        total = total + widened(_read(x, [place for place, _ in chosen])) * weight[:, None]
    return total


def _within(place: Any, size: Any, padding_mode: str, align_corners: bool) -> Any:
    """Places that may lie outside, where the padding has them."""
    if padding_mode == "zeros":
        return place
    if padding_mode == "reflection":
        low, high = (0.0, size - 1) if align_corners else (-0.5, size - 0.5)
        span = high - low
        if isinstance(span, (int, float)) and span <= 0:
            return place * 0.0
        turned = (place - low) % (span * 2.0)
        place = tile.minimum(turned, span * 2.0 - turned) + low
    return tile.minimum(tile.maximum(place, 0.0), size - 1)


def _tap(place: Any, size: Any, mode: str, padding_mode: str, align_corners: bool) -> Any:
    """The coordinate of one of the elements around a place."""
    if "cubic" in mode:
        place = _within(place, size, padding_mode, align_corners)
    return place.to(tile.i64)


def _cubic(share: Any) -> list[tuple[int, Any]]:
    """The four elements around a place, and their weights."""
    a = -0.75

    def near(d: Any) -> Any:
        return ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0

    def far(d: Any) -> Any:
        return ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a

    return [(-1, far(share + 1.0)), (0, near(share)), (1, near(1.0 - share)), (2, far(2.0 - share))]


def _read(x: Any, places: Sequence[Any]) -> Any:
    """x[n, c] at coordinates [N, ...] of its other axes; zeros outside."""
    shape = (*x.shape[:2], *places[0].shape[1:])
    batch = tile.arange(x.shape[0]).reshape((x.shape[0], *(1,) * (len(shape) - 1)))
    channel = tile.arange(x.shape[1]).reshape((x.shape[1], *(1,) * (len(shape) - 2)))
    index = linear([batch, channel, *(place[:, None] for place in places)], x.shape, shape, (0, 1))
    return tile.take(x.reshape(-1), index, axis=0)


@tile.kernel
def affine_grid(theta: Any, size: Any, align_corners: bool = False) -> Any:
    """The places for `grid_sample` that matrices [N, 2, 3] (or [N, 3, 4]) move those of the result to.

    `size` is the shape of the result, (N, C, H, W) or (N, C, D, H, W).
    """
    name = "ops.affine_grid"
    theta = as_tensor(theta)
    require_float(name, theta)
    rank = len(size) - 2
    if theta.ndim != 3 or theta.shape[1:] != (rank, rank + 1):
        refuse_rank(name, theta, f"[N, {rank}, {rank + 1}]", "give a matrix for each element of the batch")
    wide = widened(theta)
    total: Any = None
    for column in range(rank):
        length = size[-1 - column]
        i = tile.arange(length).to(wide.dtype)
        along = (i * 2.0 + (1.0 - length)) * (1.0 / (max(length - 1, 1) if align_corners else length))
        along = along.reshape((length,) + (1,) * (column + 1))
        part = along * wide[:, :, column].reshape((theta.shape[0], *(1,) * rank, rank))
        total = part if total is None else total + part
    shift = wide[:, :, rank].reshape((theta.shape[0], *(1,) * rank, rank))
    return (total + shift).to(theta.dtype)


@tile.kernel
def pixel_shuffle(x: Any, factor: Any) -> Any:
    """[..., C * f * f, H, W] as [..., C, H * f, W * f]: channel c * f * f + i * f + j to (h * f + i, w * f + j)."""
    x = as_tensor(x)
    if x.ndim < 3 or not isinstance(factor, int) or factor < 1 or x.shape[-3] % (factor * factor):
        refuse_rank("ops.pixel_shuffle", x, f"[..., C * {factor}^2, H, W]", "give as many channels")
    *batch, channels, height, width = x.shape
    outer = channels // (factor * factor)
    parts = x.reshape((*batch, outer, factor, factor, height, width))
    n = len(batch)
    order = (*range(n + 1), n + 3, n + 1, n + 4, n + 2)
    return parts.transpose(order).reshape((*batch, outer, height * factor, width * factor))


@tile.kernel
def pixel_unshuffle(x: Any, factor: Any) -> Any:
    """[..., C, H * f, W * f] as [..., C * f * f, H, W], the inverse of `pixel_shuffle`."""
    x = as_tensor(x)
    fits = x.ndim >= 3 and isinstance(factor, int) and factor >= 1
    if not fits or x.shape[-1] % factor or x.shape[-2] % factor:
        refuse_rank("ops.pixel_unshuffle", x, f"[..., C, H * {factor}, W * {factor}]", "pad the image")
    *batch, channels, height, width = x.shape
    height, width = height // factor, width // factor
    n = len(batch)
    parts = x.reshape((*batch, channels, height, factor, width, factor))
    order = (*range(n + 1), n + 2, n + 4, n + 1, n + 3)
    return parts.transpose(order).reshape((*batch, channels * factor * factor, height, width))


@tile.kernel
def channel_shuffle(x: Any, groups: Any, axis: int = 1) -> Any:
    """Channels c of each group g, C / groups of them, at place c * groups + g."""
    x = as_tensor(x)
    at = axis_of("ops.channel_shuffle", x, axis)
    if not isinstance(groups, int) or groups < 1 or x.shape[at] % groups:
        expected = f"a divisor of the {x.shape[at]} channels"
        refuse_option("ops.channel_shuffle", "groups", groups, expected, "use 1 for one group")
    before, after = tuple(x.shape[:at]), tuple(x.shape[at + 1 :])
    parts = x.reshape((*before, groups, x.shape[at] // groups, *after))
    order = (*range(at), at + 1, at, *range(at + 2, parts.ndim))
    return parts.transpose(order).reshape(x.shape)
