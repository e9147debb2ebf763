"""Why there are no better plans: each reason, as `explain()` and audits give it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tiledsl
from gemm import gemm
from tests.support.product_nests import gemm_nest, placed_case
from tiledsl import tile
from tiledsl.passes.gpu.plans import refused_plans as refused_plans_module
from tiledsl.passes.gpu.plans.choose_plans import choose_plans
from tiledsl.passes.gpu.plans.decisions import EVERY, Contract, Refusal
from tiledsl.passes.gpu.plans.refused_plans import refused_plans
from tiledsl.passes.gpu.plans.specialised_plans import ranked_tilings
from tiledsl.passes.gpu.plans.warpgroup_cost import WarpgroupCost
from tiledsl.passes.gpu_machine import gpu_machine

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
    (found,) = reasons(kernel, *arrays)
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


def test_explain_and_audit_say_it() -> None:
    a = zeros(256, 256, dtype=np.float32)
    expected = "no plan with specialised warps, because `wgmma` multiplies f32 only with"
    assert expected in gemm.compile(a, a, arch="sm_90").explain()
    assert expected in str(gemm.audit(a, a, arch="sm_90"))
    assert "because `wgmma`" in str(tiledsl.fuse(tiledsl.trace(product, a, a)).audit("sm_90"))


def test_other_machines_have_no_such_plans() -> None:
    placed = placed_case(gemm, [zeros(64, 64), zeros(64, 64)])
    assert refused_plans(placed.entry, gpu_machine("sm_80"), {}, (16,) * 3) == []


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
