"""Attention whose values have many columns, with keys apart, or latent ones, whose first columns are values."""

from __future__ import annotations

from tiledsl import tile


@tile.kernel
def attention(q: tile.Tensor, k: tile.Tensor, v: tile.Tensor, lengths: tile.Tensor) -> tile.Tensor:
    """Keys and values of their own."""
    B, R, D = q.shape
    B, N, D = k.shape
    B, N, W = v.shape
    B = lengths.shape[0]
    out = tile.empty((B, R, W), q.dtype)
    for b, r in tile.grid(B, R, block=(1, tile.auto)):
        top = tile.full(r, -1e30)
        total = tile.zeros(r)
        acc = tile.zeros((r, W))
        for j in tile.range(0, min(lengths[b], N)):
            scores = tile.dot(q[b, r, :], k[b, j, :].mT) * D**-0.5
            higher = tile.maximum(top, tile.max(scores, axis=1))
            p = tile.exp(scores - higher[:, None])
            rescale = tile.exp(top - higher)
            total = total * rescale + tile.sum(p, axis=1)
            acc = tile.dot(p.to(v.dtype), v[b, j, :], acc * rescale[:, None])
            top = higher
        out[b, r, :] = acc / total[:, None]
    return out


@tile.kernel
def latent(q: tile.Tensor, c: tile.Tensor, lengths: tile.Tensor, W: tile.constexpr) -> tile.Tensor:
    """The first columns of keys are values."""
    B, R, D = q.shape
    B, N, D = c.shape
    B = lengths.shape[0]
    out = tile.empty((B, R, W), q.dtype)
    for b, r in tile.grid(B, R, block=(1, tile.auto)):
        top = tile.full(r, -1e30)
        total = tile.zeros(r)
        acc = tile.zeros((r, W))
        for j in tile.range(0, min(lengths[b], N)):
            scores = tile.dot(q[b, r, :], c[b, j, :].mT) * D**-0.5
            higher = tile.maximum(top, tile.max(scores, axis=1))
            p = tile.exp(scores - higher[:, None])
            rescale = tile.exp(top - higher)
            total = total * rescale + tile.sum(p, axis=1)
            acc = tile.dot(p.to(c.dtype), c[b, j, :W], acc * rescale[:, None])
            top = higher
        out[b, r, :] = acc / total[:, None]
    return out


@tile.kernel
def of_two_parts(q: tile.Tensor, c: tile.Tensor, W: tile.constexpr) -> tile.Tensor:
    """Scores of two products, each of a part of the columns; no load brings all of them."""
    R, D = q.shape
    N, D = c.shape
    out = tile.empty((R, W), q.dtype)
    for r in tile.grid(R):
        top = tile.full(r, -1e30)
        total = tile.zeros(r)
        acc = tile.zeros((r, W))
        for j in tile.range(N):
            scores = tile.dot(q[r, :W], c[j, :W].mT)
            scores = tile.dot(q[r, W:], c[j, W:].mT, scores) * D**-0.5
            higher = tile.maximum(top, tile.max(scores, axis=1))
            p = tile.exp(scores - higher[:, None])
            rescale = tile.exp(top - higher)
            total = total * rescale + tile.sum(p, axis=1)
            acc = tile.dot(p.to(c.dtype), c[j, :W], acc * rescale[:, None])
            top = higher
        out[r, :] = acc / total[:, None]
    return out
