"""Windows of images as columns, and columns added up to images."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from tiledsl import tile
from tiledsl.frontend.trace.trace_shapes import entries_of
from tiledsl.ops.checks import as_tensor, refuse_option, refuse_rank, widened
from tiledsl.ops.images.axes import image_axes, outside, padded, padding_of, per_axis


@tile.kernel
def unfold(x: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """The windows of images [N, C, ...] as columns [N, C * elements of a window, windows]: "im2col".

    `kernel_size`, `dilation`, `stride`: an int, or one for each of one to three axes; `padding` as in `conv2d`.
    """
    name = "ops.unfold"
    x = as_tensor(x)
    rank = max(min(x.ndim - 2, 3), 1)
    axes = image_axes(name, x, None, rank)
    sizes, dilations = (
        per_axis(name, "kernel_size", kernel_size, 1, rank),
        per_axis(name, "dilation", dilation, 1, rank),
    )
    steps = per_axis(name, "stride", stride, 1, rank)
    widths = padding_of(name, padding, [x.shape[axis] for axis in axes], sizes, steps, dilations)
    length = outside(x, axes, widths, sizes, dilations)
    if length is not None:
        refuse_option(name, "kernel_size", kernel_size, f"within the padded axis of {length}", "pad the image")
    windows = tile.window(padded(x, axes, widths, 0), sizes, axes, steps, dilations)
    order = (0, 1, *range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank))
    shape = (x.shape[0], x.shape[1] * math.prod(sizes), math.prod(windows.shape[2 : 2 + rank]))
    return windows.transpose(order).reshape(shape)


@tile.kernel
def fold(x: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """Columns [N, C * elements of a window, windows] added up to images [N, C, ...] of `output_size`: "col2im".

    `output_size` has a number for each axis of the image; other arguments as in `unfold`, of which this is the
    transpose. Summed in f32 for narrow floats. Raises TileShapeError unless there are as many columns as windows.
    """
    name = "ops.fold"
    x = as_tensor(x)
    rank = len(entries_of(output_size)) if isinstance(output_size, (tuple, list)) else 2
    lengths = per_axis(name, "output_size", output_size, 1, rank)
    sizes, dilations = (
        per_axis(name, "kernel_size", kernel_size, 1, rank),
        per_axis(name, "dilation", dilation, 1, rank),
    )
    steps = per_axis(name, "stride", stride, 1, rank)
    widths = padding_of(name, padding, lengths, sizes, steps, dilations)
    counts = [
        (n + sum(width) - d * (size - 1) - 1) // s + 1
        for n, width, d, size, s in zip(lengths, widths, dilations, sizes, steps)
    ]
    elements, windows = math.prod(sizes), math.prod(counts)
    if x.ndim != 3 or x.shape[2] != windows or x.shape[1] % elements:
        expected = f"[N, C * {elements}, {windows}]"
        refuse_rank(name, x, expected, "give a column for each window, with all elements of each channel")
    y: Any = widened(x) if x.dtype.is_float else x
    y = y.reshape((x.shape[0], x.shape[1] // elements, *sizes, *counts))
    axes = [_Folded(*each) for each in zip(lengths, sizes, dilations, steps, counts, (low for low, _ in widths))]
    y = _shifted(y, axes) if all(axis.dilation == 1 for axis in axes) else _gathered(y, axes)
    return y.to(x.dtype)


class _Folded(NamedTuple):
    """An axis of an image and its windows."""

    length: Any
    size: int
    dilation: int
    step: int
    count: Any
    low: int
    """The elements in front of the image that windows reach to."""

    @property
    def meeting(self) -> int:
        """At most how many windows an element is in."""
        return -(-self.size // self.step)


def _shifted(y: Any, axes: Sequence[_Folded]) -> Any:
    """Windows [N, C, sizes ..., counts ...] added up to images, where windows have no gaps.

    Element b of part a of window t is element b of step t + a of the image, so each a is a shift of the windows:

        image[t * step + b] = sum over a: y[a * step + b, t - a]
    """
    if math.prod(axis.meeting for axis in axes) > _TERMS:
        for at, axis in enumerate(axes):
            # [N, C, done ..., size, sizes ..., count, counts ...]
            first, second = 2 + at, 2 + len(axes)
            order = (*(i for i in range(y.ndim) if i not in (first, second)), first, second)
            pairs = y.transpose(order)
            kept = pairs.shape[:-2]
            total = _sum_of_shifts(pairs.reshape((1, math.prod(kept), *pairs.shape[-2:])), [axis])
            total = total.reshape((*kept, axis.length))
            y = total.transpose((*range(first), total.ndim - 1, *range(first, total.ndim - 1)))
        return y
    return _sum_of_shifts(y, axes)


_TERMS = 16
"""So many windows over one element are added in one sum; of more, one axis after the other."""


def _sum_of_shifts(y: Any, axes: Sequence[_Folded]) -> Any:
    rank = len(axes)
    more = [(0, axis.meeting * axis.step - axis.size) for axis in axes]
    if any(width != (0, 0) for width in more):
        y = tile.pad(y, ((0, 0), (0, 0), *more, *[(0, 0)] * rank))
    counts = y.shape[2 + rank :]
    split = [n for axis in axes for n in (axis.meeting, axis.step)]
    y = y.reshape((*y.shape[:2], *split, *counts))
    total: Any = None
    for parts in itertools.product(*(range(axis.meeting) for axis in axes)):
        key = [entry for part in parts for entry in (part, slice(None))]
        shifts = tuple((part, axis.meeting - 1 - part) for part, axis in zip(parts, axes))
        term = tile.pad(y[(slice(None), slice(None), *key)], (*[(0, 0)] * (2 + rank), *shifts))
        total = term if total is None else total + term
    order = [entry for at in range(rank) for entry in (2 + rank + at, 2 + at)]
    steps = [axis.count + axis.meeting - 1 for axis in axes]
    total = total.transpose((0, 1, *order)).reshape((*total.shape[:2], *(n * a.step for n, a in zip(steps, axes))))
    total = total[(slice(None), slice(None), *(slice(axis.low, axis.low + axis.length) for axis in axes))]
    missing = [(0, axis.length - n) for axis, n in zip(axes, total.shape[2:])]
    return tile.pad(total, ((0, 0), (0, 0), *missing)) if any(width != (0, 0) for width in missing) else total


def _gathered(y: Any, axes: Sequence[_Folded]) -> Any:
    """As `_shifted`, where windows have gaps: each element is the sum of those windows that hold it."""
    rank = len(axes)
    for at, (n, size, d, s, count, low) in enumerate(axes):
        # [N, C, done ..., size, sizes ..., count, counts ...]
        first, second = 2 + at, 2 + rank
        order = (*(i for i in range(y.ndim) if i not in (first, second)), first, second)
        pairs = y.transpose(order)
        pairs = pairs.reshape((*pairs.shape[:-2], size * count))
        within = tile.arange(size)[None, :]
        apart = tile.arange(n)[:, None] + low - within * d
        window = apart // s
        met = (apart % s == 0) & (window >= 0) & (window < count)
        total: Any = tile.sum(tile.take(pairs, tile.where(met, within * count + window, -1), axis=-1), axis=-1)
        y = total.transpose((*range(first), total.ndim - 1, *range(first, total.ndim - 1)))
    return y
