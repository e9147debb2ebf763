"""A histogram: how many numbers fall into each of 64 bins between -4 and 4.

count[b] = sum over n of (1 if floor((x[n] + 4) / width) is b, else 0)
Each program counts its block of numbers, and adds what it counted: 64 comparisons in vectors are less than an atomic.
"""

import numpy as np

from entry import Array, Entry, normal
from tiledsl import tile

BINS = 64
LOW, WIDTH = -4.0, 8.0 / BINS


@tile.kernel
def histogram(x: tile.Tensor) -> tile.Tensor:
    N = x.shape[0]
    counts = tile.zeros(BINS, tile.i32)
    for n in tile.grid(N):
        bins = tile.floor((x[n].to(tile.f32) - LOW) / WIDTH)
        hits = bins == tile.arange(BINS).to(tile.f32)[:, None]
        tile.atomic_add(counts[:], tile.sum(hits.to(tile.i32), axis=1))
    return counts


def numpy_histogram(x: Array) -> Array:
    bins = np.floor((x - np.float32(LOW)) / np.float32(WIDTH)).astype(np.int32)
    return np.bincount(bins[(bins >= 0) & (bins < BINS)], minlength=BINS)


def arguments(size: int) -> list[Array]:
    return [normal(size)]


def picture(counts: Array, *_: object) -> str:
    pairs = counts.reshape(-1, 2).sum(axis=1)
    bars = ["#" * round(60 * count / pairs.max()) for count in pairs.tolist()]
    return "\n".join(f"{LOW + 2 * i * WIDTH:6.2f} {bar}" for i, bar in enumerate(bars))


ENTRY = Entry(histogram, numpy_histogram, arguments, size=1 << 21, small=1000, tolerance=0, picture=picture)

if __name__ == "__main__":
    ENTRY.show(__doc__)
