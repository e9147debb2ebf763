"""Cells of recurrent nets: one step for a batch, several in a row, and scans of states."""

from __future__ import annotations

from typing import Any

import numpy as np

import tiledsl
from benchmarks.zoo import numpy_functions as plain
from benchmarks.zoo.case import Family
from tiledsl import ops, tile

row = Family("recurrent cells")
WEIGHTS = "f16[b,d], f16[b,h], f16[d,g]*0.05, f16[h,g]*0.05, f16[g]"


def _split(x: Any, parts: int) -> Any:
    size = x.shape[-1] // parts
    return [x[..., i * size : (i + 1) * size] for i in range(parts)]


def _lstm(x: Any, h: Any, w: Any, u: Any, b: Any, c: Any, sigmoid: Any, tanh: Any) -> Any:
    i, f, g, o = _split(x @ w + h @ u + b, 4)
    c = sigmoid(f) * c + sigmoid(i) * tanh(g)
    return sigmoid(o) * tanh(c), c


def _gru(x: Any, h: Any, w: Any, u: Any, b: Any, sigmoid: Any, tanh: Any) -> Any:
    (xr, xz, xn), (hr, hz, hn) = _split(x @ w + b, 3), _split(h @ u, 3)
    r, z = sigmoid(xr + hr), sigmoid(xz + hz)
    return (1 - z) * tanh(xn + r * hn) + z * h


def _steps(x: Any, h: Any, w: Any, u: Any, tanh: Any) -> Any:
    """Four steps of a plain cell."""
    for step in range(4):
        h = tanh(x[step] @ w + h @ u)
    return h


def _selective(x: Any, d: Any, a: Any, b: Any, c: Any, h: Any, exp: Any) -> Any:
    """A step of a selective state space: [B, D] inputs, [B, D, S] states."""
    fading = exp(-abs(d)[..., None] * abs(a))
    h = fading * h + (d * x)[..., None] * b[:, None]
    return (h * c[:, None]).sum(-1), h


@tile.kernel
def scanned(f: tile.Tensor, x: tile.Tensor) -> tile.Tensor:
    """h[t] = sigmoid(f[t]) h[t - 1] + (1 - sigmoid(f[t])) x[t] for each channel, step by step."""
    B, T, C = f.shape
    B, T, C = x.shape
    out = tile.empty((B, T, C), x.dtype)
    for b, c in tile.grid(B, C, block=(1, tile.auto)):
        h = tile.zeros(c)
        for t in tile.range(T, block=1):
            keep = tile.sigmoid(f[b, t, c].to(tile.f32))
            h = keep * h + (1 - keep) * x[b, t, c]
            out[b, t, c] = h
    return out


def _plain_scanned(f: Any, x: Any) -> Any:
    out, h, keep = np.zeros_like(x), np.zeros_like(x[:, 0]), plain.sigmoid(f)
    for step in range(x.shape[1]):
        h = keep[:, step] * h + (1 - keep[:, step]) * x[:, step]
        out[:, step] = h
    return out


def _torch_scanned(t: Any, f: Any, x: Any) -> Any:
    keep = t.sigmoid(f.float())
    h, steps = t.zeros_like(keep[:, 0]), list[Any]()
    for step in range(x.shape[1]):
        h = keep[:, step] * h + (1 - keep[:, step]) * x[:, step]
        steps.append(h)
    return t.stack(steps, 1).to(x.dtype)


def _layer(x: Any, w: Any, u: Any, b: Any, stack: Any, zeros: Any, sigmoid: Any, tanh: Any) -> Any:
    h = c = zeros((x.shape[1], u.shape[1]))
    steps: list[Any] = []
    for given in x:
        h, c = _lstm(given, h, w.T, u.T, b, c, sigmoid, tanh)
        steps.append(h)
    return stack(steps)


def _torch_layer(t: Any, x: Any, w: Any, u: Any, b: Any, c: Any) -> Any:
    layer = t.nn.LSTM(x.shape[2], u.shape[1], device=x.device, dtype=x.dtype)
    for mine, given in zip(layer.parameters(), (w, u, b, c)):
        mine.data = given
    return layer(x)[0].detach()


