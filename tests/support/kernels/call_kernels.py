"""Small kernels for tests of calls."""

from __future__ import annotations

from typing import Any

from tiledsl import tile


@tile.kernel
def gemm(a: tile.Tensor, b: tile.Tensor) -> Any:
    """C[M, N] = A[M, K] @ B[K, N]."""
    M, K = a.shape
    K, N = b.shape
    c = tile.empty((M, N), a.dtype)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(K):
            acc = tile.dot(a[m, k], b[k, n], acc)
        c[m, n] = acc
    return c


@tile.kernel
def add(x: tile.Tensor, y: tile.Tensor) -> Any:
    """x + y, of one axis."""
    (N,) = x.shape
    (N,) = y.shape
    z = tile.empty((N,), x.dtype)
    for n in tile.grid(N):
        z[n] = x[n] + y[n]
    return z


@tile.kernel
def scale(x: tile.Tensor, factor: float, offset: int = 0) -> Any:
    """x * factor + offset, of one axis."""
    (N,) = x.shape
    z = tile.empty((N,), x.dtype)
    for n in tile.grid(N):
        z[n] = x[n] * factor + offset
    return z


@tile.kernel
def accumulate(total: tile.Tensor, x: tile.Tensor) -> Any:
    """total += x, in place, over the last axis of x reversed: so that reading late differs from reading early."""
    (N,) = total.shape
    (N,) = x.shape
    for n in tile.grid(N, block=1):
        total[n] = total[n] + x[N - 1 - n]
    return total


@tile.kernel
def both(x: tile.Tensor, y: tile.Tensor) -> None:
    """Writes to two parameters and returns nothing."""
    (N,) = x.shape
    (N,) = y.shape
    for n in tile.grid(N):
        x[n] = x[n] + 1
        y[n] = y[n] + 2


@tile.kernel
def sum_and_difference(x: tile.Tensor, y: tile.Tensor) -> Any:
    """(x + y, x - y), of one axis."""
    (N,) = x.shape
    (N,) = y.shape
    plus = tile.empty((N,), x.dtype)
    minus = tile.empty((N,), x.dtype)
    for n in tile.grid(N):
        plus[n] = x[n] + y[n]
        minus[n] = x[n] - y[n]
    return plus, minus


@tile.kernel
def column_totals(x: tile.Tensor) -> Any:
    """totals[N] of the columns of x[M, N], by atomics upon zeros: two kernels on a GPU."""
    M, N = x.shape
    totals = tile.zeros(N, tile.f32)
    for m, n in tile.grid(M, N):
        tile.atomic_add(totals[n], tile.sum(x[m, n], axis=0))
    return totals


@tile.kernel
def relay(x: tile.Tensor) -> Any:
    """4 x, the same in reversed order, and x + 1 in place of x: three grids that need each other's results."""
    (N,) = x.shape
    twice = tile.empty((N,), x.dtype)
    reversed_ = tile.empty((N,), x.dtype)
    for n in tile.grid(N):
        twice[n] = x[n] * 2
    for n in tile.grid(N, block=1):
        reversed_[n] = twice[N - 1 - n] + x[N - 1 - n] * 2
    for n in tile.grid(N):
        twice[n] = twice[n] * 2
        x[n] = x[n] + 1
    return twice, reversed_


@tile.kernel
def ends(x: tile.Tensor, i: int) -> Any:
    """The first and the last element of a tile, and one in between."""
    M = x.shape[0]
    first, last, other = tile.empty(M, x.dtype), tile.empty(M, x.dtype), tile.empty(M, x.dtype)
    for m in tile.grid(M):
        t = x[m, :] + 1
        first[m], last[m], other[m] = t[:, 0], t[:, -1], t[:, i]
    return first, last, other


@tile.kernel
def inner_total(x: tile.Tensor) -> Any:
    """The sum of x without its ends, in one element."""
    z = tile.empty((1,), x.dtype)
    for one in tile.grid(1, block=1):
        z[one] = tile.sum(x[1:-1])
    return z


@tile.kernel
def shorter(x: tile.Tensor) -> Any:
    """x without its last 4 elements."""
    (N,) = x.shape
    z = tile.empty((N - 4,), x.dtype)
    for n in tile.grid(N - 4):
        z[n] = x[n]
    return z


@tile.kernel
def power(x: tile.Tensor, exponent: tile.constexpr = 2) -> Any:
    """x multiplied by itself, `exponent` times over."""
    (N,) = x.shape
    z = tile.empty((N,), x.dtype)
    for n in tile.grid(N):
        product = x[n]
        for _ in range(exponent - 1):
            product = product * x[n]
        z[n] = product
    return z


@tile.kernel
def normalised(x: Any) -> Any:
    """A formula: rows with a mean of 0."""
    return x - x.mean(axis=-1, keepdims=True)
