"""What threads hold for folds, what they tell each other, and what that does to a grid's price."""

from __future__ import annotations

import pytest

from tests.support.kernels.lowered_kernels import lower, tensor
from tiledsl import tile
from tiledsl.ir.core import Module
from tiledsl.ir.dtypes import f16, i8
from tiledsl.passes.gpu.plan import GridPlan
from tiledsl.passes.gpu.plans.costs.exchanges import exchange_instructions
from tiledsl.passes.gpu.plans.costs.grid_cost import GridCost
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.nest.loop_nest import LoopNest, loop_nests
from tiledsl.passes.pipelines import gpu_front_pipeline

HOPPER = gpu_machine("sm_90")
SIZES = {"M": 4096, "N": 16384}


def softmax(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    y = tile.empty((M, N), tile.f32)
    for m in tile.grid(M):
        y[m, :] = tile.softmax(x[m, :].to(tile.f32))
    return y


def centred(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    y = tile.empty((M, N), tile.f32)
    for m in tile.grid(M):
        wide = x[m, :].to(tile.f32)
        y[m, :] = wide - tile.mean(wide, axis=1)[:, None]
    return y


def two_sums(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape  # noqa: RUF059 # pyright: ignore[reportUnusedVariable] - names the sizes
    y = tile.empty(M, tile.f32)
    for m in tile.grid(M):
        wide = x[m, :].to(tile.f32)
        y[m] = tile.sum(wide, axis=1) * tile.sum(wide * wide, axis=1)
    return y


def late(x: tile.Tensor, z: tile.Tensor) -> tile.Tensor:
    """The powers are wanted behind the second fold alone, and so is what they are made of."""
    M, N = x.shape
    M, N = z.shape
    y = tile.empty((M, N), tile.f32)
    for m in tile.grid(M):
        wide = x[m, :].to(tile.f32)
        far = wide - tile.mean(wide, axis=1)[:, None]
        powers = tile.exp(far)
        other = z[m, :].to(tile.f32)
        y[m, :] = powers * (far - tile.max(other, axis=1)[:, None])
    return y


def columns(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape  # noqa: RUF059 # pyright: ignore[reportUnusedVariable] - names the sizes
    y = tile.empty(N, tile.i64)
    for n in tile.grid(N):
        y[n] = tile.argmax(x[:, n], axis=0)
    return y


def nest_of(module: Module) -> LoopNest:
    (nest,) = loop_nests(PassManager(gpu_front_pipeline()).run(module, PassContext()).entry)
    return nest


def cost(
    nest: LoopNest, threads: int = 256, cluster: int = 1, sizes: dict[str, int] = SIZES, **blocks: int
) -> GridCost:
    return GridCost(nest, GridPlan(threads, cluster), blocks, sizes, HOPPER)


def test_blocks_have_registers_for_what_is_wanted_behind_folds() -> None:
    found = cost(nest_of(lower(softmax, x=tensor(2, f16))), m=1)  # 64 powers of each thread
    assert found.resident == 2
    assert found.times.alone == 0.5
    assert cost(found.nest, cluster=2, m=1).resident == 4
    assert cost(found.nest, cluster=2, m=1).times.alone == 0
    assert cost(found.nest, threads=512, m=1, sizes={"M": 4096, "N": 65536}).times.alone == 1


def test_what_was_widened_is_held_as_it_came() -> None:
    assert cost(nest_of(lower(centred, x=tensor(2, f16))), m=1).resident == 4
    assert cost(nest_of(lower(centred, x=2)), m=1).resident == 2


def test_what_is_only_folded_is_not_held() -> None:
    assert cost(nest_of(lower(two_sums, x=2)), m=1).resident == 4


def test_what_is_wanted_later_is_computed_later() -> None:
    assert cost(nest_of(lower(late, x=tensor(2, f16), z=tensor(2, f16))), m=1).resident == 4


def test_loading_and_computing_add_up_where_one_block_is_alone() -> None:
    nest = nest_of(lower(softmax, x=tensor(2, f16)))
    alone, others = cost(nest, threads=512, m=1, sizes={"M": 4096, "N": 65536}).times, cost(nest, cluster=2, m=1).times
    assert alone.seconds > alone.memory + min(alone.arithmetic, alone.memory)
    assert others.seconds < others.memory + min(others.arithmetic, others.memory)


def test_rows_that_end_within_the_last_vectors_are_computed_whole() -> None:
    nest = nest_of(lower(softmax, x=tensor(2, f16)))
    whole, ragged = (cost(nest, m=1, sizes={"M": 4096, "N": n}) for n in (16384, 14344))  # of vectors for 2048 elements
    assert ragged.work.arithmetic > 0.95 * whole.work.arithmetic


@pytest.mark.parametrize(("n", "least", "most"), [(8, 8 * 12 * 5, 8 * 12 * 16), (64, 8 * 12 * 2, 8 * 12 * 12)])
def test_each_thread_has_a_number_for_each_column_of_its_vectors(n: int, least: int, most: int) -> None:
    found = cost(nest_of(lower(columns, x=tensor(2, f16))), n=n)
    each = exchange_instructions(found.nest, found.grid, found.counts, found._room) / 256 / found.programs  # pyright: ignore[reportPrivateUsage]
    assert least < each < most


def test_rows_tell_each_other_one_number() -> None:
    found = cost(nest_of(lower(two_sums, x=2)), m=1)
    each = exchange_instructions(found.nest, found.grid, found.counts, found._room) / 256 / found.programs  # pyright: ignore[reportPrivateUsage]
    assert each == 2 * (2 * 8 + 20)


def running(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    y = tile.empty((M, N), tile.i64)
    for m in tile.grid(M):
        y[m, :] = tile.cumsum(x[m, :].to(tile.i64), axis=1)
    return y


def test_scans_hold_what_they_give_and_go_through_lanes_for_each_run() -> None:
    found = cost(nest_of(lower(running, x=tensor(2, i8))), m=1, sizes={"M": 4096, "N": 8192})  # 32 i64 of each thread
    assert found.resident == 2
    each = exchange_instructions(found.nest, found.grid, found.counts, found._room) / 256 / found.programs  # pyright: ignore[reportPrivateUsage]
    assert each == 16 * 5 * 3 * 2 + 40
    assert found.times.seconds > 1.1 * found.times.memory
