"""Normalisation."""

from __future__ import annotations

import math
from typing import Any

from tiledsl import ops, tile
from tiledsl.importers.torch.register import aten
from tiledsl.ops.checks import as_tensor, refuse_option, widened


@aten("layer_norm")
def layer_norm(x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any) -> Any:
    return ops.layer_norm(x, tuple(shape), weight, bias, eps)


@aten("native_layer_norm")
def native_layer_norm(x: Any, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    x = as_tensor(x)
    axes = tuple(range(x.ndim - len(shape), x.ndim))
    wide = widened(x)
    middle = tile.mean(wide, axes, keepdims=True)
    centred = wide - middle
    scale = tile.rsqrt(tile.mean(centred * centred, axes, keepdims=True) + eps)
    y = centred * scale
    if weight is not None:
        y = y * widened(as_tensor(weight))
    if bias is not None:
        y = y + widened(as_tensor(bias))
    return y.to(x.dtype), middle, scale


@aten("rms_norm")
def rms_norm(x: Any, shape: Any, weight: Any = None, eps: Any = None) -> Any:
    x = as_tensor(x)
    return ops.rms_norm(x, tuple(shape), weight, _epsilon(x) if eps is None else eps)


@aten("_fused_rms_norm")
def fused_rms_norm(x: Any, shape: Any, weight: Any, eps: Any) -> Any:
    x = as_tensor(x)
    wide = widened(x)
    axes = tuple(range(x.ndim - len(shape), x.ndim))
    scale = tile.rsqrt(tile.mean(wide * wide, axes, keepdims=True) + (_epsilon(x) if eps is None else eps))
    y = wide * scale
    return (y if weight is None else y * widened(as_tensor(weight))).to(x.dtype), scale


def _epsilon(x: Any) -> float:
    """The difference of 1 and the next number, as norms are computed."""
    return 2.0**-52 if x.dtype.bits == 64 else 2.0**-23


def _normalised(x: Any, axes: tuple[int, ...], eps: float) -> tuple[Any, Any, Any, Any]:
    """(x - mean) / sqrt(var + eps) over some axes; the mean, the variance, and 1 / sqrt(var + eps) with them."""
    middle = tile.mean(x, axes, keepdims=True)
    centred = x - middle
    variance = tile.mean(centred * centred, axes, keepdims=True)
    scale = tile.rsqrt(variance + eps)
    return centred * scale, middle, variance, scale


def _channels(value: Any, x: Any) -> Any:
    """One number for each channel as it goes with a batch of them."""
    return widened(as_tensor(value)).reshape((1, x.shape[1], *(1,) * (x.ndim - 2)))


def _affine(y: Any, x: Any, weight: Any, bias: Any) -> Any:
    if weight is not None:
        y = y * _channels(weight, x)
    if bias is not None:
        y = y + _channels(bias, x)
    return y.to(x.dtype)


def _batch_norm(x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, eps: float) -> Any:
    """The result, mean and 1 / sqrt(var + eps) of each channel, and mean and variance of this batch."""
    x = as_tensor(x)
    if not training:
        return ops.batch_norm(x, mean, var, weight, bias, eps), None, None, None, None
    axes = (0, *range(2, x.ndim))
    y, middle, variance, scale = _normalised(widened(x), axes, eps)
    flat = [value.reshape((x.shape[1],)) for value in (middle, scale, variance)]
    return _affine(y, x, weight, bias), flat[0], flat[1], flat[0], flat[2]


@aten("batch_norm")
def batch_norm(
    x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float, *_: Any
) -> Any:
    return _batch_norm(x, weight, bias, mean, var, training or mean is None, eps)[0]


@aten("_native_batch_norm_legit_no_training")
def batch_norm_inference(x: Any, weight: Any, bias: Any, mean: Any, var: Any, momentum: float, eps: float) -> Any:
    x = as_tensor(x)
    nothing = tile.zeros((0,), widened(x).dtype)
    return ops.batch_norm(x, mean, var, weight, bias, eps), nothing, nothing


@aten("_native_batch_norm_legit", "no_stats")
def batch_norm_no_stats(x: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float) -> Any:
    y, middle, scale, _, _ = _batch_norm(x, weight, bias, None, None, True, eps)
    return y, middle, scale


@aten("native_batch_norm")
@aten("_native_batch_norm_legit")
def native_batch_norm(
    x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float
) -> Any:
    """Where it trains without running statistics, or infers by them; else it would change these."""
    if training and mean is not None:
        refuse_option("batch_norm", "training", training, "False where there are running statistics", "call `eval()`")
    if training:
        return batch_norm_no_stats(x, weight, bias, training, momentum, eps)
    return batch_norm_inference(x, weight, bias, mean, var, momentum, eps)


@aten("_native_batch_norm_legit_functional")
def batch_norm_functional(
    x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float
) -> Any:
    """With the running statistics as they are afterwards, the variance of a sample."""
    x = as_tensor(x)
    y, middle, scale, batch, variance = _batch_norm(x, weight, bias, mean, var, training, eps)
    if not training:
        nothing = tile.zeros((0,), widened(x).dtype)
        return y, nothing, nothing, as_tensor(mean), as_tensor(var)
    count = math.prod([x.shape[0], *x.shape[2:]])
    sample = variance * (count / max(count - 1, 1))
    mean, var = as_tensor(mean), as_tensor(var)
    return (
        y, middle, scale,
        (mean + (batch - mean) * momentum).to(mean.dtype), (var + (sample - var) * momentum).to(var.dtype),
    )  # fmt: skip


def _groups(x: Any, groups: int) -> Any:
    return widened(x).reshape((x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]))


@aten("group_norm")
def group_norm(x: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any) -> Any:
    return native_group_norm(x, weight, bias, 0, 0, 0, groups, eps)[0]


@aten("native_group_norm")
def native_group_norm(x: Any, weight: Any, bias: Any, n: Any, c: Any, hxw: Any, groups: int, eps: float) -> Any:
    x = as_tensor(x)
    parts = _groups(x, groups)
    y, middle, _, scale = _normalised(parts, tuple(range(2, parts.ndim)), eps)
    shape = (x.shape[0], groups)
    return _affine(y.reshape(x.shape), x, weight, bias), middle.reshape(shape), scale.reshape(shape)


@aten("instance_norm")
def instance_norm(
    x: Any, weight: Any, bias: Any, mean: Any, var: Any, use_input_stats: bool, momentum: float, eps: float, *_: Any
) -> Any:
    x = as_tensor(x)
    if not use_input_stats:
        return ops.batch_norm(x, mean, var, weight, bias, eps)
    y, _, _, _ = _normalised(widened(x), tuple(range(2, x.ndim)), eps)
    return _affine(y, x, weight, bias)
