"""Layer normalisation of the rows of a matrix, with a scale and a shift for each column."""

from typing import Any

import numpy as np

from beside_numpy import Array, command_line, compare, normal
from tiledsl import tile


@tile.kernel
def layer_norm(x: tile.Tensor, weight: tile.Tensor, bias: tile.Tensor, eps: float = 1e-5) -> tile.Tensor:
    """y[M, N] = (x - mean) / sqrt(variance + eps) * weight[N] + bias[N], in float32 whatever the dtypes."""
    M, N = x.shape
    N = weight.shape[0]
    N = bias.shape[0]
    y = tile.empty((M, N), x.dtype)
    for m in tile.grid(M):
        row = x[m, :].to(tile.f32)
        centred = row - tile.sum(row, axis=1, keepdims=True) / N
        variance = tile.sum(centred * centred, axis=1, keepdims=True) / N
        y[m, :] = centred * tile.rsqrt(variance + eps) * weight[:] + bias[:]
    return y


def numpy_layer_norm(x: Array, weight: Array, bias: Array, eps: float = 1e-5) -> Array:
    """The same over whole arrays."""
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=1, keepdims=True) + eps) * weight + bias


def torch_layer_norm(torch: Any, x: Any, weight: Any, bias: Any) -> Any:
    return torch.nn.functional.layer_norm(x, weight.shape, weight, bias)


def main() -> None:
    size, device = command_line(__doc__, default=4096)
    compare(
        f"layer norm of {size}x{size}",
        layer_norm,
        numpy_layer_norm,
        torch_layer_norm,
        [normal(size, size), normal(size, seed=1), normal(size, seed=2)],
        tolerance=1e-5,
        device=device,
    )


if __name__ == "__main__":
    main()
