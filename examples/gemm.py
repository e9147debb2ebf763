"""A matrix product. The compiler chooses blocks, and how operands are brought to the multiplying instructions."""

from typing import Any

import numpy as np

from beside_numpy import command_line, compare, normal
from tiledsl import tile


@tile.kernel
def gemm(a: tile.Tensor, b: tile.Tensor) -> tile.Tensor:
    """C[M, N] = A[M, K] @ B[K, N], accumulated in float32."""
    M, K = a.shape
    K, N = b.shape  # naming K again asserts that the two are equal: checked at the call
    c = tile.empty((M, N), a.dtype)  # an output; the runtime allocates it
    for m, n in tile.grid(M, N):  # parallel: one program for each block of C
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(K):  # sequential, in blocks
            acc = tile.dot(a[m, k], b[k, n], acc)
        c[m, n] = acc  # a store casts to the dtype of the tensor
    return c


def torch_gemm(torch: Any, a: Any, b: Any) -> Any:
    return torch.matmul(a, b)


def main() -> None:
    size, device = command_line(__doc__, default=1024)
    compare(
        f"GEMM of {size}x{size}x{size}",
        gemm,
        np.matmul,
        torch_gemm,
        [normal(size, size), normal(size, size, seed=1)],
        tolerance=1e-5,
        device=device,
    )


if __name__ == "__main__":
    main()