def _selective_scan(x: Any, d: Any, a: Any, b: Any, c: Any) -> Any:
    """All steps of a selective state space: [B, L, D] inputs."""

    def step(h: Any, element: Any) -> tuple[Any, Any]:
        x, d, b, c = (part.to(tile.f32) for part in element)
        y, h = _selective(x, d, a.to(tile.f32), b, c, h, tile.exp)
        return h, y.to(tile.f16)

    first = tuple(part.transpose((1, 0, 2)) for part in (x, d, b, c))
    return tiledsl.scan(step, tile.zeros((x.shape[0], *a.shape)), first)[1].transpose((1, 0, 2))


def _plain_selective_scan(x: Any, d: Any, a: Any, b: Any, c: Any) -> Any:
    h, steps = np.zeros((x.shape[0], *a.shape)), list[Any]()
    for step in range(x.shape[1]):
        y, h = _selective(x[:, step], d[:, step], a, b[:, step], c[:, step], h, np.exp)
        steps.append(y)
    return np.stack(steps, 1)


def _torch_selective_scan(t: Any, x: Any, d: Any, a: Any, b: Any, c: Any) -> Any:
    x, d, a, b, c = (part.float() for part in (x, d, a, b, c))
    h, steps = t.zeros(x.shape[0], *a.shape, device=x.device), list[Any]()
    for step in range(x.shape[1]):
        y, h = _selective(x[:, step], d[:, step], a, b[:, step], c[:, step], h, t.exp)
        steps.append(y)
    return t.stack(steps, 1).half()


