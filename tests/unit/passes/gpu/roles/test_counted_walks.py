"""Programs that take their blocks from a counter make each of them once, those with the longest loops first."""

from __future__ import annotations

from unittest.mock import patch

import ml_dtypes
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.e2e.gpu_code.test_gpu_plans import module_of
from tests.support.compare import assert_close
from tests.support.gpu_cases.gpu_cases import Case
from tests.support.gpu_code.gpu_lowering import Array, lowered, plans_for
from tests.unit.passes.gpu.plans.test_specialised_plans import product
from tiledsl import tile
from tiledsl.backend_ref.emulator.agents.agent import Agent
from tiledsl.backend_ref.emulator.emulate import emulate
from tiledsl.backend_ref.emulator.ops.executors import EXECUTORS
from tiledsl.ir.core import Module
from tiledsl.ir.gpu.async_ops import TmaStore
from tiledsl.ir.gpu.gpu_ops import Atomic
from tiledsl.ir.gpu.gpu_rules import role_around
from tiledsl.ir.layouts.layout import WARP
from tiledsl.ir.tile_ops import Empty
from tiledsl.passes.analysis.sizes import constant_of
from tiledsl.passes.gpu.plan import parse_plan
from tiledsl.support.errors import TileResourceError

BF16 = ml_dtypes.bfloat16
PLAN = "j=64, 128 threads, 4x1 warps, 2 stages, {} programs, from a counter, {}cooperative"
Stored = list[tuple[int, int, int]]
"""For each block in the order in which they are stored: the program, the head, the block of rows."""


@tile.kernel
def lower_scores(q: tile.Tensor, k: tile.Tensor, v: tile.Tensor) -> tile.Tensor:
    """tril(q @ k.mT) @ v."""
    H, T, D = q.shape
    out = tile.empty((H, T, D), tile.f32)
    for h, i in tile.grid(H, T, block=(1, 64)):
        acc = tile.zeros((i, D), tile.f32)
        for j in tile.range(0, i.start + i.size):
            scores = tile.dot(q[h, i, :], k[h, j, :].mT)
            scores = tile.where(j.index[None, :] <= i.index[:, None], scores, 0.0)
            acc = tile.dot(scores.to(v.dtype), v[h, j, :], acc)
        out[h, i, :] = acc
    return out


def lowered_for(heads: int, blocks: int, programs: int, raster: int) -> tuple[Module, list[Array]]:
    """In GPU form, for so many blocks of rows of each head; and arguments."""
    random = np.random.default_rng(0)
    arguments: list[Array] = [random.integers(-2, 3, (heads, 64 * blocks, 64)).astype(BF16) for _ in "qkv"]
    case = Case("lower", lower_scores, lambda _: [*arguments])
    placed, _ = plans_for(module_of(case, [*arguments]), [*arguments])
    at_a_time = f"{raster} rows at a time, " if raster > 1 else ""
    plan = parse_plan(f"{PLAN.format(programs, at_a_time)}, D:=64, aligned to 16/16/16/16")
    return lowered(placed, plan), arguments


def run(module: Module, arguments: list[Array], seed: int) -> Stored:
    """Runs it in the emulator, and checks what it gives."""
    stored: Stored = []
    store = EXECUTORS[TmaStore]

    def noted(agent: Agent, op: TmaStore) -> tuple[Array, ...]:
        head, row, _ = (agent.integer(index) for index in op.indices)
        if agent.leads:
            stored.append((agent.program.number, head, row // 64))
        return store(agent, op)

    with patch.dict(EXECUTORS, {TmaStore: noted}):
        (out,) = emulate(module.entry, arguments, seed=seed).results
    q, k, v = (one.astype(np.float64) for one in arguments)
    scores = np.tril(q @ np.swapaxes(k, 1, 2)).astype(BF16).astype(np.float64)
    assert_close(out, (scores @ v).astype(np.float32), relative=1e-6)
    return stored


@given(
    heads=st.integers(1, 4), blocks=st.integers(1, 4), programs=st.integers(1, 7), raster=st.integers(1, 3),
    seed=st.integers(0, 99),
)  # fmt: skip
@settings(max_examples=5, phases=(Phase.explicit, Phase.reuse, Phase.generate))
def test_each_block_is_made_once(heads: int, blocks: int, programs: int, raster: int, seed: int) -> None:
    module, arguments = lowered_for(heads, blocks, programs, raster)
    found = run(module, arguments, seed)
    assert sorted(block for _, *block in found) == [[h, i] for h in range(heads) for i in range(blocks)]


@pytest.mark.parametrize(("raster", "order"), [
    (1, [(0, 3), (0, 2), (0, 1), (0, 0), (1, 3), (1, 2), (1, 1), (1, 0)]),
    (2, [(0, 3), (1, 3), (0, 2), (1, 2), (0, 1), (1, 1), (0, 0), (1, 0)]),
])  # fmt: skip
def test_the_longest_come_first(raster: int, order: list[tuple[int, int]]) -> None:
    """Head by head, or those of two heads together."""
    module, arguments = lowered_for(2, 4, 1, raster)
    assert [(head, block) for _, head, block in run(module, arguments, 0)] == order


def test_whoever_is_free_makes_the_next_block() -> None:
    """Who makes which block is not decided before: it differs between orders of threads, and results do not."""
    module, arguments = lowered_for(3, 4, 3, 1)
    shares = [tuple(sorted(run(module, arguments, seed))) for seed in range(4)]
    assert len(set(shares)) > 1
    assert all({program for program, *_ in share} == {0, 1, 2} for share in shares)


def test_the_counter_begins_anew_in_each_run() -> None:
    module, arguments = lowered_for(2, 3, 2, 1)
    assert len(run(module, arguments, 0)) == len(run(module, arguments, 1)) == 6


def test_who_loads_asks_for_the_next_block() -> None:
    module, _ = lowered_for(2, 2, 2, 1)
    (taken,) = [op for op in module.walk() if isinstance(op, Atomic)]
    role, counter = role_around(taken), taken.tensor.op
    assert role is not None
    assert role.threads == WARP
    assert isinstance(counter, Empty)
    assert counter.scratch
    assert counter.fill is not None
    assert constant_of(counter.fill) == 2  # each of the programs has its first block


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        ("m=64, n=64, k=64, 128 threads, 3 stages", "need programs that go through several"),
        ("m=128, n=64, k=64, 128 threads x 2, 3 stages, 5 programs", "the blocks of a cluster"),
    ],
)  # fmt: skip
def test_grids_that_are_not_for_it(plan: str, reason: str) -> None:
    with pytest.raises(TileResourceError, match=reason):
        lowered(product(), parse_plan(f"{plan}, 4x1 warps, from a counter, cooperative, aligned to 16/16/16"))
