"""Random loops of products compute the same under plans with specialised warps, whatever order threads come in."""

from __future__ import annotations

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.support.generators.random_products import PLANS, Operand, RandomProduct, blocks_of, random_products
from tests.support.gpu_code.gpu_lowering import lowered, run_as_launched
from tiledsl.backend_ref.execute_tile import execute
from tiledsl.ir.gpu.async_ops import TmaLoad, Wgmma
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.text.printer import print_module
from tiledsl.passes.gpu.plan import parse_plan
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.pipelines import gpu_front_pipeline
from tiledsl.support.errors import TileResourceError

BLOCK = 128
"""The reference gives the same for all blocks, and is the faster the fewer there are."""


@given(product=random_products(), seed=st.integers(0, 99))
@settings(max_examples=7, phases=(Phase.explicit, Phase.reuse, Phase.generate))  # smaller ones take as long
def test_random_products(product: RandomProduct, seed: int) -> None:
    check(product, seed)


def check(product: RandomProduct, seed: int) -> None:
    """What the reference gives, the emulator gives for the plan, in an order that `seed` decides."""
    module = parse_module(product.text)
    expected = execute(module.entry, product.arguments(), blocks=lambda op, axis, block: BLOCK)
    placed = PassManager(gpu_front_pipeline()).run(module.clone(), PassContext())
    try:
        gpu = lowered(placed, parse_plan(product.whole_plan))
    except TileResourceError as error:
        if error.code != "shared-too-much" and not (error.code == "plan-specialised" and product.may_be_refused):
            raise
        return  # the planner takes others
    kinds = {type(op) for op in gpu.walk()}
    assert Wgmma in kinds
    assert product.may_be_refused or TmaLoad in kinds
    try:
        actual = run_as_launched(gpu.entry, product.arguments(), seed=seed)
        assert all((found == wanted).all() for found, wanted in zip(actual, expected, strict=True))
    except Exception as error:
        raise AssertionError(f"{error}\nplan: {product.whole_plan}\n{print_module(gpu)}") from error


@pytest.mark.parametrize("plan", [plan for plan in PLANS if "n=144" in plan or "pingpong" in plan])
def test_blocks_that_divide_the_sizes(plan: str) -> None:
    """A block is as wide as it is: what threads share out in powers of two would reach into the next one."""
    plain = Operand("bf16", False, (), False)
    (m, n, k), text = (2 * size for _, size in blocks_of(plan)), plan.format(stages=2)
    check(RandomProduct(plain, plain, None, m, n, k, text, False, ("beside",), divided=True), 0)
