"""The plan that comes first has the shared memory that it asks for. Else another one is compiled, or none is left."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tiledsl
from tests.support.gpu_cases.zoo_programs import planned_kernels
from tiledsl import ops, tile
from tiledsl.ir.gpu.gpu_ops import Launch
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.pipelines import gpu_pipeline

F32, F16 = tile.f32, tile.f16
FORMULAS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    # results in f32 of windows whose positions make odd rows: they go to memory without a buffer
    "convolution along a line": (
        lambda x, w: ops.conv1d(x, w),
        [tile.spec((8, 64, 65539), F32), tile.spec((128, 64, 3), F32)],
    ),
    "convolution of odd images": (
        lambda x, w: ops.conv2d(x, w),
        [tile.spec((16, 64, 65, 65), F32), tile.spec((128, 64, 3, 3), F32)],
    ),
    # an operand that the loop folds: it loads 49 elements for each
    "product of means, f32": (
        lambda x, w: ops.linear(tile.mean(x, axis=2), w),
        [tile.spec((2, 512, 49), F32), tile.spec((1000, 512), F32)],
    ),
    "product of means, f16": (
        lambda x, w: ops.linear(tile.mean(x, axis=2), w),
        [tile.spec((64, 512, 200), F16), tile.spec((1000, 512), F16)],
    ),
}


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", FORMULAS)
def test_the_first_plan_fits(name: str, arch: str) -> None:
    formula, specs = FORMULAS[name]
    kernels = list(planned_kernels(tiledsl.fuse(tiledsl.trace(formula, *specs)), arch))
    assert kernels
    for placed, plans, _ in kernels:
        lowered = PassManager(gpu_pipeline(plans[0], arch), verify=False).run(placed.clone(), PassContext())
        assert any(isinstance(op, Launch) for op in lowered.walk())
