"""The sum of two vectors: the smallest kernel there is."""

import numpy as np

from beside_numpy import check_and_time, size_argument
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


def main() -> None:
    size = size_argument(__doc__, default=10_000_000)
    random = np.random.default_rng(0)
    x = random.standard_normal(size, np.float32)
    y = random.standard_normal(size, np.float32)
    z, numpys_z = np.empty_like(x), np.empty_like(x)
    check_and_time(
        f"vector add of {size}",
        lambda: vector_add(x, y, out=z),  # into an array that exists
        lambda: np.add(x, y, out=numpys_z),
        tolerance=0,
    )


if __name__ == "__main__":
    main()
