"""The cost of a grid by resource."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.kernels.lowered_kernels import lower, tensor
from tests.unit.passes.gpu.plans.test_improve_plan import column_sums, nest_of, product, row_sums
from tiledsl import tile
from tiledsl.ir.dtypes import f16, f32, i32
from tiledsl.passes.gpu.plan import GridPlan
from tiledsl.passes.gpu.plans.costs.grid_cost import GridCost
from tiledsl.passes.gpu_machine import gpu_machine

HOPPER = gpu_machine("sm_90")
SIZES = {"M": 4096, "N": 8192, "K": 4096}


def test_a_row_for_each_program() -> None:
    cost = GridCost(nest_of(lower(row_sums, x=2)), GridPlan(256), {"m": 1}, SIZES, HOPPER)
    assert cost.programs == 4096
    assert cost.read_bytes == cost.memory_bytes - 4 * 4096 == 4 * 4096 * 8192
    assert cost.times.bound == "memory"
    assert cost.times.seconds == pytest.approx(cost.memory_bytes / HOPPER.copied_bytes_per_second, rel=0.05)
    assert cost.products.tensor_core_share is None


def test_few_programs_leave_the_device_idle() -> None:
    nest = nest_of(lower(row_sums, x=2))
    few = GridCost(nest, GridPlan(256), {"m": 512}, SIZES, HOPPER)
    assert few.busy == pytest.approx(8)
    assert few.times.seconds > 5 * GridCost(nest, GridPlan(256), {"m": 1}, SIZES, HOPPER).times.seconds


def test_narrow_tiles_touch_many_lines() -> None:
    nest = nest_of(lower(column_sums, x=2))
    narrow, wide = (GridCost(nest, GridPlan(256), {"n": n}, SIZES, HOPPER).times for n in (1, 32))
    assert narrow.lines == pytest.approx(32 * wide.lines, rel=0.1)
    assert narrow.l2 == pytest.approx(8 * wide.l2, rel=0.1)


def test_blocks_start_one_after_the_other() -> None:
    nest = nest_of(lower(row_sums, x=2))
    sizes = {**SIZES, "M": 1 << 20, "N": 64}
    small, large = (GridCost(nest, GridPlan(32), {"m": m}, sizes, HOPPER).times for m in (1, 32))
    assert small.bound == "starting"
    assert small.starting == pytest.approx(32 * large.starting) == pytest.approx(1.2e-3, rel=0.1)


def backwards(x: Any) -> Any:
    N = x.shape[0]
    y = tile.empty(N, x.dtype)
    for n in tile.grid(N):
        y[n] = x[N - 1 - n.index]
    return y


def gathered(x: Any, i: Any) -> Any:
    N = x.shape[0]
    y = tile.empty(N, x.dtype)
    for n in tile.grid(N):
        y[n] = x[i[n]]
    return y


def warped(x: Any, at: Any) -> Any:
    N = x.shape[0]
    y = tile.empty(N, x.dtype)
    for n in tile.grid(N):
        y[n] = x[tile.floor(at[n]).to(tile.i32)]
    return y


def rows_looked_up(x: Any, i: Any) -> Any:
    N = i.shape[0]
    y = tile.empty((N, 256), x.dtype)
    for n, m in tile.grid(N, 256):
        y[n, m] = x[i[n][:, None] * 256 + m.index]
    return y


def test_lookups_at_positions_and_of_whole_rows_share_lines() -> None:
    sizes = {"N": 1 << 26, "x_0": 1 << 28}
    anywhere = nest_of(lower(gathered, x=tensor(1, f32), i=tensor(1, i32)))
    far = GridCost(anywhere, GridPlan(256), {"n": 2048}, sizes, HOPPER).times.lines
    near = nest_of(lower(warped, x=tensor(1, f32), at=tensor(1, f32)))
    assert GridCost(near, GridPlan(256), {"n": 2048}, sizes, HOPPER).times.lines < far / 3
    rows = nest_of(lower(rows_looked_up, x=tensor(1, f32), i=tensor(1, i32)))
    whole = GridCost(rows, GridPlan(256), {"n": 8, "m": 256}, {**sizes, "N": 1 << 18}, HOPPER)
    assert whole.read_bytes < 1.1 * 4 * (1 << 26)
    assert whole.memory_bytes < 2.2 * 4 * (1 << 26)


def test_neighbours_that_are_computed_share_lines() -> None:
    sizes = {"N": 1 << 26}
    turned = GridCost(nest_of(lower(backwards, x=tensor(1, f16))), GridPlan(256), {"n": 2048}, sizes, HOPPER).times
    anywhere = nest_of(lower(gathered, x=tensor(1, f16), i=tensor(1, i32)))
    assert turned.bound == "memory"
    assert GridCost(anywhere, GridPlan(256), {"n": 2048}, sizes, HOPPER).times.lines > 5 * turned.lines


def columns_of(n: int, alignment: int) -> GridCost:
    """Sums of 1048575 columns of f16 in blocks of `n`; rows start at multiples of so many bytes."""
    nest = nest_of(lower(column_sums, x=tensor(2, f16)))
    (x,) = (access.op.tensor for access in nest.accesses if access.is_read)
    return GridCost(nest, GridPlan(128), {"n": n}, {**SIZES, "M": 256, "N": 1048575}, HOPPER, {x: alignment})


def test_rows_that_begin_anywhere_touch_more_lines() -> None:
    wide, aligned, narrow = (columns_of(*how).times.lines for how in ((64, 2), (64, 16), (16, 2)))
    assert wide == pytest.approx(1.98 * aligned, rel=0.02)
    assert narrow > 2 * wide  # two lines for each warp, of 32 bytes each


def test_short_rows_that_a_tile_has_whole_go_on_into_each_other() -> None:
    nest = nest_of(lower(row_sums, x=tensor(2, f16)))
    (x,) = (access.op.tensor for access in nest.accesses if access.is_read)
    sizes = {"M": 1 << 20, "N": 11}
    odd, aligned = (GridCost(nest, GridPlan(128), {"m": 256}, sizes, HOPPER, {x: bytes_}) for bytes_ in (2, 16))
    assert odd.times.lines == aligned.times.lines


def test_a_thread_that_stays_in_a_column_computes_no_places() -> None:
    assert columns_of(64, 2).work.arithmetic < 10 * 256 * 1048575


def test_columns_held_by_large_blocks_hide_nothing() -> None:
    nest = nest_of(lower(column_sums, x=2))
    plans = GridPlan(256), GridPlan(512), GridPlan(512, 4)
    small, large, shared = (GridCost(nest, plan, {"n": 32}, SIZES, HOPPER).times for plan in plans)
    assert (small.exposed, large.exposed, shared.exposed) == (0, 1, 1)
    assert shared.seconds > shared.memory + shared.waiting + shared.arithmetic
    assert shared.waiting > large.waiting / 4
    rows = GridCost(nest_of(lower(row_sums, x=2)), GridPlan(256, 4), {"m": 1}, SIZES, HOPPER).times
    assert rows.exposed == 0


def test_products_by_instruction() -> None:
    half = nest_of(lower(product, x=tensor(2, f16), w=tensor(2, f16)))
    single = nest_of(lower(product, x=2, w=2))
    blocks = {"m": 128, "k": 128}
    by_wgmma = GridCost(half, GridPlan(256, roles="cooperative"), blocks, SIZES, HOPPER)
    by_mma = GridCost(half, GridPlan(256), blocks, SIZES, HOPPER)
    by_threads = GridCost(single, GridPlan(256), blocks, SIZES, HOPPER)
    assert by_wgmma.products.multiply_adds == by_threads.products.multiply_adds == 4096 * 8192 * 4096
    assert (
        by_wgmma.products.tensor_core_share,
        by_mma.products.tensor_core_share,
        by_threads.products.tensor_core_share,
    ) == (1, 1, 0)
    assert by_mma.times.products == pytest.approx(by_wgmma.times.products / HOPPER.speeds.mma_share)
    assert by_threads.times.arithmetic > 10 * by_mma.times.products
    assert by_wgmma.products.floor <= by_wgmma.times.products
