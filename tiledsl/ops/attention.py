"""Attention of queries to keys."""

from __future__ import annotations

import math
from typing import Any

from tiledsl import tile
from tiledsl.ops.checks import as_tensor, refuse_option, refuse_rank, refuse_shapes, require_float


@tile.kernel
def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    bias: Any = None,
    causal: bool = False,
    window: Any = None,
    scale: Any = None,
) -> Any:
    """softmax(q @ k.mT * scale + bias) @ v, over the keys that each query may see.

    `q` is [..., H, M, D], `k` [..., H, N, D], `v` [..., H, N, E]; the result is [..., H, M, E], of the dtype of `q`.
    Grouped queries: k and v may have fewer heads, each for H / heads neighbouring ones of q. With rank 2 there is one
    head. `bias` is added to the scores; it broadcasts to [..., H, M, N]. `scale` is 1 / sqrt(D) unless it is given.
    The last query stands where the last key stands: query i is at p = i + N - M. `causal`: it sees the keys j <= p.
    `window=w`: those with |p - j| < w, so with `causal` the w last ones. A query that sees no key gives NaN.
    Scores and softmax are in f32 for narrow floats, the shares of keys are rounded to the dtype of `v`.
    Raises TileShapeError if the shapes do not fit.
    """
    name = "ops.attention"
    q, k, v = as_tensor(q), as_tensor(k), as_tensor(v)
    for x in (q, k, v):
        require_float(name, x)
        if x.ndim < 2:
            refuse_rank(name, x, "[..., heads, length, width]", "give it an axis of lengths and one of widths")
    if window is not None and (not isinstance(window, int) or window < 1):
        refuse_option(name, "window", window, "an int from 1 on", "leave it out to see all keys")
    group = _check_shapes(name, q, k, v)
    rows, columns = q.shape[-2], k.shape[-2]
    shape = (*q.shape[:-1], v.shape[-1])
    if group > 1:
        q = q.reshape((*q.shape[:-3], k.shape[-3], group, *q.shape[-2:]))
        k, v = k[..., None, :, :], v[..., None, :, :]
    scores = tile.dot(q, k.mT) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if bias is not None:
        scores = scores + _bias(name, as_tensor(bias), shape[:-1], columns, group, k).to(scores.dtype)
    position, key = tile.arange(rows)[:, None], tile.arange(columns)[None, :]
    if columns != rows:
        position = position + (columns - rows)
    if causal:
        scores = tile.where(key <= position, scores, -math.inf)
    if window is not None:
        scores = tile.where(key > position - window, scores, -math.inf)
        if not causal:
            scores = tile.where(key < position + window, scores, -math.inf)
    shares = tile.softmax(scores, axis=-1)
    return tile.dot(shares.to(v.dtype), v).to(q.dtype).reshape(shape)


def _check_shapes(name: str, q: Any, k: Any, v: Any) -> Any:
    """How many heads of q one of k serves. Raises TileShapeError."""
    if q.shape[-1] != k.shape[-1]:
        refuse_shapes(name, q, k, "their last axes, the width of a head, are multiplied", "give both the same width")
    if k.shape[:-1] != v.shape[:-1]:
        refuse_shapes(name, k, v, "each key has a value", "give both the same heads and lengths")
    if q.ndim != k.ndim or q.shape[:-3] != k.shape[:-3]:
        refuse_shapes(name, q, k, "their leading axes are batches", "give both the same ones")
    if q.ndim == 2:
        return 1
    heads, served = q.shape[-3], k.shape[-3]
    if heads == served:
        return 1
    if not isinstance(heads, int) or not isinstance(served, int) or served == 0 or heads % served:
        refuse_shapes(name, q, k, "a head of the keys serves as many heads of the queries as any other", "repeat heads")
    return heads // served


def _bias(name: str, bias: Any, shape: Any, columns: Any, group: int, k: Any) -> Any:
    """The bias as it is added to scores whose heads may be in groups."""
    wanted = (*shape, columns)
    fits = bias.ndim <= len(wanted) and all(n in (1, w) for n, w in zip(bias.shape[::-1], wanted[::-1]))
    if not fits:
        refuse_shapes(name, bias, k, f"a bias broadcasts to the scores, {list(wanted)}", "give it axes of size 1")
    if group == 1 or bias.ndim < 3:
        return bias
    heads = bias.shape[-3]
    parts = (heads // group, group) if heads != 1 else (1, 1)
    return bias.reshape((*bias.shape[:-3], *parts, *bias.shape[-2:]))
