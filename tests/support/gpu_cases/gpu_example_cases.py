"""The examples as GPU cases: even sizes, odd ones, and narrow dtypes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from attention import attention
from gemm import gemm
from layer_norm import layer_norm
from rms_norm import rms_norm
from softmax import softmax
from sums import column_sums, row_sums, sum_of_all
from swiglu import swiglu
from tests.support.gpu_cases.gpu_cases import Case
from transpose import transpose
from vector_add import vector_add

Random: TypeAlias = np.random.Generator
Make: TypeAlias = Callable[[Random], list[Any]]

F32, F16, BF16 = np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
MATRICES = [(64, 128), (31, 127), (1, 1000), (100, 1), (257, 1024)]
"""Rows and columns."""


def normals(dtype: np.dtype[Any], *shapes: tuple[int, ...]) -> Make:
    """Arguments of these shapes, drawn from the normal distribution."""
    return lambda random: [random.standard_normal(shape).astype(dtype) for shape in shapes]


def _softmax_of_rows(dtype: np.dtype[Any], m: int, n: int) -> Case:
    # narrow floats round after each step: exp(x - max) is off by as much as x - max is
    relative = None if dtype == F32 else 5e-3 if dtype == F16 else 4e-2
    return Case("softmax", softmax, normals(dtype, (m, n)), relative=relative)


def _norm(kernel: Any, vectors: int, dtype: np.dtype[Any], m: int, n: int) -> Case:
    make = normals(dtype, (m, n), *[(n,)] * vectors)
    return Case(kernel.__name__, kernel, lambda random: [*make(random), 1e-5], terms=4)


def _sum(kernel: Any, terms: Callable[[int, int], int], dtype: np.dtype[Any], m: int, n: int) -> Case:
    return Case(kernel.__name__, kernel, normals(dtype, (m, n)), terms=terms(m, n))


OF_MATRICES: list[Callable[[np.dtype[Any], int, int], Case]] = [
    _softmax_of_rows,
    partial(_norm, layer_norm, 2),
    partial(_norm, rms_norm, 1),
    lambda dtype, m, n: Case("swiglu", swiglu, normals(dtype, (m, n), (m, n))),
    lambda dtype, m, n: Case("transpose", transpose, normals(dtype, (m, n))),
    partial(_sum, row_sums, lambda m, n: n),
    partial(_sum, column_sums, lambda m, n: m),
    partial(_sum, sum_of_all, lambda m, n: m * n),
]


def matrix_cases() -> list[Case]:
    """Every example that takes a matrix, at all sizes in f32 and at one odd and one even in the narrow dtypes."""
    cases: list[Case] = []
    for dtype in (F32, F16, BF16):
        for number, (m, n) in enumerate(MATRICES if dtype == F32 else MATRICES[:2]):
            for of_matrix in OF_MATRICES:
                case = of_matrix(dtype, m, n)
                cases.append(renamed(case, f"{case.name} of {m}x{n} {dtype}", essential=number == 0 and dtype != F16))
    return cases


def renamed(case: Case, name: str, *, essential: bool) -> Case:
    return Case(name, case.kernel, case.make, case.constants, case.relative, case.terms, case.instructions, essential)


def vector_cases() -> list[Case]:
    return [
        Case(f"vector_add of {n} {dtype}", vector_add, normals(dtype, (n,), (n,)), essential=n == 4096)
        for dtype in (F32, F16, BF16)
        for n in (1, 4096, 98431)
    ]


def gemm_cases() -> list[Case]:
    shapes = [(128, 64, 96), (100, 33, 65), (1, 1000, 3), (257, 512, 384)]
    return [
        Case(
            f"gemm of {m}x{k}x{n} {dtype}",
            gemm,
            normals(dtype, (m, k), (k, n)),
            terms=k if dtype == F32 else 2,
            instructions=() if dtype == F32 else ("HMMA",),
            essential=m == 128,
        )
        for dtype in (F32, F16, BF16)
        for m, k, n in shapes
    ]


def attention_cases() -> list[Case]:
    cases: list[Case] = []
    for heads, queries, keys, width in [(2, 64, 64, 64), (3, 15, 31, 40), (1, 33, 130, 128), (2, 20, 7, 16)]:
        for causal in (False, True):
            for dtype in (F32, BF16):
                cases.append(
                    Case(
                        f"attention of {heads}x{queries}x{keys}x{width}{' causal' * causal} {dtype}",
                        attention,
                        normals(dtype, (heads, queries, width), (heads, keys, width), (heads, keys, width)),
                        {"causal": causal},
                        relative=None if dtype == F32 else 4e-2,
                        terms=keys if dtype == F32 else 1,
                        instructions=() if dtype == F32 else ("HMMA",),
                        essential=queries == 64,
                    )
                )
    return cases


EXAMPLE_CASES: list[Case] = [*vector_cases(), *matrix_cases(), *gemm_cases(), *attention_cases()]
