"""Whether programs take their tiles from a counter: where it may be, and what it is predicted to gain."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.kernels.product_nests import gemm_nest
from tests.unit.passes.gpu.plans.test_back_to_back_tilings import nest, ranked
from tiledsl.passes.gpu.plans.product_plans.product_nest import LoopLengths
from tiledsl.passes.gpu.plans.product_plans.search import EVERY, Refusal
from tiledsl.passes.gpu.plans.product_plans.specialised_plans import ranked_tilings
from tiledsl.passes.gpu.plans.product_plans.tile_counter import turns_from_counter
from tiledsl.passes.gpu.plans.product_plans.tilings import Tiling
from tiledsl.passes.gpu_machine import gpu_machine

HOPPER = gpu_machine("sm_90")


@pytest.mark.parametrize("dim", [64, 128, 256])
@pytest.mark.parametrize(("length", "heads"), [(1024, 256), (4096, 64), (16384, 16)])
def test_causal_attention_may_take_tiles_from_it(length: int, heads: int, dim: int) -> None:
    """A fixed order of the same tiles takes at most as long on paper: the counter costs what filling it costs."""
    found = {one.tiling: one.seconds for one in ranked(length, length, dim, heads * 64 // dim, causal=True)}
    counted = {tiling: seconds for tiling, seconds in found.items() if tiling.counted}
    fixed = {tiling: found[tiling._replace(counted=False)] for tiling in counted}
    assert all(seconds < 1.02 * fixed[tiling] for tiling, seconds in counted.items())
    assert 0.85 < min(counted.values()) / min(found[tiling] for tiling in found if not tiling.counted) < 1.01


def test_loops_of_one_length_have_a_fixed_order() -> None:
    assert not any(one.tiling.counted for one in ranked(4096, 4096, 128, 64))
    assert not any(one.tiling.counted for one in ranked_tilings(gemm_nest(4096, 4096, 4096), HOPPER, families=EVERY))


def test_heads_at_a_time_stay_in_l2() -> None:
    """Keys and values of 8 heads of 4096 x 128 do, those of 32 do not: 429 us and 449 on an H200."""
    found = {one.tiling: one.seconds for one in ranked(4096, 4096, 128, 64, causal=True) if one.tiling.counted}
    best = min(found, key=found.__getitem__)
    assert best.raster == 8
    assert 1.02 < found[best._replace(raster=32)] / found[best] < 1.08


def test_few_tiles_are_not_worth_filling_it() -> None:
    """One round of tiles: whoever takes the last one takes the only one."""
    assert not ranked(1024, 1024, 128, 4, causal=True)[0].tiling.counted


def test_what_is_refused() -> None:
    lengths = tuple(LoopLengths(rows, (64, 4096), 1.0) for rows in (64, 128, 192, 256))
    refused: list[Refusal] = []
    found = ranked_tilings(replace(gemm_nest(8192, 4096, 4096), lengths=lengths), HOPPER, refused=refused)
    reasons = {one.reason for one in refused if one.tiling.counted}
    assert any("consumers in turn know the tiles" in reason for reason in reasons)
    assert any("blocks of a cluster would have to be told" in reason for reason in reasons)
    assert any(one.tiling.counted for one in found)


def test_who_is_free_takes_the_next_tile() -> None:
    tiling = Tiling(64, 64, 64, programs=2, counted=True)
    assert turns_from_counter((4, 3, 2, 1), 1, tiling, 0.0) == 5  # 4 + 1, 3 + 2
    assert turns_from_counter((4, 4, 1), 1, tiling, 0.0) == 5
    # each tile takes a turn beside: 5, then 2; 4, then 3; of which two are for each program
    assert turns_from_counter((4, 3, 2, 1), 1, tiling, 1.0) == 7 - 2


def test_of_many_tiles_the_last_one_is_all_that_is_uneven() -> None:
    tiling = Tiling(64, 64, 64, programs=132, counted=True)
    assert turns_from_counter(tuple(range(64, 0, -1)), 1024, tiling, 0.1) == pytest.approx(1024 * 2080 / 132 + 1)


def test_machines_without_warpgroups_have_no_such_plans() -> None:
    assert ranked_tilings(nest(4096, 4096, 128, 64, True), gpu_machine("sm_100")) == []
