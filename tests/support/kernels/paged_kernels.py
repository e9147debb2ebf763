"""Kernels that read rows through a table of pages, and what they give."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tiledsl import tile

Array = npt.NDArray[Any]


@tile.kernel
def paged_attention(
    q: tile.Tensor, k: tile.Tensor, v: tile.Tensor, table: tile.Tensor, lengths: tile.Tensor, page: tile.constexpr
) -> tile.Tensor:
    """out[B, G, R, D] for q[B, G, R, D], pages k, v[X, page, G, D], their numbers table[B, T], lengths[B] of keys."""
    B, G, R, D = q.shape
    _, _, G, D = k.shape
    _, _, G, D = v.shape
    B, T = table.shape
    B = lengths.shape[0]
    out = tile.empty((B, G, R, D), q.dtype)
    for b, g, r in tile.grid(B, G, R, block=(1, 1, tile.auto)):
        top = tile.full(r, -1e30)
        total = tile.zeros(r)
        acc = tile.zeros((r, D))
        for j in tile.range(0, min(lengths[b], T * page)):
            number, row = table[b, j.index // page], j.index % page
            scores = tile.dot(q[b, g, r, :], k[number, row, g, :].mT) * D**-0.5
            higher = tile.maximum(top, tile.max(scores, axis=1))
            p = tile.exp(scores - higher[:, None])
            rescale = tile.exp(top - higher)
            total = total * rescale + tile.sum(p, axis=1)
            acc = tile.dot(p.to(v.dtype), v[number, row, g, :], acc * rescale[:, None])
            top = higher
        out[b, g, r, :] = acc / total[:, None]
    return out


def paged_attention_by_numpy(q: Array, k: Array, v: Array, table: Array, lengths: Array) -> Array:
    """The same in f64; pages that are not there are zeros."""
    out = np.zeros(q.shape)
    for b, pages in enumerate(table):
        keys, values = (rows_of(x, pages)[: lengths[b]] for x in (k, v))
        scores = np.einsum("grd,jgd->grj", q[b].astype(np.float64), keys) * q.shape[-1] ** -0.5
        p = np.exp(scores - scores.max(axis=-1, keepdims=True))
        out[b] = np.einsum("grj,jgd->grd", p / p.sum(axis=-1, keepdims=True), values)
    return out


def rows_of(x: Array, pages: Array) -> Array:
    """The rows of pages of these numbers, one after the other, in f64."""
    there = (pages >= 0) & (pages < len(x))
    found = x[np.where(there, pages, 0)].astype(np.float64)
    found[~there] = 0
    return np.reshape(found, (-1, *x.shape[2:]))


@tile.kernel
def paged_product(x: tile.Tensor, table: tile.Tensor, w: tile.Tensor, page: tile.constexpr) -> tile.Tensor:
    """out[M, N] = rows @ w for w[K, N], with row i of page table[i // page] of x[X, page, K]."""
    T = table.shape[0]
    _, _, K = x.shape
    K, N = w.shape
    out = tile.empty((T * page, N), x.dtype)
    for m, n in tile.grid(T * page, N):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(K):
            acc = tile.dot(x[table[m.index // page], m.index % page, k], w[k, n], acc)
        out[m, n] = acc
    return out


@tile.kernel
def paged_weights(x: tile.Tensor, w: tile.Tensor, table: tile.Tensor, page: tile.constexpr) -> tile.Tensor:
    """out[M, N] = x @ rows for x[M, K], with row k of page table[k // page] of w[X, page, N]."""
    M, K = x.shape
    _, _, N = w.shape
    out = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(K):
            acc = tile.dot(x[m, k], w[table[k.index // page], k.index % page, n], acc)
        out[m, n] = acc
    return out


@tile.kernel
def computed_pages(x: tile.Tensor, table: tile.Tensor, w: tile.Tensor, layer: int, page: tile.constexpr) -> tile.Tensor:
    """As `paged_product`, of pages 3 * table[i // page] + layer: those of three layers take turns."""
    T = table.shape[0]
    _, _, K = x.shape
    K, N = w.shape
    out = tile.empty((T * page, N), x.dtype)
    for m, n in tile.grid(T * page, N):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(K):
            acc = tile.dot(x[table[m.index // page] * 3 + layer, m.index % page, k], w[k, n], acc)
        out[m, n] = acc
    return out


@tile.kernel
def begun_product(x: tile.Tensor, w: tile.Tensor, ends: tile.Tensor) -> tile.Tensor:
    """out[M, N] = relu(x) @ w for x[M, K], w[K, N], of the first `ends[0]` columns and rows."""
    M, K = x.shape
    K, N = w.shape
    out = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(0, min(ends[0], K)):
            acc = tile.dot(tile.relu(x[m, k]), w[k, n], acc)
        out[m, n] = acc
    return out
