"""What several formulas of the zoo are made of, as their writers would put it. Sums are in f32."""

from __future__ import annotations

import math
from typing import Any

from tiledsl import tile


def mean_square(x: Any) -> Any:
    wide = x.to(tile.f32)
    return tile.mean(wide * wide, axis=-1, keepdims=True)


def rms_norm(x: Any, weight: Any = None) -> Any:
    y = x.to(tile.f32) * tile.rsqrt(mean_square(x) + 1e-5)
    return (y if weight is None else y * weight).to(x.dtype)


def normed(x: Any, axis: Any = -1) -> Any:
    """Mean 0 and variance 1 over axes, in f32."""
    wide = x.to(tile.f32)
    centred = wide - tile.mean(wide, axis=axis, keepdims=True)
    return centred * tile.rsqrt(tile.mean(centred * centred, axis=axis, keepdims=True) + 1e-5)


def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    return (normed(x) * weight + bias).to(x.dtype)


def log_sum_exp(x: Any, axis: int = -1, keepdims: bool = False) -> Any:
    wide = x.to(tile.f32)
    largest = tile.max(wide, axis=axis, keepdims=True)
    total = tile.log(tile.sum(tile.exp(wide - largest), axis=axis, keepdims=True)) + largest
    return total if keepdims else tile.sum(total, axis=axis)


def rotated(x: Any, cosine: Any, sine: Any) -> Any:
    half = x.shape[-1] // 2
    left, right = x[..., :half], x[..., half:]
    return tile.concat([left * cosine - right * sine, right * cosine + left * sine], axis=-1)


def distances(q: Any, k: Any) -> Any:
    """Of queries from keys: i - j; the last query stands where the last key stands."""
    rows, columns = q.shape[-2], k.shape[-2]
    return tile.arange(rows)[:, None] + (columns - rows) - tile.arange(columns)[None, :]


def scores(q: Any, k: Any) -> Any:
    return tile.dot(q, k.mT) * q.shape[-1] ** -0.5


def weighted(s: Any, v: Any) -> Any:
    """softmax(s) v."""
    return tile.softmax(s, axis=-1).to(v.dtype) @ v


def causal(s: Any, q: Any, k: Any) -> Any:
    """Scores without those of later keys."""
    return tile.where(distances(q, k) >= 0, s, -math.inf)
