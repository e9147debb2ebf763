"""Products in f64: by the widest DMMA that an architecture has, without spills, and right in the emulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.e2e.gpu_code.test_gpu_compiles import ARCHITECTURES
from tests.support.gpu_code.gpu_lowering import lowered, plans_for, run_as_launched
from tests.support.gpu_code.sass import disassemble
from tests.support.tile_programs import GEMM
from tiledsl import tile
from tiledsl.backend_cuda.build.cubin import Cubin, KernelResources
from tiledsl.ir.gpu.gpu_ops import Mma
from tiledsl.ir.text.parser import parse_module

SHAPES = {"sm_80": (8, 8, 4), "sm_90": (16, 8, 8), "sm_100": (8, 8, 4)}
SIZES = [(4096, 4096, 4096), (1024, 1024, 1024), (1001, 1003, 1005), (64, 4096, 512)]


@tile.kernel
def product_f64(a: Any, b: Any) -> Any:
    M, K = a.shape
    K, N = b.shape
    c = tile.empty((M, N), tile.f64)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n), tile.f64)
        for k in tile.range(K):
            acc = tile.dot(a[m, k], b[k, n], acc)
        c[m, n] = acc
    return c


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_machine_code(size: tuple[int, int, int], arch: str) -> None:
    m, n, k = size
    compiled = product_f64.compile(tile.spec((m, k), tile.f64), tile.spec((k, n), tile.f64), arch=arch)
    kernels = tuple(KernelResources(name, used["registers"]) for name, used in compiled.resources.items())
    code = disassemble(Cubin(compiled.cubin, compiled.arch, "", kernels)).values()
    assert {product for kernel in code for product in kernel.products} == {("DMMA", SHAPES[arch], "")}
    assert not any(kernel.local for kernel in code)
    assert all(kernel.counts["LDGSTS"] for kernel in code if kernel.products)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("size", [(64, 64, 64), (33, 70, 45)], ids=str)
def test_in_the_emulator(size: tuple[int, int, int], arch: str) -> None:
    m, n, k = size
    draw = np.random.default_rng(5)
    a, b = draw.standard_normal((m, k)), draw.standard_normal((k, n))
    module = parse_module(GEMM.replace("f32", "f64"))
    placed, plans = plans_for(module, [a, b], arch)
    module = lowered(placed, plans[0], arch)
    m, n, k = SHAPES[arch]
    assert {op.instruction for op in module.walk() if isinstance(op, Mma)} == {f"m{m}n{n}k{k}_f64_f64"}
    for seed in (1, 2):
        (result,) = run_as_launched(module.entry, [a, b], seed=seed)
        np.testing.assert_allclose(result, a @ b, rtol=1e-13, atol=1e-13)
