"""Tilings of products for warpgroups: which fit, which come first, and their predicted times."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.gpu_code.gpu_lowering import lowered
from tests.support.kernels.product_nests import gemm_nest
from tests.unit.passes.gpu.plans.test_specialised_plans import product
from tiledsl.ir.gpu.gpu_ops import Launch, Reuse
from tiledsl.passes.gpu.plan import Plan
from tiledsl.passes.gpu.plans.product_plans.footprint import (
    RESERVED_BYTES,
    bytes_beside,
    goes_out_by_ring,
    registers_of,
    shared_bytes,
    stage_bytes,
    stages_that_fit,
)
from tiledsl.passes.gpu.plans.product_plans.product_nest import ProductNest
from tiledsl.passes.gpu.plans.product_plans.search import EVERY, MADE, Contract, Families
from tiledsl.passes.gpu.plans.product_plans.specialised_plans import ranked_tilings
from tiledsl.passes.gpu.plans.product_plans.tilings import Tiling
from tiledsl.passes.gpu.plans.product_plans.warpgroup_cost import WarpgroupCost
from tiledsl.passes.gpu_machine import gpu_machine

HOPPER = gpu_machine("sm_90")
CUBED = [(size, size, size) for size in (512, 1000, 1024, 2048, 4096, 8192, 16384)]
SHAPES = [
    *CUBED, (16, 4096, 4096), (16, 28672, 8192), (64, 28672, 8192), (128, 4096, 14336), (4096, 14336, 4096),
    (4096, 4096, 14336), (8192, 1024, 8192), (4224, 2112, 7168), (4096, 7168, 2048), (4095, 4095, 4096),
]  # fmt: skip
CUBLAS = {
    (1024, 1024, 1024): 9.1, (2048, 2048, 2048): 28.0, (4096, 4096, 4096): 190.9, (8192, 8192, 8192): 1480.0,
    (16384, 16384, 16384): 12459.0, (4096, 14336, 4096): 693.1, (8192, 1024, 8192): 188.8,
    (4224, 2112, 7168): 177.9, (64, 28672, 8192): 130.7, (1000, 1000, 1000): 10.9,
}  # fmt: skip
"""Measured on an H200, microseconds, bf16."""


def first(*shape: int, families: Families = EVERY, **more: Any) -> tuple[float, Tiling]:
    """The predicted time in microseconds, and the tiling."""
    best = ranked_tilings(gemm_nest(*shape, **more), HOPPER, families=families)[0]
    return best.seconds * 1e6, best.tiling


def blocks_of(nest: ProductNest, tiling: Tiling) -> int:
    """That run at once, at most."""
    return (tiling.programs or tiling.tiles(nest)) * tiling.cluster


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "operands",
    [
        {},
        {"b_k_major": False},
        {"a_k_major": False, "b_k_major": False},
        {"tma_store": False},
        {"element": 1},
        {"element": 1, "promoted": True},
        {"element": 4, "out_bytes": 4},
    ],
)
def test_all_fit(shape: tuple[int, int, int], operands: dict[str, Any]) -> None:
    nest = gemm_nest(*shape, **operands)
    ranked = ranked_tilings(nest, HOPPER, families=EVERY)
    assert ranked
    assert ranked == sorted(ranked, key=lambda one: one.seconds)
    assert len({one.tiling for one in ranked}) == len(ranked)
    for seconds, tiling in ranked:
        rows, columns, depth = tiling[:3]
        assert 0 < seconds < 1
        assert (rows % 64, columns % 16, columns <= 256) == (0, 0, True)
        assert depth * nest.bytes in (128, 256)
        shared = tiling.stages * stage_bytes(nest, tiling) + bytes_beside(nest, tiling)
        assert shared * tiling.resident < 227 << 10
        assert registers_of(nest, tiling, HOPPER).fit
        assert tiling.stages >= 2
        assert tiling.programs * tiling.side <= 132 * tiling.resident
        if not all(stream.counts_along_depth for stream in nest.streams if not stream.is_left):
            assert columns % 64 == 0 or columns in (16, 32)
        grid = tiling.grid_plan()
        assert grid.threads == 128 * tiling.consumers <= 384
        assert grid.warps == (4 * tiling.row_groups, tiling.column_groups)


@pytest.mark.parametrize("size", [4096, 8192, 16384])
def test_large_products(size: int) -> None:
    _, tiling = first(size, size, size)
    assert tiling.rows * tiling.columns >= 128 * 224
    assert (tiling.depth, tiling.roles, tiling.stages) == (64, "cooperative", 3)
    assert tiling.programs * tiling.side == 132
    assert tiling.raster > 1


def test_few_rows_are_the_only_ones_that_are_loaded() -> None:
    for rows, loaded in ((13, 16), (16, 16), (33, 40), (57, 0), (64, 0)):
        assert {tiling.loaded for _, tiling in ranked_tilings(gemm_nest(rows, 4096, 4096), HOPPER, families=EVERY)} == {
            loaded
        }
    for _, tiling in ranked_tilings(gemm_nest(16, 4096, 4096, a_k_major=False), HOPPER, families=EVERY):
        assert tiling.loaded == 0


def test_blocks_that_share_a_loop() -> None:
    """Where tiles are few: each block has whole sectors of the result, and something of each step."""
    _, tiling = first(16, 128, 16384)
    assert tiling.splits > 1
    assert tiling.block[2] % (tiling.splits * 64) == 0
    assert first(4096, 4096, 4096)[1].splits == first(512, 512, 512)[1].splits == 1
    nest = gemm_nest(128, 4096, 14336)
    for _, tiling in ranked_tilings(nest, HOPPER, families=EVERY):
        if tiling.splits > 1:
            assert tiling.side == tiling.column_groups == tiling.resident == 1
            assert tiling.programs == 0
            assert tiling.columns // tiling.splits * 2 >= 32
            assert tiling.stages * stage_bytes(nest, tiling) + bytes_beside(nest, tiling) < 227 << 10
    assert all(t.splits == 1 for _, t in ranked_tilings(nest, HOPPER, Contract(depth=64), EVERY))


def test_whole_rounds_are_sought() -> None:
    """22 x 12 tiles of 192 x 176 are two rounds of 132 programs."""
    _, tiling = first(4224, 2112, 7168)
    assert (tiling.rows, tiling.columns, tiling.side, tiling.programs) == (192, 176, 1, 132)


@pytest.mark.parametrize("shape", [(16, 4096, 4096), (16, 28672, 8192), (64, 28672, 8192), (128, 4096, 14336)])
def test_few_rows_keep_the_device_busy(shape: tuple[int, int, int]) -> None:
    nest = gemm_nest(*shape)
    _, tiling = first(*shape)
    assert blocks_of(nest, tiling) >= 120
    # enough on its way to hide the latency of memory
    in_flight = (tiling.stages - 1) * tiling.columns * tiling.depth * 2 * tiling.resident
    assert in_flight >= 32 << 10


def test_small_products_use_all_multiprocessors() -> None:
    nest = gemm_nest(512, 512, 512)
    time, tiling = first(512, 512, 512)
    assert blocks_of(nest, tiling) >= 64
    assert time < 7.5


@pytest.mark.parametrize(("shape", "measured"), CUBLAS.items())
def test_times_are_like_those_of_other_good_code(shape: tuple[int, int, int], measured: float) -> None:
    predicted, _ = first(*shape)
    assert measured / 1.2 <= predicted <= measured * 1.2


def test_narrow_elements_are_faster() -> None:
    wide, _ = first(4096, 4096, 4096)
    narrow, tiling = first(4096, 4096, 4096, element=1)
    assert wide / 2.2 < narrow < wide / 1.6
    assert tiling.depth in (128, 256)


def test_batches_are_more_tiles() -> None:
    one, _ = first(1024, 1024, 1024)
    sixteen, tiling = first(1024, 1024, 1024, batches=16)
    assert one < sixteen < 16 * one
    assert tiling.rows * tiling.columns >= 128 * 192


def test_contracts() -> None:
    nest = gemm_nest(4096, 4096, 4096)
    for contract in (Contract(rows=128), Contract(128, 256, 64, 2), Contract(columns=40), Contract(depth=32, stages=4)):
        ranked = ranked_tilings(nest, HOPPER, contract, EVERY)
        assert ranked
        for _, tiling in ranked:
            rows, columns, depth = tiling.block
            assert contract.rows in (None, rows)
            assert contract.columns in (None, columns)
            assert contract.depth in (None, depth)
            assert contract.stages in (None, tiling.stages)


@pytest.mark.parametrize(
    "contract",
    [Contract(rows=96), Contract(columns=100), Contract(columns=512), Contract(depth=8), Contract(stages=64)],
)
def test_contracts_that_cannot_be_kept(contract: Contract) -> None:
    assert ranked_tilings(gemm_nest(4096, 4096, 4096), HOPPER, contract, EVERY) == []


def test_families_that_are_not_made_are_left_out() -> None:
    for shape in SHAPES:
        for _, tiling in ranked_tilings(gemm_nest(*shape), HOPPER, families=MADE):
            assert MADE.pingpong or tiling.roles == "cooperative"
            assert MADE.splits or tiling.splits == 1
            assert MADE.resident or tiling.resident == 1


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_100", "sm_120"])
def test_other_machines(arch: str) -> None:
    assert ranked_tilings(gemm_nest(4096, 4096, 4096), gpu_machine(arch)) == []


@pytest.mark.parametrize("size", [(777, 4096, 4096), (256, 256, 4096), (4096, 4096, 4096), (100, 300, 2048)], ids=str)
@pytest.mark.parametrize(("result", "bytes_"), [("bf16", 2), ("f32", 4)])
def test_shared_memory_is_what_is_allocated(size: tuple[int, int, int], result: str, bytes_: int) -> None:
    """Of programs that go on, a result waits in memory of its own; of others it goes out through the ring."""
    nest = gemm_nest(*size, out_bytes=bytes_, b_k_major=False)
    module = product(result=result)
    for _, tiling in ranked_tilings(nest, HOPPER)[::40]:
        rows, columns, depth = tiling.block
        plan = Plan((tiling.grid_plan(),), blocks=(("m", rows), ("n", columns), ("k", depth)), alignment=(16, 16, 16))
        (launch,) = [op for op in lowered(module, plan).walk() if isinstance(op, Launch)]
        said = shared_bytes(nest, tiling)
        assert said <= launch.shared_bytes <= said + RESERVED_BYTES, str(tiling)
        reused = any(isinstance(op, Reuse) for op in launch.walk())
        assert reused == goes_out_by_ring(nest, tiling)
        assert not (reused and tiling.programs)


def test_results_of_one_round_leave_room_for_stages() -> None:
    """112 tiles of 128 x 256 for 132 multiprocessors: the fourth stage lies where the result would wait."""
    nest = gemm_nest(777, 4096, 4096)
    tiling = Tiling(128, 256, 64, row_groups=2)
    assert stages_that_fit(nest, tiling, HOPPER) == 4
    assert stages_that_fit(nest, tiling._replace(programs=132), HOPPER) == 3


def test_parts_that_run_at_once_ask_memory_again() -> None:
    """Two blocks that read the same rows fall out of step, where all parts of the sum stream through L2 together."""
    whole, quarters = Tiling(128, 256, 64, row_groups=2, side=2), Tiling(128, 128, 64, row_groups=2)
    for each in (1024, 2048):
        nest = gemm_nest(256, 256, each, batches=65536 // each, out_bytes=4)
        assert WarpgroupCost(nest, HOPPER).asked_again(whole) == 1.0
        assert WarpgroupCost(nest, HOPPER).asked_again(quarters) == 1.5
    few = gemm_nest(256, 256, 512, batches=4096)  # one after the other
    assert WarpgroupCost(few, HOPPER).asked_again(quarters) == 1.0


BESIDE = [((200, 5120, 5120), 4), ((192, 8192, 8192), 4), ((640, 1024, 8192), 1), ((4096, 256, 8192), 1)]


@pytest.mark.parametrize(("shape", "together"), BESIDE)
def test_those_who_read_the_larger_operand_begin_one_after_the_other(shape: tuple[int, ...], together: int) -> None:
    """Tiles of 64 rows: as many as read the same weights, if they are few; none where the left operand is larger."""
    ranked = ranked_tilings(gemm_nest(*shape), HOPPER, families=MADE)
    rasters = {tiling.raster for _, tiling in ranked if tiling.rows == 64 and tiling.side == 1 and not tiling.programs}
    assert rasters == {together}
