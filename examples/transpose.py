"""A transpose that writes its result row by row. `x.T` is only a view: blocks of it are read, turned and written."""

from typing import Any

import numpy as np

from beside_numpy import Array, command_line, compare, normal
from tiledsl import tile


@tile.kernel
def transpose(x: tile.Tensor) -> tile.Tensor:
    """y[N, M] = x[M, N]."""
    M, N = x.shape
    y = tile.empty((N, M), x.dtype)
    for n, m in tile.grid(N, M):
        y[n, m] = x.T[n, m]
    return y


def numpy_transpose(x: Array) -> Array:
    """The same over whole arrays."""
    return np.ascontiguousarray(np.transpose(x))


def torch_transpose(torch: Any, x: Any) -> Any:
    return torch.clone(x.T, memory_format=torch.contiguous_format)


def main() -> None:
    size, device = command_line(__doc__, default=2048)
    compare(
        f"transpose of {size}x{size}",
        transpose,
        numpy_transpose,
        torch_transpose,
        [normal(size, size)],
        tolerance=0,
        device=device,
    )


if __name__ == "__main__":
    main()
