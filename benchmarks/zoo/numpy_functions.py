"""What formulas mean, in NumPy: whole arrays, f64, nothing clever."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = Any


def erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[float])(x)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def silu(x: Array) -> Array:
    return x * sigmoid(x)


def gelu(x: Array) -> Array:
    return x * (1 + erf(x / math.sqrt(2))) / 2


def clip(x: Array, low: float, high: float) -> Array:
    return np.minimum(np.maximum(x, low), high)


def softplus(x: Array) -> Array:
    return np.logaddexp(x, 0)


def softmax(x: Array, axis: int = -1) -> Array:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def log_sum_exp(x: Array, axis: int = -1, keepdims: bool = False) -> Array:
    largest = x.max(axis=axis, keepdims=True)
    total = np.log(np.exp(x - largest).sum(axis=axis, keepdims=True)) + largest
    return total if keepdims else np.squeeze(total, axis)


def log_softmax(x: Array, axis: int = -1) -> Array:
    return x - log_sum_exp(x, axis, keepdims=True)


def normed(x: Array, axis: Any = -1) -> Array:
    """Mean 0 and variance 1 over axes."""
    return (x - x.mean(axis=axis, keepdims=True)) / np.sqrt(x.var(axis=axis, keepdims=True) + 1e-5)


def layer_norm(x: Array, weight: Array, bias: Array) -> Array:
    return normed(x) * weight + bias


def rms_norm(x: Array, weight: Array = 1.0) -> Array:
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5) * weight


def rotated(x: Array, cosine: Array, sine: Array) -> Array:
    left, right = np.split(x, 2, axis=-1)
    return np.concatenate([left * cosine - right * sine, right * cosine + left * sine], axis=-1)


def attention(q: Array, k: Array, v: Array, bias: Array = 0.0, scale: float | None = None) -> Array:
    """softmax(q k scale + bias) v; k and v may have fewer heads than q, each for some neighbouring ones of it."""
    if q.ndim > 2:
        k, v = (np.repeat(x, q.shape[-3] // x.shape[-3], axis=-3) for x in (k, v))
    return softmax(q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale) + bias) @ v


def hidden(allowed: Array) -> Array:
    """What is added to scores: 0 where allowed, -inf elsewhere."""
    return np.where(allowed, 0.0, -np.inf)


def distances(rows: int, columns: int) -> Array:
    """Of queries from keys: i - j; the last query stands where the last key stands."""
    return np.arange(rows)[:, None] + (columns - rows) - np.arange(columns)[None, :]


def causal(rows: int, columns: int) -> Array:
    return hidden(distances(rows, columns) >= 0)


def windows(x: Array, size: tuple[int, int], stride: int, padding: int, fill: float = 0.0) -> Array:
    """Of an image [N, H, W, C]: [N, P, Q, C, R, S]."""
    padded = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)), constant_values=fill)
    every = np.lib.stride_tricks.sliding_window_view(padded, size, axis=(1, 2))
    return every[:, ::stride, ::stride]


def conv(x: Array, weight: Array, stride: int = 1, padding: int = 0) -> Array:
    """[N, H, W, C] with [K, R, S, C]: [N, P, Q, K]."""
    return np.einsum("npqcrs,krsc->npqk", windows(x, weight.shape[1:3], stride, padding), weight, optimize=True)


def convolution(
    x: Array, weight: Array, *, stride: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1
) -> Array:
    """[N, pixels, C] with [K, places, C / groups], of any rank."""
    rank = x.ndim - 2
    spatial = tuple(range(1, rank + 1))
    padded = np.pad(x, ((0, 0), *((padding, padding),) * rank, (0, 0)))
    extents = tuple((n - 1) * dilation + 1 for n in weight.shape[1:-1])
    every = np.lib.stride_tricks.sliding_window_view(padded, extents, axis=spatial)
    every = every[
        (slice(None), *(slice(None, None, stride),) * rank, slice(None), *(slice(None, None, dilation),) * rank)
    ]
    positions, places = "pqo"[:rank], "rst"[:rank]
    parts = zip(np.split(every, groups, axis=rank + 1), np.split(weight, groups))
    form = f"n{positions}c{places},k{places}c->n{positions}k"
    return np.concatenate([np.einsum(form, a, b, optimize=True) for a, b in parts], axis=-1)


def transposed(x: Array, weight: Array, stride: int, padding: int) -> Array:
    """[N, H, W, C] with [C, R, S, K]: each pixel adds the weights, times itself."""
    n, h, w, _ = x.shape
    _, r, s, k = weight.shape
    out = np.zeros((n, (h - 1) * stride + r, (w - 1) * stride + s, k))
    for i in range(r):
        for j in range(s):
            to = out[:, i : i + (h - 1) * stride + 1 : stride, j : j + (w - 1) * stride + 1 : stride]
            to += x @ weight[:, i, j]
    return out[:, padding : out.shape[1] - padding, padding : out.shape[2] - padding]


def depthwise(x: Array, weight: Array, stride: int = 1, padding: int = 0) -> Array:
    """[N, H, W, C] with [R, S, C]: each channel by itself."""
    return np.einsum("npqcrs,rsc->npqc", windows(x, weight.shape[:2], stride, padding), weight)
