"""Pooling: folds of the windows that slide over images of one to three axes."""

from __future__ import annotations

import math
from typing import Any

from tiledsl import tile
from tiledsl.frontend.trace.trace_shapes import entries_of
from tiledsl.ir.dtypes import DType
from tiledsl.ops.checks import as_tensor, refuse_option, require_float, widened
from tiledsl.ops.images.axes import Widths, image_axes, outside, padded, padding_of, per_axis


@tile.kernel
def max_pool1d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, *, ceil_mode: bool = False,
    return_indices: bool = False, layout: Any = None,
) -> Any:  # fmt: skip
    """`max_pool2d` of one axis: `x` is [N, C, W], or [N, W, C] of layout "NWC"."""
    return _largest("ops.max_pool1d", 1, x, kernel_size, stride, padding, dilation, ceil_mode, return_indices, layout)


@tile.kernel
def max_pool2d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, *, ceil_mode: bool = False,
    return_indices: bool = False, layout: Any = None,
) -> Any:  # fmt: skip
    """The largest element of each window of height and width. `x` is [N, C, H, W], or [N, H, W, C] of layout "NHWC".

    `kernel_size`, `stride` (default: the window), `dilation`: an int or a pair. `padding` as in `conv2d`, less than
    the window; what is added never is the largest. `ceil_mode`: windows that begin in the image may reach beyond it.
    `return_indices`: also where the first largest is, as i64: h * W + w of its image and channel.
    The dtype of `x`. Raises TileShapeError if sizes do not fit.
    """
    return _largest("ops.max_pool2d", 2, x, kernel_size, stride, padding, dilation, ceil_mode, return_indices, layout)


@tile.kernel
def max_pool3d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, *, ceil_mode: bool = False,
    return_indices: bool = False, layout: Any = None,
) -> Any:  # fmt: skip
    """`max_pool2d` of three axes: `x` is [N, C, D, H, W], or [N, D, H, W, C] of layout "NDHWC"."""
    return _largest("ops.max_pool3d", 3, x, kernel_size, stride, padding, dilation, ceil_mode, return_indices, layout)


@tile.kernel
def avg_pool1d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, *, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor: Any = None, dilation: Any = 1, layout: Any = None,
) -> Any:  # fmt: skip
    """`avg_pool2d` of one axis: `x` is [N, C, W], or [N, W, C] of layout "NWC"."""
    return _mean(
        "ops.avg_pool1d", 1, x, kernel_size, stride, padding, dilation, ceil_mode, count_include_pad, divisor, layout
    )


@tile.kernel
def avg_pool2d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, *, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor: Any = None, dilation: Any = 1, layout: Any = None,
) -> Any:  # fmt: skip
    """The mean of each window of height and width. `x` is [N, C, H, W], or [N, H, W, C] of layout "NHWC".

    `kernel_size`, `stride` (default: the window), `dilation`: an int or a pair. `padding` as in `conv2d`, less than
    the window: zeros, which count as elements unless `count_include_pad` is false. `ceil_mode`: windows that begin
    in the padded image may reach beyond it, where nothing counts. `divisor`: a number to divide by in place of the
    count. Summed in f32 for narrow floats; the dtype of `x`, which are floats. Raises TileShapeError if sizes do not
    fit.
    """
    return _mean(
        "ops.avg_pool2d", 2, x, kernel_size, stride, padding, dilation, ceil_mode, count_include_pad, divisor, layout
    )


@tile.kernel
def avg_pool3d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, *, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor: Any = None, dilation: Any = 1, layout: Any = None,
) -> Any:  # fmt: skip
    """`avg_pool2d` of three axes: `x` is [N, C, D, H, W], or [N, D, H, W, C] of layout "NDHWC"."""
    return _mean(
        "ops.avg_pool3d", 3, x, kernel_size, stride, padding, dilation, ceil_mode, count_include_pad, divisor, layout
    )


@tile.kernel
def lp_pool(
    x: Any, p: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, *, ceil_mode: bool = False,
    dilation: Any = 1, layout: Any = None,
) -> Any:  # fmt: skip
    """(the sum of |x|^p)^(1/p) of each window; `x` is [N, C, ...] with one to three axes of the image.

    Other arguments as in `avg_pool2d`. Raises TileTypeError unless p is above 0.
    """
    name = "ops.lp_pool"
    x = as_tensor(x)
    require_float(name, x)
    if not isinstance(p, (int, float)) or p <= 0:
        refuse_option(name, "p", p, "a number above 0", "use 2 for the root of squares")
    rank = max(min(x.ndim - 2, 3), 1)
    powers = powered(tile.abs(widened(x)), p)
    windows, _ = _windows(name, rank, powers, kernel_size, stride, padding, dilation, ceil_mode, layout, 0.0)
    return powered(tile.sum(windows, axis=_within(rank)), 1.0 / p).to(x.dtype)


