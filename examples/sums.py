"""Sums over the rows, over the columns and over all of a matrix, accumulated in float32."""

from functools import partial
from typing import Any

import numpy as np

from beside_numpy import command_line, compare, normal
from tiledsl import tile


@tile.kernel
def row_sums(x: tile.Tensor) -> tile.Tensor:
    """sums[M], of each row of x[M, N]."""
    M = x.shape[0]
    sums = tile.empty(M, tile.f32)
    for m in tile.grid(M):
        sums[m] = tile.sum(x[m, :].to(tile.f32), axis=1)
    return sums


@tile.kernel
def column_sums(x: tile.Tensor) -> tile.Tensor:
    """sums[N], of each column of x[M, N]: a block of columns at a time, from top to bottom."""
    M, N = x.shape
    sums = tile.empty(N, tile.f32)
    for n in tile.grid(N):
        total = tile.zeros(n)
        for m in tile.range(M):
            total += tile.sum(x[m, n].to(tile.f32), axis=0)
        sums[n] = total
    return sums


@tile.kernel
def sum_of_all(x: tile.Tensor) -> tile.Tensor:
    """The sum of x[M, N], without axes: each block adds its part, in an order that may differ from run to run."""
    M, N = x.shape
    total = tile.zeros((), tile.f32)
    for m, n in tile.grid(M, N):
        tile.atomic_add(total[()], tile.sum(x[m, n].to(tile.f32)))
    return total


def torch_sum(torch: Any, x: Any, axis: int | None) -> Any:
    return torch.sum(x, dim=axis)


def main() -> None:
    size, device = command_line(__doc__, default=2048)
    x = normal(size, size) + 1  # a sum of numbers around 0 is small beside its rounding
    for title, ours, axis in (("rows", row_sums, 1), ("columns", column_sums, 0), ("all", sum_of_all, None)):
        compare(
            f"sum of {title} of {size}x{size}",
            ours,
            partial(np.sum, axis=axis),
            partial(torch_sum, axis=axis),
            [x],
            tolerance=1e-4,
            device=device,
        )


if __name__ == "__main__":
    main()
