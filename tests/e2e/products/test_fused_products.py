"""Products with epilogues, and attention of short heads, by the plans that calls get: the emulator agrees, all is fast.

Which instructions they are made of is read from the machine code, for the sizes of a sentence encoder.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.e2e.gpu_code.test_gpu_plans import module_of
from tests.support.gpu_cases.fused_cases import drawn
from tests.support.gpu_cases.gpu_cases import Array, Case, assert_same, expected, outcome
from tests.support.gpu_code.gpu_lowering import lowered, plans_for, run_as_launched
from tests.support.gpu_code.sass import disassemble
from tests.support.kernels.fused_products import (
    gated_products,
    linear_gelu,
    linear_layer_norm,
    linear_of_two,
    linear_residual,
    masked_heads,
    short_heads,
    turned_product,
)
from tiledsl.backend_cuda.build.gate import refusals
from tiledsl.backend_cuda.build.nvrtc import compile_cubin
from tiledsl.backend_cuda.emit.emit_program import emit_program

M, N, K = 72, 64, 136


def _heads(random: np.random.Generator) -> Sequence[object]:
    qkv: Array = random.standard_normal((1, 40, 3, 2, 32)).astype(np.float16)
    return [qkv]


def _masked(random: np.random.Generator) -> Sequence[object]:
    qkv: Array = random.standard_normal((1, 40, 3, 2, 32)).astype(np.float16)
    mask = np.where(random.random((1, 40)) < 0.3, -10000.0, 0.0).astype(np.float16)
    return [qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2], mask]


def _linear(random: np.random.Generator, *rows: int) -> list[object]:
    return [drawn(random, M, K), drawn(random, K, N), *(drawn(random, n) for n in rows)]


CASES = [
    Case("gelu", linear_gelu, lambda random: _linear(random, N), {"form": "erf"}, relative=4e-3, terms=4),
    Case("residual", linear_residual, lambda random: [*_linear(random, N), drawn(random, M, N)], relative=4e-3,
         terms=4),
    Case("of two", linear_of_two, lambda random: [*_linear(random), drawn(random, M, N)], relative=4e-3, terms=4),
    Case("turned", turned_product, _linear, relative=4e-3, terms=4),
    Case("gated", gated_products, lambda random: [*_linear(random), drawn(random, K, N)], relative=4e-3, terms=4),
    Case("layer norm", linear_layer_norm,
         lambda random: [*_linear(random, N), drawn(random, M, N), drawn(random, N), drawn(random, N)],
         relative=4e-3, terms=4),
    Case("short heads", short_heads, _heads, {"heads": 2, "depth": 32}, relative=4e-3),
    Case("masked heads", masked_heads, _masked, relative=4e-3),
]  # fmt: skip


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_in_the_emulator(case: Case, arch: str) -> None:
    arguments = case.arguments()
    placed, plans = plans_for(module_of(case, arguments), arguments, arch)
    module = lowered(placed, plans[0], arch)
    for seed in (None, 0):
        changed = case.arguments()
        returned = run_as_launched(module.entry, changed, seed=seed)
        actual = outcome(returned, changed, lambda value: isinstance(value, np.ndarray), np.asarray)
        assert_same(case, actual, expected(case))


def _zeros(*shape: int) -> Array:
    return np.zeros(shape, np.float16)


def _sizes(m: int, n: int, k: int) -> list[tuple[Case, list[Array]]]:
    a, b, row, beside = _zeros(m, k), _zeros(k, n), _zeros(n), _zeros(m, n)
    found = [
        (Case("gelu", linear_gelu, lambda random: [], {"form": "erf"}), [a, b, row]),
        (Case("residual", linear_residual, lambda random: []), [a, b, row, beside]),
        (Case("of two", linear_of_two, lambda random: []), [a, b, beside]),
        (Case("turned", turned_product, lambda random: []), [a, b]),
        (Case("gated", gated_products, lambda random: []), [a, b, b]),
    ]
    if n in (384, 768, 1024):
        found.append((Case("layer norm", linear_layer_norm, lambda random: []), [a, b, row, beside, row, row]))
    return found


MADE = (
    (128, 384, 1536), (8192, 384, 384), (8192, 1024, 1024),
    *(pytest.param(*sizes, marks=pytest.mark.slow) for sizes in ((8192, 1536, 384), (8192, 768, 768))),
)  # fmt: skip


@pytest.mark.parametrize(("m", "n", "k"), MADE)
def test_machine_code(m: int, n: int, k: int) -> None:
    """One kernel by warpgroups; all comes and goes by TMA, and nothing spills: by the first plan or, where that is
    refused as in a call, one of the next two."""
    for case, arguments in _sizes(m, n, k):
        placed, plans = plans_for(module_of(case, arguments), arguments)
        cubins = (compile_cubin(emit_program(lowered(placed, p), 90).text, "sm_90", "kernel") for p in plans[:3])
        cubin = next((one for one in cubins if not refusals(one)), None)
        assert cubin is not None, case
        (kernel,) = disassemble(cubin).values()
        assert kernel.counts["HGMMA"] > 0, case
        assert kernel.counts["UTMASTG"] > 0, case
        assert not kernel.global_stores, case
        assert not kernel.global_loads, case
