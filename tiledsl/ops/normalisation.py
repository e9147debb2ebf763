"""Normalisation: of rows by their own mean and variance, of channels by running ones.

Narrow floats are summed and computed in f32, and rounded once to the dtype of `x`.
"""

from __future__ import annotations

from typing import Any

from tiledsl import tile
from tiledsl.frontend.trace.trace_shapes import entries_of
from tiledsl.ops.checks import as_tensor, axis_of, refuse_option, refuse_shapes, require_float, widened


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

    def channels(value: Any) -> Any:
        given = as_tensor(value)
        if given.shape != (x.shape[at],):
            refuse_shapes(name, given, x, f"there is one number for each channel, axis {axis}", "say `axis=`")
        return widened(given)

    scale = tile.rsqrt(channels(running_var) + eps)
    scale = scale if weight is None else scale * channels(weight)
    shift = -channels(running_mean) * scale
    shift = shift if bias is None else shift + channels(bias)
    return (widened(x) * scale.reshape(shape) + shift.reshape(shape)).to(x.dtype)


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
