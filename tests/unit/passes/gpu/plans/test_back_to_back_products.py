"""Which grids have two products that feed on each other, their sizes, and the plans that they get."""

from __future__ import annotations

from typing import Any

import pytest

from attention import attention
from tests.support.gpu_code.gpu_lowering import lowered
from tests.support.kernels.lowered_kernels import tensor
from tiledsl import tile
from tiledsl.frontend.kernel.arguments import ConstantArgument
from tiledsl.frontend.kernel.lower import lower_kernel
from tiledsl.frontend.source.kernel_source import KernelSource
from tiledsl.ir.core import Module
from tiledsl.ir.dtypes import bf16, f32
from tiledsl.ir.text.printer import print_module
from tiledsl.passes.gpu.plans.choose_plans import choose_plans, ranked_plans
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.pipelines import gpu_front_pipeline

ALIGNED = (16,) * 4


@tile.kernel
def blocks_of_64_keys(q: tile.Tensor, k: tile.Tensor, v: tile.Tensor) -> tile.Tensor:
    Q, D = q.shape
    K, D = k.shape
    K, D = v.shape
    out = tile.empty((Q, D), q.dtype)
    for i in tile.grid(Q, block=128):
        acc = tile.zeros((i, D))
        for j in tile.range(K, block=64, num_stages=3):
            acc = tile.dot(tile.exp(tile.dot(q[i, :], k[j, :].mT)).to(v.dtype), v[j, :], acc)
        out[i, :] = acc
    return out


@tile.kernel
def one_after_the_other(q: tile.Tensor, k: tile.Tensor, v: tile.Tensor) -> tile.Tensor:
    Q, D = q.shape
    K, D = k.shape
    K, D = v.shape
    out = tile.empty((Q, D), q.dtype)
    for i in tile.grid(Q):
        top = tile.full(i, -1e30)
        for j in tile.range(K):
            top = tile.maximum(top, tile.max(tile.dot(q[i, :], k[j, :].mT), axis=1))
        acc = tile.zeros((i, D))
        for j in tile.range(K):
            acc = tile.dot((tile.dot(q[i, :], k[j, :].mT) - top[:, None]).to(v.dtype), v[j, :], acc)
        out[i, :] = acc
    return out


def module_of(kernel: Any, rank: int, dtype: Any = bf16, **constants: object) -> Module:
    given: dict[str, Any] = {name: tensor(rank, dtype) for name in "qkv"}
    given |= {name: ConstantArgument(value) for name, value in constants.items()}
    module = lower_kernel(KernelSource(kernel.__wrapped__), given)
    return PassManager(gpu_front_pipeline()).run(module, PassContext())


def sizes(length: int = 4096, depth: int = 128, heads: int = 64) -> dict[str, int]:
    return {"H": heads, "Q": length, "K": length, "D": depth}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("depth", [64, 80, 96, 128, 192, 256])
@pytest.mark.parametrize("length", [1000, 4096])
def test_attention_is_lowered_by_its_first_plan(causal: bool, depth: int, length: int) -> None:
    module = module_of(attention, 3, causal=causal)
    first, *_ = choose_plans(module.entry, gpu_machine("sm_90"), sizes(length, depth), ALIGNED)
    (grid,) = first.grids
    assert grid.roles
    assert dict(first.sizes or first.capacities)["D"] == depth
    text = print_module(lowered(module, first))
    assert text.count("gpu.role") == 2
    assert "gpu.wgmma(" in text


def test_what_is_known_of_attention_sets_the_order() -> None:
    """Causal ones go through several heads side by side, so that long blocks come first."""
    plain, causal = (
        ranked_plans(module_of(attention, 3, causal=flag).entry, gpu_machine("sm_90"), sizes(), ALIGNED)
        for flag in (False, True)
    )
    assert {ranked.plan.grids[0].raster for ranked in plain if ranked.plan.grids[0].roles} == {1}
    assert {ranked.plan.grids[0].raster for ranked in causal if ranked.plan.grids[0].roles} <= {8, 16, 32, 64}
    assert causal[0].seconds is not None
    assert plain[0].seconds is not None
    assert 0.5 < causal[0].seconds / plain[0].seconds < 0.75


def test_keys_with_odd_rows_are_copied_before() -> None:
    module = module_of(blocks_of_64_keys, 2)
    first = choose_plans(module.entry, gpu_machine("sm_90"), sizes(), (16, 8, 16, 16))[0]
    assert first.grids[0].copied == (1,)
    assert lowered(module, first)


def test_a_plan_keeps_what_the_program_says() -> None:
    module = module_of(blocks_of_64_keys, 2)
    found = ranked_plans(module.entry, gpu_machine("sm_90"), sizes(), ALIGNED)
    specialised = [ranked.plan for ranked in found if ranked.plan.grids[0].roles]
    assert specialised
    for plan in specialised:
        assert (plan.grids[0].threads, plan.grids[0].stages) == (256, 3)
        assert dict(plan.blocks) == {}


def test_loops_one_after_the_other() -> None:
    module = module_of(one_after_the_other, 2)
    first = choose_plans(module.entry, gpu_machine("sm_90"), sizes(), ALIGNED)[0]
    assert first.grids[0].roles
    assert print_module(lowered(module, first)).count("gpu.wgmma(") >= 3


@pytest.mark.parametrize(
    ("kernel", "dtype", "arch", "alignment"),
    [
        (blocks_of_64_keys, bf16, "sm_80", ALIGNED),
        (blocks_of_64_keys, f32, "sm_90", ALIGNED),
    ],
)
def test_others_get_none(kernel: Any, dtype: Any, arch: str, alignment: tuple[int, ...]) -> None:
    found = choose_plans(module_of(kernel, 2, dtype).entry, gpu_machine(arch), sizes(), alignment)
    assert found
    assert not any(plan.grids[0].roles for plan in found)
