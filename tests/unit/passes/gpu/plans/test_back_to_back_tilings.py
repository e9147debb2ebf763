"""Tilings of products that feed on each other in a loop, as attention has them."""

from __future__ import annotations

from functools import cache

import pytest

from attention import attention
from tests.support.kernels.product_nests import nest_of, placed_kernel
from tiledsl.ir.core import Module
from tiledsl.passes.gpu.plans.product_plans.footprint import bytes_beside, registers_of, stage_bytes
from tiledsl.passes.gpu.plans.product_plans.product_nest import ProductNest
from tiledsl.passes.gpu.plans.product_plans.specialised_plans import RankedTiling, ranked_tilings
from tiledsl.passes.gpu.plans.product_plans.tilings import Tiling
from tiledsl.passes.gpu.plans.product_plans.warpgroup_cost import most_turns
from tiledsl.passes.gpu_machine import gpu_machine

HOPPER = gpu_machine("sm_90")
DIMS = (64, 80, 96, 128, 192, 256)
FLASH = {
    (64, 4096): (481, 446), (64, 16384): (534, 517), (128, 1024): (596, 461), (128, 4096): (654, 611),
    (128, 16384): (682, 657), (256, 4096): (690, 640), (256, 16384): (737, 712),
}  # fmt: skip
"""FlashAttention-3 on an H200: 1e12 operations per second by head dim and length, full and causal."""


@cache
def module_of(causal: bool) -> Module:
    return placed_kernel(attention, 3, causal=causal)


def nest(queries: int, keys: int, dim: int, heads: int, causal: bool = False) -> ProductNest:
    return nest_of(module_of(causal), {"H": heads, "Q": queries, "K": keys, "D": dim})


def ranked(*sizes: int, causal: bool = False) -> list[RankedTiling]:
    return ranked_tilings(nest(*sizes, causal=causal), HOPPER)


def first(*sizes: int, causal: bool = False) -> tuple[float, Tiling]:
    best = ranked(*sizes, causal=causal)[0]
    return best.seconds, best.tiling


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [1, 100, 1024, 16384])
def test_all_fit(dim: int, causal: bool, length: int) -> None:
    attended = nest(length, length, dim, 16, causal)
    found = ranked_tilings(attended, HOPPER)
    assert found
    assert [one.seconds for one in found] == sorted(one.seconds for one in found)
    for seconds, tiling in found:
        assert 0 < seconds < 1
        assert tiling.rows in (64, 128, 192)
        assert tiling.depth % 16 == 0
        assert tiling.stages >= 2
        shared = (tiling.rows + 2 * tiling.stages * tiling.depth) * dim * 2
        assert shared == tiling.stages * stage_bytes(attended, tiling) + bytes_beside(attended, tiling) < 227 << 10
        kept = tiling.depth // 2 + tiling.depth // 4 + dim // 2
        assert registers_of(attended, tiling, HOPPER).held == kept + tiling.depth // 16
        assert kept <= (136 if tiling.consumers == 3 else 193)
        assert tiling.grid_plan().warps == (4 * tiling.consumers, 1)


@pytest.mark.parametrize(("size", "measured"), FLASH.items())
@pytest.mark.parametrize("causal", [False, True])
def test_times_are_like_those_of_other_good_code(
    size: tuple[int, int], measured: tuple[int, int], causal: bool
) -> None:
    dim, length = size
    seconds, _ = first(length, length, dim, 16384 // length * 2048 // dim, causal=causal)
    rate = 4 * length * 16384 * 2048 / (2 if causal else 1) / seconds / 1e12
    assert measured[causal] / 1.2 < rate < measured[causal] * 1.2


def test_wide_heads_take_few_keys_at_a_time() -> None:
    _, tiling = first(16384, 16384, 256, 8)
    assert (tiling.rows, tiling.depth, tiling.stages) == (128, 80, 2)
    _, narrower = first(1024, 1024, 128, 256)
    assert (narrower.rows, narrower.depth, narrower.stages) == (128, 128, 2)


def test_blocks_are_given_out_back_and_forth() -> None:
    assert most_turns((4, 3, 2, 1), heads=4, together=2, programs=2) == 20  # 4 + 3 + 2 + 1 for either, twice
    assert most_turns((3, 1), heads=1, together=1, programs=2) == 3
    assert most_turns((9, 5, 1), heads=1, together=1, programs=2) == 9


def test_one_query_needs_no_second_consumer() -> None:
    _, tiling = first(1, 8192, 128, 64)
    assert tiling.rows == 64


@pytest.mark.parametrize("arch", ["sm_80", "sm_100"])
def test_other_machines(arch: str) -> None:
    assert ranked_tilings(nest(1024, 1024, 64, 16), gpu_machine(arch)) == []
