"""Whole kernels, as plain functions: the best known ones, in the words of the language."""

from __future__ import annotations

import math

from tiledsl import tile


def add(x: tile.Tensor, y: tile.Tensor) -> tile.Tensor:
    n = x.shape[0]
    out = tile.empty(n, x.dtype)
    for i in tile.grid(n):
        out[i] = x[i] + y[i]
    return out


def gemm(a: tile.Tensor, b: tile.Tensor) -> tile.Tensor:
    M, K = a.shape
    K, N = b.shape
    c = tile.empty((M, N), a.dtype)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(K):
            acc = tile.dot(a[m, k], b[k, n], acc)
        c[m, n] = acc
    return c


def softmax(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    y = tile.empty((M, N), x.dtype)
    for m in tile.grid(M, block=1):
        largest = -math.inf
        for n in tile.range(N):
            largest = max(largest, tile.max(x[m, n]))
        total = 0.0
        for n in tile.range(N):
            total += tile.sum(tile.exp(x[m, n] - largest))
        for n in tile.range(N):
            y[m, n] = tile.exp(x[m, n] - largest) / total
    return y


def attention(q: tile.Tensor, k: tile.Tensor, v: tile.Tensor, causal: tile.constexpr) -> tile.Tensor:
    H, Q, D = q.shape
    H, K, D = k.shape
    out = tile.empty((H, Q, D), q.dtype)
    scale = D**-0.5
    for h, i in tile.grid(H, Q, block=(1, tile.auto)):
        qs = q[h, i, :] * scale
        top = tile.full((i,), -math.inf)
        total = tile.zeros((i,))
        acc = tile.zeros((i, D))
        end = min(i.start + i.size + K - Q, K) if causal else K
        for j in tile.range(0, end):
            s = qs @ k[h, j, :].mT
            if causal:
                s = tile.where(j.index[None, :] <= i.index[:, None] + (K - Q), s, -math.inf)
            new_top = tile.maximum(top, tile.max(s, axis=1))
            old = tile.exp(top - new_top)
            p = tile.exp(s - new_top[:, None])
            total = total * old + tile.sum(p, axis=1)
            acc = tile.dot(p, v[h, j, :], acc * old[:, None])
            top = new_top
        out[h, i, :] = acc / total[:, None]
    return out
