"""Losses: folds of rows to one number, and of all rows to one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.zoo import formulas
from benchmarks.zoo import numpy_functions as plain
from benchmarks.zoo.case import Family
from tiledsl import ops, tile

row = Family("losses")
PAIR, SQUARE, VOCABULARY = "f16[m,n], f16[m,n]", "m=8192 n=8192", "m=4096 n=50304"


def _picked(x: Any, i: Any) -> Any:
    return x[np.arange(len(i)), i]


def _cross_entropy(x: Any, i: Any) -> Any:
    return plain.log_sum_exp(x) - _picked(x, i)


def _smoothed(x: Any, i: Any) -> Any:
    """A tenth of the weight is spread over all classes."""
    wide = x.to(tile.f32)
    chosen = tile.sum(tile.where(i[:, None] == tile.arange(x.shape[1]), wide, 0), axis=1)
    return formulas.log_sum_exp(x) - 0.9 * chosen - 0.1 * tile.mean(wide, axis=1)


def _divergence(x: Any, y: Any) -> Any:
    """sum p (log p - log q) of rows of scores."""
    p, q = ops.log_softmax(x.to(tile.f32)), ops.log_softmax(y.to(tile.f32))
    return tile.sum(tile.exp(p) * (p - q), axis=1)


def _plain_divergence(x: Any, y: Any) -> Any:
    p, q = plain.log_softmax(x), plain.log_softmax(y)
    return (np.exp(p) * (p - q)).sum(axis=1)


def _torch_divergence(t: Any, x: Any, y: Any) -> Any:
    p, q = t.log_softmax(x.float(), 1), t.log_softmax(y.float(), 1)
    return (p.exp() * (p - q)).sum(1)


def _cosine(x: Any, y: Any) -> Any:
    x, y = x.to(tile.f32), y.to(tile.f32)
    return tile.sum(x * y, axis=1) * tile.rsqrt(tile.sum(x * x, axis=1) * tile.sum(y * y, axis=1))


def _plain_cosine(x: Any, y: Any) -> Any:
    return (x * y).sum(axis=1) / np.sqrt((x * x).sum(axis=1) * (y * y).sum(axis=1))


def _huber(d: Any) -> Any:
    return tile.where(tile.abs(d) < 1, 0.5 * d * d, tile.abs(d) - 0.5)


def _plain_huber(d: Any) -> Any:
    return 0.5 * d * d * (abs(d) < 1) + (abs(d) - 0.5) * (abs(d) >= 1)


def _contrastive(x: Any, y: Any) -> Any:
    """Each row of x belongs to the row of y at its place."""
    s = tile.dot(x, y.T) * 0.1
    own = tile.sum(x.to(tile.f32) * y.to(tile.f32), axis=1) * 0.1
    return formulas.log_sum_exp(s) - own


def _plain_contrastive(x: Any, y: Any) -> Any:
    return plain.log_sum_exp(x @ y.T * 0.1) - (x * y).sum(axis=1) * 0.1


def _plain_gradient(x: Any, i: Any) -> Any:
    y = plain.softmax(x)
    y[np.arange(len(i)), i] -= 1
    return y


LOSSES = (
    row("cross-entropy of rows", "f16[m,n], i32[m]<n", VOCABULARY,
        lambda x, i: ops.cross_entropy(x.to(tile.f32), i, reduction="none"), _cross_entropy,
        lambda t, x, i: t.nn.functional.cross_entropy(x.float(), i.long(), reduction="none")),
    row("cross-entropy", "f32[m,n], i32[m]<n", "m=4096 n=32000", ops.cross_entropy,
        lambda x, i: _cross_entropy(x, i).mean(), lambda t, x, i: t.nn.functional.cross_entropy(x, i.long())),
    row("cross-entropy, smoothed", "f16[m,n], i32[m]<n", VOCABULARY, _smoothed,
        lambda x, i: plain.log_sum_exp(x) - 0.9 * _picked(x, i) - 0.1 * x.mean(axis=1),
        lambda t, x, i: t.nn.functional.cross_entropy(x.float(), i.long(), reduction="none", label_smoothing=0.1)),
    row("cross-entropy of x @ w", "f16[m,k], f16[k,n]*0.05, i32[m]<n", "m=4096 k=4096 n=32000",
        lambda x, w, i: ops.cross_entropy(tile.dot(x, w), i, reduction="none"),
        lambda x, w, i: _cross_entropy(x @ w, i),
        lambda t, x, w, i: t.nn.functional.cross_entropy((x @ w).float(), i.long(), reduction="none")),
    row("gradient of cross-entropy", "f16[m,n], i32[m]<n", VOCABULARY,
        lambda x, i: tile.softmax(x) - (i[:, None] == tile.arange(x.shape[1])).to(x.dtype),
        _plain_gradient,
        lambda t, x, i: t.softmax(x, 1) - (i[:, None] == t.arange(x.shape[1], device=i.device)).to(x.dtype)),
    row("divergence of rows", PAIR, "m=4096 n=32000", _divergence, _plain_divergence, _torch_divergence),
    row("mean of squares", PAIR, SQUARE,
        lambda x, y: tile.mean((x.to(tile.f32) - y.to(tile.f32)) * (x.to(tile.f32) - y.to(tile.f32))),
        lambda x, y: ((x - y) ** 2).mean(), lambda t, x, y: ((x.float() - y.float()) ** 2).mean()),
    row("Huber's loss", PAIR, SQUARE, lambda x, y: tile.mean(_huber(x.to(tile.f32) - y.to(tile.f32))),
        lambda x, y: _plain_huber(x - y).mean(),
        lambda t, x, y: t.nn.functional.smooth_l1_loss(x.float(), y.float())),
    row("cosines of rows", PAIR, SQUARE, _cosine, _plain_cosine,
        lambda t, x, y: t.nn.functional.cosine_similarity(x.float(), y.float(), 1)),
    row("binary cross-entropy", PAIR, SQUARE,
        lambda x, y: tile.mean(ops.softplus(x.to(tile.f32)) - x.to(tile.f32) * tile.sigmoid(y.to(tile.f32))),
        lambda x, y: (plain.softplus(x) - x * plain.sigmoid(y)).mean(),
        lambda t, x, y: t.nn.functional.binary_cross_entropy_with_logits(x.float(), t.sigmoid(y.float()))),
    row("contrastive loss", "f16[m,k], f16[m,k]", "m=8192 k=768", _contrastive, _plain_contrastive,
        lambda t, x, y: t.logsumexp((x @ y.T).float() * 0.1, 1) - (x.float() * y.float()).sum(1) * 0.1),
    row("perplexity of rows", "f16[m,n]", VOCABULARY,
        lambda x: tile.exp2(tile.sum(-tile.softmax(x.to(tile.f32)) * ops.log_softmax(x.to(tile.f32)),
        axis=1) / math.log(2)),
        lambda x: np.exp(-(plain.softmax(x) * plain.log_softmax(x)).sum(axis=1)),
        lambda t, x: t.exp(-(t.softmax(x.float(), 1) * t.log_softmax(x.float(), 1)).sum(1))),
)  # fmt: skip
