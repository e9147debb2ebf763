"""Functions of PyTorch that look at values only to check them, written so that they do not: then they can be exported.

torch.cov(x)        looks whether its weights are positive        =>        (x - mean) @ (x - mean).mT / (n - 1)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch


def _cov(x: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    rows = x if x.ndim == 2 else x.reshape(1, -1)
    if not rows.is_floating_point():
        rows = rows.to(torch.get_default_dtype())
    weights = torch.ones(rows.shape[1], dtype=rows.dtype)
    for given in (fweights, aweights):
        weights = weights if given is None else weights * given.to(rows.dtype)
    total = weights.sum()
    centred = rows - (rows * weights).sum(1, keepdim=True) / total
    left = total - correction
    if aweights is not None:
        left = total - correction * (weights * aweights.to(rows.dtype)).sum() / total
    found = (centred * weights) @ centred.mT / left.clamp(min=0)
    return found if x.ndim == 2 else found.reshape(())


def _corrcoef(x: Any) -> Any:
    if x.ndim < 2:
        found = _cov(x)
        return found / found
    found = _cov(x)
    spread = torch.diagonal(found).sqrt()
    return (found / spread[:, None] / spread).clamp(-1, 1)


def _gaussian_nll_loss(
    x: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Any:
    if isinstance(var, float):
        var = var * torch.ones_like(x)
    if var.shape != x.shape and var.ndim == x.ndim - 1:
        var = var.unsqueeze(-1)
    var = var.clamp(min=eps)
    loss = 0.5 * (var.log() + (x - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def _ctc_loss(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: str = "mean",
    zero_infinity: bool = False,
) -> Any:  # fmt: skip
    """The sums over alignments, step by step, in logarithms; states are blanks and labels in turn."""
    single = log_probs.ndim == 2
    if single:
        log_probs, targets = log_probs[:, None], targets[None]
    steps, batch, _ = log_probs.shape
    if targets.ndim != 2:
        return NotImplemented
    lasts = [torch.as_tensor(v).reshape(-1).expand(batch) for v in (input_lengths, target_lengths)]
    states = torch.full((batch, 2 * targets.shape[1] + 1), blank, dtype=torch.long)
    states = states.scatter(1, (2 * torch.arange(targets.shape[1]) + 1).expand(batch, -1), targets.long())
    count = states.shape[1]
    skips = (states[:, 2:] != states[:, :-2]) & (states[:, 2:] != blank)
    never = torch.full((batch, 1), -math.inf, dtype=log_probs.dtype)
    skips = torch.cat([torch.zeros((batch, min(2, count)), dtype=torch.bool), skips], 1)
    first = torch.arange(count) < 2
    alpha = torch.where(first, log_probs[0].gather(1, states), -math.inf)
    for t in range(1, steps):
        one = torch.cat([never, alpha[:, :-1]], 1)
        two = torch.where(skips, torch.cat([never, never, alpha[:, :-2]], 1)[:, :count], -math.inf)
        largest = torch.maximum(torch.maximum(alpha, one), two).clamp(min=-1e30)
        total = (alpha - largest).exp() + (one - largest).exp() + (two - largest).exp()
        after = total.log() + largest + log_probs[t].gather(1, states)
        alpha = torch.where((t < lasts[0])[:, None], after, alpha)
    ends = 2 * lasts[1][:, None]
    of_label = torch.where(ends > 0, alpha.gather(1, (ends - 1).clamp(min=0)), -math.inf)
    loss = -torch.logaddexp(alpha.gather(1, ends), of_label)[:, 0]
    if zero_infinity:
        loss = torch.where(loss == math.inf, 0.0, loss)
    if reduction == "mean":
        return (loss / lasts[1].clamp(min=1)).mean()
    return loss.sum() if reduction == "sum" else loss[0] if single else loss


REWRITTEN: dict[Any, Callable[..., Any]] = {
    torch.cov: _cov,
    torch.Tensor.cov: _cov,
    torch.corrcoef: _corrcoef,
    torch.Tensor.corrcoef: _corrcoef,
    torch.nn.functional.gaussian_nll_loss: _gaussian_nll_loss,
    torch.nn.functional.ctc_loss: _ctc_loss,
}
"""What stands for which function."""


class Rewriting(torch.overrides.TorchFunctionMode):
    """Within, these functions are called in place of PyTorch's."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        other = REWRITTEN.get(func)
        if other is not None:
            found = other(*args, **(kwargs or {}))
            if found is not NotImplemented:
                return found
        return func(*args, **(kwargs or {}))
