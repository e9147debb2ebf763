"""Mandelbrot's set: how many steps z = z^2 + c takes from 0 until |z| > 2, for every point c of a picture.

All points of a block take every step; those that are out stay as they are, and no longer count.
"""

import numpy as np

from entry import Array, Entry
from tiledsl import tile

STEPS = 64
LEFT, RIGHT, TOP = -2.0, 0.5, 1.25


@tile.kernel
def mandelbrot(columns: tile.Tensor, rows: tile.Tensor, steps: int) -> tile.Tensor:
    N, M = columns.shape[0], rows.shape[0]
    counts = tile.empty((M, N), tile.i32)
    for m, n in tile.grid(M, N):
        a, b = columns[n][None, :] + tile.zeros((m, n)), rows[m][:, None] + tile.zeros((m, n))
        x, y, count = tile.zeros((m, n)), tile.zeros((m, n)), tile.zeros((m, n), tile.i32)
        for _ in range(steps):
            inside = x * x + y * y <= 4
            count += inside.to(tile.i32)
            x, y = tile.where(inside, x * x - y * y + a, x), tile.where(inside, 2 * x * y + b, y)
        counts[m, n] = count
    return counts


def numpy_mandelbrot(columns: Array, rows: Array, steps: int) -> Array:
    a, b = np.broadcast_arrays(columns[None, :], rows[:, None])
    x, y = np.zeros_like(a), np.zeros_like(a)
    counts = np.zeros(a.shape, np.int32)
    for _ in range(steps):
        inside = x * x + y * y <= 4
        counts += inside
        x, y = np.where(inside, x * x - y * y + a, x), np.where(inside, 2 * x * y + b, y)
    return counts


def arguments(size: int) -> list[Array | int]:
    return [np.linspace(LEFT, RIGHT, size, dtype=np.float32), np.linspace(TOP, -TOP, size, dtype=np.float32), STEPS]


def picture(counts: Array, *_: object) -> str:
    rows = counts[:: max(1, counts.shape[0] // 24), :: max(1, counts.shape[1] // 64)]
    shades = " .:-=+*%#@"
    return "\n".join("".join(shades[min(c * len(shades) // STEPS, 9)] for c in row) for row in rows)


ENTRY = Entry(mandelbrot, numpy_mandelbrot, arguments, size=768, small=17, tolerance=0.02, picture=picture)

if __name__ == "__main__":
    ENTRY.show(__doc__)
