"""Cholesky factors of many small matrices, side by side along the last axis, so that a vector has an element of each.

L[j, j] = sqrt(A[j, j] - sum over k < j of L[j, k]^2), L[i, j] = (A[i, j] - sum over k < j of L[i, k] L[j, k]) / L[j, j]
"""

from typing import Any

import numpy as np

from entry import Array, Entry, normal
from tiledsl import tile

ORDER = 16


@tile.kernel
def cholesky(a: tile.Tensor) -> tile.Tensor:
    N, _, B = a.shape
    factor = tile.zeros((N, N, B), a.dtype)
    for b in tile.grid(B):
        for j in range(N):
            for i in range(j, N):
                s = a[i, j, b]
                for k in range(j):
                    s -= factor[i, k, b] * factor[j, k, b]  # what this program stored before
                if i == j:
                    factor[j, j, b] = tile.sqrt(s)
                else:
                    factor[i, j, b] = s / factor[j, j, b]
    return factor


def numpy_cholesky(a: Array) -> Array:
    return np.transpose(np.linalg.cholesky(np.transpose(a, (2, 0, 1))), (1, 2, 0))


def torch_cholesky(torch: Any, a: Any) -> Any:
    return torch.linalg.cholesky(a.permute(2, 0, 1)).permute(1, 2, 0)


def arguments(size: int) -> list[Array]:
    roots = normal(size, ORDER, ORDER)
    return [np.ascontiguousarray((roots @ roots.transpose(0, 2, 1) + ORDER * np.eye(ORDER, dtype=np.float32)).T)]


ENTRY = Entry(cholesky, numpy_cholesky, arguments, size=8192, small=40, tolerance=1e-4, torchs=torch_cholesky)

if __name__ == "__main__":
    ENTRY.show(__doc__)
