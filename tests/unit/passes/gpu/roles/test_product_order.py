"""Consumers that make tiles in turn: where they wait for each other, and grids that they are not for."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.e2e.products.test_specialised_grids import lowered_case
from tests.support.gpu_cases.gpu_cases import Case
from tests.support.gpu_cases.specialised_cases import PlannedCase
from tests.support.gpu_code.gpu_lowering import lowered
from tests.unit.passes.gpu.plans.test_specialised_plans import product
from tiledsl import tile
from tiledsl.ir.core import Op
from tiledsl.ir.gpu.async_ops import MbarrierArrive, MbarrierWait, NamedBarrier, Role, TmaStore, WgmmaWait
from tiledsl.ir.tile_ops import If
from tiledsl.passes.gpu.plan import GridPlan, parse_plan
from tiledsl.support.errors import TileResourceError

PLAN = "m=64, n=64, k=64, 256 threads, 4x1 warps, 3 stages, 5 programs, pingpong, aligned to 16/16/16"


@tile.kernel
def whole_rows(a: tile.Tensor, b: tile.Tensor) -> tile.Tensor:
    """A @ B with no loop."""
    M, _K = a.shape
    _K, N = b.shape
    c = tile.empty((M, N), a.dtype)
    for m, n in tile.grid(M, N):
        c[m, n] = tile.dot(a[m, :], b[:, n])
    return c


def roles_of(text: str) -> list[Role]:
    return [op for op in lowered(product(), parse_plan(text)).walk() if isinstance(op, Role)]


def meetings(role: Role) -> list[Op]:
    """Where a role meets another one, and what of its work lies between."""
    shared = [op for op in role.walk() if not isinstance(op, NamedBarrier) or op.threads > role.threads]
    return [op for op in shared if isinstance(op, (NamedBarrier, WgmmaWait, TmaStore))]


def test_each_consumer_is_a_role_with_registers_of_its_own() -> None:
    first, second, producer = roles_of(PLAN)
    assert [(role.first, role.threads) for role in (first, second, producer)] == [(0, 128), (128, 128), (256, 32)]
    assert (first.registers, second.registers, producer.registers) == (232, 232, 40)


def test_the_next_one_goes_on_when_the_last_product_has_begun() -> None:
    for number, role in enumerate(roles_of(PLAN)[:2]):
        before, in_flight, after, last, store = meetings(role)
        assert isinstance(before, NamedBarrier)
        assert isinstance(after, NamedBarrier)
        assert (before.id, before.action, before.threads) == (1 + number, "sync", 256)
        assert (after.id, after.action, after.threads) == (2 - number, "arrive", 256)
        assert isinstance(in_flight, WgmmaWait)
        assert in_flight.groups == 1
        assert isinstance(last, WgmmaWait)
        assert last.groups == 0
        assert isinstance(store, TmaStore)
        # nobody waits before the first block, or arrives for one that there is not
        conditions = [isinstance(op.parent and op.parent.parent, If) for op in (before, after)]
        assert conditions == [number == 0, True]


def test_a_stage_is_given_back_by_the_consumer_that_had_it() -> None:
    first, second, producer = roles_of(PLAN)
    empty = {op.barriers for op in producer.walk() if isinstance(op, MbarrierWait)}
    for role in (first, second):
        assert {op.barriers for op in role.walk() if isinstance(op, MbarrierArrive)} == empty
    assert [op.op.attributes["arrivals"] for op in empty if op.op is not None] == [4]  # warps of one consumer


def test_threads_of_a_tile() -> None:
    assert GridPlan(256, warps=(4, 1), roles="pingpong").threads_of_tile == 128
    assert GridPlan(256, warps=(8, 1), roles="cooperative").threads_of_tile == 256
    assert GridPlan(96).threads_of_tile == 96


@pytest.mark.parametrize(
    ("instead_of", "words", "reason"),
    [
        ("5 programs, ", "", "because consumers in turn need programs that go through several blocks"),
        ("256 threads, 4x1 warps", "256 threads x 2, 4x1 warps, 2 splits", "because blocks that share a loop have one"),
        ("5 programs, ", "5 programs, from a counter, ", "because consumers in turn know the blocks of their program"),
        ("256 threads", "128 threads", "because 128 threads make one tile, so that nobody takes turns"),
    ],
)
def test_grids_that_are_not_for_it(instead_of: str, words: str, reason: str) -> None:
    with pytest.raises(TileResourceError, match=reason):
        lowered(product(), parse_plan(PLAN.replace(instead_of, words)))


def test_operands_that_do_not_come_by_one_loop() -> None:
    case = Case("whole rows", whole_rows, lambda random: [np.ones((64, 64), ml_dtypes.bfloat16) for _ in "ab"])
    with pytest.raises(TileResourceError, match="consumers in turn take what they multiply from one loop"):
        lowered_case(PlannedCase(case, parse_plan(PLAN.replace("k=64", "_K<=64"))))
