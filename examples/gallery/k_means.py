"""A step of k-means: each point goes to the nearest centre, then each centre to the mean of its points.

label[p] = the c for which |point[p] - centre[c]|^2 is least, and so |centre[c]|^2 - 2 point[p] . centre[c]
"""

import numpy as np

from entry import Array, Entry, normal
from tiledsl import tile


@tile.kernel
def k_means(points: tile.Tensor, centres: tile.Tensor) -> tuple[tile.Tensor, tile.Tensor]:
    P, D = points.shape
    C, D = centres.shape
    labels, means = tile.empty(P, tile.i64), tile.empty((C, D), tile.f32)
    sums, counts = tile.zeros((C, D), tile.f32), tile.zeros(C, tile.f32)
    for p in tile.grid(P):
        squares = tile.sum(centres[:, :] * centres[:, :], axis=1)
        nearest = tile.argmin(squares - 2 * tile.dot(points[p, :], centres[:, :].T), axis=1)
        labels[p] = nearest
        mine = (nearest == tile.arange(C)[:, None]).to(tile.f32)  # 1 where the point is the centre's
        added = tile.dot(mine, points[p, :].to(tile.f32))
        tile.atomic_add(sums[:, :], added)  # for each block of points, not for each point
        tile.atomic_add(counts[:], tile.sum(mine, axis=1))
    for c in tile.grid(C):
        means[c, :] = sums[c, :] / tile.maximum(counts[c], 1)[:, None]
    return labels, means


def numpy_k_means(points: Array, centres: Array) -> tuple[Array, Array]:
    labels = np.argmin((centres * centres).sum(axis=1) - 2 * (points @ centres.T), axis=1)
    counts = np.bincount(labels, minlength=len(centres))
    sums = np.zeros_like(centres)
    np.add.at(sums, labels, points)
    return labels, sums / np.maximum(counts, 1)[:, None].astype(np.float32)


def arguments(size: int) -> list[Array]:
    centres = 5 * normal(64, 32, seed=1)
    return [centres[np.random.default_rng(0).integers(0, 64, size)] + normal(size, 32), centres + 0.1]


ENTRY = Entry(k_means, numpy_k_means, arguments, size=32768, small=100)

if __name__ == "__main__":
    ENTRY.show(__doc__)
