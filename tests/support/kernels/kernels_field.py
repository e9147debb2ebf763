"""Kernels of what tile compilers are known to fail on: ties, scans, access by index, atomics, narrow products."""

from __future__ import annotations

from typing import Any

from tiledsl import tile


@tile.kernel
def extremes(x: tile.Tensor) -> Any:
    """The index of the largest in each row and in each column, of the smallest in each row, of the largest of all."""
    M, N = x.shape
    in_rows, in_columns, smallest, of_all = (
        tile.empty(M, tile.i64),
        tile.empty(N, tile.i64),
        tile.empty(M, tile.i64),
        tile.empty((), tile.i64),
    )
    for m in tile.grid(M):
        in_rows[m] = tile.argmax(x[m, :], axis=1)
        smallest[m] = tile.argmin(x[m, :], axis=1)
    for n in tile.grid(N):
        in_columns[n] = tile.argmax(x[:, n], axis=0)
    for _ in tile.grid(1, block=1):
        of_all[()] = tile.argmax(x[:, :])
    return in_rows, in_columns, smallest, of_all


@tile.kernel
def running_sums(x: tile.Tensor, axis: tile.constexpr, reverse: tile.constexpr, result: tile.constexpr) -> tile.Tensor:
    out = tile.empty(x.shape, result)
    for _ in tile.grid(1, block=1):
        out[...] = tile.cumsum(x[...], axis=axis, reverse=reverse)
    return out


@tile.kernel
def gather_rows(x: tile.Tensor, index: tile.Tensor) -> tile.Tensor:
    M, N = index.shape[0], x.shape[1]
    out = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N):
        out[m, n] = x[index[m], n]
    return out


@tile.kernel
def gather_along(x: tile.Tensor, index: tile.Tensor) -> tile.Tensor:
    """out[i, j] = x[index[i, j], j], as numpy.take_along_axis."""
    M, N = index.shape
    out = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N):
        out[m, n] = x[index[m, n], n.index[None, :]]
    return out


@tile.kernel
def scatter_rows(x: tile.Tensor, index: tile.Tensor, out: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    M = index.shape[0]
    for m, n in tile.grid(M, N):
        out[index[m], n] = x[m, n]
    return out


@tile.kernel
def tally(bins: tile.Tensor, weights: tile.Tensor, sums: tile.Tensor, largest: tile.Tensor) -> Any:
    N = bins.shape[0]
    N = weights.shape[0]
    for n in tile.grid(N, block=64):
        tile.atomic_add(sums[bins[n]], weights[n])
        tile.atomic_max(largest[bins[n]], weights[n])
    return sums, largest


@tile.kernel
def product(a: tile.Tensor, b: tile.Tensor, result: tile.constexpr) -> tile.Tensor:
    """C = A @ B, accumulated in the dtype of the result."""
    M, K = a.shape
    K, N = b.shape
    c = tile.empty((M, N), result)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n), result)
        for k in tile.range(K):
            acc = tile.dot(a[m, k], b[k, n], acc, dtype=result)
        c[m, n] = acc
    return c


@tile.kernel
def activated_products(a: tile.Tensor, b: tile.Tensor, bias: tile.Tensor, more: tile.Tensor) -> tile.Tensor:
    """C[L] = relu(A[L] @ B[L] + 1 + bias) + more[L], where `bias` is a row."""
    L, M, K = a.shape
    L, K, N = b.shape
    c = tile.empty((L, M, N), a.dtype)
    for i, m, n in tile.grid(L, M, N, block=(1, tile.auto, tile.auto)):
        acc = tile.full((m, n), 1.0, tile.f32)
        for k in tile.range(K):
            acc = tile.dot(a[i, m, k], b[i, k, n], acc)
        c[i, m, n] = tile.relu(acc + bias[n]) + more[i, m, n]
    return c


@tile.kernel
def products_below_the_largest(a: tile.Tensor, b: tile.Tensor) -> tile.Tensor:
    """A @ B less the largest of each row of a block."""
    M, K = a.shape
    K, N = b.shape
    c = tile.empty((M, N), a.dtype)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(K):
            acc = tile.dot(a[m, k], b[k, n], acc)
        c[m, n] = acc - tile.max(acc, axis=1, keepdims=True)
    return c


@tile.kernel
def axpy(a: tile.Tensor, x: tile.Tensor, total: tile.Tensor) -> Any:
    """a * x for a tensor `a` without axes; adds the sum of it to `total`, which has none either."""
    N = x.shape[0]
    y = tile.empty(N, x.dtype)
    for n in tile.grid(N):
        y[n] = a[()] * x[n]
        tile.atomic_add(total[()], tile.sum(a[()] * x[n]))
    return y, total
