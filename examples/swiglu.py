"""SwiGLU's gate of two matrices, silu(x) * y: an elementwise kernel, read once and written once."""

from typing import Any

import numpy as np

from beside_numpy import Array, command_line, compare, normal
from tiledsl import tile


@tile.kernel
def swiglu(x: tile.Tensor, y: tile.Tensor) -> tile.Tensor:
    """out[M, N] = silu(x) * y in float32 whatever the dtypes, where silu(x) = x / (1 + exp(-x))."""
    M, N = x.shape
    M, N = y.shape
    out = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N):
        out[m, n] = tile.silu(x[m, n].to(tile.f32)) * y[m, n]
    return out


def numpy_swiglu(x: Array, y: Array) -> Array:
    """The same over whole arrays."""
    return x / (1 + np.exp(-x)) * y


def torch_swiglu(torch: Any, x: Any, y: Any) -> Any:
    return torch.nn.functional.silu(x) * y


def main() -> None:
    size, device = command_line(__doc__, default=2048)
    compare(
        f"swiglu of {size}x{size}",
        swiglu,
        numpy_swiglu,
        torch_swiglu,
        [normal(size, size), normal(size, size, seed=1)],
        tolerance=1e-5,
        device=device,
    )


if __name__ == "__main__":
    main()
