"""Why there are no better plans: each reason, as `explain()` and audits give it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tiledsl
from gemm import gemm
from tests.support.kernels.product_nests import gemm_nest, placed_case
from tiledsl import tile
from tiledsl.passes.gpu.plans import refused_plans as refused_plans_module
from tiledsl.passes.gpu.plans.choose_plans import choose_plans
from tiledsl.passes.gpu.plans.facts.grid_shape import grids_of
from tiledsl.passes.gpu.plans.improve_plan import refused_neighbours
from tiledsl.passes.gpu.plans.product_plans.search import EVERY, Contract, Refusal
from tiledsl.passes.gpu.plans.product_plans.specialised_plans import ranked_tilings
from tiledsl.passes.gpu.plans.product_plans.warpgroup_cost import WarpgroupCost
from tiledsl.passes.gpu.plans.refused_plans import refused_plans
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.passes.nest.loop_nest import loop_nest

HOPPER = gpu_machine("sm_90")
HALF = np.float16


@tile.kernel
def two_at_once(a: tile.Tensor, b: tile.Tensor) -> tile.Tensor:
    H, M, K = a.shape
    H, K, N = b.shape
    c = tile.empty((H, M, N), a.dtype)
    for h, m, n in tile.grid(H, M, N, block=(2, tile.auto, tile.auto)):
        acc = tile.zeros((h, m, n))
        for k in tile.range(K):
            acc = tile.dot(a[h, m, k], b[h, k, n], acc)
        c[h, m, n] = acc
    return c


@tile.kernel
def in_a_loop_within(a: tile.Tensor, b: tile.Tensor, times: int) -> tile.Tensor:
    M, K = a.shape
    K, N = b.shape
    c = tile.empty((M, N), a.dtype)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n))
        for _ in range(times):
            for k in tile.range(K):
                acc = tile.dot(a[m, k], b[k, n], acc)
        c[m, n] = acc
    return c


def reasons(kernel: Any, *arrays: Any, sizes: dict[str, int] | None = None, **constants: object) -> list[str]:
    placed = placed_case(kernel, list(arrays), **constants)
    return [one.reason for one in refused_plans(placed.entry, HOPPER, sizes or {}, (16,) * 8)]


def zeros(*shape: int, dtype: Any = HALF) -> Any:
    return np.zeros(shape, dtype)


@pytest.mark.parametrize(
    ("kernel", "arrays", "reason"),
    [
        (two_at_once, [zeros(4, 64, 64), zeros(4, 64, 64)], "a program multiplies several matrices at once"),
        (gemm, [zeros(64, 64, dtype=np.float32)] * 2, "`wgmma` multiplies f32 only with precision"),
        (in_a_loop_within, [zeros(64, 64), zeros(64, 64), 2], "in a loop within another"),
    ],
)
def test_a_grid_as_a_whole(kernel: Any, arrays: list[Any], reason: str) -> None:
    found, *_ = reasons(kernel, *arrays)
    assert found.startswith("no plan with specialised warps, because ")
    assert reason in found


def refusals(contract: Contract) -> set[str]:
    found: list[Refusal] = []
    ranked_tilings(gemm_nest(4096, 4096, 4096), HOPPER, contract, EVERY, found)
    return {one.reason for one in found}


@pytest.mark.parametrize(
    ("contract", "reason"),
    [
        (Contract(rows=96), "blocks of 96 rows are asked for"),
        (Contract(columns=40), "columns are not shared evenly by 2 warpgroups"),
        (Contract(depth=8), "steps of 8 are asked for, which instructions do not divide"),
        (Contract(stages=64), "of 64"),
        (Contract(), "a thread would hold"),
        (Contract(), "threads have no registers for it where 2 blocks share them"),
    ],
)
def test_a_tiling(contract: Contract, reason: str) -> None:
    assert any(reason in one for one in refusals(contract))


def test_turns_need_several_tiles() -> None:
    found: list[Refusal] = []
    ranked_tilings(gemm_nest(128, 128, 4096), HOPPER, families=EVERY, refused=found)
    assert "consumers in turn need programs that go through several tiles" in {one.reason for one in found}


def test_whole_rows_that_warpgroups_cannot_share() -> None:
    nest = gemm_nest(4096, 4096, 4096)
    dots = tuple(dot._replace(rows=dot.rows._replace(kind="whole", size=72)) for dot in nest.dots)
    found: list[Refusal] = []
    ranked_tilings(replace(nest, dots=dots), HOPPER, refused=found)
    assert any("do not share products of [72] rows in whole 64s" in one.reason for one in found)


def test_faster_ones_that_do_not_fit_come_with_both_times() -> None:
    found: list[Refusal] = []
    nest = gemm_nest(4096, 4096, 4096)
    ranked_tilings(nest, HOPPER, refused=found)
    (reason,) = reasons(gemm, zeros(64, 64), zeros(64, 64), sizes=dict.fromkeys("MNK", 4096))
    assert reason.startswith("128 x 256 in steps of 64 would take ")
    assert " us instead of " in reason
    assert reason.rsplit(": ", 1)[1] in {one.reason for one in found}


def product(x: Any, y: Any) -> Any:
    return x @ y


@tile.kernel
def product_and_sums(a: tile.Tensor, b: tile.Tensor) -> tile.Tensor:
    """A loop that is not made of planes, as it carries something else too."""
    M, K = a.shape
    K, N = b.shape
    c = tile.empty((M, N), tile.f32)
    for m, n in tile.grid(M, N):
        acc, sums = tile.zeros((m, n)), tile.zeros(m)
        for k in tile.range(K):
            acc = tile.dot(a[m, k], b[k, n], acc)
            sums += tile.sum(a[m, k], axis=1)
        c[m, n] = acc + sums[:, None]
    return c


def test_explain_and_audit_say_it() -> None:
    a = zeros(256, 256, dtype=np.float32)
    expected = "no plan with specialised warps, because `wgmma` multiplies f32 only with"
    assert expected in product_and_sums.compile(a, a, arch="sm_90").explain()
    assert expected in str(product_and_sums.audit(a, a, arch="sm_90"))
    wide = zeros(256, 256, dtype=np.float64)
    assert "because `wgmma`" in str(tiledsl.fuse(tiledsl.trace(product, wide, wide)).audit("sm_90"))


@tile.kernel
def softmax_of_columns(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    out = tile.empty((M, N), x.dtype)
    for n in tile.grid(N):
        column = tile.cast(x[:, n], tile.f32)
        powers = tile.exp(column - tile.max(column, axis=0, keepdims=True))
        out[:, n] = powers / tile.sum(powers, axis=0, keepdims=True)
    return out


@tile.kernel
def running_columns(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    out = tile.empty((M, N), x.dtype)
    for n in tile.grid(N):
        out[:, n] = tile.cumsum(x[:, n], axis=0)
    return out


def reasons_on(arch: str, kernel: Any, arrays: list[Any], sizes: dict[str, int]) -> list[str]:
    placed = placed_case(kernel, arrays)
    return [one.reason for one in refused_plans(placed.entry, gpu_machine(arch), sizes, (16,) * 8)]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_tilings_by_threads_that_do_not_fit(arch: str) -> None:
    found = reasons_on(arch, two_at_once, [zeros(4, 64, 64)] * 2, {"H": 64, **dict.fromkeys("MNK", 4096)})
    assert len([one for one in found if one.startswith("no plan with")]) == (arch == "sm_90")
    last = found[-1]
    assert " in steps of 32, " in last
    assert " us instead of " in last
    assert last.endswith("a thread would hold 360 registers, and has room for 255")


@tile.kernel
def largest_of_parts(x: tile.Tensor, parts: tile.constexpr) -> tile.Tensor:
    """Each turn's fold decides what the next one does, so that the loop cannot be cut into parts."""
    M, _ = x.shape
    found = tile.empty((parts,), tile.f32)
    length = (M + parts - 1) // parts
    for p in tile.grid(parts, block=1):
        highest, total = -1.0, 0.0
        for m in tile.range(p * length, min((p + 1) * length, M)):
            highest = tile.max(tile.max(x[m, :], axis=1)) - highest / 2
            total = total * 0.5 + highest
        found[p] = total
    return found


