"""Programs of the field as somebody writes them who has read the first pages: recurrences and stencils in tile form,
packed activations, numbers in groups."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.zoo import numpy_functions as plain
from benchmarks.zoo.case import Family
from tiledsl import tile

row = Family("field")


@tile.kernel
def smoothed(x: tile.Tensor) -> tile.Tensor:
    """A running mean of each column that forgets a tenth in each step."""
    T, C = x.shape
    y = tile.empty((T, C), x.dtype)
    for c in tile.grid(C):
        h = tile.zeros(c)
        for t in tile.range(T, block=1):
            h = h + 0.1 * (x[t, c] - h)
            y[t, c] = h
    return y


@tile.kernel
def delta_rule(q: tile.Tensor, k: tile.Tensor, v: tile.Tensor, beta: tile.Tensor) -> tile.Tensor:
    """States of [D, E] for each head; each step replaces a part of what they hold under a key."""
    H, T, D = q.shape
    H, T, D = k.shape
    H, T, E = v.shape
    H, T = beta.shape
    o = tile.empty((H, T, E), q.dtype)
    for h, e in tile.grid(H, E, block=(1, tile.auto)):
        s = tile.zeros((D, e))
        for t in tile.range(T, block=1):
            key = k[h, t, :].to(tile.f32)
            old = tile.sum(s * key[:, None], axis=0)
            s += key[:, None] * ((v[h, t, e].to(tile.f32) - old) * beta[h, t])[None, :]
            o[h, t, e] = tile.sum(s * q[h, t, :].to(tile.f32)[:, None], axis=0)
    return o


@tile.kernel
def diffused(u: tile.Tensor) -> tile.Tensor:
    """A step of the heat equation; what lies outside is 0."""
    Z, Y, X = u.shape
    v = tile.empty((Z, Y, X), u.dtype)
    for z, y, x in tile.grid(Z, Y, X):
        beside = u[z - 1, y, x] + u[z + 1, y, x] + u[z, y - 1, x] + u[z, y + 1, x] + u[z, y, x - 1] + u[z, y, x + 1]
        v[z, y, x] = u[z, y, x] + 0.1 * (beside - 6.0 * u[z, y, x])
    return v


@tile.kernel
def gated_halves(x: tile.Tensor) -> tile.Tensor:
    """silu of the first half of each row, times the second one."""
    M, W = x.shape
    N = W // 2
    y = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N):
        y[m, n] = tile.silu(x[m, n].to(tile.f32)) * x[m, n + N].to(tile.f32)
    return y


def _plain_smoothed(x: Any) -> Any:
    h, out = np.zeros_like(x[0]), np.empty_like(x)
    for t in range(len(x)):
        h = h + 0.1 * (x[t] - h)
        out[t] = h
    return out


def _torch_smoothed(t: Any, x: Any) -> Any:
    h, out = t.zeros_like(x[0]), list[Any]()
    for e in x:
        h = h + 0.1 * (e - h)
        out.append(h)
    return t.stack(out)


def _delta(q: Any, k: Any, v: Any, beta: Any, s: Any) -> list[Any]:
    out: list[Any] = []
    for t in range(q.shape[1]):
        key = k[:, t, :, None]
        old = (s * key).sum(1)
        s = s + key * ((v[:, t] - old) * beta[:, t, None])[:, None]
        out.append((s * q[:, t, :, None]).sum(1))
    return out


def _plain_diffused(u: Any) -> Any:
    p = np.pad(u, 1)
    beside = p[:-2, 1:-1, 1:-1] + p[2:, 1:-1, 1:-1] + p[1:-1, :-2, 1:-1] + p[1:-1, 2:, 1:-1]
    return u + 0.1 * (beside + p[1:-1, 1:-1, :-2] + p[1:-1, 1:-1, 2:] - 6.0 * u)


def _torch_diffused(t: Any, u: Any) -> Any:
    weights = t.zeros(1, 1, 3, 3, 3, device=u.device, dtype=u.dtype)
    for place in ((0, 1, 1), (2, 1, 1), (1, 0, 1), (1, 2, 1), (1, 1, 0), (1, 1, 2)):
        weights[0, 0][place] = 0.1
    weights[0, 0, 1, 1, 1] = 0.4
    return t.nn.functional.conv3d(u[None, None], weights, padding=1)[0, 0]


def _rounded_in_groups(x: Any) -> Any:
    """To 4 bits and back, in groups of 128 with a scale each."""
    m, n = x.shape
    g = x.to(tile.f32).reshape(m, n // 128, 128)
    scale = tile.max(tile.abs(g), axis=-1, keepdims=True) / 7.0
    return (tile.clip(tile.round(g / scale), -8, 7) * scale).reshape(m, n).to(x.dtype)


def _plain_rounded(x: Any) -> Any:
    g = x.reshape(len(x), -1, 128).astype(np.float32)
    scale: Any = (np.abs(g).max(axis=-1, keepdims=True) / np.float32(7)).astype(np.float32)
    return (plain.clip(np.round(g / scale), -8, 7) * scale).reshape(x.shape)


def _torch_rounded(t: Any, x: Any) -> Any:
    g = x.float().reshape(len(x), -1, 128)
    scale = g.abs().amax(-1, keepdim=True) / 7
    return (t.clamp(t.round(g / scale), -8, 7) * scale).reshape(x.shape).to(x.dtype)


def _heat(u: Any) -> Any:
    """A step of the heat equation as a formula; what lies outside is 0."""
    return _beside(u, tile.pad(u, 1))


def _plain_heat(u: Any) -> Any:
    return _beside(u, np.pad(u, 1))


def _beside(u: Any, p: Any) -> Any:
    return u + 0.1 * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4.0 * u)


def _torch_heat(t: Any, u: Any) -> Any:
    return _beside(u, t.nn.functional.pad(u, (1, 1, 1, 1)))


def _rotated(q: Any, v: Any) -> list[Any]:
    """Vectors turned by quaternions, component by component."""
    w, x, y, z = (q[:, i] for i in range(4))
    a, b, c = (v[:, i] for i in range(3))
    d, e, f = 2.0 * (y * c - z * b), 2.0 * (z * a - x * c), 2.0 * (x * b - y * a)
    return [a + w * d + y * f - z * e, b + w * e + z * d - x * f, c + w * f + x * e - y * d]


FIELD = (
    row("smoothed along time, kernel", "f32[t,c]", "t=4000 c=5000", lambda x: smoothed(x), _plain_smoothed,
        _torch_smoothed, small="t=45"),
    row("delta rule, kernel", "bf16[h,t,d]*0.2, bf16[h,t,d]*0.2, bf16[h,t,e], f32[h,t]*0.3",
        "h=64 t=1000 d=128 e=128", lambda q, k, v, b: delta_rule(q, k, v, b),
        lambda q, k, v, b: np.stack(_delta(q, k, v, b, np.zeros((len(q), q.shape[2], v.shape[2]))), 1),
        lambda t, q, k, v, b: t.stack(
            _delta(q.float(), k.float(), v.float(), b, q.new_zeros(len(q), q.shape[2], v.shape[2]).float()), 1),
        small="h=2 t=21 d=12 e=20"),
    row("stencil of a volume, kernel", "f32[z,y,x]", "z=401 y=385 x=511", lambda u: diffused(u), _plain_diffused,
        _torch_diffused, small="z=5 y=6 x=7"),
    row("heat by slices", "f32[y,x]", "y=8192 x=4096", _heat, _plain_heat, _torch_heat),
    row("vectors turned by quaternions", "f32[n,4], f32[n,3]", "n=8000000",
        lambda q, v: tile.stack(_rotated(q, v), axis=1), lambda q, v: np.stack(_rotated(q, v), axis=1),
        lambda t, q, v: t.stack(_rotated(q, v), 1)),
    row("halves gated, kernel", "bf16[m,w]", "m=8191 w=22016", lambda x: gated_halves(x),
        lambda x: plain.silu(x[:, : x.shape[1] // 2]) * x[:, x.shape[1] // 2 :],
        lambda t, x: t.nn.functional.silu(x[:, : x.shape[1] // 2]) * x[:, x.shape[1] // 2 :]),
    row("rounded to 4 bits in groups", "bf16[m,n]", "m=4097 n=11008", _rounded_in_groups, _plain_rounded,
        _torch_rounded, small="m=3 n=256"),
)  # fmt: skip
