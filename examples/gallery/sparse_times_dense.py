"""A sparse matrix in CSR times a dense one: row i has the elements `first[i] <= j < first[i + 1]` of `values`.

y[i, n] = sum over j of values[j] * x[columns[j], n]
"""

from typing import Any

import numpy as np

from entry import Array, Entry, normal
from tiledsl import tile


@tile.kernel
def sparse_times_dense(first: tile.Tensor, columns: tile.Tensor, values: tile.Tensor, x: tile.Tensor) -> tile.Tensor:
    R = first.shape[0]
    N = x.shape[1]
    y = tile.empty((R - 1, N), x.dtype)
    for i, n in tile.grid(R - 1, N, block=(1, tile.auto)):
        acc = tile.zeros(n)
        for j in range(first[i], first[i + 1]):
            acc += values[j] * x[columns[j], n]
        y[i, n] = acc
    return y


def numpy_sparse_times_dense(first: Array, columns: Array, values: Array, x: Array) -> Array:
    return np.add.reduceat(values[:, None] * x[columns], first[:-1], axis=0)  # of rows that are not empty


def torch_sparse_times_dense(torch: Any, first: Any, columns: Any, values: Any, x: Any) -> Any:
    return torch.sparse_csr_tensor(first, columns, values, (len(first) - 1, len(x))) @ x


def arguments(size: int) -> list[Array]:
    random = np.random.default_rng(0)
    first = np.concatenate([[0], np.cumsum(random.integers(1, 40, size))]).astype(np.int32)
    columns = random.integers(0, size, first[-1], np.int32)
    return [first, columns, normal(int(first[-1])), normal(size, 64, seed=1)]


ENTRY = Entry(
    sparse_times_dense, numpy_sparse_times_dense, arguments, size=4096, small=50, torchs=torch_sparse_times_dense
)

if __name__ == "__main__":
    ENTRY.show(__doc__)
