"""A step of heat: each point of a plate moves towards the mean of its four neighbours; the edge stays as it is.

y[i, j] = x[i, j] + rate * (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1] - 4 x[i, j])
"""

from entry import Array, Entry, normal
from tiledsl import tile


@tile.kernel
def stencil(x: tile.Tensor, rate: float) -> tile.Tensor:
    M, N = x.shape
    y = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N):
        i, j = m.index[:, None], n.index
        inside = (i > 0) & (i < M - 1) & (j > 0) & (j < N - 1)
        change = x[m - 1, n] + x[m + 1, n] + x[m, n - 1] + x[m, n + 1] - 4 * x[m, n]
        y[m, n] = tile.where(inside, x[m, n] + rate * change, x[m, n])
    return y


def numpy_stencil(x: Array, rate: float) -> Array:
    y = x.copy()
    change = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4 * x[1:-1, 1:-1]
    y[1:-1, 1:-1] += rate * change
    return y


def arguments(size: int) -> list[Array | float]:
    return [normal(size, size), 0.2]


ENTRY = Entry(stencil, numpy_stencil, arguments, size=2048, small=37)

if __name__ == "__main__":
    ENTRY.show(__doc__)
