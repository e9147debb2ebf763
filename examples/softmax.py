"""Softmax along the rows of a matrix, read once and written once."""

from typing import Any

import numpy as np

from beside_numpy import Array, command_line, compare, normal
from tiledsl import tile


@tile.kernel
def softmax(x: tile.Tensor) -> tile.Tensor:
    """y[M, N] = exp(x - max(x)) / sum(exp(x - max(x))), max and sum along each row, in float32 whatever the dtypes."""
    M, N = x.shape
    y = tile.empty((M, N), x.dtype)
    for m in tile.grid(M):
        row = x[m, :].to(tile.f32)  # `:` is the whole axis: nothing of the row is read again
        e = tile.exp(row - tile.max(row, axis=1, keepdims=True))
        y[m, :] = e / tile.sum(e, axis=1, keepdims=True)
    return y


def numpy_softmax(x: Array) -> Array:
    """The same in three passes over whole arrays."""
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def torch_softmax(torch: Any, x: Any) -> Any:
    return torch.softmax(x, 1)


def main() -> None:
    size, device = command_line(__doc__, default=4096)
    compare(
        f"softmax of {size}x{size}",
        softmax,
        numpy_softmax,
        torch_softmax,
        [normal(size, size)],
        tolerance=1e-5,
        device=device,
    )


if __name__ == "__main__":
    main()
