"""Softmax along the rows of a matrix, read once and written once."""

import numpy as np

from beside_numpy import Array, check_and_time, size_argument
from tiledsl import tile


@tile.kernel
def softmax(x: tile.Tensor) -> tile.Tensor:
    """y[M, N] = exp(x - max(x)) / sum(exp(x - max(x))), max and sum along each row."""
    M, N = x.shape
    y = tile.empty((M, N), x.dtype)
    for m in tile.grid(M):
        row = x[m, :]  # `:` is the whole axis: nothing of the row is read again
        e = tile.exp(row - tile.max(row, axis=1, keepdims=True))
        y[m, :] = e / tile.sum(e, axis=1, keepdims=True)
    return y


def numpy_softmax(x: Array) -> Array:
    """The same in three passes over whole arrays."""
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def main() -> None:
    size = size_argument(__doc__, default=4096)
    x = np.random.default_rng(0).standard_normal((size, size), np.float32)
    check_and_time(f"softmax of {size}x{size}", lambda: softmax(x), lambda: numpy_softmax(x), tolerance=1e-5)


if __name__ == "__main__":
    main()
