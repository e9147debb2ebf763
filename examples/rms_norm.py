"""RMS norm: each row of a matrix divided by the root of its mean square, with a scale for each column."""

from typing import Any

import numpy as np

from beside_numpy import Array, command_line, compare, normal
from tiledsl import tile


@tile.kernel
def rms_norm(x: tile.Tensor, weight: tile.Tensor, eps: float = 1e-6) -> tile.Tensor:
    """y[M, N] = x / sqrt(mean(x * x) + eps) * weight[N], in float32 whatever the dtypes."""
    M, N = x.shape
    N = weight.shape[0]
    y = tile.empty((M, N), x.dtype)
    for m in tile.grid(M):
        row = x[m, :].to(tile.f32)
        square = tile.sum(row * row, axis=1, keepdims=True) / N
        y[m, :] = row * tile.rsqrt(square + eps) * weight[:]
    return y


def numpy_rms_norm(x: Array, weight: Array, eps: float = 1e-6) -> Array:
    """The same over whole arrays."""
    return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + eps) * weight


def torch_rms_norm(torch: Any, x: Any, weight: Any) -> Any:
    return torch.nn.functional.rms_norm(x, weight.shape, weight, 1e-6)


def main() -> None:
    size, device = command_line(__doc__, default=2048)
    compare(
        f"RMS norm of {size}x{size}",
        rms_norm,
        numpy_rms_norm,
        torch_rms_norm,
        [normal(size, size), normal(size, seed=1)],
        tolerance=1e-5,
        device=device,
    )


if __name__ == "__main__":
    main()
