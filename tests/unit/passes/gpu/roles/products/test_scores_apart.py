"""Grids with a role for scores beside one that sums: which there are, and what one gives the other."""

from __future__ import annotations

import pytest

from tests.support.kernels.back_to_back_kernels import BackToBack, back_to_back
from tests.support.kernels.product_nests import placed_case
from tests.support.kernels.wide_kernels import latent
from tiledsl import tile
from tiledsl.ir.tile_ops import Grid
from tiledsl.passes.gpu.plan import APART, GridPlan, parse_plan
from tiledsl.passes.gpu.products.apart_products import Apart, apart_of
from tiledsl.passes.gpu.products.streamed_loads import DeclinedError, feeds_of
from tiledsl.passes.gpu.roles.specialised_grids import check_apart

BASE = (2, 100, 150, 64, 32, 64)


def apart(case: BackToBack) -> Apart:
    (grid,) = [op for op in placed_case(back_to_back, case.arrays(), **case.constants).walk() if isinstance(op, Grid)]
    return apart_of(grid, feeds_of(grid, 90, lambda _: 16))


def test_what_sums_take() -> None:
    found = apart(BackToBack(BASE))
    assert (len(found.parts.scores), len(found.parts.sums)) == (1, 1)
    assert [value.shape for value in (*found.rows, *found.ends)] == [found.rows[0].shape] * 2  # rescale, then totals


def test_values_of_two_tensors_have_left_operands_of_their_own() -> None:
    assert len(apart(BackToBack(BASE, sums=2)).parts.sums) == 2


def test_two_loops_have_no_role_for_scores() -> None:
    with pytest.raises(DeclinedError, match="a role for scores wants one loop, and all products in it"):
        apart(BackToBack(BASE, weights="top first"))


@pytest.mark.parametrize("grid", [GridPlan(256, programs=132), GridPlan(256, cluster=2)])
def test_it_makes_one_tile(grid: GridPlan) -> None:
    with pytest.raises(DeclinedError, match="makes one tile, in a block of its own"):
        check_apart(grid)


def test_the_plan_as_text() -> None:
    text = "r=64, j=64, 256 threads, 4x2 warps, 2 stages, scores apart"
    assert parse_plan(text).grids[0].roles == APART
    assert str(parse_plan(text)) == text


def test_nothing_is_spilled() -> None:
    specs = (tile.spec(shape, tile.f16) for shape in ((16, 128, 576), (16, 8192, 576)))
    compiled = latent.compile(*specs, tile.spec((16,), tile.i32), W=512, arch="sm_90")
    (code,) = [one for one in compiled.resources.values() if one["threads"] == 512]
    assert code["spills"] == 0
