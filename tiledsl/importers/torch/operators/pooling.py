"""Pooling, of one to three axes, and the gradients of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tiledsl import ops, tile
from tiledsl.frontend.trace.trace_shapes import entries_of
from tiledsl.importers.torch.register import aten
from tiledsl.ops.checks import as_tensor, widened

_LARGEST = {1: ops.max_pool1d, 2: ops.max_pool2d, 3: ops.max_pool3d}
_MEAN = {1: ops.avg_pool1d, 2: ops.avg_pool2d, 3: ops.avg_pool3d}


def each(value: Any, count: int) -> tuple[Any, ...]:
    """One number for each axis, of a list that may have one for all."""
    entries = entries_of(value)
    return entries * count if len(entries) == 1 else entries


def _in_batch(rank: int, x: Any, fn: Callable[[Any], Any]) -> Any:
    """A function of batches of images, for one image too."""
    if x.ndim > rank + 1:
        return fn(x)
    results = [one[0] for one in entries_of(fn(x[None]))]
    return tuple(results) if len(results) > 1 else results[0]


def _max_pool(
    rank: int, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, indices: bool
) -> Any:
    steps = each(stride, rank) if stride else None
    sizes, widths, spread = each(kernel, rank), each(padding, rank), each(dilation, rank)

    def pooled(images: Any) -> Any:
        return _LARGEST[rank](
            images, sizes, steps, _padding(rank, widths), spread, ceil_mode=ceil_mode, return_indices=indices
        )

    return _in_batch(rank, as_tensor(x), pooled)


def _padding(rank: int, widths: tuple[Any, ...]) -> Any:
    """Equal widths before and after, one number for each axis."""
    return tuple((width, width) for width in widths) if rank == 2 else widths


def _max_pools(rank: int) -> None:
    def values(
        x: Any, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
    ) -> Any:
        return _max_pool(rank, x, kernel, stride, padding, dilation, ceil_mode, False)

    def with_indices(
        x: Any, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
    ) -> Any:
        return _max_pool(rank, x, kernel, stride, padding, dilation, ceil_mode, True)

    aten(f"max_pool{rank}d")(values)
    aten(f"max_pool{rank}d_with_indices")(with_indices)


def _avg_pools(rank: int) -> None:
    def mean(
        x: Any, kernel: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: Any = None,
    ) -> Any:  # fmt: skip
        steps = each(stride, rank) if stride else None
        sizes, widths = each(kernel, rank), each(padding, rank)

        def pooled(images: Any) -> Any:
            return _MEAN[rank](
                images, sizes, steps, _padding(rank, widths), ceil_mode=ceil_mode,
                count_include_pad=count_include_pad, divisor=divisor_override,
            )  # fmt: skip

        return _in_batch(rank, as_tensor(x), pooled)

    aten(f"avg_pool{rank}d")(mean)


def _adaptive(rank: int) -> None:
    def mean(x: Any, output_size: Any) -> Any:
        return _in_batch(rank, as_tensor(x), lambda images: ops.adaptive_avg_pool(images, tuple(output_size)))

    def largest(x: Any, output_size: Any) -> Any:
        return _in_batch(
            rank, as_tensor(x), lambda images: ops.adaptive_max_pool(images, tuple(output_size), return_indices=True)
        )

    aten(f"adaptive_avg_pool{rank}d")(mean)
    if rank > 1:
        aten(f"_adaptive_avg_pool{rank}d")(mean)
    aten(f"adaptive_max_pool{rank}d")(largest)


for _rank in (1, 2, 3):
    _max_pools(_rank)
    _avg_pools(_rank)
    _adaptive(_rank)


@aten("max_pool2d_with_indices_backward")
def max_pool_backward(
    grad: Any, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, indices: Any, *,
    deterministic: bool = False,
) -> Any:  # fmt: skip
    """Each gradient added where its maximum stood."""
    grad, x, indices = as_tensor(grad), as_tensor(x), as_tensor(indices)
    rows = math.prod(x.shape[:-2])
    flat = [v.reshape((rows, v.shape[-2] * v.shape[-1])) for v in (grad, indices)]
    nothing = tile.zeros((rows, x.shape[-2] * x.shape[-1]), grad.dtype)
    y = ops.scatter(nothing, flat[1], flat[0], 1, reduce="add", deterministic=deterministic)
    return y.reshape(x.shape)


@aten("avg_pool2d_backward")
def avg_pool_backward(
    grad: Any, x: Any, kernel: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool,
    divisor_override: Any,
) -> Any:  # fmt: skip
    """The transpose: each gradient, by the count of its window, added to all of the window."""
    grad, x = as_tensor(grad), as_tensor(x)
    sizes, widths = each(kernel, 2), each(padding, 2)
    steps = each(stride, 2) if stride else sizes
    count: Any = divisor_override
    if count is None:
        count = 1
        for i, at in ((0, -2), (1, -1)):
            length = x.shape[at] + widths[i]
            first = tile.arange(grad.shape[at]) * steps[i] - widths[i]
            low, end = (first, length) if count_include_pad else (tile.maximum(first, 0), x.shape[at])
            here = (tile.minimum(first + sizes[i], end) - low).to(widened(grad).dtype)
            count = count * (here[:, None] if at == -2 else here)
    images = (widened(grad) / count).reshape((math.prod(grad.shape[:-2]), 1, *grad.shape[-2:]))
    whole = ops.conv_transpose2d(images, tile.ones((1, 1, *sizes), images.dtype), stride=steps)
    return _cropped(whole, widths, x.shape[-2:]).reshape(x.shape).to(grad.dtype)


def _cropped(images: Any, widths: Any, sizes: Any) -> Any:
    """What lies within the image of what was padded; where no window reached, zeros."""
    missing = [max(width + size - have, 0) for width, size, have in zip(widths, sizes, images.shape[-2:])]
    images = tile.pad(images, ((0, 0), (0, 0), *((0, n) for n in missing)))
    return images[:, :, widths[0] : widths[0] + sizes[0], widths[1] : widths[1] + sizes[1]]


@aten("_adaptive_avg_pool2d_backward")
def adaptive_avg_pool_backward(grad: Any, x: Any) -> Any:
    """The transpose, axis by axis: what share each element has in each part."""
    grad, x = as_tensor(grad), as_tensor(x)
    result: Any = widened(grad)
    for at in (-2, -1):
        count, size = grad.shape[at], x.shape[at]
        part, place = tile.arange(count)[:, None], tile.arange(size)
        first, last = part * size // count, ((part + 1) * size + count - 1) // count
        shares = ((place >= first) & (place < last)).to(result.dtype) / (last - first).to(result.dtype)
        product: Any = tile.dot(result.swapaxes(at, -1), shares)
        result = product.swapaxes(at, -1)
    return result.to(grad.dtype)
