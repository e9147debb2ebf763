"""A matrix product. The compiler chooses blocks, packs the operands and unrolls the innermost loops."""

import numpy as np

from beside_numpy import check_and_time, size_argument
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


def main() -> None:
    size = size_argument(__doc__, default=1024)
    random = np.random.default_rng(0)
    a = random.standard_normal((size, size), np.float32)
    b = random.standard_normal((size, size), np.float32)
    check_and_time(f"GEMM of {size}x{size}x{size}", lambda: gemm(a, b), lambda: a @ b, tolerance=1e-5)


if __name__ == "__main__":
    main()
