"""Two warpgroups share the columns of products back to back where one has no registers for them."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.support.kernels.masked_products import lowered_for_all
from tests.support.kernels.product_nests import nest_of, placed_case
from tests.support.kernels.wide_kernels import attention, latent
from tiledsl.ir.core import Module
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.gpu.async_ops import NamedBarrier, TmaStore, Wgmma
from tiledsl.ir.tile_ops import For
from tiledsl.passes.gpu.plan import APART, Plan
from tiledsl.passes.gpu.plans.product_plans.footprint import (
    RESERVED_BYTES,
    goes_out_by_ring,
    registers_of,
    shared_bytes,
    stage_bytes,
)
from tiledsl.passes.gpu.plans.product_plans.product_nest import ProductNest
from tiledsl.passes.gpu.plans.product_plans.specialised_plans import RankedTiling, ranked_tilings
from tiledsl.passes.gpu.plans.product_plans.tilings import Tiling
from tiledsl.passes.gpu_machine import gpu_machine

HOPPER = gpu_machine("sm_90")
LENGTHS = np.ones(2, np.int32)


@cache
def own() -> Module:
    return placed_case(attention, [*(np.ones((2, 3, 5), np.float16) for _ in range(3)), LENGTHS])


@cache
def part(width: int) -> Module:
    return placed_case(latent, [*(np.ones((2, 3, 576), np.float16) for _ in range(2)), LENGTHS], W=width)


def nest(depth: int, width: int, keys: int = 8192) -> ProductNest:
    return nest_of(own(), {"B": 16, "R": 128, "N": keys, "D": depth, "W": width})


def latent_nest(depth: int, width: int, sequences: int = 16, heads: int = 128) -> ProductNest:
    return nest_of(part(width), {"B": sequences, "R": heads, "N": 8192, "D": depth})


def ranked(of: ProductNest) -> list[RankedTiling]:
    return ranked_tilings(of, HOPPER)


@pytest.mark.parametrize(("width", "groups"), [(64, 1), (256, 1), (304, 1), (384, 2), (512, 2)])
def test_columns_are_shared_where_one_has_no_registers(width: int, groups: int) -> None:
    found = ranked(nest(128, width))
    assert found
    assert {one.tiling.column_groups for one in found} == {groups}
    assert all(registers_of(nest(128, width), one.tiling, HOPPER).fit for one in found)


def test_wider_ones_have_no_plan() -> None:
    assert ranked(nest(128, 1024)) == []


def test_latent_keys_are_one_stream() -> None:
    (queries, keys) = latent_nest(576, 512).streams
    assert queries.is_left
    assert keys.sides[-1].size == 576
    apart = nest(576, 512)
    assert len(apart.streams) == 3
    tiling = Tiling(64, 0, 64, column_groups=2)
    assert stage_bytes(latent_nest(576, 512), tiling) == 64 * 576 * 2
    assert stage_bytes(apart, tiling) == 64 * (576 + 512) * 2


def test_latent_keys_have_twice_as_many_in_a_turn() -> None:
    assert ranked(latent_nest(576, 512))[0].tiling.depth == 64
    assert ranked(nest(576, 512))[0].tiling.depth == 32


def test_roles_are_in_each_others_way() -> None:
    """128 heads of 64 sequences took 262.5 us on an H100. With 64 heads each, half of the multiprocessors have a block,
    whose turns take as long: memory is no longer what all wait for."""
    machine = gpu_machine("sm_90:132x3350")
    took = {heads: ranked_tilings(latent_nest(576, 512, 64, heads), machine)[0].seconds for heads in (64, 128)}
    assert abs(took[128] / 262.5e-6 - 1) < 0.03
    assert took[64] > 0.9 * took[128]


@pytest.mark.parametrize(("depth", "width"), [(576, 512), (512, 448), (448, 384)])
@pytest.mark.parametrize("is_latent", [True, False])
def test_shared_memory_is_what_is_allocated(depth: int, width: int, is_latent: bool) -> None:
    of, module = (latent_nest(depth, width), part(width)) if is_latent else (nest(depth, width), own())
    found = [tiling for _, tiling in ranked(of)]
    together = [tiling for tiling in found if tiling.roles != APART]
    for tiling in [one for one in found if one.roles == APART][:1]:
        assert 0 <= shared_bytes(of, tiling) - launch_of(module, tiling, depth, width).shared_bytes <= RESERVED_BYTES
    for tiling in together[:3]:
        launch = launch_of(module, tiling, depth, width)
        said = shared_bytes(of, tiling)
        assert said <= launch.shared_bytes <= said + RESERVED_BYTES, str(tiling)
        reused = any(isinstance(op, gpu.Reuse) for op in launch.walk())
        lent = tiling.programs == 0 and goes_out_by_ring(of, tiling)
        assert reused == (lent and any(isinstance(op, TmaStore) for op in launch.walk()))


def launch_of(module: Module, tiling: Tiling, depth: int, width: int) -> gpu.Launch:
    rows, _, keys = tiling.block
    sizes = (("D", depth), ("W", width)) if module is own() else (("D", depth),)
    plan = Plan((tiling.grid_plan(),), blocks=(("r", rows), ("j", keys)), alignment=(16,) * 4, sizes=sizes)
    (launch,) = [op for op in lowered_for_all(module, plan).walk() if isinstance(op, gpu.Launch)]
    return launch


def test_a_turn_meets_twice() -> None:
    """For the extremum, and for what the second product takes: sums of rows are left to the end."""
    best = next(one for one in ranked(latent_nest(576, 512)) if one.tiling.roles != APART)
    launch = launch_of(part(512), best.tiling, 576, 512)
    loops = [op for op in launch.walk() if isinstance(op, For) and any(isinstance(one, Wgmma) for one in op.body.ops)]
    assert len(loops) == 2, "one for whole turns, one for the last"
    for loop in loops:
        assert sum(isinstance(op, NamedBarrier) for op in loop.body.ops) == 1
        assert sum(isinstance(op, gpu.Reduce) for op in loop.body.ops) == 1
        assert not any(isinstance(op, gpu.Buffer) for op in loop.body.ops), "both loops have the same memory"
