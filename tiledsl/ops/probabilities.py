"""Softmax and what is made of it. Narrow floats are computed in f32 and rounded once."""

from __future__ import annotations

import math
from typing import Any

from tiledsl import tile
from tiledsl.frontend.trace.trace_shapes import entries_of
from tiledsl.ops.checks import as_tensor, axis_of, float_dtype, widened
from tiledsl.ops.losses import check_reduction, classes_axis, weighted_mean


@tile.kernel
def softmax(x: Any, axis: int = -1) -> Any:
    """exp(x - max) / sum(exp(x - max)) along an axis; NaN where all of it is -inf. The shape and dtype of `x`."""
    x = as_tensor(x)
    return tile.softmax(x, axis=axis_of("ops.softmax", x, axis))


@tile.kernel
def log_softmax(x: Any, axis: int = -1) -> Any:
    """x - max - log(sum(exp(x - max))) along an axis; NaN where all of it is -inf. The shape and dtype of `x`."""
    x = as_tensor(x)
    at = axis_of("ops.log_softmax", x, axis)
    wide = widened(x)
    shifted = wide - tile.max(wide, axis=at, keepdims=True)
    return (shifted - tile.log(tile.sum(tile.exp(shifted), axis=at, keepdims=True))).to(float_dtype(x))


@tile.kernel
def softmin(x: Any, axis: int = -1) -> Any:
    """The softmax of -x along an axis."""
    x = as_tensor(x)
    return tile.softmax(-x, axis=axis_of("ops.softmin", x, axis))


@tile.kernel
def logsumexp(x: Any, axis: Any = -1, keepdims: bool = False) -> Any:
    """log(sum(exp(x))) over some axes (an int, a tuple, None for all), without overflow."""
    x = as_tensor(x)
    axes = tuple(range(x.ndim)) if axis is None else tuple(axis_of("ops.logsumexp", x, a) for a in entries_of(axis))
    wide = widened(x)
    largest = tile.max(wide, axis=axes, keepdims=True)
    total = tile.log(tile.sum(tile.exp(wide - largest), axis=axes, keepdims=True)) + largest
    total = tile.where(tile.abs(largest) == math.inf, largest, total)  # the difference of infinities is no number
    kept = total.shape if keepdims else tuple(n for i, n in enumerate(total.shape) if i not in axes)
    return total.reshape(kept).to(float_dtype(x))


@tile.kernel
def cross_entropy(
    logits: Any,
    target: Any,
    weight: Any = None,
    *,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Any:
    """log(sum(exp(logits))) - logits[target], along the classes.

    `logits` is [C], [N, C] or [N, C, ...] of floats, `target` [], [N] or [N, ...] of integers: the class of each.
    `reduction`: "none" (the losses, of the shape of `target`), "sum", or "mean" of those whose target is not
    `ignore_index`, which count 0. Another target outside of the classes gives inf. `weight` [C] multiplies the losses
    of a class, and its share of the mean; `label_smoothing` is a share of the target that all classes have alike.
    In f32 for narrow floats; the result has the dtype of `logits`. Raises TileShapeError if the shapes do not fit.
    """
    name = "ops.cross_entropy"
    logits, target = as_tensor(logits), as_tensor(target)
    at = classes_axis(name, logits, target)
    check_reduction(name, reduction)
    wide = widened(logits)
    largest = tile.max(wide, axis=at, keepdims=True)
    total = tile.sum(tile.exp(wide - largest), axis=at)
    expected = (*target.shape[:at], 1, *target.shape[at:])
    ones = (1,) * (logits.ndim - at - 1)
    classes = tile.arange(logits.shape[at]).reshape((logits.shape[at], *ones))
    chosen = tile.where(classes == target.reshape(expected).to(tile.i64), wide, -math.inf)
    logarithm = tile.log(total) + tile.max(wide, axis=at)
    losses = logarithm - tile.max(chosen, axis=at)
    if weight is None and not label_smoothing:
        counts = target != ignore_index
        losses = tile.where(counts, losses, 0.0)
        if reduction == "none":
            return losses.to(logits.dtype)
        if reduction == "sum":
            return tile.sum(losses).to(logits.dtype)
        return (tile.sum(losses) / tile.sum(counts.to(losses.dtype))).to(logits.dtype)
    sharp = weighted_mean(name, losses, logits, target, weight, at, reduction, ignore_index)
    if not label_smoothing:
        return sharp
    each = logarithm.reshape(expected) - wide
    if weight is not None:
        each = each * widened(as_tensor(weight)).reshape((logits.shape[at], *ones))
    smooth = tile.where(target != ignore_index, tile.sum(each, axis=at), 0.0)
    if reduction != "none":
        smooth = tile.sum(smooth)
    if reduction == "mean":
        one = tile.broadcast_to(as_tensor(1.0).to(wide.dtype), target.shape)
        smooth = smooth / weighted_mean(name, one, logits, target, weight, at, "sum", ignore_index).to(wide.dtype)
    share = label_smoothing / logits.shape[at]
    return (widened(sharp) * (1.0 - label_smoothing) + smooth * share).to(logits.dtype)
