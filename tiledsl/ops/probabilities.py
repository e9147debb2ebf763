"""Softmax and what is made of it. Narrow floats are computed in f32 and rounded once."""

from __future__ import annotations

import math
from typing import Any

from tiledsl import tile
from tiledsl.ops.checks import (
    as_tensor,
    axis_of,
    float_dtype,
    refuse_option,
    refuse_rank,
    refuse_shapes,
    require_float,
    require_integers,
    widened,
)


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
def cross_entropy(logits: Any, target: Any, *, reduction: str = "mean", ignore_index: int = -100) -> Any:
    """log(sum(exp(logits))) - logits[target], along the classes.

    `logits` is [C], [N, C] or [N, C, ...] of floats, `target` [], [N] or [N, ...] of integers: the class of each.
    `reduction`: "none" (the losses, of the shape of `target`), "sum", or "mean" of those whose target is not
    `ignore_index`, which count 0. Another target outside of the classes gives inf. In f32 for narrow floats; the result
    has the dtype of `logits`. Raises TileShapeError if the shapes do not fit.
    """
    name = "ops.cross_entropy"
    logits, target = as_tensor(logits), as_tensor(target)
    require_float(name, logits)
    require_integers(name, target)
    if reduction not in ("none", "sum", "mean"):
        refuse_option(name, "reduction", reduction, '"none", "sum" or "mean"', 'use "mean"')
    if not logits.ndim:
        refuse_rank(name, logits, "[C], [N, C] or [N, C, ...]", "give a number for each class")
    at = 0 if logits.ndim == 1 else 1
    if target.shape != (*logits.shape[:at], *logits.shape[at + 1 :]):
        reason = "the target has all axes of the logits but the classes"
        refuse_shapes(name, target, logits, reason, "classes are axis 1 (of a vector, axis 0): transpose them there")
    wide = widened(logits)
    largest = tile.max(wide, axis=at, keepdims=True)
    total = tile.sum(tile.exp(wide - largest), axis=at)
    expected = (*target.shape[:at], 1, *target.shape[at:])
    ones = (1,) * (logits.ndim - at - 1)
    classes = tile.arange(logits.shape[at]).reshape((logits.shape[at], *ones))
    chosen = tile.where(classes == target.reshape(expected).to(tile.i64), wide, -math.inf)
    losses = tile.log(total) + tile.max(wide, axis=at) - tile.max(chosen, axis=at)
    counts = target != ignore_index
    losses = tile.where(counts, losses, 0.0)
    if reduction == "none":
        return losses.to(logits.dtype)
    if reduction == "sum":
        return tile.sum(losses).to(logits.dtype)
    return (tile.sum(losses) / tile.sum(counts.to(losses.dtype))).to(logits.dtype)
