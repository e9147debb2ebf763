"""Large arrays: the examples' kernels beside NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from attention import attention, numpy_attention
from benchmarks.figures import Figure
from beside_numpy import Array, Compute, median_times, relative_error
from gemm import gemm
from layer_norm import layer_norm, numpy_layer_norm
from softmax import numpy_softmax, softmax


@dataclass(frozen=True)
class Comparison:
    """One computation done by both sides, on arrays that are there. `work` is what one does, in `unit`."""

    what: str
    ours: Callable[[], Any]  # a kernel's call is a tensor for type checkers, an array in truth
    numpys: Compute
    bar: float
    work: float
    unit: str
    tolerance: float = 1e-5


def compare(case: Comparison, rounds: int = 7) -> Figure:
    """Checks the result, then measures both in turns. Raises ValueError for a wrong result."""
    error = relative_error(case.ours(), case.numpys())
    if not error <= case.tolerance:
        raise ValueError(f"{case.what}: error {error:.1e}, allowed {case.tolerance:.0e}")
    ours, numpys = median_times(case.ours, case.numpys, rounds=rounds)
    rate = f"{case.work / ours:.1f} {case.unit}"
    detail = f"{1e3 * ours:.2f} ms ({rate}); NumPy {1e3 * numpys:.2f} ms"
    return Figure(case.what, numpys / ours, "x", case.bar, detail)


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def gemm_case(size: int) -> Comparison:
    a, b = normal(size, size), normal(size, size, seed=1)
    work = 2e-9 * size**3
    return Comparison(f"GEMM {size}", partial(gemm, a, b), partial(np.matmul, a, b), 0.85, work, "GFLOP/s")


def softmax_case(size: int) -> Comparison:
    x = normal(size, size)
    work = 8e-9 * size**2
    return Comparison(f"softmax {size}x{size}", partial(softmax, x), partial(numpy_softmax, x), 5, work, "GB/s")


def layer_norm_case(size: int) -> Comparison:
    x, weight, bias = normal(size, size), normal(size, seed=1), normal(size, seed=2)
    ours, numpys = partial(layer_norm, x, weight, bias), partial(numpy_layer_norm, x, weight, bias)
    return Comparison(f"layer norm {size}x{size}", ours, numpys, 5, 8e-9 * size**2, "GB/s")


def attention_case(size: int, causal: bool, heads: int = 8, width: int = 64) -> Comparison:
    q, k, v = (normal(heads, size, width, seed=seed) for seed in range(3))
    what = f"attention {heads}x{size}x{width}" + ", causal" * causal
    work = 4e-9 * heads * width * size**2 / (2 if causal else 1)
    ours, numpys = partial(attention, q, k, v, causal), partial(numpy_attention, q, k, v, causal)
    return Comparison(what, ours, numpys, 2, work, "GFLOP/s")


CASES: dict[str, Callable[[], Comparison]] = {
    "gemm-512": partial(gemm_case, 512),
    "gemm-1024": partial(gemm_case, 1024),
    "gemm-2048": partial(gemm_case, 2048),
    "gemm-1000": partial(gemm_case, 1000),
    "softmax": partial(softmax_case, 4096),
    "layer-norm": partial(layer_norm_case, 4096),
    "attention": partial(attention_case, 1024, False),
    "attention-causal": partial(attention_case, 1024, True),
}
