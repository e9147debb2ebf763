"""The ways to ask cuBLAS for a product through PyTorch. The fastest answer counts as cuBLAS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.gpu.checking import poison
from benchmarks.gpu.peers.common import Call
from benchmarks.gpu.products import Product, result_of

WAYS = ("cuBLAS", "cuBLASLt", "cuBLAS turned", "cuBLASLt fast")
"""By cublasGemmEx, by cublasLtMatmul, as c.T = b.T @ a.T, and for fp8 with sums of fewer bits."""
FP8_GRANULE = 16
"""Columns and depths that cuBLASLt takes in fp8 are multiples of this."""


def ways(torch: Any, product: Product, a: Any, b: Any, say: Callable[[str], None]) -> dict[str, Callable[[], Call]]:
    """How each way's call is made, by names of WAYS."""
    match product.kind:
        case "int8":
            return {"cuBLASLt": lambda: lambda: torch._int_mm(a, b)}
        case "fp8":
            if product.n % FP8_GRANULE or product.k % FP8_GRANULE:
                say(f"cuBLASLt takes fp8 in multiples of {FP8_GRANULE} only: for {product.name} it gets zeros besides")
            return {
                "cuBLASLt": lambda: scaled(torch, a, b, fast=False),
                "cuBLASLt fast": lambda: scaled(torch, a, b, fast=True),
            }
        case _:

            def out() -> Any:
                c = torch.empty((product.m, product.n), dtype=result_of(torch, product.kind), device="cuda")
                poison(torch, c)
                return c

            def plain(library: str) -> Callable[[], Call]:
                return lambda: by_library(torch, library, product.kind == "tf32", a, b, out())

            def turned() -> Call:
                c = out()
                call = by_library(torch, "cublas", product.kind == "tf32", b.T, a.T, c.T)
                return lambda: call().T

            return {"cuBLAS": plain("cublas"), "cuBLASLt": plain("cublaslt"), "cuBLAS turned": turned}


def by_library(torch: Any, library: str, tf32: bool, a: Any, b: Any, c: Any) -> Call:
    """A product into `c` by the library that PyTorch names so."""
    settings = torch.backends.cuda

    def call() -> Any:
        before = settings.preferred_blas_library()
        settings.preferred_blas_library(library)
        settings.matmul.allow_tf32 = tf32
        try:
            return torch.matmul(a, b, out=c)
        finally:
            settings.matmul.allow_tf32 = False
            settings.preferred_blas_library(before)

    return call


def scaled(torch: Any, a: Any, b: Any, *, fast: bool) -> Call:
    """A product in fp8 with scales of 1; operands are padded with zeros to what cuBLASLt takes."""
    one = torch.ones((), device="cuda")
    n = b.shape[1]
    a, bt = padded(torch, a, rows=1), padded(torch, b.T, rows=FP8_GRANULE)

    def call() -> Any:
        c = torch._scaled_mm(a, bt.T, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=fast)
        return c if c.shape[1] == n else c[:, :n]

    return call


def padded(torch: Any, x: Any, *, rows: int) -> Any:
    """A matrix with zeros besides, so that its rows are a multiple of `rows` and its columns of FP8_GRANULE."""
    more = -x.shape[0] % rows, -x.shape[1] % FP8_GRANULE
    if not any(more):
        return x
    wide = torch.zeros((x.shape[0] + more[0], x.shape[1] + more[1]), dtype=x.dtype, device="cuda")
    wide[: x.shape[0], : x.shape[1]] = x
    return wide
