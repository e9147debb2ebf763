"""Convolution of images with 3 x 3 windows, channels last, padded by one pixel.

y[n, p, q, k] = sum over r, s, c of x[n, p + r - 1, q + s - 1, c] * w[r, s, c, k]
"""

from typing import Any

import numpy as np

from entry import Array, Entry, normal
from tiledsl import tile


@tile.kernel
def convolution(x: tile.Tensor, w: tile.Tensor) -> tile.Tensor:
    N, P, Q, C = x.shape
    _, _, C, K = w.shape
    y = tile.empty((N, P, Q, K), x.dtype)
    for n, p, q, k in tile.grid(N, P, Q, K, block=(1, 1, tile.auto, tile.auto)):
        acc = tile.zeros((q, k))
        for r in range(3):
            for s in range(3):
                for c in tile.range(C):
                    acc = tile.dot(x[n, p + r - 1, q + s - 1, c], w[r, s, c, k], acc)  # outside, x reads 0
        y[n, p, q, k] = acc
    return y


def numpy_convolution(x: Array, w: Array) -> Array:
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    columns = np.reshape(np.transpose(windows, (0, 1, 2, 4, 5, 3)), (-1, 9 * x.shape[3]))
    return np.reshape(columns @ w.reshape(-1, w.shape[3]), (*x.shape[:3], -1))


def torch_convolution(torch: Any, x: Any, w: Any) -> Any:
    return torch.nn.functional.conv2d(x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), padding=1).permute(0, 2, 3, 1)


def arguments(size: int) -> list[Array]:
    return [normal(2, size, size, size), normal(3, 3, size, size, seed=1)]  # as many channels as rows


ENTRY = Entry(convolution, numpy_convolution, arguments, size=64, small=5, torchs=torch_convolution)

if __name__ == "__main__":
    ENTRY.show(__doc__)