def test_a_grid_of_few_blocks() -> None:
    """That a cluster of 8 blocks takes as long as 8 multiprocessors do is said, and what would help."""
    few, enough = (
        str(largest_of_parts.audit(tile.spec((65536, 512), tile.f32), arch="sm_90", parts=parts)) for parts in (1, 512)
    )
    few = " ".join(few.split())
    assert "keep 8 of 132 multiprocessors busy, which takes" in few
    assert "an axis in more parts would use the others" in few
    assert "multiprocessors busy" not in enough


@tile.kernel
def in_small_blocks(a: tile.Tensor, b: tile.Tensor) -> tile.Tensor:
    M, K = a.shape
    K, N = b.shape
    c = tile.empty((M, N), a.dtype)
    for m, n in tile.grid(M, N, block=(32, tile.auto)):
        acc = tile.zeros((m, n))
        for k in tile.range(K):
            acc = tile.dot(a[m, k], b[k, n], acc)
        c[m, n] = acc
    return c


@pytest.mark.parametrize("arch", ["sm_80", "sm_100"])
def test_tilings_that_the_program_does_not_ask_for(arch: str) -> None:
    found = reasons_on(arch, in_small_blocks, [zeros(64, 64)] * 2, dict.fromkeys("MNK", 4096))
    assert any(reason.endswith(": blocks of 32 x any are asked for") for reason in found)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_blocks_of_columns_that_threads_cannot_hold(arch: str) -> None:
    found = reasons_on(arch, softmax_of_columns, [zeros(64, 64)], {"M": 4096, "N": 8192})
    assert any("registers of the largest tile, and has room for" in reason for reason in found)
    assert all(" us instead of " in reason for reason in found)


def test_clusters_that_a_scan_cannot_have() -> None:
    placed = placed_case(running_columns, [zeros(64, 64)])
    nest = next(grids_of(placed.entry))
    plan = choose_plans(placed.entry, HOPPER, {"M": 4096, "N": 8192}, (16,) * 2)[0]
    sizes = {"M": 4096, "N": 8192}
    _, refused = refused_neighbours(loop_nest(nest.op), plan.grids[0], dict(plan.blocks), sizes, HOPPER)
    assert "a scan goes on in another block of the cluster" in {one.reason for one in refused}


def test_what_is_chosen_is_not_ranked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    placed = placed_case(gemm, [zeros(4096, 512), zeros(512, 2048)])
    sizes, aligned = {"M": 4096, "K": 512, "N": 2048}, (16,) * 3
    choose_plans(placed.entry, HOPPER, sizes, aligned)
    refused: list[Refusal] = []
    timed: list[object] = []
    search, seconds = refused_plans_module.refused_tilings, WarpgroupCost.seconds

    def noted(*arguments: Any) -> list[Refusal]:
        refused.extend(found := search(*arguments))
        return found

    def counted(self: WarpgroupCost, tiling: Any) -> float:
        timed.append(tiling)
        return seconds(self, tiling)

    monkeypatch.setattr(refused_plans_module, "refused_tilings", noted)
    monkeypatch.setattr(WarpgroupCost, "seconds", counted)
    refused_plans(placed.entry, HOPPER, sizes, aligned)
    assert refused
    assert len(timed) <= len(refused)
