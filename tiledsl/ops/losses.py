"""Losses: how far predictions are from targets. Narrow floats are computed in f32 and rounded once.

`reduction` is "none" (a loss for each element), "sum" or "mean".
"""

from __future__ import annotations

from typing import Any

from tiledsl import tile
from tiledsl.ops.checks import (
    as_tensor,
    float_dtype,
    refuse_option,
    refuse_rank,
    refuse_shapes,
    require_float,
    require_integers,
    widened,
)


@tile.kernel
def mse_loss(x: Any, target: Any, *, reduction: str = "mean") -> Any:
    """(x - target)^2; both broadcast."""
    return _of_difference("ops.mse_loss", x, target, reduction, _square)


@tile.kernel
def l1_loss(x: Any, target: Any, *, reduction: str = "mean") -> Any:
    """|x - target|; both broadcast."""
    return _of_difference("ops.l1_loss", x, target, reduction, tile.abs)


@tile.kernel
def smooth_l1_loss(x: Any, target: Any, *, beta: float = 1.0, reduction: str = "mean") -> Any:
    """d^2 / 2 / beta where |d| < beta, else |d| - beta / 2, with d = x - target; both broadcast."""
    name = "ops.smooth_l1_loss"
    if beta < 0:
        refuse_option(name, "beta", beta, "a number from 0 on", "use 1.0")
    if beta == 0:
        return _of_difference(name, x, target, reduction, tile.abs)

    def loss(d: Any) -> Any:
        return tile.where(tile.abs(d) < beta, d * d * (0.5 / beta), tile.abs(d) - 0.5 * beta)

    return _of_difference(name, x, target, reduction, loss)


@tile.kernel
def huber_loss(x: Any, target: Any, *, delta: float = 1.0, reduction: str = "mean") -> Any:
    """d^2 / 2 where |d| < delta, else delta * (|d| - delta / 2), with d = x - target; both broadcast."""
    if delta <= 0:
        refuse_option("ops.huber_loss", "delta", delta, "a number above 0", "use 1.0")

    def loss(d: Any) -> Any:
        return tile.where(tile.abs(d) < delta, d * d * 0.5, (tile.abs(d) - 0.5 * delta) * delta)

    return _of_difference("ops.huber_loss", x, target, reduction, loss)


@tile.kernel
def bce_loss(x: Any, target: Any, weight: Any = None, *, reduction: str = "mean") -> Any:
    """-(target * log(x) + (1 - target) * log(1 - x)), times `weight`, of shares `x`; logarithms from -100 on."""
    x, target = as_tensor(x), as_tensor(target)
    wide, wanted = widened(x), widened(target)
    yes, no = tile.maximum(tile.log(wide), -100.0), tile.maximum(tile.log1p(-wide), -100.0)
    losses = (wanted - 1.0) * no - wanted * yes
    return _reduced("ops.bce_loss", losses if weight is None else losses * widened(as_tensor(weight)), x, reduction)


@tile.kernel
def bce_with_logits_loss(
    x: Any, target: Any, weight: Any = None, pos_weight: Any = None, *, reduction: str = "mean"
) -> Any:
    """`bce_loss` of sigmoid(x), without overflow; `pos_weight` multiplies the part of the target."""
    x, target = as_tensor(x), as_tensor(target)
    wide, wanted = widened(x), widened(target)
    soft = tile.log1p(tile.exp(-tile.abs(wide))) + tile.maximum(-wide, 0.0)
    if pos_weight is None:
        losses = (1.0 - wanted) * wide + soft
    else:
        losses = (1.0 - wanted) * wide + (1.0 + (widened(as_tensor(pos_weight)) - 1.0) * wanted) * soft
    losses = losses if weight is None else losses * widened(as_tensor(weight))
    return _reduced("ops.bce_with_logits_loss", losses, x, reduction)


