"""A selective scan: a state of S numbers for each channel that decays, takes in and is read as the step says.

h[s] = exp(dt[t, c] * a[c, s]) * h[s] + dt[t, c] * b[t, s] * x[t, c], y[t, c] = sum over s of h[s] * g[t, s]
"""

import numpy as np

from entry import Array, Entry, normal
from tiledsl import tile

STATE = 16


@tile.kernel
def selective_scan(x: tile.Tensor, dt: tile.Tensor, a: tile.Tensor, b: tile.Tensor, g: tile.Tensor) -> tile.Tensor:
    T, C = x.shape
    T, C = dt.shape
    C, S = a.shape
    T, S = b.shape
    T, S = g.shape
    y = tile.empty((T, C), x.dtype)
    for c in tile.grid(C):
        decay, h = a[c, :], tile.zeros((c, S))
        for t in range(T):
            h = tile.exp(dt[t, c][:, None] * decay) * h + (dt[t, c] * x[t, c])[:, None] * b[t, :]
            y[t, c] = tile.sum(h * g[t, :], axis=1)
    return y


def numpy_selective_scan(x: Array, dt: Array, a: Array, b: Array, g: Array) -> Array:
    h, y = np.zeros_like(a), np.empty_like(x)
    for t in range(len(x)):
        h = np.exp(dt[t][:, None] * a) * h + (dt[t] * x[t])[:, None] * b[t]
        y[t] = h @ g[t]
    return y


def arguments(size: int) -> list[Array]:
    a = -np.abs(normal(512, STATE))
    return [normal(size, 512), np.abs(normal(size, 512, seed=1)), a, normal(size, STATE, seed=2), normal(size, STATE)]


ENTRY = Entry(selective_scan, numpy_selective_scan, arguments, size=512, small=12)

if __name__ == "__main__":
    ENTRY.show(__doc__)
