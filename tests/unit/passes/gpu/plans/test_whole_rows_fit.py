"""Products whose rows are folded whole: what is planned first is what a block has room for, split sums included."""

from __future__ import annotations

from typing import Any

import pytest

import tiledsl
from tests.support.gpu_code.gpu_lowering import lowered
from tiledsl import tile
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Function, Module
from tiledsl.ir.symbolic import symbols_of
from tiledsl.ir.tile_ops import PLANE_PAIRS, PLANES
from tiledsl.ir.types import TensorType
from tiledsl.passes.gpu.plans.choose_plans import ranked_plans
from tiledsl.passes.gpu.plans.product_plans.thread_cost import ThreadNest, ThreadTiling, stage_bytes, sums_of
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.pipelines import gpu_front_pipeline


def normed(x: Any, w: Any, beside: Any) -> Any:
    y = x @ w + beside
    centred = y - y.mean(axis=-1, keepdims=True)
    return centred * tile.rsqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-6)


def programs(dtype: Any, *size: int) -> list[Function]:
    """What the formula is lowered to that multiplies, for products of m x n x k."""
    m, n, k = size
    graph = tiledsl.trace(normed, *[tile.spec(shape, dtype) for shape in ((m, k), (k, n), (m, n))])
    module = tiledsl.fuse(graph).lowered("sm_90")
    return [one for one in module.functions if any(isinstance(op, ops.Dot) for op in one.walk())]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("dtype", [tile.f32, tile.f16])
@pytest.mark.parametrize("size", [(2048, 384, 1536), (128, 384, 8192), (512, 144, 4096)], ids=str)
def test_the_first_plan_is_made(size: tuple[int, int, int], dtype: Any, arch: str) -> None:
    for program in programs(dtype, *size):
        placed = PassManager(gpu_front_pipeline()).run(Module([program.clone()]), PassContext())
        (out,) = (op for op in placed.entry.body.ops if isinstance(op, ops.Empty))
        shapes = [one.type.shape for one in placed.entry.parameters if isinstance(one.type, TensorType)]
        (k,) = {name for shape in shapes for dim in shape for name in symbols_of(dim)} - set(map(str, out.shape))
        sizes = dict(zip([*map(str, out.shape), k], size))
        aligned = (16,) * (len(placed.entry.parameters) + 1)
        plans = ranked_plans(placed.entry, gpu_machine(arch), sizes, aligned)
        assert lowered(placed, plans[0].plan, arch).functions


def test_planes_are_counted() -> None:
    """Three matrices for each operand in a stage; the sums of a turn are added to those of all before."""
    plain, tiling = ThreadNest(1024, 384, 1024), ThreadTiling(32, 384, 16, (1, 4), 2)
    planes = plain._replace(planes=PLANES)
    assert stage_bytes(planes, tiling) == PLANES * stage_bytes(plain, tiling)
    assert sums_of(planes, tiling) == 2 * sums_of(plain, tiling)
    assert planes.products == len(PLANE_PAIRS)
