"""Row quantisation: the largest magnitude of a row becomes 127, all else the nearest of 255 steps.

scale[m] = max |x[m, :]| / 127, q[m, n] = round(x[m, n] / scale[m])
"""

import numpy as np

from entry import Array, Entry, normal
from tiledsl import tile


@tile.kernel
def quantise_rows(x: tile.Tensor) -> tuple[tile.Tensor, tile.Tensor]:
    M, N = x.shape
    q, scales = tile.empty((M, N), tile.i8), tile.empty(M, tile.f32)
    for m in tile.grid(M):
        row = x[m, :].to(tile.f32)  # read once
        scale = tile.max(tile.abs(row), axis=1) / 127
        q[m, :] = tile.round(row / scale[:, None])  # the store casts to i8; of a row of zeros, NaN becomes 0
        scales[m] = scale
    return q, scales


def numpy_quantise_rows(x: Array) -> tuple[Array, Array]:
    scales: Array = np.abs(x).max(axis=1) / np.float32(127)
    return np.rint(x / scales[:, None]).astype(np.int8), scales


def arguments(size: int) -> list[Array]:
    return [normal(size, size)]


ENTRY = Entry(quantise_rows, numpy_quantise_rows, arguments, size=2048, small=33, tolerance=0.01)

if __name__ == "__main__":
    ENTRY.show(__doc__)
