"""Normalisation: of rows by their own mean and variance, of channels by running ones.

Narrow floats are summed and computed in f32, and rounded once to the dtype of `x`.
"""

from __future__ import annotations

import math
from typing import Any

from tiledsl import tile
from tiledsl.frontend.trace.trace_shapes import entries_of
from tiledsl.ops.checks import as_tensor, axis_of, refuse_option, refuse_shapes, require_float, widened
from tiledsl.ops.images.pooling import powered


@tile.kernel
def layer_norm(x: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """(x - mean) / sqrt(variance + eps) * weight + bias, over the last axes of `x`.

    `normalized_shape` are the sizes of those axes (an int for one); `weight` and `bias` have that shape. The variance
    is the mean of (x - mean)^2. Raises TileShapeError if the sizes are not those of `x`.
    """
    x = as_tensor(x)
    axes = _last_axes("ops.layer_norm", x, normalized_shape)
    wide = widened(x)
    centred = wide - tile.mean(wide, axes, keepdims=True)
    variance = tile.mean(centred * centred, axes, keepdims=True)
    return _affine("ops.layer_norm", x, centred * tile.rsqrt(variance + eps), axes, weight, bias)


@tile.kernel
def rms_norm(x: Any, normalized_shape: Any, weight: Any = None, eps: float = 1e-6) -> Any:
    """x / sqrt(mean(x^2) + eps) * weight, over the last axes of `x`, whose sizes are `normalized_shape`.

    `weight` has that shape. Raises TileShapeError if the sizes are not those of `x`.
    """
    x = as_tensor(x)
    axes = _last_axes("ops.rms_norm", x, normalized_shape)
    wide = widened(x)
    square = tile.mean(wide * wide, axes, keepdims=True)
    return _affine("ops.rms_norm", x, wide * tile.rsqrt(square + eps), axes, weight, None)


@tile.kernel
def batch_norm(
    x: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, axis: int = 1
) -> Any:
    """(x - running_mean) / sqrt(running_var + eps) * weight + bias for each channel: inference alone.

    Channels are axis `axis` of `x` (1 for NCHW, -1 for NHWC); all others are [C]. Raises TileShapeError if they are
    not.
    """
    name = "ops.batch_norm"
    x = as_tensor(x)
    require_float(name, x)
    at = axis_of(name, x, axis)
    shape = tuple(x.shape[at] if i == at else 1 for i in range(x.ndim))
    scale = tile.rsqrt(_channels(name, running_var, x, at) + eps)
    scale = scale if weight is None else scale * _channels(name, weight, x, at)
    shift = -_channels(name, running_mean, x, at) * scale
    shift = shift if bias is None else shift + _channels(name, bias, x, at)
    return (widened(x) * scale.reshape(shape) + shift.reshape(shape)).to(x.dtype)


@tile.kernel
def batch_norm_training(
    x: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    momentum: float = 0.1,
    eps: float = 1e-5,
    axis: int = 1,
    *,
    unbiased: bool = True,
) -> Any:
    """Batch norm by the mean and variance of the channels of `x` themselves.

    Gives (y, new running mean, new running variance, mean, variance): new is (1 - momentum) * running + momentum * that
    of `x`, whose variance there is that of a sample if `unbiased` (PyTorch; ONNX takes the plain one). The statistics
    are [C], in f32 for narrow floats; the running ones of the dtype that they had. Arguments as in `batch_norm`.
    """
    name = "ops.batch_norm_training"
    x = as_tensor(x)
    require_float(name, x)
    at = axis_of(name, x, axis)
    axes = tuple(i for i in range(x.ndim) if i != at)
    shape = tuple(x.shape[at] if i == at else 1 for i in range(x.ndim))
    wide = widened(x)
    mean = tile.mean(wide, axes, keepdims=True)
    centred = wide - mean
    variance = tile.mean(centred * centred, axes, keepdims=True)
    y = centred * tile.rsqrt(variance + eps)
    y = y if weight is None else y * _channels(name, weight, x, at).reshape(shape)
    y = y if bias is None else y + _channels(name, bias, x, at).reshape(shape)
    mean, variance = mean.reshape(-1), variance.reshape(-1)
    count: Any = math.prod(x.shape[i] for i in axes)
    whole = variance * (count / tile.maximum(count - 1, 1)) if unbiased else variance
    old = [_channels(name, value, x, at) for value in (running_mean, running_var)]
    new = [before * (1.0 - momentum) + now * momentum for before, now in zip(old, (mean, whole))]
    dtypes = [as_tensor(value).dtype for value in (running_mean, running_var)]
    return y.to(x.dtype), new[0].to(dtypes[0]), new[1].to(dtypes[1]), mean, variance


@tile.kernel
def group_norm(x: Any, groups: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, axis: int = 1) -> Any:
    """(x - mean) / sqrt(variance + eps) * weight + bias, over each group of channels of each element of the batch.

    `x` is [N, ..., C, ...] with channels on axis `axis`; `weight` and `bias` are [C]. Raises TileTypeError unless the
    number of groups divides that of the channels.
    """
    name = "ops.group_norm"
    x = as_tensor(x)
    require_float(name, x)
    at = axis_of(name, x, axis)
    channels = x.shape[at]
    if not isinstance(groups, int) or groups < 1 or (isinstance(channels, int) and channels % groups):
        refuse_option(name, "groups", groups, f"a divisor of the {channels} channels", "use 1 for one group")
    wide = widened(x).reshape((*x.shape[:at], groups, channels // groups, *x.shape[at + 1 :]))
    axes = tuple(i for i in range(1, wide.ndim) if i != at)
    centred = wide - tile.mean(wide, axes, keepdims=True)
    y = centred * tile.rsqrt(tile.mean(centred * centred, axes, keepdims=True) + eps)
    y = y.reshape(x.shape)
    shape = tuple(channels if i == at else 1 for i in range(x.ndim))
    y = y if weight is None else y * _channels(name, weight, x, at).reshape(shape)
    y = y if bias is None else y + _channels(name, bias, x, at).reshape(shape)
    return y.to(x.dtype)


@tile.kernel
def instance_norm(x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, axis: int = 1) -> Any:
    """`group_norm` with a group for each channel: over all axes but the first and that of the channels."""
    x = as_tensor(x)
    return group_norm(x, x.shape[axis_of("ops.instance_norm", x, axis)], weight, bias, eps, axis)


@tile.kernel
def lp_normalize(x: Any, p: Any = 2.0, axis: int = 1, eps: float = 1e-12) -> Any:
    """x / max(norm, eps), with the norm (the sum of |x|^p)^(1/p) along an axis; p may be inf."""
    name = "ops.lp_normalize"
    x = as_tensor(x)
    require_float(name, x)
    at = axis_of(name, x, axis)
    if not isinstance(p, (int, float)) or p <= 0:
        refuse_option(name, "p", p, "a number above 0", "use 2 for the root of squares")
    size = tile.abs(widened(x))
    if p == math.inf:
        norm = tile.max(size, at, keepdims=True)
    else:
        norm = powered(tile.sum(powered(size, p), at, keepdims=True), 1.0 / p)
    return (widened(x) / tile.maximum(norm, eps)).to(x.dtype)


@tile.kernel
def local_response_norm(
    x: Any, size: Any, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0, axis: int = 1, *, before: Any = None
) -> Any:
    """x / (k + alpha * mean)^beta, with the mean of x^2 over `size` neighbouring channels, zeros beyond the ends.

    `before` of them are before the channel, if it is None size // 2 as in PyTorch.
    """
    name = "ops.local_response_norm"
    x = as_tensor(x)
    require_float(name, x)
    at = axis_of(name, x, axis)
    if not isinstance(size, int) or size < 1:
        refuse_option(name, "size", size, "an int from 1 on", "say how many channels are looked at")
    first = size // 2 if before is None else before
    if not isinstance(first, int) or not 0 <= first < size:
        refuse_option(name, "before", before, f"an int from 0 to {size - 1}", "use None for half of them")
    wide = widened(x)
    width = tuple((first, size - 1 - first) if i == at else (0, 0) for i in range(x.ndim))
    near = tile.sum(tile.window(tile.pad(wide * wide, width), size, at), axis=-1)
    return (wide / tile.pow(near * (alpha / size) + k, beta)).to(x.dtype)


def _channels(name: str, value: Any, x: Any, at: int) -> Any:
    """A number for each channel of `x`. Raises TileShapeError if it is none."""
    given = as_tensor(value)
    if given.shape != (x.shape[at],):
        refuse_shapes(name, given, x, f"there is one number for each channel, axis {at}", "say `axis=`")
    return widened(given)


def _last_axes(name: str, x: Any, normalized_shape: Any) -> tuple[int, ...]:
    """The axes that a norm goes over."""
    require_float(name, x)
    sizes = entries_of(normalized_shape)
    if not sizes or len(sizes) > x.ndim or sizes != x.shape[x.ndim - len(sizes) :]:
        expected = f"the last sizes of `x`, {list(x.shape)}"
        refuse_option(name, "normalized_shape", normalized_shape, expected, f"use {x.shape[-1] if x.ndim else ()}")
    return tuple(range(x.ndim - len(sizes), x.ndim))


def _affine(name: str, x: Any, y: Any, axes: tuple[int, ...], weight: Any, bias: Any) -> Any:
    """y * weight + bias, in the dtype of `x`."""
    for value, fn in ((weight, "mul"), (bias, "add")):
        if value is None:
            continue
        given = as_tensor(value)
        if given.shape != x.shape[axes[0] :]:
            refuse_shapes(name, given, x, "weight and bias have the last axes of `x`", "give them `normalized_shape`")
        y = y * widened(given) if fn == "mul" else y + widened(given)
    return y.to(x.dtype)
