"""Cells of recurrent nets: one step for a batch, several in a row, and scans of states."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.zoo import numpy_functions as plain
from benchmarks.zoo.case import Family
from tiledsl import tile

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
)  # fmt: skip
