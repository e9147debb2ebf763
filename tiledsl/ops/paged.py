"""Attention to keys and values that lie in pages: a table of each sequence says where."""

from __future__ import annotations

import math
from typing import Any

from tiledsl import tile

LOWEST = -1e30
"""Below every score, but finite: a difference of two of it is 0, of two infinities NaN."""
LOG2_E = 1 / math.log(2)
FEW_ROWS = 64
"""Rows of heads that share keys are one tile where they are no more than one has at least."""


@tile.kernel
def paged_attention(
    q: tile.Tensor,
    k: tile.Tensor,
    v: tile.Tensor,
    block_tables: tile.Tensor,
    seq_lens: tile.Tensor,
    queries: tile.constexpr,
    packed: tile.constexpr,
    page: tile.constexpr,
    scale: tile.constexpr,
    causal: tile.constexpr,
    window: tile.constexpr,
    softcap: tile.constexpr,
) -> Any:
    """out[B, G, S, R, E] and lse[B, G, S, R] for q[B, G, S, R, D], pages k[X, page, G, D] and v[X, page, G, E].

    Sequence b has `seq_lens[b]` keys, key j in row j % page of page block_tables[b, j // page]. Rows are the last
    `queries` of a sequence, or if `packed` those of several heads, one head after the other.
    """
    B, G, S, R, _ = q.shape
    G = k.shape[2]
    _, _, G, E = v.shape
    B, T = block_tables.shape
    B = seq_lens.shape[0]
    out = tile.empty((B, G, S, R, E), q.dtype)
    lse = tile.empty((B, G, S, R), tile.f32)
    for b, g, s, r in tile.grid(B, G, S, R, block=(1, 1, 1, tile.auto)):
        length = seq_lens[b].to(tile.i64)
        tile.assert_((length >= 0) & (length <= T * page), "a length is below 0, or more than its pages have")
        keys = min(length, T * page)
        top, total, acc = tile.full(r, LOWEST), tile.zeros(r), tile.zeros((r, E))
        position = r.index % queries + (keys - queries)
        first, end = 0, keys
        if not packed:
            if causal:
                end = min(r.start + r.size + keys - queries, keys)
            if window is not None:
                first = max(r.start + keys - queries - window + 1, 0) // page * page
        elif window is not None:
            first = max(keys - queries - window + 1, 0) // page * page
        for j in tile.range(first, end):
            number, row = block_tables[b, j.index // page], j.index % page
            scores = tile.dot(q[b, g, s, r, :], k[number, row, g, :].mT)
            if softcap is not None:
                scores = tile.tanh(scores * (scale / softcap)) * (softcap / scale)
            if causal and queries > 1:
                scores = tile.where(j.index[None, :] <= position[:, None], scores, -math.inf)
            if window is not None:
                scores = tile.where(j.index[None, :] > position[:, None] - window, scores, -math.inf)
                if not causal:
                    scores = tile.where(j.index[None, :] < position[:, None] + window, scores, -math.inf)
            higher = tile.maximum(top, tile.max(scores, axis=1))
            p = tile.exp2(scores * (scale * LOG2_E) - (higher * (scale * LOG2_E))[:, None])
            rescale = tile.exp2((top - higher) * (scale * LOG2_E))
            total = total * rescale + tile.sum(p, axis=1)
            acc = tile.dot(p.to(v.dtype), v[number, row, g, :], acc * rescale[:, None])
            top = higher
        out[b, g, s, r, :] = acc * (1 / tile.maximum(total, 1.0))[:, None]
        lse[b, g, s, r] = top * scale + tile.log(total)
    return out, lse
