"""Experts: tokens that lie sorted by their expert are multiplied by that expert's weights, all by one kernel.

y[t] = x[t] @ w[e] for the tokens t of expert e, which are first[e] <= t < first[e + 1]
"""

import numpy as np

from entry import Array, Entry, normal
from tiledsl import tile

EXPERTS = 8


@tile.kernel
def grouped_experts(x: tile.Tensor, w: tile.Tensor, first: tile.Tensor) -> tile.Tensor:
    T, D = x.shape
    _, D, F = w.shape
    B = first.shape[0]  # a bound more than experts
    y = tile.empty((T, F), x.dtype)
    for e, f in tile.grid(B - 1, F, block=(1, tile.auto)):
        for t in tile.range(first[e], first[e + 1]):  # bounds from data: experts may have any number of tokens
            acc = tile.zeros((t, f))
            for d in tile.range(D):
                acc = tile.dot(x[t, d], w[e, d, f], acc)
            y[t, f] = acc
    return y


def numpy_grouped_experts(x: Array, w: Array, first: Array) -> Array:
    return np.concatenate([x[first[e] : first[e + 1]] @ w[e] for e in range(len(w))])


def arguments(size: int) -> list[Array]:
    chosen = np.random.default_rng(0).integers(0, EXPERTS - 1, size)  # the last expert has no tokens
    first = np.searchsorted(np.sort(chosen), np.arange(EXPERTS + 1)).astype(np.int32)
    return [normal(size, size // 2), normal(EXPERTS, size // 2, size, seed=1), first]


ENTRY = Entry(grouped_experts, numpy_grouped_experts, arguments, size=1024, small=64)

if __name__ == "__main__":
    ENTRY.show(__doc__)
