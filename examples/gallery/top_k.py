"""The K largest of each row and where they are, the largest first: found one after the other.

value[m, i] = the largest of x[m] without those found before, index[m, i] = its first place
"""

import math
from typing import Any

import numpy as np

from entry import Array, Entry, normal
from tiledsl import tile

K = 8


@tile.kernel
def top_k(x: tile.Tensor) -> tuple[tile.Tensor, tile.Tensor]:
    M, N = x.shape
    values, indices = tile.empty((M, K), x.dtype), tile.empty((M, K), tile.i64)
    for m in tile.grid(M):
        row = x[m, :]
        for i in range(K):
            values[m, i] = tile.max(row, axis=1)
            at = tile.argmax(row, axis=1)
            indices[m, i] = at
            row = tile.where(tile.arange(N) == at[:, None], -math.inf, row)
    return values, indices


def numpy_top_k(x: Array) -> tuple[Array, Array]:
    found = np.argpartition(x, -K, axis=1)[:, -K:]
    values = np.take_along_axis(x, found, axis=1)
    order = np.argsort(-values, axis=1)
    return np.take_along_axis(values, order, axis=1), np.take_along_axis(found, order, axis=1)


def torch_top_k(torch: Any, x: Any) -> Any:
    return tuple(torch.topk(x, K, dim=1))


def arguments(size: int) -> list[Array]:
    return [normal(size, 1024)]


ENTRY = Entry(top_k, numpy_top_k, arguments, size=1024, small=10, tolerance=0, torchs=torch_top_k)

if __name__ == "__main__":
    ENTRY.show(__doc__)
