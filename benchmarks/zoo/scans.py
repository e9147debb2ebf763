"""Running sums and their like, and where the largest elements are."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.zoo.case import Family
from tiledsl import ops, tile

row = Family("scans")
TALL, VOCABULARY = "m=4096 n=8192", "m=4096 n=50304"


def _running_sum(x: Any, axis: int, reverse: bool = False) -> Any:
    return tile.cumsum(x.to(tile.f32), axis=axis, reverse=reverse)


@tile.func
def _steps(decay: Any, state: Any, later: Any, update: Any) -> Any:
    """Two steps of h = decay * h + update as one."""
    return decay * later, state * later + update


@tile.kernel
def recurrence(a: tile.Tensor, b: tile.Tensor) -> tile.Tensor:
    """h[i] = sigmoid(a[i]) * h[i - 1] + b[i], along rows."""
    M, N = a.shape
    M, N = b.shape
    h = tile.empty((M, N), tile.f32)
    for m in tile.grid(M):
        decay = tile.sigmoid(a[m, :].to(tile.f32))
        _, h[m, :] = tile.scan((decay, b[m, :].to(tile.f32)), 1, _steps)
    return h


def _plain_recurrence(a: Any, b: Any) -> Any:
    out, state = np.zeros_like(b), np.zeros(len(b))
    for i in range(b.shape[1]):
        state = state / (1 + np.exp(-a[:, i])) + b[:, i]
        out[:, i] = state
    return out


def _torch_recurrence(t: Any, a: Any, b: Any) -> Any:
    """PyTorch has no such scan: pairs of steps are put together, then pairs of pairs."""
    decay, state, n, step = t.sigmoid(a.float()), b.float(), b.shape[1], 1
    while step < n:
        state = state + decay * t.nn.functional.pad(state, (step, 0))[:, :n]
        decay = decay * t.nn.functional.pad(decay, (step, 0), value=1.0)[:, :n]
        step *= 2
    return state


SCANS = (
    row("running sum, rows", "f16[m,n]", TALL, lambda x: _running_sum(x, 1), lambda x: x.cumsum(axis=1),
        lambda t, x: x.float().cumsum(1)),
    row("running sum, columns", "f16[m,n]", TALL, lambda x: _running_sum(x, 0), lambda x: x.cumsum(axis=0),
        lambda t, x: x.float().cumsum(0)),
    row("running sum, short rows", "f16[m,n]", "m=1048576 n=32", lambda x: _running_sum(x, 1),
        lambda x: x.cumsum(axis=1), lambda t, x: x.float().cumsum(1)),
    row("running sum, one row", "f32[n]", "n=1048576", lambda x: tile.cumsum(x, axis=0), lambda x: x.cumsum(),
        lambda t, x: x.cumsum(0)),
    row("running sum from the end", "f16[m,n]", TALL, lambda x: _running_sum(x, 1, reverse=True),
        lambda x: x[:, ::-1].cumsum(axis=1)[:, ::-1], lambda t, x: x.float().flip(1).cumsum(1).flip(1)),
    row("running maximum, rows", "f16[m,n]", TALL, lambda x: tile.scan(x, 1, tile.maximum),
        lambda x: np.maximum.accumulate(x, axis=1), lambda t, x: t.cummax(x, 1)[0]),
    row("places of chosen elements", "i8[m,n]", TALL, lambda x: tile.cumsum((x > 0).to(tile.i32), axis=1),
        lambda x: (x > 0).cumsum(axis=1), lambda t, x: (x > 0).cumsum(1)),
    row("linear recurrence, rows", "f16[m,n], f16[m,n]", TALL, lambda a, b: recurrence(a, b), _plain_recurrence,
        _torch_recurrence),
    row("argmax, rows", "f16[m,n]", VOCABULARY, lambda x: tile.argmax(x, axis=1), lambda x: x.argmax(axis=1),
        lambda t, x: x.argmax(1)),
    row("argmax, columns", "f16[m,n]", TALL, lambda x: tile.argmax(x, axis=0), lambda x: x.argmax(axis=0),
        lambda t, x: x.argmax(0)),
    row("argmin, short rows", "f16[m,n]", "m=1048576 n=48", lambda x: tile.argmin(x, axis=1),
        lambda x: x.argmin(axis=1), lambda t, x: x.argmin(1)),
    row("maximum and argmax, rows", "f16[m,n]", VOCABULARY, lambda x: (tile.max(x, axis=1), tile.argmax(x, axis=1)),
        lambda x: (x.max(axis=1), x.argmax(axis=1)), lambda t, x: t.max(x, 1)),
    row("top 8, rows", "f16[m,n]", VOCABULARY, lambda x: ops.top_k(x, 8)[0],
        lambda x: np.sort(x, axis=1)[:, :-9:-1], lambda t, x: t.topk(x, 8)[0]),
    row("top 2 of experts", "f32[m,n]", "m=65536 n=64", lambda x: ops.top_k(tile.softmax(x), 2)[0],
        lambda x: np.sort(np.exp(x) / np.exp(x).sum(axis=1, keepdims=True), axis=1)[:, :-3:-1],
        lambda t, x: t.topk(t.softmax(x, -1), 2)[0]),
)  # fmt: skip
