"""Pooling."""

from __future__ import annotations

import math
from typing import Any

from tiledsl import tile
from tiledsl.frontend.trace.trace_shapes import entries_of
from tiledsl.importers.torch.register import aten
from tiledsl.ops.checks import as_tensor, widened


def _pair(value: Any) -> list[int]:
    entries = list(entries_of(value))
    return entries * 2 if len(entries) == 1 else entries


def _with_one(value: Any, before: int) -> list[Any]:
    """A setting of one axis as that of two, of which the first has size 1; none stays none."""
    entries = list(entries_of(value))
    return [before, *entries] if entries and entries[0] is not None else []


def _lowest(dtype: Any) -> float:
    return -math.inf if dtype.is_float else -(1 << (dtype.bits - 1)) if dtype.is_signed else 0


def _extra(size: int, window: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    """What is to be added at the end, so that as many windows fit as `ceil_mode` asks for: each begins in the image."""
    if not ceil_mode:
        return 0
    reach = size + 2 * padding - dilation * (window - 1) - 1
    count = -(-reach // stride) + 1
    if (count - 1) * stride >= size + padding:
        count -= 1
    return max((count - 1) * stride - reach, 0)


def _windows(x: Any, sizes: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, fill: float) -> Any:
    """The windows of an image whose axes are the last two, their own axes at the end."""
    steps = _pair(stride) if stride else sizes
    widths: list[tuple[int, int]] = [(0, 0)] * (x.ndim - 2)
    for size, window, step, width, spread in zip(x.shape[-2:], sizes, steps, _pair(padding), _pair(dilation)):
        widths.append((width, width + _extra(size, window, step, width, spread, ceil_mode)))
    return tile.window(
        tile.pad(x, tuple(widths), fill), tuple(sizes), (x.ndim - 2, x.ndim - 1), tuple(steps), tuple(_pair(dilation))
    )


@aten("max_pool2d")
def max_pool2d(
    x: Any, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Any:
    x = as_tensor(x)
    return tile.max(_windows(x, _pair(kernel), stride, padding, dilation, ceil_mode, _lowest(x.dtype)), axis=(-2, -1))


@aten("max_pool1d")
def max_pool1d(
    x: Any, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Any:
    x = as_tensor(x)
    two = [_with_one(value, before) for value, before in ((kernel, 1), (stride, 1), (padding, 0), (dilation, 1))]
    return max_pool2d(x[..., None, :], two[0], two[1], two[2], two[3], ceil_mode)[..., 0, :]


@aten("max_pool2d_with_indices")
def max_pool2d_with_indices(
    x: Any, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Any:
    """With the place of each maximum in the image, its rows behind each other."""
    x = as_tensor(x)
    sizes, steps, widths = _pair(kernel), _pair(stride) if stride else _pair(kernel), _pair(padding)
    spread = _pair(dilation)
    windows = _windows(x, sizes, stride, padding, dilation, ceil_mode, _lowest(x.dtype))
    rows, columns = windows.shape[-4:-2]
    flat = windows.reshape((*windows.shape[:-2], sizes[0] * sizes[1]))
    best = tile.argmax(flat, axis=-1)
    row = tile.arange(rows)[:, None] * steps[0] - widths[0] + best // sizes[1] * spread[0]
    column = tile.arange(columns) * steps[1] - widths[1] + best % sizes[1] * spread[1]
    return tile.max(flat, axis=-1), row * x.shape[-1] + column


@aten("avg_pool2d")
def avg_pool2d(
    x: Any, kernel: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True,
    divisor_override: Any = None,
) -> Any:  # fmt: skip
    x = as_tensor(x)
    sizes = _pair(kernel)
    steps, widths = _pair(stride) if stride else sizes, _pair(padding)
    total = tile.sum(widened(_windows(x, sizes, stride, padding, 1, ceil_mode, 0)), axis=(-2, -1))
    if divisor_override is not None:
        return (total / float(divisor_override)).to(x.dtype)
    count: Any = 1
    for i, at in ((0, -2), (1, -1)):
        first = tile.arange(total.shape[at]) * steps[i] - widths[i]
        end = x.shape[at] + (widths[i] if count_include_pad else 0)
        here = tile.minimum(first + sizes[i], end) - (first if count_include_pad else tile.maximum(first, 0))
        count = count * (here[:, None] if at == -2 else here)
    return (total / count.to(total.dtype)).to(x.dtype)


@aten("avg_pool1d")
def avg_pool1d(
    x: Any, kernel: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True
) -> Any:
    x = as_tensor(x)
    two = [_with_one(value, before) for value, before in ((kernel, 1), (stride, 1), (padding, 0))]
    return avg_pool2d(x[..., None, :], two[0], two[1], two[2], ceil_mode, count_include_pad)[..., 0, :]


@aten("adaptive_avg_pool2d")
@aten("_adaptive_avg_pool2d")
def adaptive_avg_pool2d(x: Any, output_size: Any) -> Any:
    x = as_tensor(x)
    y: Any = widened(x)
    for at, size in zip((-2, -1), output_size):
        y = _adaptive_mean(y, y.ndim + at, size)
    return y.to(x.dtype)


@aten("adaptive_avg_pool1d")
def adaptive_avg_pool1d(x: Any, output_size: Any) -> Any:
    x = as_tensor(x)
    return _adaptive_mean(widened(x), x.ndim - 1, output_size[0]).to(x.dtype)


def _adaptive_mean(x: Any, at: int, count: int) -> Any:
    """Means of `count` parts of an axis: part i from i * n // count up to where the next begins, rounded up."""
    size = x.shape[at]
    if count == 1:
        return tile.mean(x, (at,), keepdims=True)
    if size % count == 0:
        parts = x.reshape((*x.shape[:at], count, size // count, *x.shape[at + 1 :]))
        return tile.mean(parts, (at + 1,))
    part = tile.arange(count)[:, None]
    first, last = part * size // count, ((part + 1) * size + count - 1) // count
    place = tile.arange(size)
    share = ((place >= first) & (place < last)).to(x.dtype) / (last - first).to(x.dtype)
    means: Any = tile.dot(x.swapaxes(at, -1), share.mT)
    return means.swapaxes(at, -1)
