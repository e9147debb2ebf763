"""Products that are as long as reading their wide operand takes, and products of bytes; beside NumPy in f32."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.throughput import Comparison, normal
from beside_numpy import Array
from gemm import gemm
from tiledsl import ops, tile


@tile.kernel
def weighted_sums(a: Any, x: Any) -> Any:
    """y[M] = a[M, K] @ x[K], as a sum of products."""
    M, _ = a.shape
    y = tile.empty(M, a.dtype)
    for m in tile.grid(M):
        y[m] = tile.sum(a[m, :] * x[None, :], axis=1)
    return y


@tile.kernel
def byte_weights(x: Any, w: Any, scales: Any) -> Any:
    """x[M, K] @ w[K, N], w in i8 with a scale for each 128 elements of a column."""
    M, K = x.shape
    K, N = w.shape
    _, N = scales.shape
    y = tile.empty((M, N), tile.f32)
    for m, n in tile.grid(M, N):
        total = tile.zeros((m, n), tile.f32)
        for k in tile.range(K, block=128):
            wide = w[k, n].to(tile.f32) * scales[k.start // 128, n][None, :]
            total = tile.dot(x[m, k], wide, total)
        y[m, n] = total
    return y


@tile.kernel
def byte_product(a: Any, b: Any) -> Any:
    """c[M, N] = a[M, K] @ b[K, N] of bytes, in i32."""
    M, K = a.shape
    K, N = b.shape
    c = tile.empty((M, N), tile.i32)
    for m, n in tile.grid(M, N):
        total = tile.zeros((m, n), tile.i32)
        for k in tile.range(K):
            total = tile.dot(a[m, k], b[k, n], total)
        c[m, n] = total
    return c


def few_rows_case(rows: int, size: int, turned: bool) -> Comparison:
    """Rows times a matrix stored by rows, or by columns."""
    a, stored = normal(rows, size), normal(size, size, seed=1)
    b: Array = np.swapaxes(stored, 0, 1) if turned else stored
    what = f"{rows}x{size} @ {size}x{size}" + ", turned" * turned
    return Comparison(what, partial(gemm, a, b), partial(np.matmul, a, b), 0.9, 4e-9 * size**2, "GB/s", 1e-4)


def few_columns_case(columns: int, size: int, turned: bool) -> Comparison:
    """A matrix stored by rows, or by columns, times columns."""
    stored, b = normal(size, size), normal(size, columns, seed=1)
    a: Array = np.swapaxes(stored, 0, 1) if turned else stored
    what = f"{size}x{size}{', turned' * turned} @ {size}x{columns}"
    return Comparison(what, partial(gemm, a, b), partial(np.matmul, a, b), 0.9, 4e-9 * size**2, "GB/s", 1e-4)


def sums_case(size: int) -> Comparison:
    a, x = normal(size, size), normal(size, seed=1)
    ours, numpys = partial(weighted_sums, a, x), partial(np.matmul, a, x)
    return Comparison(f"sums of products, {size}x{size}", ours, numpys, 0.9, 4e-9 * size**2, "GB/s", 1e-4)


def linear_case(rows: int, size: int) -> Comparison:
    x, w = normal(rows, size), normal(size, size, seed=1)
    ours, numpys = partial(ops.linear, x, w), partial(np.matmul, x, np.swapaxes(w, 0, 1))
    return Comparison(f"ops.linear, {rows} of {size}x{size}", ours, numpys, 0.9, 4e-9 * size**2, "GB/s", 1e-4)


def byte_weights_case(size: int) -> Comparison:
    """Beside NumPy with the same weights in f32, four times the bytes."""
    x, scales = normal(1, size), np.abs(normal(-(-size // 128), size, seed=1))
    w = np.random.default_rng(0).integers(-127, 128, (size, size)).astype(np.int8)
    wide: Array = w.astype(np.float32) * np.repeat(scales, 128, axis=0)[:size]
    ours, numpys = partial(byte_weights, x, w, scales), partial(np.matmul, x, wide)
    return Comparison(f"1x{size} @ i8 {size}x{size}", ours, numpys, 0.9, 1e-9 * size**2, "GB/s", 1e-4)


def bytes_case(rows: int, size: int) -> Comparison:
    """Beside NumPy with the same numbers in f32. The bar is for machines that have an instruction for it."""
    generator = np.random.default_rng(0)
    a, b = (generator.integers(-127, 128, shape).astype(np.int8) for shape in ((rows, size), (size, size)))
    wide = a.astype(np.float32), b.astype(np.float32)
    what, work = f"i8 {rows}x{size}x{size} beside f32", 2e-9 * rows * size**2
    return Comparison(what, partial(byte_product, a, b), partial(np.matmul, *wide), 2, work, "GOP/s", 1e-6)


@tile.kernel
def two_layers(x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    return tile.maximum(x @ w1 + b1, 0.0) @ w2 + b2


def two_layers_case(inner: int, hidden: int, outer: int) -> Comparison:
    """One row: small ones cost what a call costs, larger ones what handing work to a second thread does."""
    x, w1, b1 = normal(1, inner), normal(inner, hidden, seed=1) * inner**-0.5, normal(hidden, seed=2)
    w2, b2 = normal(hidden, outer, seed=3) * hidden**-0.5, normal(outer, seed=4)

    def numpys() -> Array:
        return np.maximum(x @ w1 + b1, 0) @ w2 + b2

    ours = partial(two_layers, x, w1, b1, w2, b2)
    work = 4e-9 * (inner + outer) * hidden
    return Comparison(f"MLP {inner}-{hidden}-{outer}, one row", ours, numpys, 0.9, work, "GB/s", 1e-4)


CASES: dict[str, Callable[[], Comparison]] = {
    "row-vector": partial(few_rows_case, 1, 4096, False),
    "row-vector-turned": partial(few_rows_case, 1, 4096, True),
    "column-vector": partial(few_columns_case, 1, 4096, False),
    "column-vector-turned": partial(few_columns_case, 1, 4096, True),
    "few-rows": partial(few_rows_case, 8, 4096, False),
    "few-columns": partial(few_columns_case, 8, 4096, False),
    "sums-of-products": partial(sums_case, 4096),
    "linear-1": partial(linear_case, 1, 4096),
    "linear-16": partial(linear_case, 16, 4096),
    "mlp-small": partial(two_layers_case, 64, 128, 10),
    "mlp": partial(two_layers_case, 512, 2048, 512),
    "byte-weights": partial(byte_weights_case, 4096),
    "bytes": partial(bytes_case, 512, 1024),
}
