"""Kernels with two products in a loop that are not attention, for rotated loops, and what they give."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tiledsl import tile

Array = npt.NDArray[Any]


@tile.kernel
def window(q: tile.Tensor, k: tile.Tensor, v: tile.Tensor, width: tile.constexpr = 64) -> Any:
    """Sums of (q @ k.mT) v over keys before the query (and not `width` before it), those of one row in [Q, 1] too.

    Nothing is rescaled, sums begin with 0 and keep their axis, and one mask holds from some key on only.
    """
    Q, D = q.shape
    K, D = k.shape
    K, D = v.shape
    out = tile.empty((Q, D), tile.f32)
    sums = tile.empty((Q, 1), tile.f32)
    for i in tile.grid(Q):
        total = tile.zeros((i, 1))
        acc = tile.zeros((i, D))
        for j in tile.range(K):
            scores = tile.dot(q[i, :], k[j, :].mT)
            scores = tile.where(i.index[:, None] > j.index[None, :], scores, 0.0)
            scores = tile.where(j.index[None, :] + width > i.index[:, None], scores, 0.0)
            total = total + tile.sum(scores, axis=1, keepdims=True)
            acc = tile.dot(scores.to(v.dtype), v[j, :], acc)
        out[i, :] = acc
        sums[i, :] = total
    return out, sums


@tile.kernel
def band(q: tile.Tensor, k: tile.Tensor, v: tile.Tensor, before: tile.constexpr, behind: tile.constexpr) -> tile.Tensor:
    """(q @ k.mT) v over keys from `before` before the query to `behind` behind it, of a loop that goes no further."""
    Q, D = q.shape
    K, D = k.shape
    K, D = v.shape
    out = tile.empty((Q, D), tile.f32)
    for i in tile.grid(Q):
        acc = tile.zeros((i, D))
        for j in tile.range(max(0, i.start - before), min(K, i.start + i.size + behind)):
            scores = tile.dot(q[i, :], k[j, :].mT)
            away = i.index[:, None] - j.index[None, :]
            scores = tile.where((away <= before) & (away >= -behind), scores, 0.0)
            acc = tile.dot(scores.to(v.dtype), v[j, :], acc)
        out[i, :] = acc
    return out


def band_of(q: Array, k: Array, v: Array, before: int, behind: int) -> Array:
    wide: list[Array] = [x.astype(np.float32) for x in (q, k, v)]
    sizes = len(wide[0]), len(wide[1])
    seen: Array = np.tri(*sizes, behind, np.float32) - np.tri(*sizes, -before - 1, np.float32)
    return np.matmul(np.multiply(np.matmul(wide[0], np.transpose(wide[1])), seen), wide[2])


@tile.kernel
def faded(q: tile.Tensor, k: tile.Tensor, v: tile.Tensor, shift: tile.constexpr) -> tile.Tensor:
    """(q @ k.mT times how far the key is behind the query, and `shift`) v."""
    Q, D = q.shape
    K, D = k.shape
    K, D = v.shape
    out = tile.empty((Q, D), tile.f32)
    for i in tile.grid(Q):
        acc = tile.zeros((i, D))
        for j in tile.range(K):
            away = j.index[None, :] - i.index[:, None] + shift
            scores = tile.dot(q[i, :], k[j, :].mT) * away.to(tile.f32)
            acc = tile.dot(scores.to(v.dtype), v[j, :], acc)
        out[i, :] = acc
    return out


def faded_of(q: Array, k: Array, v: Array, shift: int) -> Array:
    wide: list[Array] = [x.astype(np.float32) for x in (q, k, v)]
    away: Array = np.arange(len(k))[None, :] - np.arange(len(q))[:, None] + shift
    scores: Array = np.multiply(np.matmul(wide[0], np.transpose(wide[1])), away)
    return np.matmul(scores.astype(v.dtype).astype(np.float32), wide[2])


@tile.kernel
def biased(q: tile.Tensor, k: tile.Tensor, v: tile.Tensor, b: tile.Tensor) -> tile.Tensor:
    """(q @ k.mT + b) v, with b[Q, K]."""
    Q, D = q.shape
    K, D = k.shape
    K, D = v.shape
    out = tile.empty((Q, D), tile.f32)
    for i in tile.grid(Q):
        acc = tile.zeros((i, D))
        for j in tile.range(K):
            scores = tile.dot(q[i, :], k[j, :].mT) + b[i, j].to(tile.f32)
            acc = tile.dot(scores.to(v.dtype), v[j, :], acc)
        out[i, :] = acc
    return out


def biased_of(q: Array, k: Array, v: Array, b: Array) -> Array:
    wide: list[Array] = [x.astype(np.float32) for x in (q, k, v, b)]
    scores: Array = np.add(np.matmul(wide[0], np.transpose(wide[1])), wide[3])
    return np.matmul(scores, wide[2])


def window_of(q: Array, k: Array, v: Array, width: int) -> tuple[Array, Array]:
    wide: list[Array] = [x.astype(np.float32) for x in (q, k, v)]
    sizes = len(wide[0]), len(wide[1])
    seen: Array = np.tri(*sizes, -1, np.float32) - np.tri(*sizes, -width, np.float32)
    products: Array = np.matmul(wide[0], np.transpose(wide[1]))
    scores: Array = np.multiply(products, seen)
    sums: Array = np.sum(scores, axis=1, keepdims=True)
    return np.matmul(scores, wide[2]), sums