@tile.kernel
def kl_div(x: Any, target: Any, *, log_target: bool = False, reduction: str = "mean") -> Any:
    """target * (log(target) - x), of logarithms `x`; 0 where the target is 0. `log_target`: it is logarithms too.

    `reduction` may also be "batchmean": the sum divided by the size of the first axis.
    """
    name = "ops.kl_div"
    x, target = as_tensor(x), as_tensor(target)
    wide, wanted = widened(x), widened(target)
    if log_target:
        losses = tile.exp(wanted) * (wanted - wide)
    else:
        losses = tile.where(wanted > 0, wanted * (tile.log(wanted) - wide), wanted * 0.0)
    if reduction == "batchmean":
        return (tile.sum(losses) / losses.shape[0]).to(float_dtype(x))
    return _reduced(name, losses, x, reduction)


@tile.kernel
def nll_loss(x: Any, target: Any, weight: Any = None, *, reduction: str = "mean", ignore_index: int = -100) -> Any:
    """-x[target] along the classes, times weight[target]; see `cross_entropy`, which takes logits.

    `x` is [C], [N, C] or [N, C, ...] of floats, `target` [], [N] or [N, ...] of integers, `weight` [C]. Targets that
    are `ignore_index` count 0; "mean" divides by the weights of those that count. Raises TileShapeError if shapes do
    not fit.
    """
    name = "ops.nll_loss"
    x, target = as_tensor(x), as_tensor(target)
    at = classes_axis(name, x, target)
    losses = -chosen_class(widened(x), target, at)
    return weighted_mean(name, losses, x, target, weight, at, reduction, ignore_index)


def classes_axis(name: str, x: Any, target: Any) -> int:
    """The axis of the classes. Raises errors unless there is a target for each element of the others."""
    require_float(name, x)
    require_integers(name, target)
    if not x.ndim:
        refuse_rank(name, x, "[C], [N, C] or [N, C, ...]", "give a number for each class")
    at = 0 if x.ndim == 1 else 1
    if target.shape != (*x.shape[:at], *x.shape[at + 1 :]):
        reason = "the target has all axes of the input but the classes"
        refuse_shapes(name, target, x, reason, "classes are axis 1 (of a vector, axis 0): transpose them there")
    return at


def chosen_class(x: Any, target: Any, at: int) -> Any:
    """x[target] along an axis, 0 where there is no such class."""
    ones = (1,) * (x.ndim - at - 1)
    classes = tile.arange(x.shape[at]).reshape((x.shape[at], *ones))
    wanted = target.reshape((*target.shape[:at], 1, *target.shape[at:])).to(tile.i64)
    return tile.sum(tile.where(classes == wanted, x, 0.0), axis=at)


def weighted_mean(
    name: str, losses: Any, x: Any, target: Any, weight: Any, at: int, reduction: str, ignore_index: int
) -> Any:
    """The losses that count, times the weights of their classes; their mean is by those weights."""
    check_reduction(name, reduction)
    counts = target != ignore_index
    if weight is None:
        share = counts.to(losses.dtype)
    else:
        given = as_tensor(weight)
        if given.shape != (x.shape[at],):
            refuse_shapes(name, given, x, "there is one weight for each class", "give it the number of classes")
        each = widened(given).reshape((x.shape[at],) + (1,) * (x.ndim - at - 1))
        share = tile.where(counts, chosen_class(tile.broadcast_to(each, x.shape), target, at), 0.0)
    losses = tile.where(counts, losses * share, 0.0)
    if reduction == "none":
        return losses.to(x.dtype)
    total = tile.sum(losses)
    return (total if reduction == "sum" else total / tile.sum(share)).to(x.dtype)


def check_reduction(name: str, reduction: str) -> None:
    """Raises TileTypeError unless it is one."""
    if reduction not in ("none", "sum", "mean"):
        refuse_option(name, "reduction", reduction, '"none", "sum" or "mean"', 'use "mean"')


def _square(d: Any) -> Any:
    return d * d


def _of_difference(name: str, x: Any, target: Any, reduction: str, loss: Any) -> Any:
    x, target = as_tensor(x), as_tensor(target)
    return _reduced(name, loss(widened(x) - widened(target)), x, reduction)


def _reduced(name: str, losses: Any, x: Any, reduction: str) -> Any:
    check_reduction(name, reduction)
    if reduction != "none":
        losses = tile.sum(losses) if reduction == "sum" else tile.mean(losses)
    return losses.to(float_dtype(x))
