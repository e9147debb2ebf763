"""What is measured of memory-bound kernels: arguments, bytes, bars and what peers call it. All in bf16."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from benchmarks.gpu import kernels
from tiledsl import Kernel

SQUARE = (8192, 8192)


@dataclass(frozen=True)
class MemoryCase:
    """A kernel on tensors of `shapes`; each is read once and the output, of `result`, written once.

    `bar` is a share of the copy rate, or, where `beside_compile`, how many times torch.compile's speed.
    `eager` is PyTorch's way; it also makes the reference, from the same numbers in float64.
    """

    name: str
    kernel: Kernel
    shapes: tuple[tuple[int, ...], ...]
    result: tuple[int, ...]
    bar: float
    eager: Callable[..., Any]
    beside_compile: bool = False
    wide: bool = False
    """Whether the output is f32."""
    numbers: tuple[float, ...] = ()
    """Arguments after the tensors."""
    tolerance: float | None = None
    """Of the relative error, where that of the dtype is not right."""
    triton: str = ""
    """The function of `triton_kernels`, if there is one."""

    @property
    def bytes(self) -> int:
        """What must be moved at least."""
        return sum(2 * prod(shape) for shape in self.shapes) + (4 if self.wide else 2) * prod(self.result)


def cases(torch: Any) -> list[MemoryCase]:
    """All of them. Those whose bar depends on torch.compile come first, so that it is compiled for them."""
    return [*row_cases(torch), *stream_cases(torch), *sum_cases(torch)]


def row_cases(torch: Any) -> list[MemoryCase]:
    """Softmax and the norms, over rows of several lengths."""
    functional = torch.nn.functional

    def softmax(x: Any) -> Any:
        return torch.softmax(x, -1)

    def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
        return functional.layer_norm(x, weight.shape, weight, bias, 1e-5)

    def rms_norm(x: Any, weight: Any) -> Any:
        return functional.rms_norm(x, weight.shape, weight, 1e-6)

    found: list[MemoryCase] = []
    for m, n, bar in [(8192, 1024, 1.3), (8192, 4096, 0.90), (4096, 16384, 0.90), (2048, 131072, 0.85)]:
        size, shape, beside = f"{m}x{n}", (m, n), n == 1024
        found += [
            MemoryCase(f"softmax {size}", kernels.softmax, (shape,), shape, bar, softmax, beside, triton="softmax"),
            MemoryCase(f"layer norm {size}", kernels.layer_norm, (shape, (n,), (n,)), shape, bar, layer_norm, beside,
                       numbers=(1e-5,), triton="layer_norm"),
            MemoryCase(f"RMS norm {size}", kernels.rms_norm, (shape, (n,)), shape, bar, rms_norm, beside,
                       numbers=(1e-6,)),
        ]  # fmt: skip
    return found


def stream_cases(torch: Any) -> list[MemoryCase]:
    """Elementwise kernels and the transpose."""

    def swiglu(x: Any, y: Any) -> Any:
        return torch.nn.functional.silu(x) * y

    def add(x: Any, y: Any) -> Any:
        return x + y

    def transpose(x: Any) -> Any:
        return x.T.contiguous()

    long = (2**28,)
    return [
        MemoryCase("swiglu 8192^2", kernels.swiglu, (SQUARE, SQUARE), SQUARE, 0.95, swiglu),
        MemoryCase("add 2^28", kernels.vector_add, (long, long), long, 0.95, add, triton="add"),
        MemoryCase("transpose 8192^2", kernels.transpose, (SQUARE,), SQUARE, 0.88, transpose),
    ]


def sum_cases(torch: Any) -> list[MemoryCase]:
    """Sums, in f32."""

    def dtype(x: Any) -> Any:
        return torch.float64 if x.dtype == torch.float64 else torch.float32  # f64 makes the reference

    def of_all(x: Any) -> Any:
        return torch.sum(x, dtype=dtype(x))

    def of_rows(x: Any) -> Any:
        return torch.sum(x, 1, dtype=dtype(x))

    def of_columns(x: Any) -> Any:
        return torch.sum(x, 0, dtype=dtype(x))

    n = SQUARE[0]
    return [
        MemoryCase(
            "sum of all of 8192^2", kernels.sum_of_all, (SQUARE,), (), 0.90, of_all, wide=True, tolerance=1e-4
        ),  # of millions of numbers that cancel each other
        MemoryCase("sums of rows of 8192^2", kernels.row_sums, (SQUARE,), (n,), 0.90, of_rows, wide=True),
        MemoryCase("sums of columns of 8192^2", kernels.column_sums, (SQUARE,), (n,), 0.90, of_columns, wide=True),
    ]
