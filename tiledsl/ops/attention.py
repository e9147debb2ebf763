"""Attention of queries to keys."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

from tiledsl import tile
from tiledsl.ops.checks import (
    as_tensor,
    refuse_option,
    refuse_rank,
    refuse_shapes,
    require_float,
    require_integers,
)
from tiledsl.ops.paged import FEW_ROWS, paged_attention

CACHE = "[pages, page, heads, width]"


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
    softcap: Any = None,
    seq_lens: Any = None,
    block_tables: Any = None,
    return_lse: bool = False,
) -> Any:
    """softmax(q @ k.mT * scale + bias) @ v, over the keys that each query may see.

    `q` is [..., H, M, D], `k` [..., H, N, D], `v` [..., H, N, E]; the result is [..., H, M, E], of the dtype of `q`.
    Grouped queries: k and v may have fewer heads, each for H / heads neighbouring ones of q. With rank 2 there is one
    head. `bias` is added to the scores; it broadcasts to [..., H, M, N]. `scale` is 1 / sqrt(D) unless it is given.
    `softcap=c`: scores are c * tanh(scores / c), before the bias.
    The last query stands where the last key stands: query i is at p = i + N - M. `causal`: it sees the keys j <= p.
    `window=w`: those with |p - j| < w, so with `causal` the w last ones. A query that sees no key gives NaN.

    `seq_lens`, integers [...] as q has batches: sequence b has the keys before `seq_lens[b]` alone, and its last query
    stands at the last of them. A query that sees no key gives zeros then.
    `block_tables`, integers [B, T], with `seq_lens` [B]: keys and values lie in pages. `q` is [B, H, M, D], `k` is
    [pages, page, heads, D], `v` [pages, page, heads, E], and key j of sequence b is row j % page of page
    `block_tables[b, j // page]`. Numbers of pages that no key of a sequence is in are not looked at; a page that is not
    there has zeros, and `attention.check` finds it.
    `return_lse`: gives the result and the log of the sum of e^score of each query, f32 [..., H, M]; -inf for none.

    Scores and softmax are in f32 for narrow floats, the shares of keys are rounded to the dtype of `v`.
    Raises TileShapeError if the shapes do not fit.
    """
    name = "ops.attention"
    q, k, v = as_tensor(q), as_tensor(k), as_tensor(v)
    for x in (q, k, v):
        require_float(name, x)
        if x.ndim < 2:
            refuse_rank(name, x, "[..., heads, length, width]", "give it an axis of lengths and one of widths")
    if window is not None:
        if isinstance(window, bool) or not isinstance(window, Integral) or window < 1:
            refuse_option(name, "window", window, "an int from 1 on", "leave it out to see all keys")
        window = int(window)
    if softcap is not None and (not isinstance(softcap, (int, float)) or softcap <= 0):
        refuse_option(name, "softcap", softcap, "a number above 0", "leave it out for scores as they are")
    if scale is None:
        scale = 1.0 if q.shape[-1] == 0 else q.shape[-1] ** -0.5
    if block_tables is not None:
        if bias is not None:
            refuse_option(name, "bias", bias, "None with `block_tables`", "leave it out, or gather keys and values")
        tables = as_tensor(block_tables), None if seq_lens is None else as_tensor(seq_lens)
        out, lse = _of_pages(name, q, k, v, *tables, scale, causal, window, softcap)
        return (out, lse) if return_lse else out
    group = _check_shapes(name, q, k, v)
    rows, shape = q.shape[-2], (*q.shape[:-1], v.shape[-1])
    more = 3 if group > 1 else min(q.ndim, 3) - 1
    lengths = None if seq_lens is None else _lengths(name, as_tensor(seq_lens), q, more)
    row = tile.arange(rows)
    if group > 1:
        packed = bias is None and isinstance(rows, int) and rows > 1 and group * rows <= FEW_ROWS
        grouped = (1, group * rows) if packed else (group, rows)
        row = tile.arange(group * rows) % rows if packed else row
        q = q.reshape((*q.shape[:-3], k.shape[-3], *grouped, q.shape[-1]))
        k, v = k[..., None, :, :], v[..., None, :, :]
    scores = tile.dot(q, k.mT) * scale
    if softcap is not None:
        scores = tile.tanh(scores / softcap) * softcap
    if bias is not None:
        scores = scores + _bias(name, as_tensor(bias), shape[:-1], k.shape[-2], group, k).to(scores.dtype)
    scores = _of_those_seen(scores, row[:, None], rows, lengths, causal, window)
    if lengths is None and not return_lse:
        shares = tile.softmax(scores, axis=-1)
        return tile.dot(shares.to(v.dtype), v).to(q.dtype).reshape(shape)
    top = tile.max(scores, axis=-1, keepdims=True)
    weights = tile.exp(scores - top)
    total = tile.sum(weights, axis=-1, keepdims=True)
    out, lse = tile.dot(weights.to(v.dtype), v) / total, top + tile.log(total)
    nothing = top == float("-inf")
    if lengths is not None:
        out = tile.where(nothing, 0, out)
    out, lse = out.to(q.dtype).reshape(shape), tile.where(nothing, -math.inf, lse).to(tile.f32).reshape(shape[:-1])
    return (out, lse) if return_lse else out


def _of_those_seen(scores: Any, row: Any, rows: Any, lengths: Any, causal: bool, window: Any) -> Any:
    """Scores of the keys that queries see, -inf of others. `row`: the number of each query, of `rows`."""
    columns = scores.shape[-1]
    key, position = tile.arange(columns)[None, :], row
    if lengths is not None:
        lengths = tile.minimum(lengths, columns)  # so much is known of them when loops are planned
        position = row + (lengths - rows)
        if not causal or rows == 1:  # else no query sees beyond itself, and the last one stands at the last key
            scores = tile.where(key < lengths, scores, -math.inf)
    elif columns != rows:
        position = row + (columns - rows)
    if causal and not (lengths is not None and rows == 1):
        scores = tile.where(key <= position, scores, -math.inf)
    if window is not None:
        scores = tile.where(key > position - window, scores, -math.inf)
        if not causal:
            scores = tile.where(key < position + window, scores, -math.inf)
    return scores


def _of_pages(
    name: str, q: Any, k: Any, v: Any, tables: Any, lengths: Any, scale: Any, causal: bool, window: Any, softcap: Any
) -> tuple[Any, Any]:
    """The result and the log of sums, of keys and values in pages."""
    for x, axes in ((q, "[batch, heads, length, width]"), (k, CACHE), (v, CACHE)):
        if x.ndim != 4:
            refuse_rank(name, x, axes, "with `block_tables` queries have one axis of batches, keys and values pages")
    if lengths is None:
        refuse_option(name, "seq_lens", None, "a tensor with `block_tables`", "say how many keys each sequence has")
    batch, heads, queries, width = q.shape
    _, page, served, _ = k.shape
    for x, rank in ((tables, 2), (lengths, 1)):
        require_integers(name, x)
        if x.ndim != rank or x.shape[0] != batch:
            refuse_shapes(name, x, q, "each sequence has a length and a row of pages", "give both one row per sequence")
    if k.shape[:-1] != v.shape[:-1]:
        refuse_shapes(name, k, v, "each key has a value", "give both the same pages and heads")
    if k.shape[-1] != width:
        refuse_shapes(name, q, k, "their last axes, the width of a head, are multiplied", "give both the same width")
    known = isinstance(heads, int) and isinstance(served, int)
    if not known or served == 0 or heads % served:
        refuse_shapes(name, q, k, "a head of the keys serves as many heads of the queries as any other", "repeat heads")
    if not isinstance(page, int) or not isinstance(queries, int):
        refuse_shapes(name, q, k, "how long pages and rows of queries are is known when compiling", "give them numbers")
    if not isinstance(scale, Real) or not float(scale) > 0:
        refuse_option(name, "scale", scale, "a number above 0 with `block_tables`", "scale the queries instead")
    group = heads // served
    packed = queries == 1 or group * queries <= FEW_ROWS
    grouped = (1, group * queries) if packed else (group, queries)
    out, lse = paged_attention(
        q.reshape((batch, served, *grouped, width)), k, v, tables, lengths,
        queries=queries, packed=packed, page=page, scale=float(scale), causal=bool(causal), window=window,
        softcap=None if softcap is None else float(softcap),
    )  # fmt: skip
    return out.reshape((batch, heads, queries, v.shape[-1])), lse.reshape((batch, heads, queries))


def _lengths(name: str, lengths: Any, q: Any, more: int) -> Any:
    """The lengths of sequences, with `more` axes of one element behind those of batches."""
    require_integers(name, lengths)
    if lengths.shape != q.shape[:-3]:
        refuse_shapes(name, lengths, q, "each batch has a length", "give it the leading axes of `q`, without heads")
    return lengths.to(tile.i64).reshape((*lengths.shape, *[1] * more, 1))


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
