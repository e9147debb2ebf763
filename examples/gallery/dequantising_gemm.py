"""GEMM with weights of 4 bits that are unpacked on the way: two in a byte, and a scale for each group of 64.

y[m, n] = sum over k of x[m, k] * (q[n, k] - 8) * scale[n, k / 64]
"""

import numpy as np

from entry import Array, Entry, normal
from tiledsl import tile

GROUP = 64


@tile.kernel
def dequantising_gemm(x: tile.Tensor, packed: tile.Tensor, scales: tile.Tensor) -> tile.Tensor:
    M = x.shape[0]
    N, B = packed.shape
    y = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n))
        for k in tile.range(2 * B):
            q = tile.nibble(packed[n, k.index // 2], k.index.to(tile.u8))  # a byte is loaded for both of its halves
            w = (q.to(tile.f32) - 8) * scales[n, k.index // GROUP]
            acc = tile.dot(x[m, k], w.to(x.dtype).T, acc)
        y[m, n] = acc
    return y


def numpy_dequantising_gemm(x: Array, packed: Array, scales: Array) -> Array:
    q = np.reshape(np.stack([packed & 15, packed >> 4], axis=-1), (len(packed), -1)).astype(np.float32)
    return x @ np.transpose((q - 8) * np.repeat(scales, GROUP, axis=1))


def arguments(size: int) -> list[Array]:
    groups = -(-size // GROUP)
    packed = np.random.default_rng(1).integers(0, 256, (size, groups * GROUP // 2), np.uint8)
    return [normal(16, groups * GROUP), packed, np.abs(normal(size, groups, seed=2))]


ENTRY = Entry(dequantising_gemm, numpy_dequantising_gemm, arguments, size=2048, small=128)

if __name__ == "__main__":
    ENTRY.show(__doc__)
