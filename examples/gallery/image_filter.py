"""A bilateral filter: the mean of the 25 pixels around each, weighted by nearness in place and in brightness.

y[i, j] = sum of w * x[i + r, j + s] / sum of w, w = exp(-(r^2 + s^2) / 8 - (x[i + r, j + s] - x[i, j])^2 / (2 * 0.1^2))
"""

import numpy as np

from entry import Array, Entry, normal
from tiledsl import tile

REACH = 2


@tile.kernel
def image_filter(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    y = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N):
        total, weights = tile.zeros((m, n)), tile.zeros((m, n))
        for r in range(-REACH, REACH + 1):  # bounds that are known: unrolled
            for s in range(-REACH, REACH + 1):
                near = x[m + r, n + s]  # outside of the picture, black
                away = near - x[m, n]
                w = tile.exp(-(r * r + s * s) / 8 - away * away * 50)
                total, weights = total + w * near, weights + w
        y[m, n] = total / weights
    return y


def numpy_image_filter(x: Array) -> Array:
    padded, (M, N) = np.pad(x, REACH), x.shape
    total, weights = np.zeros_like(x), np.zeros_like(x)
    for r in range(2 * REACH + 1):
        for s in range(2 * REACH + 1):
            near = padded[r : r + M, s : s + N]
            w = np.exp(-((r - REACH) ** 2 + (s - REACH) ** 2) / 8 - 50 * (near - x) ** 2)
            total, weights = total + w * near, weights + w
    return total / weights


def arguments(size: int) -> list[Array]:
    i = np.arange(size, dtype=np.float32)
    return [(np.hypot(*np.meshgrid(i, i)) % 64 > 32).astype(np.float32) + 0.1 * normal(size, size)]


ENTRY = Entry(image_filter, numpy_image_filter, arguments, size=512, small=19)

if __name__ == "__main__":
    ENTRY.show(__doc__)
