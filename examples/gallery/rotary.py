"""Rotary embedding: pairs of a query's elements, half its width apart, turn by an angle that grows with the position.

low' = low * cos(angle) - high * sin(angle), high' = high * cos(angle) + low * sin(angle)
"""

import numpy as np

from entry import Array, Entry, normal
from tiledsl import tile

WIDTH = 128


@tile.kernel
def rotary(x: tile.Tensor, cos: tile.Tensor, sin: tile.Tensor) -> tile.Tensor:
    H, T, D = x.shape
    T, W = cos.shape
    T, W = sin.shape
    y = tile.empty((H, T, D), x.dtype)
    for h, t, d in tile.grid(H, T, W, block=(1, tile.auto, tile.auto)):
        low, high = x[h, t, d], x[h, t, d + W]  # a block, and the one W further
        y[h, t, d] = low * cos[t, d] - high * sin[t, d]
        y[h, t, d + W] = high * cos[t, d] + low * sin[t, d]
    return y


def numpy_rotary(x: Array, cos: Array, sin: Array) -> Array:
    low, high = np.split(x, 2, axis=2)
    return np.concatenate([low * cos - high * sin, high * cos + low * sin], axis=2)


def arguments(size: int) -> list[Array]:
    angles = np.arange(size)[:, None] * 10000.0 ** (-2 * np.arange(WIDTH // 2) / WIDTH)
    return [normal(16, size, WIDTH), np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]


ENTRY = Entry(rotary, numpy_rotary, arguments, size=1024, small=19)

if __name__ == "__main__":
    ENTRY.show(__doc__)
