"""Which grids the blocks of a cluster can share the loop of, and why others not."""

from __future__ import annotations

import pytest

from tests.e2e.gpu_code.test_gpu_plans import module_of
from tests.support.gpu_cases.gpu_cases import Case
from tests.support.gpu_cases.specialised_cases import specialised_attention, split_products
from tests.support.gpu_code.gpu_lowering import lowered, plans_for
from tests.support.kernels.kernels_field import products_below_the_largest
from tiledsl.ir.core import Module
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.gpu.async_ops import Exchange, TmaLoad
from tiledsl.passes.gpu.plan import parse_plan
from tiledsl.support.errors import TileError


def lower(case: Case, text: str) -> Module:
    arguments = case.arguments()
    placed, _ = plans_for(module_of(case, arguments), arguments)
    return lowered(placed, parse_plan(text))


PRODUCT = split_products()[0].case
ALIGNED = "aligned to 16/16/16"
TWO = "128 threads x 2, 4x1 warps, cooperative, 2 stages, 2 splits"


def test_each_block_loads_its_part_of_a_step_and_sends_columns_of_its_sums() -> None:
    module = lower(PRODUCT, f"m=64, n=64, k=128, {TWO}, {ALIGNED}")
    loads = [op for op in module.walk() if isinstance(op, TmaLoad)]
    assert [op.shape for op in loads] == [(64, 128), (128, 64)]
    assert [op.buffer.shape[1:] for op in loads] == [(64, 64), (64, 64)]
    assert not any(op.multicast for op in loads)
    written = [op for op in module.walk() if isinstance(op, gpu.Write)]
    assert [(op.block, op.value.shape, op.buffer.shape) for op in written] == [(-1, (128, 32), (2, 64, 32))] * 2
    (sent,) = [op for op in module.walk() if isinstance(op, Exchange)]
    assert isinstance(sent.source.op, gpu.Reuse)
    assert sent.source.op.buffer in {op.buffer for op in loads}


def test_only_rows_that_there_are_go_out() -> None:
    module = lower(PRODUCT, f"m=64, n=64, k=128, {TWO}, 12 rows in all, {ALIGNED}")
    (sent,) = [op for op in module.walk() if isinstance(op, Exchange)]
    assert (sent.source.shape, sent.target.shape) == ((2, 64, 32), (2, 16, 32))


@pytest.mark.parametrize(
    ("case", "plan", "reason"),
    [
        (
            specialised_attention()[0].case,
            f"i=64, j=128, D<=64, {TWO}, {ALIGNED}/16",
            "blocks can share the loop of a single product alone",
        ),
        (PRODUCT, f"m=64, n=64, k=128, {TWO}, 1 programs, {ALIGNED}", "blocks that share a loop have one tile"),
        (PRODUCT, f"m=128, n=64, k=128, {TWO.replace('x 2', 'x 4')}, {ALIGNED}", "blocks that share a loop have one"),
        (PRODUCT, f"m=64, n=64, k=128, {TWO.replace('2 stages', '1 stages')}, {ALIGNED}", "look at two stages at once"),
        (PRODUCT, f"m=64, n=64, k=16, {TWO}, {ALIGNED}", "cannot share a product of 64 x 64 x 16"),
        (
            PRODUCT,
            f"m=64, n=48, k=512, 128 threads x 8, 4x1 warps, cooperative, 2 stages, 8 splits, {ALIGNED}",
            "cannot share a product of 64 x 48 x 512",
        ),
        (
            Case("below the largest", products_below_the_largest, PRODUCT.make),
            f"m=64, n=64, k=128, {TWO}, {ALIGNED}",
            "`tile.reduce` is not for blocks that have some columns each",
        ),
    ],
)
def test_grids_that_are_not_split(case: Case, plan: str, reason: str) -> None:
    with pytest.raises(TileError, match="this grid cannot be shared out") as caught:
        lower(case, plan)
    assert reason in str(caught.value)
