"""Softmax of scores that are capped and may go to a sink: what a sink takes is lost to the row.

s = cap * tanh(x / cap), y[h, i, j] = exp(s[h, i, j]) / (exp(sink[h]) + sum over j of exp(s[h, i, j]))
"""

import numpy as np

from entry import Array, Entry, normal
from tiledsl import tile


@tile.kernel
def sink_softmax(x: tile.Tensor, sink: tile.Tensor, cap: float) -> tile.Tensor:
    H, M, N = x.shape
    H = sink.shape[0]
    y = tile.empty((H, M, N), x.dtype)
    for h, m in tile.grid(H, M, block=(1, tile.auto)):
        s = cap * tile.tanh(x[h, m, :].to(tile.f32) / cap)
        top = tile.maximum(tile.max(s, axis=1), sink[h])
        e = tile.exp(s - top[:, None])
        y[h, m, :] = e / (tile.sum(e, axis=1) + tile.exp(sink[h] - top))[:, None]
    return y


def numpy_sink_softmax(x: Array, sink: Array, cap: float) -> Array:
    s = cap * np.tanh(x / cap)
    top = np.maximum(s.max(axis=2, keepdims=True), sink[:, None, None])
    e = np.exp(s - top)
    return e / (e.sum(axis=2, keepdims=True) + np.exp(sink[:, None, None] - top))


def arguments(size: int) -> list[Array | float]:
    return [normal(8, size, size), normal(8, seed=1), 30.0]


ENTRY = Entry(sink_softmax, numpy_sink_softmax, arguments, size=512, small=33)

if __name__ == "__main__":
    ENTRY.show(__doc__)
