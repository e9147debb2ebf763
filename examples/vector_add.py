"""The sum of two vectors: the smallest kernel there is."""

from typing import Any

import numpy as np

from beside_numpy import Array, command_line, compare, normal
from tiledsl import tile


@tile.kernel
def vector_add(x: tile.Tensor, y: tile.Tensor) -> tile.Tensor:
    """z[N] = x[N] + y[N]."""
    N = x.shape[0]
    N = y.shape[0]  # naming N again asserts that the two are equal: checked at the call
    z = tile.empty(N, x.dtype)
    for n in tile.grid(N):
        z[n] = x[n] + y[n]
    return z


def ours(x: Any, y: Any, z: Any, _: Any) -> Any:
    return vector_add(x, y, out=z)  # into an array that exists


def numpys(x: Array, y: Array, _: Array, z: Array) -> Array:
    return np.add(x, y, out=z)


def torchs(torch: Any, x: Any, y: Any, _: Any, z: Any) -> Any:
    return torch.add(x, y, out=z)


def main() -> None:
    size, device = command_line(__doc__, default=10_000_000)
    x, y = normal(size), normal(size, seed=1)
    arrays = [x, y, np.empty_like(x), np.empty_like(x)]
    compare(f"vector add of {size}", ours, numpys, torchs, arrays, tolerance=0, device=device)


if __name__ == "__main__":
    main()
