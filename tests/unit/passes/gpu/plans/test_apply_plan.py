"""Exact choices put into a module: blocks, sizes that are constants, what is known of divisibility."""

from __future__ import annotations

import pytest

from tests.support.kernels.lowered_kernels import kernel_from_text, lower
from tiledsl.ir.core import Module
from tiledsl.ir.tile_ops import Grid, Range
from tiledsl.ir.types import TensorType
from tiledsl.passes.gpu.plan import parse_plan
from tiledsl.passes.gpu.plans.apply_plan import ApplyPlan, check_applied
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.pipelines import gpu_front_pipeline
from tiledsl.support.errors import TileTypeError

TEXT = """
    def sums(x):
        M, N = x.shape
        out = tile.empty(M, tile.f32)
        for m in tile.grid(M):
            total = tile.zeros(m)
            for n in tile.range(N):
                total = total + tile.sum(x[m, n], axis=1)
            out[m] = total
        return out
    """


def applied(plan: str) -> Module:
    placed = PassManager(gpu_front_pipeline()).run(lower(kernel_from_text(TEXT), x=2), PassContext())
    return PassManager([ApplyPlan(parse_plan(plan))]).run(placed, PassContext())


def blocks_of(module: Module) -> list[str]:
    return [str(block) for op in module.walk() if isinstance(op, (Grid, Range)) for block in op.blocks]


def test_blocks_are_those_of_the_plan() -> None:
    module = applied("m=4, n=64, 128 threads")
    assert blocks_of(module) == ["4", "64"]
    check_applied(module.entry, parse_plan("m=4, n=64, 128 threads"))


@pytest.mark.parametrize(("plan", "missing"), [("m=4, 128 threads", "block `n`"), ("n=64, 128 threads", "block `m`")])
def test_a_block_that_the_plan_says_nothing_of_stays_open(plan: str, missing: str) -> None:
    module = applied(plan)
    assert "auto" in blocks_of(module)
    with pytest.raises(TileTypeError, match=missing):
        check_applied(module.entry, parse_plan(plan))


def test_sizes_become_numbers_and_divisors_facts() -> None:
    module = applied("m=4, n=64, 128 threads, N:=4096, M%16=0")
    x, *_ = (p.type for p in module.entry.parameters)
    assert isinstance(x, TensorType)
    assert [str(dim) for dim in x.shape] == ["M", "4096"]
    assert [(str(fact.dim), fact.divisor) for fact in module.entry.facts] == [("M", 16)]
