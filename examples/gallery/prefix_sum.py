"""Prefix sums of a long vector, in three steps: the sum of each part, where each part begins, the sums within parts.

y[i] = x[0] + ... + x[i]
"""

from typing import Any

import numpy as np

from entry import Array, Entry, normal
from tiledsl import tile

PART = 4096


@tile.kernel
def prefix_sum(x: tile.Tensor) -> tile.Tensor:
    N = x.shape[0]
    parts = (N + PART - 1) // PART
    sums, before, y = tile.empty(parts, tile.f32), tile.empty(parts, tile.f32), tile.empty(N, x.dtype)
    for p in tile.grid(parts, block=1):
        sums[p] = tile.sum(x[p * PART + tile.arange(PART)])  # outside of x there are zeros
    for _ in tile.grid(1, block=1):  # a grid begins when the one before has ended
        before[:] = tile.cumsum(sums[:]) - sums[:]
    for n in tile.grid(N, block=PART):
        y[n] = tile.cumsum(x[n]) + before[n.start // PART]
    return y


def numpy_prefix_sum(x: Array) -> Array:
    return np.cumsum(x)


def torch_prefix_sum(torch: Any, x: Any) -> Any:
    return torch.cumsum(x, 0)


def arguments(size: int) -> list[Array]:
    return [normal(size)]


ENTRY = Entry(
    prefix_sum, numpy_prefix_sum, arguments, size=1 << 22, small=9000, tolerance=1e-4, torchs=torch_prefix_sum
)

if __name__ == "__main__":
    ENTRY.show(__doc__)
