"""Kernels whose products feed on each other in a loop: attention and its neighbours, by options that are constants."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.support.gpu_cases.gpu_cases import Array
from tiledsl import tile

LOWEST = -1e30


@tile.kernel
def back_to_back(
    q: tile.Tensor,
    r: tile.Tensor,
    k: tile.Tensor,
    s: tile.Tensor,
    v: tile.Tensor,
    w: tile.Tensor,
    slopes: tile.Tensor,
    scores: tile.constexpr = "one",
    sums: tile.constexpr = 1,
    squash: tile.constexpr = "none",
    bias: tile.constexpr = False,
    mask: tile.constexpr = "none",
    weights: tile.constexpr = "softmax",
    width: tile.constexpr = 48,
) -> tile.Tensor:
    """Sums of v, and of w, weighted by what the products of q and k, and of r and s, come to."""
    H, Q, _D = q.shape
    H, Q, _R = r.shape
    H, K, _D = k.shape
    H, K, _R = s.shape
    H, K, E = v.shape
    H, K, E = w.shape
    (H,) = slopes.shape
    out = tile.empty((sums, H, Q, E), tile.f32)
    for h, i in tile.grid(H, Q, block=(1, tile.auto)):
        top = tile.full(i, LOWEST)
        total = tile.zeros(i)
        acc = tile.zeros((i, E))
        other = tile.zeros((i, E))
        slope = slopes[h]
        first = max(i.start - width, 0) if mask == "window" else 0
        end = min(i.start + i.size, K) if mask != "none" else K
        if weights == "top first":
            for j in tile.range(first, end):
                one = tile.dot(q[h, i, :], k[h, j, :].mT)
                if mask == "causal":
                    one = tile.where(j.index[None, :] <= i.index[:, None], one, LOWEST)
                top = tile.maximum(top, tile.max(one, axis=1))
        for j in tile.range(first, end):
            found = tile.dot(q[h, i, :], k[h, j, :].mT)
            if scores == "added":
                found = found + tile.dot(r[h, i, :], s[h, j, :].mT)
            if scores == "in one sum":
                found = tile.dot(r[h, i, :], s[h, j, :].mT, found)
            if squash == "tanh":
                found = 3.0 * tile.tanh(found / 3.0)
            if bias:
                found = found + slope * (j.index[None, :] - i.index[:, None]).to(tile.f32) / 64.0
            if mask == "causal":
                found = tile.where(j.index[None, :] <= i.index[:, None], found, -math.inf)
            if mask == "window":
                near = (j.index[None, :] <= i.index[:, None]) & (j.index[None, :] > i.index[:, None] - width)
                found = tile.where(near, found, -math.inf)
            if weights == "softmax":
                higher = tile.maximum(top, tile.max(found, axis=1))
                p = tile.exp2(found - higher[:, None])
                rescale = tile.exp2(top - higher)
                total = total * rescale + tile.sum(p, axis=1)
                acc = tile.dot(p.to(v.dtype), v[h, j, :], acc * rescale[:, None])
                if sums == 2:
                    other = tile.dot(p.to(w.dtype), w[h, j, :], other * rescale[:, None])
                top = higher
            else:
                p = tile.exp2(tile.minimum(found - top[:, None], 4.0)) if weights == "top first" else found * 0.25
                if mask != "none" and weights == "plain":
                    p = tile.maximum(p, 0.0)
                acc = tile.dot(p.to(v.dtype), v[h, j, :], acc)
                if sums == 2:
                    other = tile.dot((p * 0.5).to(w.dtype), w[h, j, :], other)
        share = 1 / tile.maximum(total, 1e-30) if weights == "softmax" else tile.full(i, 1.0)
        out[0, h, i, :] = acc * share[:, None]
        if sums == 2:
            out[1, h, i, :] = other * share[:, None]
    return out


@dataclass(frozen=True)
class BackToBack:
    """One of these kernels, with its sizes: heads, queries, keys, widths of q, of r, of v."""

    sizes: tuple[int, int, int, int, int, int]
    scores: str = "one"
    sums: int = 1
    squash: str = "none"
    bias: bool = False
    mask: str = "none"
    weights: str = "softmax"
    dtype: Any = np.float16

    @property
    def constants(self) -> dict[str, Any]:
        """The options of the kernel."""
        names = ("scores", "sums", "squash", "bias", "mask", "weights")
        return {name: getattr(self, name) for name in names}

    def arrays(self, seed: int = 0) -> list[Array]:
        """Arguments, drawn so that weights are neither all alike nor one alone."""
        heads, queries, keys, wide, narrow, values = self.sizes
        random = np.random.default_rng(seed)
        shapes = [
            (heads, queries, wide), (heads, queries, narrow), (heads, keys, wide), (heads, keys, narrow),
            (heads, keys, values), (heads, keys, values), (heads,),
        ]  # fmt: skip
        drawn = [random.standard_normal(shape).astype(np.float32) * 0.5 for shape in shapes]
        return [array.astype(self.dtype) for array in drawn]

    def expected(self, arrays: list[Any]) -> Array:
        """By NumPy, in f64."""
        q, r, k, s, v, w, slopes = (a.astype(np.float64) for a in arrays)
        queries, keys = self.sizes[1:3]
        above = np.arange(keys)[None, :] - np.arange(queries)[:, None]
        first = q @ k.transpose(0, 2, 1)
        found = first if self.scores == "one" else first + r @ s.transpose(0, 2, 1)
        if self.squash == "tanh":
            found = 3 * np.tanh(found / 3)
        if self.bias:
            found = found + slopes[:, None, None] * above / 64
        seen = np.ones((queries, keys), bool)
        if self.mask != "none":
            seen = (above <= 0) & ((above > -48) | (self.mask == "causal"))
        if self.weights == "softmax":
            masked = np.where(seen, found, -1e30)
            p = np.where(seen, np.exp2(masked - masked.max(-1, keepdims=True, initial=-1e30)), 0)
            p = p / np.maximum(p.sum(-1, keepdims=True), 1e-30)
            return np.stack([p @ v, p @ w][: self.sums])
        if self.weights == "top first":
            top = np.where(seen, first, -1e30).max(-1, keepdims=True, initial=-1e30)
            p = np.where(seen, np.exp2(np.minimum(found - top, 4)), 0)
        else:
            p = np.where(seen, found * 0.25, 0)
            p = p if self.mask == "none" else np.maximum(p, 0)
        return np.stack([p @ v, p @ w * 0.5][: self.sums])
