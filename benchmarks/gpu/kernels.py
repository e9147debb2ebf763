"""The kernels that are measured: those of the examples, and a few that only measurements need."""

from __future__ import annotations

import math

from attention import LOG2_E, LOWEST, attention
from gemm import gemm
from layer_norm import layer_norm
from rms_norm import rms_norm
from softmax import softmax
from sums import column_sums, row_sums, sum_of_all
from swiglu import swiglu
from tiledsl import tile
from transpose import transpose
from vector_add import vector_add


@tile.kernel
def product(
    a: tile.Tensor, b: tile.Tensor, result: tile.constexpr, wide: tile.constexpr, precision: tile.constexpr = "ieee"
) -> tile.Tensor:
    """C[M, N] = A[M, K] @ B[K, N], accumulated in `wide`, kept in `result`."""
    M, K = a.shape
    K, N = b.shape
    c = tile.empty((M, N), result)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n), wide)
        for k in tile.range(K):
            acc = tile.dot(a[m, k], b[k, n], acc, dtype=wide, precision=precision)
        c[m, n] = acc
    return c


@tile.kernel
def grouped_attention(q: tile.Tensor, k: tile.Tensor, v: tile.Tensor, causal: tile.constexpr = False) -> tile.Tensor:
    """out[H, R, Q, D] for q[H, R, Q, D] and k, v[H, K, D]: as `attention`, with R heads of queries for each of keys."""
    H, R, Q, D = q.shape
    H, K, D = k.shape
    H, K, D = v.shape
    out = tile.empty((H, R, Q, D), q.dtype)
    scale = D**-0.5 * LOG2_E
    for h, r, i in tile.grid(H, R, Q, block=(1, 1, tile.auto)):
        top = tile.full(i, LOWEST)
        total = tile.zeros(i)
        acc = tile.zeros((i, D))
        end = min(i.start + i.size + K - Q, K) if causal else K
        for j in tile.range(0, end):
            scores = tile.dot(q[h, r, i, :], k[h, j, :].mT)
            if causal:
                scores = tile.where(j.index[None, :] <= i.index[:, None] + (K - Q), scores, -math.inf)
            higher = tile.maximum(top, tile.max(scores, axis=1))
            p = tile.exp2(scores * scale - (higher * scale)[:, None])
            rescale = tile.exp2((top - higher) * scale)
            total = total * rescale + tile.sum(p, axis=1)
            acc = tile.dot(p.to(v.dtype), v[h, j, :], acc * rescale[:, None])
            top = higher
        out[h, r, i, :] = acc * (1 / tile.maximum(total, 1.0))[:, None]
    return out


@tile.kernel
def add_seven(
    a: tile.Tensor, b: tile.Tensor, c: tile.Tensor, d: tile.Tensor, e: tile.Tensor, f: tile.Tensor, g: tile.Tensor
) -> tile.Tensor:
    """The sum of seven vectors: a call with eight tensors."""
    N = a.shape[0]
    N = b.shape[0]
    N = c.shape[0]
    N = d.shape[0]
    N = e.shape[0]
    N = f.shape[0]
    N = g.shape[0]
    out = tile.empty(N, a.dtype)
    for n in tile.grid(N):
        out[n] = a[n] + b[n] + c[n] + d[n] + e[n] + f[n] + g[n]
    return out


__all__ = [
    "add_seven", "attention", "column_sums", "gemm", "grouped_attention", "layer_norm", "product", "rms_norm",
    "row_sums", "softmax", "sum_of_all", "swiglu", "transpose", "vector_add",
]  # fmt: skip
