"""Pooling: folds of the windows that slide over images."""

from __future__ import annotations

import math
from typing import Any

from tiledsl import tile
from tiledsl.ops.checks import as_tensor, pair, refuse_option, require_float, widened
from tiledsl.ops.images import Widths, image_axes, padded, padding_of, strides_of


@tile.kernel
def max_pool2d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, *, layout: str = "NCHW"
) -> Any:
    """The largest element of each window of height and width. `x` is [N, C, H, W], or [N, H, W, C] of layout "NHWC".

    `kernel_size`, `stride` (default: the window), `dilation`: an int or a pair. `padding` as in `conv2d`, at most half
    of the window; what is added never is the largest. The dtype of `x`. Raises TileShapeError if sizes do not fit.
    """
    name = "ops.max_pool2d"
    x = as_tensor(x)
    lowest = -math.inf if x.dtype.is_float else -(1 << (x.dtype.bits - 1)) if x.dtype.is_signed else 0
    windows, _ = _windows(name, x, kernel_size, stride, padding, dilation, layout, lowest)
    return tile.max(windows, axis=(-2, -1))


@tile.kernel
def avg_pool2d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    *,
    count_include_pad: bool = True,
    layout: str = "NCHW",
) -> Any:
    """The mean of each window of height and width. `x` is [N, C, H, W], or [N, H, W, C] of layout "NHWC".

    `kernel_size`, `stride` (default: the window): an int or a pair. `padding` as in `conv2d`, at most half of the
    window: zeros, which count as elements unless `count_include_pad` is false. Summed in f32 for narrow floats; the
    dtype of `x`, which are floats. Raises TileShapeError if sizes do not fit.
    """
    name = "ops.avg_pool2d"
    x = as_tensor(x)
    require_float(name, x)
    windows, widths = _windows(name, x, kernel_size, stride, padding, 1, layout, 0.0)
    total = tile.sum(widened(windows), axis=(-2, -1))
    sizes = windows.shape[-2:]
    if count_include_pad or not any(n for width in widths for n in width):
        return (total / float(sizes[0] * sizes[1])).to(x.dtype)
    axes = image_axes(name, x, layout)
    count: Any = 1
    steps = strides_of(name, "stride", kernel_size if stride is None else stride)
    for axis, size, step, width in zip(axes, sizes, steps, widths):
        first = tile.arange(total.shape[axis]) * step - width[0]
        here = tile.minimum(first + size, x.shape[axis]) - tile.maximum(first, 0)
        count = count * here.reshape(tuple(-1 if i == axis else 1 for i in range(4)))
    return (total / count.to(total.dtype)).to(x.dtype)


def _windows(
    name: str, x: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, layout: str, fill: float
) -> tuple[Any, Widths]:
    """The windows of the padded image, their own axes last, and what was added to it."""
    axes = image_axes(name, x, layout)
    sizes = pair(name, "kernel_size", kernel_size, 1)
    steps = sizes if stride is None else strides_of(name, "stride", stride)
    dilations = strides_of(name, "dilation", dilation)
    widths = padding_of(name, padding, [x.shape[axis] for axis in axes], sizes, steps, dilations)
    if padding != "same" and any(n > size // 2 for size, width in zip(sizes, widths) for n in width):
        refuse_option(name, "padding", padding, f"at most half of the window {sizes}", "use a smaller one")
    source = padded(x, axes, widths, fill)
    for axis, size, step in zip(axes, sizes, dilations):
        if isinstance(source.shape[axis], int) and source.shape[axis] < (size - 1) * step + 1:
            length = source.shape[axis]
            refuse_option(name, "kernel_size", kernel_size, f"within the padded axis of {length}", "pad the image")
    return tile.window(source, sizes, axes, steps, dilations), widths
