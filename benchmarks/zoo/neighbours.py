"""Kernels in tile form next door to a product and to attention: one thing more in the loop, or another operand.

What they have in common is that no plan may know them by name.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.zoo import formulas
from benchmarks.zoo import numpy_functions as plain
from benchmarks.zoo.case import Family
from benchmarks.zoo.sdpa import sdpa
from tiledsl import tile

row = Family("neighbours")
PRODUCT, HEADS, SIZES = "m=4096 n=4096 k=4096", "h=32 m=4096 n=4096 d=128", "h=16 m=4096 n=4096 d=128 e=64"
LOWEST = -1e30
LOG2_E = 1 / math.log(2)


@tile.func
def fold(s: Any, top: Any, total: Any) -> Any:
    """A turn of the online softmax, in powers of two: weights, what sums are scaled by, the new top and total."""
    higher = tile.maximum(top, tile.max(s, axis=1))
    p = tile.exp2(s - higher[:, None])
    rescale = tile.exp2(top - higher)
    return p, rescale, higher, total * rescale + tile.sum(p, axis=1)


@tile.kernel
def two_values(q: tile.Tensor, k: tile.Tensor, v: tile.Tensor, u: tile.Tensor) -> Any:
    """softmax(q k) v and softmax(q k) u in one loop."""
    H, M, D = q.shape
    H, N, D = k.shape
    H, N, E = v.shape
    H, N, E = u.shape
    left, right = tile.empty((H, M, E), q.dtype), tile.empty((H, M, E), q.dtype)
    for h, i in tile.grid(H, M, block=(1, tile.auto)):
        top, total = tile.full(i, LOWEST), tile.zeros(i)
        a, b = tile.zeros((i, E)), tile.zeros((i, E))
        for j in tile.range(N):
            s = tile.dot(q[h, i, :], k[h, j, :].mT) * (D**-0.5 * LOG2_E)
            p, rescale, top, total = fold(s, top, total)
            a = tile.dot(p.to(v.dtype), v[h, j, :], a * rescale[:, None])
            b = tile.dot(p.to(u.dtype), u[h, j, :], b * rescale[:, None])
        left[h, i, :] = a / total[:, None]
        right[h, i, :] = b / total[:, None]
    return left, right


@tile.kernel
def three_dots(q: tile.Tensor, k: tile.Tensor, a: tile.Tensor, b: tile.Tensor, v: tile.Tensor) -> tile.Tensor:
    """softmax((q k + a b) scale) v: scores of a part without positions and of one with."""
    H, M, D = q.shape
    H, N, D = k.shape
    H, M, R = a.shape
    H, N, R = b.shape
    H, N, E = v.shape
    out = tile.empty((H, M, E), q.dtype)
    for h, i in tile.grid(H, M, block=(1, tile.auto)):
        top, total, acc = tile.full(i, LOWEST), tile.zeros(i), tile.zeros((i, E))
        for j in tile.range(N):
            s = tile.dot(a[h, i, :], b[h, j, :].mT, tile.dot(q[h, i, :], k[h, j, :].mT))
            p, rescale, top, total = fold(s * ((D + R) ** -0.5 * LOG2_E), top, total)
            acc = tile.dot(p.to(v.dtype), v[h, j, :], acc * rescale[:, None])
        out[h, i, :] = acc / total[:, None]
    return out


@tile.kernel
def capped(q: tile.Tensor, k: tile.Tensor, v: tile.Tensor) -> tile.Tensor:
    """Scores between -30 and 30."""
    H, M, D = q.shape
    H, N, D = k.shape
    H, N, E = v.shape
    out = tile.empty((H, M, E), q.dtype)
    for h, i in tile.grid(H, M, block=(1, tile.auto)):
        top, total, acc = tile.full(i, LOWEST), tile.zeros(i), tile.zeros((i, E))
        for j in tile.range(N):
            s = tile.tanh(tile.dot(q[h, i, :], k[h, j, :].mT) * (D**-0.5 / 30)) * (30 * LOG2_E)
            p, rescale, top, total = fold(s, top, total)
            acc = tile.dot(p.to(v.dtype), v[h, j, :], acc * rescale[:, None])
        out[h, i, :] = acc / total[:, None]
    return out


@tile.kernel
def sloped(q: tile.Tensor, k: tile.Tensor, v: tile.Tensor, slopes: tile.Tensor) -> tile.Tensor:
    """ALiBi: scores fall with the distance, by another slope for each head. Causal."""
    H, M, D = q.shape
    H, _, D = k.shape
    H, _, E = v.shape
    H = slopes.shape[0]
    out = tile.empty((H, M, E), q.dtype)
    for h, i in tile.grid(H, M, block=(1, tile.auto)):
        top, total, acc = tile.full(i, LOWEST), tile.zeros(i), tile.zeros((i, E))
        slope = slopes[h] * LOG2_E
        for j in tile.range(0, i.start + i.size):
            away = i.index[:, None] - j.index[None, :]
            s = tile.dot(q[h, i, :], k[h, j, :].mT) * (D**-0.5 * LOG2_E) - slope * away.to(tile.f32)
            p, rescale, top, total = fold(tile.where(away >= 0, s, -math.inf), top, total)
            acc = tile.dot(p.to(v.dtype), v[h, j, :], acc * rescale[:, None])
        out[h, i, :] = acc / total[:, None]
    return out


@tile.kernel
def sunk(q: tile.Tensor, k: tile.Tensor, v: tile.Tensor, sinks: tile.Tensor) -> tile.Tensor:
    """A score of each head beside those of the keys, without a value."""
    H, M, D = q.shape
    H, N, D = k.shape
    H, N, E = v.shape
    H = sinks.shape[0]
    out = tile.empty((H, M, E), q.dtype)
    for h, i in tile.grid(H, M, block=(1, tile.auto)):
        top, total, acc = tile.zeros(i) + sinks[h].to(tile.f32) * LOG2_E, tile.full(i, 1.0), tile.zeros((i, E))
        for j in tile.range(N):
            s = tile.dot(q[h, i, :], k[h, j, :].mT) * (D**-0.5 * LOG2_E)
            p, rescale, top, total = fold(s, top, total)
            acc = tile.dot(p.to(v.dtype), v[h, j, :], acc * rescale[:, None])
        out[h, i, :] = acc / total[:, None]
    return out


@tile.kernel
def windowed(q: tile.Tensor, k: tile.Tensor, v: tile.Tensor, w: tile.constexpr) -> tile.Tensor:
    """Each query sees the w last keys."""
    H, M, D = q.shape
    H, M, D = k.shape
    H, M, E = v.shape
    out = tile.empty((H, M, E), q.dtype)
    for h, i in tile.grid(H, M, block=(1, tile.auto)):
        top, total, acc = tile.full(i, LOWEST), tile.zeros(i), tile.zeros((i, E))
        for j in tile.range(max(0, i.start - w + 1), i.start + i.size):
            away = i.index[:, None] - j.index[None, :]
            s = tile.dot(q[h, i, :], k[h, j, :].mT) * (D**-0.5 * LOG2_E)
            p, rescale, top, total = fold(tile.where((away >= 0) & (away < w), s, -math.inf), top, total)
            acc = tile.dot(p.to(v.dtype), v[h, j, :], acc * rescale[:, None])
        out[h, i, :] = acc / total[:, None]
    return out


@tile.kernel
def linear(q: tile.Tensor, k: tile.Tensor, v: tile.Tensor) -> tile.Tensor:
    """(q k) v without softmax, causal: two products in one loop, nothing folded between them."""
    H, M, _ = q.shape
    H, M, E = v.shape
    out = tile.empty((H, M, E), q.dtype)
    for h, i in tile.grid(H, M, block=(1, tile.auto)):
        acc = tile.zeros((i, E))
        for j in tile.range(0, i.start + i.size):
            s = tile.dot(q[h, i, :], k[h, j, :].mT)
            s = tile.where(i.index[:, None] >= j.index[None, :], s, 0)
            acc = tile.dot(s.to(v.dtype), v[h, j, :], acc)
        out[h, i, :] = acc
    return out


@tile.kernel
def product_of_bytes(a: tile.Tensor, b: tile.Tensor) -> tile.Tensor:
    """The left operand is widened in the loop."""
    M, K = a.shape
    K, N = b.shape
    c = tile.empty((M, N), b.dtype)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n))
        for k in tile.range(K):
            acc = tile.dot(a[m, k].to(b.dtype), b[k, n], acc)
        c[m, n] = acc
    return c


@tile.kernel
def normed_product(x: tile.Tensor, g: tile.Tensor, w: tile.Tensor) -> tile.Tensor:
    """rms_norm(x, g) w: the weight of the norm in the loop, its root behind."""
    M, K = x.shape
    K = g.shape[0]
    K, N = w.shape
    y = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N):
        acc, squares = tile.zeros((m, n)), tile.zeros(m)
        for k in tile.range(K):
            wide = x[m, k].to(tile.f32)
            squares += tile.sum(wide * wide, axis=1)
            acc = tile.dot((wide * g[k]).to(x.dtype), w[k, n], acc)
        y[m, n] = acc * tile.rsqrt(squares / K + 1e-5)[:, None]
    return y


@tile.kernel
def product_and_sums(a: tile.Tensor, b: tile.Tensor) -> Any:
    """a b, and the sums of the rows of a, from the same loads."""
    M, K = a.shape
    K, N = b.shape
    c, sums = tile.empty((M, N), a.dtype), tile.empty(M, tile.f32)
    for m, n in tile.grid(M, N):
        acc, total = tile.zeros((m, n)), tile.zeros(m)
        for k in tile.range(K):
            total += tile.sum(a[m, k].to(tile.f32), axis=1)
            acc = tile.dot(a[m, k], b[k, n], acc)
        c[m, n] = acc - total[:, None]
    for m in tile.grid(M):
        sums[m] = tile.sum(a[m, :].to(tile.f32), axis=1)
    return c, sums


@tile.kernel
def two_products(a: tile.Tensor, b: tile.Tensor, c: tile.Tensor) -> Any:
    """a b and a c in one loop."""
    M, K = a.shape
    K, N = b.shape
    K, N = c.shape
    left, right = tile.empty((M, N), a.dtype), tile.empty((M, N), a.dtype)
    for m, n in tile.grid(M, N):
        p, q = tile.zeros((m, n)), tile.zeros((m, n))
        for k in tile.range(K):
            p = tile.dot(a[m, k], b[k, n], p)
            q = tile.dot(a[m, k], c[k, n], q)
        left[m, n] = p
        right[m, n] = q
    return left, right


@tile.kernel
def scaled_groups(a: tile.Tensor, s: tile.Tensor, b: tile.Tensor, t: tile.Tensor) -> tile.Tensor:
    """f8 with a scale for each 128 along k of a, and for each such group of b: the sum is scaled in each turn."""
    M, K = a.shape
    N, K = b.shape
    c = tile.empty((M, N), tile.bf16)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n))
        for k in tile.range(K, block=128):
            g = k.start // 128
            acc += tile.dot(a[m, k], b[n, k].mT) * s[m, g][:, None] * t[n, g][None, :]
        c[m, n] = acc
    return c


def _plain_three(q: Any, k: Any, a: Any, b: Any, v: Any) -> Any:
    return plain.softmax((q @ k.mT + a @ b.mT) * (q.shape[-1] + a.shape[-1]) ** -0.5) @ v


def _torch_three(t: Any, q: Any, k: Any, a: Any, b: Any, v: Any) -> Any:
    return sdpa(t, t.cat([q, a], -1), t.cat([k, b], -1), v)


def _away(t: Any, q: Any) -> Any:
    return t.arange(q.shape[1], device=q.device)[:, None] - t.arange(q.shape[1], device=q.device)


def _torch_sloped(t: Any, q: Any, k: Any, v: Any, slopes: Any) -> Any:
    away = _away(t, q)
    bias = (-slopes[:, None, None] * away).to(q.dtype).masked_fill(away < 0, -math.inf)
    return sdpa(t, q, k, v, attn_mask=bias)


def _plain_sloped(q: Any, k: Any, v: Any, slopes: Any) -> Any:
    away = plain.distances(q.shape[1], q.shape[1])
    return plain.attention(q, k, v, plain.hidden(away >= 0) - slopes[:, None, None] * away)


def _plain_sunk(q: Any, k: Any, v: Any, sinks: Any) -> Any:
    s = q @ k.mT * q.shape[-1] ** -0.5
    both = np.concatenate([s, np.broadcast_to(sinks[:, None, None], (*s.shape[:-1], 1))], axis=-1)
    return plain.softmax(both)[..., :-1] @ v


def _torch_sunk(t: Any, q: Any, k: Any, v: Any, sinks: Any) -> Any:
    s = (q @ k.mT) * q.shape[-1] ** -0.5
    both = t.cat([s, sinks[:, None, None].expand(*s.shape[:-1], 1)], -1)
    return t.softmax(both, -1)[..., :-1] @ v


def _plain_windowed(q: Any, k: Any, v: Any, w: int) -> Any:
    away = plain.distances(q.shape[1], q.shape[1])
    return plain.attention(q, k, v, plain.hidden((away >= 0) & (away < w)))


def _torch_windowed(t: Any, q: Any, k: Any, v: Any, w: int) -> Any:
    away = _away(t, q)
    return sdpa(t, q, k, v, attn_mask=(away >= 0) & (away < w))


def _plain_scaled(a: Any, s: Any, b: Any, t: Any) -> Any:
    wide = np.repeat(s, 128, axis=1)[:, : a.shape[1]] * a
    return wide @ (np.repeat(t, 128, axis=1)[:, : b.shape[1]] * b).T


def _torch_scaled(t: Any, a: Any, s: Any, b: Any, r: Any) -> Any:
    """What is done without a kernel of one's own: both are widened first."""
    wide = a.to(s.dtype) * s.repeat_interleave(128, 1)
    return (wide.bfloat16() @ (b.to(s.dtype) * r.repeat_interleave(128, 1)).bfloat16().T).to(s.dtype)


