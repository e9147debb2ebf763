"""Sums of f8 products: in parts that are added in f32, unless the program says that fast ones will do."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.e2e.gpu_code.test_gpu_plans import module_of
from tests.support.gpu_cases.gpu_cases import Case
from tests.support.gpu_cases.specialised_cases import fast_product
from tests.support.gpu_code.gpu_lowering import lowered, plans_for, run_as_launched
from tests.support.kernels.kernels_field import product
from tests.support.kernels.product_nests import gemm_nest
from tiledsl import tile
from tiledsl.ir.core import Module
from tiledsl.ir.gpu.async_ops import Wgmma
from tiledsl.ir.gpu.gpu_ops import Mma
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.text.printer import print_module
from tiledsl.ir.tile_ops import Dot, Map
from tiledsl.passes.gpu.plan import parse_plan
from tiledsl.passes.gpu.plans.product_plans.footprint import registers_of
from tiledsl.passes.gpu.plans.product_plans.tilings import Tiling
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.support.errors import TileTypeError

F8 = ml_dtypes.float8_e4m3fn
PLAN = "m=64, n=64, k=256, 128 threads, 4x1 warps, cooperative, 2 stages, aligned to 16/16/16"


def case_of(kernel: Any) -> Case:
    def make(random: np.random.Generator) -> list[object]:
        a, b = (random.standard_normal((32, 288)).astype(np.float32).astype(F8) for _ in range(2))
        return [a, np.transpose(b)]

    return Case("f8", kernel, make, {"result": tile.f32})


def placed(kernel: Any) -> Module:
    case = case_of(kernel)
    return plans_for(module_of(case, case.arguments()), case.arguments())[0]


def sums(module: Module) -> list[Map]:
    """Additions of whole tiles."""
    return [op for op in module.walk() if isinstance(op, Map) and op.fn == "add" and op.result.shape]


def test_each_128_elements_are_a_sum_of_their_own() -> None:
    module = lowered(placed(product), parse_plan(PLAN))
    products = [op for op in module.walk() if isinstance(op, Wgmma)]
    assert [op.depth for op in products] == [128, 128]
    assert len(sums(module)) == 2


def test_fast_sums_stay_in_flight() -> None:
    module = lowered(placed(fast_product), parse_plan(PLAN))
    assert [op.depth for op in module.walk() if isinstance(op, Wgmma)] == [256]
    assert not sums(module)


@pytest.mark.parametrize(("kernel", "arch", "count"), [(product, "sm_89", 1), (fast_product, "sm_89", 0),
                                                       (product, "sm_90", 0)])  # fmt: skip
def test_all_threads_alike(kernel: Any, arch: str, count: int) -> None:
    plan = parse_plan("m=32, n=32, k=64, 128 threads, 2x2 warps, 2 stages, aligned to 16/16/16")
    module = lowered(placed(kernel), plan, arch)
    assert any(isinstance(op, Mma) for op in module.walk())
    assert len(sums(module)) == count
    a, b = case_of(kernel).arguments()
    (result,) = run_as_launched(module.entry, [a, b])
    wanted = np.asarray(a, np.float32) @ np.asarray(b, np.float32)
    assert np.allclose(result, wanted, rtol=1e-4, atol=1e-3)


def test_promoted_sums_take_twice_the_registers() -> None:
    tiling = Tiling(128, 128, 64, row_groups=2)
    held = [
        registers_of(gemm_nest(256, 256, 256, promoted=promoted), tiling, gpu_machine("sm_90")).held
        for promoted in (True, False)
    ]
    assert held == [128, 64]


def test_only_products_of_f8_can_be_fast() -> None:
    text = print_module(placed(fast_product))
    assert [op.precision for op in parse_module(text).walk() if isinstance(op, Dot)] == ["fast"]
    with pytest.raises(TileTypeError, match="fast sums are of f8 products, not bf16"):
        parse_module(text.replace("f8e4m3", "bf16"))
