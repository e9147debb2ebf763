"""Sizes, strides and dtypes on which GPU kernels are known to fail, as GPU cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from gemm import gemm
from layer_norm import layer_norm
from rms_norm import rms_norm
from softmax import softmax
from sums import column_sums, row_sums, sum_of_all
from swiglu import swiglu
from tests.support.gpu_cases.gpu_cases import Array, Case, View
from tests.support.kernels.kernels_field import product
from tiledsl import tile
from transpose import transpose
from vector_add import vector_add

Random: TypeAlias = np.random.Generator


@tile.kernel
def product_tf32(a: tile.Tensor, b: tile.Tensor) -> tile.Tensor:
    """C = A @ B of f32, multiplied as tf32."""
    M, K = a.shape
    K, N = b.shape
    c = tile.empty((M, N), tile.f32)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(K):
            acc = tile.dot(a[m, k], b[k, n], acc, precision="tf32")
        c[m, n] = acc
    return c


@tile.kernel
def product_of_transposed(a: tile.Tensor, b: tile.Tensor) -> tile.Tensor:
    """C[M, N] = A[K, M]^T @ B[N, K]^T: both operands lie the other way."""
    K, M = a.shape
    N, K = b.shape
    c = tile.empty((M, N), a.dtype)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(K):
            acc = tile.dot(a.T[m, k], b.T[k, n], acc)
        c[m, n] = acc
    return c


MATMUL_SIZES = [
    (1, 1, 1), (2, 3, 17), (3, 2, 1), (17, 31, 33), (31, 1, 127), (33, 100, 2), (64, 64, 64), (100, 127, 129),
    (127, 17, 3), (129, 255, 31), (128, 128, 256), (255, 33, 100), (1, 1000, 127), (1000, 129, 17), (1000, 1000, 1),
    (256, 1000, 200),
]  # fmt: skip
"""M, N, K."""


def drawn(dtype: Any, random: Random, *shape: int) -> Array:
    if np.dtype(dtype).kind in "iu":
        return random.integers(-128, 128, shape).astype(dtype)
    return random.standard_normal(shape).astype(dtype)


def matmul_cases() -> list[Case]:
    """Products of every dtype; narrow operands give f32, bytes i32."""
    kinds: list[tuple[str, Any, Any, tuple[str, ...]]] = [
        ("f16", np.float16, tile.f32, ("HMMA",)),
        ("bf16", ml_dtypes.bfloat16, tile.f32, ("HMMA",)),
        ("f32", np.float32, tile.f32, ("FFMA",)),
        ("tf32", np.float32, None, ("HMMA",)),
        ("f64", np.float64, tile.f64, ("DMMA",)),
        ("i8", np.int8, tile.i32, ("IMMA",)),
        ("f8e4m3", ml_dtypes.float8_e4m3fn, tile.f32, ("HMMA",)),
        ("f8e5m2", ml_dtypes.float8_e5m2, tile.f32, ("HMMA",)),
    ]
    rough = {"tf32": 1.5e-3, "f8e4m3": 1e-3, "f8e5m2": 1e-3}  # tensor cores add up products of bytes in about 14 bits
    cases: list[Case] = []
    for name, dtype, result, instructions in kinds:
        for m, n, k in MATMUL_SIZES:
            if name == "f8e5m2" and (m, n, k) not in MATMUL_SIZES[3:7]:
                continue
            tf32 = result is None
            cases.append(
                Case(
                    f"{name} product of {m}x{n}x{k}",
                    product_tf32 if tf32 else product,
                    lambda r, dtype=dtype, m=m, n=n, k=k: [drawn(dtype, r, m, k), drawn(dtype, r, k, n)],
                    {} if tf32 else {"result": result},
                    relative=rough[name] * k**0.5 if name in rough else None,
                    terms=k,
                    instructions=instructions if min(m, n, k) >= 64 else (),
                    essential=(m, n, k) in [(64, 64, 64), (100, 127, 129)],
                )
            )
    return cases


def _turned(x: Array) -> Array:
    return np.ascontiguousarray(np.transpose(x))


ROW_LENGTHS = [1, 2, 3, 17, 31, 33, 100, 127, 129, 255, 1000, 1023, 4097, 16384, 20001, 131072]


def row_cases() -> list[Case]:
    """Reductions and norms over rows of every length."""
    cases: list[Case] = []
    for n in ROW_LENGTHS:
        m = 5 if n < 4097 else 2
        for dtype, name in ((np.float32, "f32"), (ml_dtypes.bfloat16, "bf16")):
            if name == "f32" and n > 20001:
                continue

            def rows(random: Random, m: int = m, n: int = n, dtype: Any = dtype) -> Array:
                return random.standard_normal((m, n)).astype(dtype)

            def weights(random: Random, n: int = n, dtype: Any = dtype) -> Array:
                return random.standard_normal(n).astype(dtype)

            narrow = None if name == "f32" else 4e-2
            cases += [
                Case(f"softmax of rows of {n} {name}", softmax, lambda r, x=rows: [x(r)], relative=narrow),
                Case(f"layer norm of rows of {n} {name}", layer_norm,
                     lambda r, x=rows, w=weights: [x(r), w(r), w(r), 1e-5], terms=4),
                Case(f"RMS norm of rows of {n} {name}", rms_norm,
                     lambda r, x=rows, w=weights: [x(r), w(r), 1e-6], terms=4, essential=n in (1000, 16384, 131072)),
                Case(f"sums of rows of {n} {name}", row_sums, lambda r, x=rows: [x(r)], terms=n),
                Case(f"sums of columns of {n} {name}", column_sums, lambda r, x=rows: [_turned(x(r))], terms=n),
            ]  # fmt: skip
    return cases


VIEWS: dict[str, tuple[tuple[int, int], Callable[[Any], Any]]] = {
    "a row later": ((49, 96), lambda x: x[1:]),
    "a column later": ((48, 97), lambda x: x[:, 1:]),
    "both later": ((49, 97), lambda x: x[1:, 1:]),
    "narrower": ((48, 200), lambda x: x[:, 64:160]),
    "every second row": ((96, 96), lambda x: x[::2]),
    "every third column": ((48, 288), lambda x: x[:, ::3]),
    "spread": ((96, 288), lambda x: x[::2, 1::3]),
    "transposed": ((96, 48), lambda x: x.T),
    "transposed and later": ((97, 49), lambda x: x.T[1:, 1:]),
    "of odd rows": ((48, 99), lambda x: x[:, :96]),
}
"""Views of 48 x 96 elements: the shape of what they are cut from, and how."""


def view_cases() -> list[Case]:
    """Pointers that are not aligned, strides of every kind."""
    cases: list[Case] = []
    for name, (shape, cut) in VIEWS.items():
        for dtype, dtype_name in ((np.float32, "f32"), (ml_dtypes.bfloat16, "bf16"), (np.int8, "i8")):

            def view(random: Random, shape: Any = shape, cut: Any = cut, dtype: Any = dtype) -> View:
                return View(drawn(dtype, random, *shape), cut)

            what = f"{name}, {dtype_name}"
            cases.append(Case(f"transpose, {what}", transpose, lambda r, view=view: [view(r)]))
            if dtype is not np.int8:
                cases += [
                    Case(f"softmax, {what}", softmax, lambda r, view=view: [view(r)],
                         relative=None if dtype is np.float32 else 4e-2),
                    Case(f"swiglu, {what}", swiglu,
                         lambda r, view=view, dtype=dtype: [view(r), drawn(dtype, r, 48, 96)]),
                    Case(f"product, {what}", gemm,
                         lambda r, view=view, dtype=dtype: [view(r), drawn(dtype, r, 96, 40)],
                         terms=96 if dtype is np.float32 else 2),
                    Case(f"product from the right, {what}", gemm,
                         lambda r, view=view, dtype=dtype: [drawn(dtype, r, 40, 48), view(r)],
                         terms=48 if dtype is np.float32 else 2),
                ]  # fmt: skip
    for offset in (1, 2, 3, 5, 8):
        cases.append(
            Case(f"vector add from element {offset}", vector_add,
                 lambda r, offset=offset: [View(drawn(np.float16, r, 1000 + offset), lambda x: x[offset:]),
                                           drawn(np.float16, r, 1000)])
        )  # fmt: skip
    for m, n, k in [(64, 96, 128), (33, 65, 127)]:
        for dtype, dtype_name in ((np.float32, "f32"), (ml_dtypes.bfloat16, "bf16")):
            cases.append(
                Case(f"product of transposed {m}x{n}x{k} {dtype_name}", product_of_transposed,
                     lambda r, m=m, n=n, k=k, dtype=dtype: [drawn(dtype, r, k, m), drawn(dtype, r, n, k)],
                     terms=k if dtype is np.float32 else 2)
            )  # fmt: skip
    return cases


def empty_cases() -> list[Case]:
    """Sizes of zero."""
    float32 = np.float32
    cases = [Case("vector add of nothing", vector_add, lambda r: [drawn(float32, r, 0), drawn(float32, r, 0)])]
    for m, n, k in [(0, 5, 4), (3, 0, 4), (0, 0, 0), (3, 5, 0), (64, 64, 0)]:
        cases.append(
            Case(f"product of {m}x{n}x{k}", gemm,
                 lambda r, m=m, n=n, k=k: [drawn(float32, r, m, k), drawn(float32, r, k, n)])
        )  # fmt: skip
    for m, n in [(0, 7), (7, 0)]:
        for kernel in (transpose, row_sums, column_sums, sum_of_all):
            cases.append(
                Case(f"{kernel.__name__} of {m}x{n}", kernel, lambda r, m=m, n=n: [drawn(float32, r, m, n)])
            )  # fmt: skip
    cases.append(Case("softmax of no rows", softmax, lambda r: [drawn(float32, r, 0, 7)]))
    return cases


SHAPE_CASES: list[Case] = [*matmul_cases(), *row_cases(), *view_cases(), *empty_cases()]