def _in_chunks(x: Any, d: Any, b: Any, c: Any) -> Any:
    """The recurrence of Mamba-2 in chunks: within a chunk products, from chunk to chunk a scan of states.

    x [B, L, H, P], d [B, L, H] (the state of a head fades by exp(-|d|)), b and c [B, L, N].
    """
    batch, length, heads, width = x.shape
    chunk = 128 if length % 128 == 0 else 8
    shape = (batch, length // chunk, chunk)
    x, b, c = x.reshape((*shape, heads, width)), b.reshape((*shape, -1)), c.reshape((*shape, -1))
    fades: Any = -tile.abs(d.to(tile.f32))
    sums: Any = tile.cumsum(fades.reshape((*shape, heads)), axis=2)
    at = sums.transpose((0, 1, 3, 2))
    i = tile.arange(chunk)
    fading = tile.where(i[:, None] >= i[None, :], tile.exp(at[..., :, None] - at[..., None, :]), 0.0)
    scores = tile.einsum("gcin,gcjn->gcij", c, b)[:, :, None] * fading
    near = tile.einsum("gchij,gcjhp->gcihp", scores.to(x.dtype), x)
    left = ops.transpose(tile.exp(at[..., -1:] - at), (0, 1, 3, 2))[..., None]
    given = tile.einsum("gcjhp,gcjn->cghpn", (x * left).to(x.dtype), b)
    total = ops.transpose(tile.exp(at[..., -1]), (1, 0, 2))[..., None, None]

    def step(state: Any, element: Any) -> tuple[Any, Any]:
        return state * element[1] + element[0], state.to(x.dtype)

    _, before = tiledsl.scan(step, tile.zeros(given.shape[1:]), (given, total))
    far = tile.einsum("gcin,cghpn->gcihp", c, before) * ops.transpose(tile.exp(at), (0, 1, 3, 2))[..., None]
    return ops.reshape((near + far).to(x.dtype), (batch, length, heads, width))


def _plain_in_chunks(x: Any, d: Any, b: Any, c: Any) -> Any:
    state, steps = np.zeros((*x[:, 0].shape, b.shape[2])), list[Any]()
    for step in range(x.shape[1]):
        fading = np.exp(-abs(d[:, step]))[..., None, None]
        state = state * fading + x[:, step, :, :, None] * b[:, step, None, None]
        steps.append((state * c[:, step, None, None]).sum(-1))
    return np.stack(steps, 1)


def _torch_in_chunks(t: Any, x: Any, d: Any, b: Any, c: Any) -> Any:
    x, d, b, c = (part.float() for part in (x, d, b, c))
    state, steps = t.zeros(*x[:, 0].shape, b.shape[2], device=x.device), list[Any]()
    for step in range(x.shape[1]):
        fading = t.exp(-d[:, step].abs())[..., None, None]
        state = state * fading + x[:, step, :, :, None] * b[:, step, None, None]
        steps.append((state * c[:, step, None, None]).sum(-1))
    return t.stack(steps, 1).half()


RECURRENT = (
    row("LSTM cell", f"{WEIGHTS}, f16[b,h]", "b=256 d=1024 h=1024 g=4096",
        lambda x, h, w, u, b, c: _lstm(x, h, w, u, b, c, tile.sigmoid, tile.tanh),
        lambda x, h, w, u, b, c: _lstm(x, h, w, u, b, c, plain.sigmoid, np.tanh),
        lambda t, x, h, w, u, b, c: _lstm(x, h, w, u, b, c, t.sigmoid, t.tanh), small="b=12 d=20 h=16 g=64"),
    row("LSTM cell, batch 1", f"{WEIGHTS}, f16[b,h]", "b=1 d=2048 h=2048 g=8192",
        lambda x, h, w, u, b, c: _lstm(x, h, w, u, b, c, tile.sigmoid, tile.tanh),
        lambda x, h, w, u, b, c: _lstm(x, h, w, u, b, c, plain.sigmoid, np.tanh),
        lambda t, x, h, w, u, b, c: _lstm(x, h, w, u, b, c, t.sigmoid, t.tanh), small="d=20 h=16 g=64"),
    row("GRU cell", WEIGHTS, "b=256 d=1024 h=1024 g=3072",
        lambda x, h, w, u, b: _gru(x, h, w, u, b, tile.sigmoid, tile.tanh),
        lambda x, h, w, u, b: _gru(x, h, w, u, b, plain.sigmoid, np.tanh),
        lambda t, x, h, w, u, b: _gru(x, h, w, u, b, t.sigmoid, t.tanh), small="b=12 d=20 h=16 g=48"),
    row("four steps of a cell", "f16[s,b,d], f16[b,h], f16[d,h]*0.05, f16[h,h]*0.05", "s=4 b=256 d=1024 h=1024",
        lambda x, h, w, u: _steps(x, h, w, u, tile.tanh), lambda x, h, w, u: _steps(x, h, w, u, np.tanh),
        lambda t, x, h, w, u: _steps(x, h, w, u, t.tanh)),
    row("step of a state space", "f16[b,d], f16[b,d], f16[d,s], f16[b,s], f16[b,s], f32[b,d,s]", "b=64 d=8192 s=16",
        lambda x, d, a, b, c, h: _selective(x, d, a, b, c, h, tile.exp),
        lambda x, d, a, b, c, h: _selective(x, d, a, b, c, h, np.exp),
        lambda t, x, d, a, b, c, h: _selective(x, d, a, b, c, h, t.exp)),
    row("gated scan along time", "f16[b,t,c], f16[b,t,c]", "b=8 t=2048 c=4096", lambda f, x: scanned(f, x),
        _plain_scanned, _torch_scanned),
    row("LSTM, 128 steps", "f16[l,b,d], f16[g,d]*0.05, f16[g,h]*0.05, f16[g], f16[g]", "l=128 b=32 d=512 h=512 g=2048",
        lambda x, w, u, b, c: ops.lstm(x, w, u, b, c)[0],
        lambda x, w, u, b, c: _layer(x, w, u, b + c, np.stack, np.zeros, plain.sigmoid, np.tanh),
        _torch_layer, small="l=3 b=4 d=12 h=8 g=32"),
    row("selective scan", "f16[b,l,d], f16[b,l,d], f16[d,s], f16[b,l,s], f16[b,l,s]", "b=8 l=2048 d=2048 s=16",
        _selective_scan, _plain_selective_scan, _torch_selective_scan, small="b=2 l=9 d=12 s=8"),
    row("Mamba-2, in chunks", "f16[b,l,h,p], f16[b,l,h], f16[b,l,n]*0.3, f16[b,l,n]*0.3", "b=2 l=4096 h=64 p=64 n=128",
        _in_chunks, _plain_in_chunks, _torch_in_chunks, small="b=2 l=24 h=3 p=8 n=12"),
)  # fmt: skip