def powered(x: Any, p: float) -> Any:
    """x ** p of what is not negative; 1, 2 and 1 / 2 are exact."""
    return x if p == 1 else tile.pow(x, p)


def _within(rank: int) -> tuple[int, ...]:
    """The axes within the windows."""
    return tuple(range(-rank, 0))


def lowest(dtype: DType) -> float:
    """What no element is below."""
    if dtype.is_float:
        return -math.inf
    return -(1 << (dtype.bits - 1)) if dtype.is_signed else 0


def _largest(
    name: str, rank: int, x: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool,
    return_indices: bool, layout: Any,
) -> Any:  # fmt: skip
    x = as_tensor(x)
    windows, widths = _windows(
        name, rank, x, kernel_size, stride, padding, dilation, ceil_mode, layout, lowest(x.dtype)
    )
    values = tile.max(windows, axis=_within(rank))
    if not return_indices:
        return values
    axes = image_axes(name, x, layout, rank)
    sizes = windows.shape[-rank:]
    place: Any = tile.argmax(windows.reshape((*windows.shape[:-rank], math.prod(sizes))), axis=-1)
    steps = per_axis(name, "stride", kernel_size if stride is None else stride, 1, rank)
    dilations = per_axis(name, "dilation", dilation, 1, rank)
    index: Any = 0
    scale: Any = 1
    for axis, size, step, spread, (low, _) in reversed(list(zip(axes, sizes, steps, dilations, widths))):
        shape = tuple(-1 if i == axis else 1 for i in range(x.ndim))
        start = (tile.arange(values.shape[axis]) * step - low).reshape(shape)
        # where all that is seen is the lowest number, the first of these is padding: the first one inside is meant
        within = place % size
        if low:
            within = tile.maximum(within, (spread - 1 - start) // spread)
        index = index + (start + within * spread) * scale
        place = place // size
        scale = scale * x.shape[axis]
    return values, index


def _mean(
    name: str, rank: int, x: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool,
    count_include_pad: bool, divisor: Any, layout: Any,
) -> Any:  # fmt: skip
    x = as_tensor(x)
    require_float(name, x)
    windows, widths = _windows(name, rank, x, kernel_size, stride, padding, dilation, ceil_mode, layout, 0.0)
    total = tile.sum(widened(windows), axis=_within(rank))
    if divisor is not None:
        return (total / float(divisor)).to(x.dtype)
    axes = image_axes(name, x, layout, rank)
    sizes = windows.shape[-rank:]
    steps = per_axis(name, "stride", kernel_size if stride is None else stride, 1, rank)
    dilations = per_axis(name, "dilation", dilation, 1, rank)
    image = [x.shape[axis] for axis in axes]
    given = padding_of(name, padding, image, sizes, steps, dilations)
    counted = given if count_include_pad else ((0, 0),) * rank
    if counted == widths:
        return (total / float(math.prod(sizes))).to(x.dtype)
    count: Any = 1
    for axis, size, step, spread, (low, _), (before, after) in zip(axes, sizes, steps, dilations, widths, counted):
        first = tile.arange(total.shape[axis]) * step - low
        least = tile.maximum((spread - 1 - before - first) // spread, 0)
        most = tile.minimum((x.shape[axis] + after - first + spread - 1) // spread, size)
        count = count * (most - least).reshape(tuple(-1 if i == axis else 1 for i in range(x.ndim)))
    return (total / count.to(total.dtype)).to(x.dtype)


def _windows(
    name: str, rank: int, x: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool,
    layout: Any, fill: float,
) -> tuple[Any, Widths]:  # fmt: skip
    """The windows of the padded image, their own axes last, and what was added to it."""
    axes = image_axes(name, x, layout, rank)
    sizes = per_axis(name, "kernel_size", kernel_size, 1, rank)
    steps = sizes if stride is None else per_axis(name, "stride", stride, 1, rank)
    dilations = per_axis(name, "dilation", dilation, 1, rank)
    widths = padding_of(name, padding, [x.shape[axis] for axis in axes], sizes, steps, dilations)
    if padding != "same" and any(n > (size - 1) * d for size, d, width in zip(sizes, dilations, widths) for n in width):
        refuse_option(name, "padding", padding, f"less than the window {sizes}", "use a smaller one")
    length = outside(x, axes, widths, sizes, dilations)
    if length is not None:
        refuse_option(name, "kernel_size", kernel_size, f"within the padded axis of {length}", "pad the image")
    if ceil_mode:
        image = [x.shape[axis] for axis in axes]
        widths = tuple(_up(n, width, *rest) for n, width, *rest in zip(image, widths, sizes, steps, dilations))
    return tile.window(padded(x, axes, widths, fill), sizes, axes, steps, dilations), widths


def _up(length: int, width: tuple[int, int], size: int, step: int, dilation: int) -> tuple[int, int]:
    """The width with what a last window that is not whole needs, if it begins before the padding at the end."""
    low, high = width
    left = low + length + high - (dilation * (size - 1) + 1)
    last = -(-left // step) * step
    if last >= low + length:
        last -= step
    return low, max(high, high + last - left)


@tile.kernel
def adaptive_avg_pool(x: Any, output_size: Any, *, layout: Any = None) -> Any:
    """The means of `output_size` parts of each axis of the image; `x` is [N, C, ...] with one to three of them.

    Part i of an axis of n elements is from floor(i * n / size) to ceil((i + 1) * n / size). `output_size` is an int, or
    one for each axis, None for all elements of it. Sums as in `avg_pool2d`.
    """
    name = "ops.adaptive_avg_pool"
    x = as_tensor(x)
    require_float(name, x)
    parts, inside, axes, sizes = _parts(name, widened(x), output_size, layout, 0.0)
    total = tile.sum(parts, axis=_within(len(axes)))
    count: Any = 1
    for axis, (size, length) in zip(axes, sizes):
        i = tile.arange(size)
        here = ((i + 1) * length + size - 1) // size - i * length // size
        count = count * here.reshape(tuple(-1 if i == axis else 1 for i in range(x.ndim)))
    if inside is None:
        return (total / float(math.prod(parts.shape[-len(axes) :]))).to(x.dtype)
    return (total / count.to(total.dtype)).to(x.dtype)


@tile.kernel
def adaptive_max_pool(x: Any, output_size: Any, *, return_indices: bool = False, layout: Any = None) -> Any:
    """The largest of `output_size` parts of each axis of the image, which are those of `adaptive_avg_pool`.

    `return_indices`: also where it is, as in `max_pool2d`.
    """
    name = "ops.adaptive_max_pool"
    x = as_tensor(x)
    parts, _, axes, sizes = _parts(name, x, output_size, layout, lowest(x.dtype))
    rank = len(axes)
    values = tile.max(parts, axis=_within(rank))
    if not return_indices:
        return values
    place: Any = tile.argmax(parts.reshape((*parts.shape[:-rank], math.prod(parts.shape[-rank:]))), axis=-1)
    index: Any = 0
    scale: Any = 1
    for axis, (size, length), extent in reversed(list(zip(axes, sizes, parts.shape[-rank:]))):
        start = (tile.arange(size) * length // size).reshape(tuple(-1 if i == axis else 1 for i in range(x.ndim)))
        index = index + (start + place % extent) * scale
        place = place // extent
        scale = scale * length
    return values, index


def _parts(name: str, x: Any, output_size: Any, layout: Any, fill: float) -> tuple[Any, Any, Any, Any]:
    """The parts with their own axes last, a mask of what is inside of them (None: all), the axes and (parts, length)
    of each."""
    rank = max(min(x.ndim - 2, 3), 1)
    axes = image_axes(name, x, layout, rank)
    wanted = entries_of(output_size)
    if not isinstance(output_size, (tuple, list)):
        wanted = wanted * rank
    if len(wanted) == rank:
        wanted = tuple(x.shape[axis] if n is None else n for axis, n in zip(axes, wanted))
    counts = per_axis(name, "output_size", wanted, 1, rank)
    sizes = [(count, x.shape[axis]) for axis, count in zip(axes, counts)]
    if all(length % count == 0 for count, length in sizes):
        extents = tuple(length // count for count, length in sizes)
        return tile.window(x, extents, axes, extents), None, axes, sizes
    inside: Any = None
    ndim = x.ndim
    for at, (axis, (count, length)) in enumerate(zip(axes, sizes)):
        i = tile.arange(count)
        start, stop = i * length // count, ((i + 1) * length + count - 1) // count
        extent = max(-(-(k + 1) * length // count) - k * length // count for k in range(count))
        place = start[:, None] + tile.arange(extent)
        x = tile.take(x, tile.minimum(place, length - 1), axis=axis)
        order = (*range(axis + 1), *range(axis + 2, x.ndim), axis + 1)
        x = x.transpose(order)
        shape = [1] * (ndim + rank)
        shape[axis], shape[ndim + at] = count, extent
        here = (place < stop[:, None]).reshape(tuple(shape))
        inside = here if inside is None else inside & here
    return tile.where(inside, x, fill), inside, axes, sizes