NEIGHBOURS = (
    row("two value matrices, kernel", "f16[h,m,d], f16[h,n,d], f16[h,n,d], f16[h,n,d]", HEADS,
        lambda q, k, v, u: two_values(q, k, v, u),
        lambda q, k, v, u: (plain.attention(q, k, v), plain.attention(q, k, u)),
        lambda t, q, k, v, u: sdpa(t, q, k, t.cat([v, u], -1)).chunk(2, -1)),
    row("two value matrices, formula", "f16[h,m,d], f16[h,n,d], f16[h,n,d], f16[h,n,d]", HEADS,
        lambda q, k, v, u: (formulas.weighted(formulas.scores(q, k), v), formulas.weighted(formulas.scores(q, k), u)),
        lambda q, k, v, u: (plain.attention(q, k, v), plain.attention(q, k, u)),
        lambda t, q, k, v, u: sdpa(t, q, k, t.cat([v, u], -1)).chunk(2, -1)),
    row("three dots, kernel", "f16[h,m,d], f16[h,n,d], f16[h,m,e], f16[h,n,e], f16[h,n,d]", SIZES,
        lambda q, k, a, b, v: three_dots(q, k, a, b, v), _plain_three, _torch_three),
    row("three dots, formula", "f16[h,m,d], f16[h,n,d], f16[h,m,e], f16[h,n,e], f16[h,n,d]", SIZES,
        lambda q, k, a, b, v: formulas.weighted(
            (tile.dot(q, k.mT) + tile.dot(a, b.mT)) * (q.shape[-1] + a.shape[-1]) ** -0.5, v),
        _plain_three, _torch_three),
    row("softmax(q k + a b) v", "f16[h,m,d]*0.3, f16[h,n,d]*0.3, f16[h,m,e]*0.3, f16[h,n,e]*0.3, f16[h,n,d]", SIZES,
        lambda q, k, a, b, v: tile.softmax(q @ k.mT + a @ b.mT) @ v,
        lambda q, k, a, b, v: plain.softmax(q @ k.mT + a @ b.mT) @ v,
        lambda t, q, k, a, b, v: sdpa(t, t.cat([q, a], -1), t.cat([k, b], -1), v, scale=1.0)),
    row("capped scores, kernel", "f16[h,m,d], f16[h,n,d], f16[h,n,d]", HEADS, lambda q, k, v: capped(q, k, v),
        lambda q, k, v: plain.softmax(30 * np.tanh(q @ k.mT * q.shape[-1] ** -0.5 / 30)) @ v,
        lambda t, q, k, v: t.softmax(30 * t.tanh((q @ k.mT) * (q.shape[-1] ** -0.5 / 30)), -1) @ v),
    row("ALiBi, kernel", "f16[h,m,d], f16[h,m,d], f16[h,m,d], f32[h]*0.1", "h=32 m=4096 d=128",
        lambda q, k, v, s: sloped(q, k, v, s), _plain_sloped, _torch_sloped, small="h=4"),
    row("sinks, kernel", "f16[h,m,d], f16[h,n,d], f16[h,n,d], f16[h]", HEADS, lambda q, k, v, s: sunk(q, k, v, s),
        _plain_sunk, _torch_sunk, small="h=4"),
    row("sliding window, kernel", "f16[h,m,d], f16[h,m,d], f16[h,m,d]", "h=32 m=4096 d=128 w=1024",
        lambda q, k, v, w: windowed(q, k, v, w), _plain_windowed, _torch_windowed, small="h=4 m=36 w=10", passed="w"),
    row("causal linear attention, kernel", "f16[h,m,d]*0.3, f16[h,m,d]*0.3, f16[h,m,d]*0.3", "h=32 m=4096 d=128",
        lambda q, k, v: linear(q, k, v), lambda q, k, v: np.tril(q @ k.mT) @ v,
        lambda t, q, k, v: t.tril(q @ k.mT) @ v, small="h=4"),
    row("left operand of i8, kernel", "i8[m,k], bf16[k,n]*0.05", PRODUCT, lambda a, b: product_of_bytes(a, b),
        lambda a, b: a @ b, lambda t, a, b: a.to(b.dtype) @ b),
    row("left operand normed, kernel", "f16[m,k], f16[k], f16[k,n]*0.05", PRODUCT,
        lambda x, g, w: normed_product(x, g, w), lambda x, g, w: plain.rms_norm(x, g) @ w,
        lambda t, x, g, w: t.nn.functional.rms_norm(x, g.shape, g, 1e-5) @ w),
    row("product beside row sums, kernel", "f16[m,k], f16[k,n]*0.05", PRODUCT, lambda a, b: product_and_sums(a, b),
        lambda a, b: (a @ b - a.sum(axis=1)[:, None], a.sum(axis=1)),
        lambda t, a, b: (a @ b - a.float().sum(1, keepdim=True), a.float().sum(1))),
    row("product and row sums", "f16[m,k], f16[k,n]*0.05", PRODUCT,
        lambda a, b: (a @ b, tile.sum(a.to(tile.f32), axis=1)), lambda a, b: (a @ b, a.sum(axis=1)),
        lambda t, a, b: (a @ b, a.float().sum(1))),
    row("two products of one operand, kernel", "f16[m,k], f16[k,n]*0.05, f16[k,n]*0.05", PRODUCT,
        lambda a, b, c: two_products(a, b, c), lambda a, b, c: (a @ b, a @ c), lambda t, a, b, c: (a @ b, a @ c)),
    row("f8 in scaled groups, kernel", "f8e4m3[m,k], f32[m,g], f8e4m3[n,k]*0.05, f32[n,g]",
        "m=4096 n=4096 k=4096 g=32", lambda a, s, b, t: scaled_groups(a, s, b, t), _plain_scaled, _torch_scaled,
        small="k=256 g=2"),
)  # fmt: skip
