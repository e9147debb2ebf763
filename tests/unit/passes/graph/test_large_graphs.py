"""Graphs of thousands of ops: what the passes do grows with them, and no chain is too long."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tiledsl
from tiledsl import tile
from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Block, Op
from tiledsl.ir.dtypes import f32
from tiledsl.ir.types import TensorType
from tiledsl.passes.graph.groups import group
from tiledsl.passes.graph.groups.group_order import Between, GroupOrder
from tiledsl.passes.graph.kernels.group_program import GroupProgram
from tiledsl.passes.graph.kernels.kernel_plan import plan_kernel
from tiledsl.passes.graph.rewrites.materialise import MOST_SOURCES
from tiledsl.passes.manager import PassContext
from tiledsl.support.location import BUILTIN

ROW = tile.spec((1000,), tile.f32)


def waves(steps: int) -> Any:
    def formula(x: Any, v: Any) -> Any:
        for _ in range(steps):
            v = v - 0.25 * tile.sin(x)
            x = x + 0.25 * v
        return x, v

    return formula


def recurrent(steps: int) -> Any:
    def formula(x: Any, w: Any, h: Any) -> Any:
        for number in range(steps):
            h = tile.tanh(x[number] @ w + h @ w) * tile.sigmoid(h)
        return h

    return formula


def lowered(formula: Any, *specs: Any) -> tuple[Any, PassContext]:
    context = PassContext()
    return tiledsl.fuse(tiledsl.trace(formula, *specs)).lowered("cpu", context=context), context


def test_a_long_chain_is_cut_into_kernels_of_a_size() -> None:
    module, context = lowered(waves(200), ROW, ROW)
    calls = [op for op in module.entry.body.ops if isinstance(op, ops.Call)]
    assert len(calls) == -(-1000 // group.MOST_OPS)
    assert any(f"and {group.MOST_OPS} is the most" in remark.text for remark in context.remarks)


def test_a_gpu_has_more_maps_in_a_kernel() -> None:
    module = tiledsl.fuse(tiledsl.trace(waves(30), ROW, ROW)).lowered("sm_90")
    assert group.MOST_OPS < 5 * 30 < group.MOST_MAPS
    assert sum(isinstance(op, ops.Call) for op in module.entry.body.ops) == 1


def test_equal_steps_are_one_program() -> None:
    module, _ = lowered(
        recurrent(40), tile.spec((40, 8, 32), tile.f32), tile.spec((32, 32), tile.f32), tile.spec((8, 32), tile.f32)
    )
    assert len(module.functions) - 1 <= 4
    assert sum(isinstance(op, ops.Call) for op in module.entry.body.ops) >= 40


def test_equal_groups_become_programs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []
    build = GroupProgram.build

    def counted(program: GroupProgram, name: str) -> Any:
        built.append(name)
        return build(program, name)

    monkeypatch.setattr(GroupProgram, "build", counted)
    counts: list[int] = []
    for steps in (20, 60):
        built.clear()
        row = tile.spec((steps, 8, 32), tile.f32)
        lowered(recurrent(steps), row, tile.spec((32, 32), tile.f32), tile.spec((8, 32), tile.f32))
        counts.append(len(built))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("formula", [waves, recurrent])
def test_planning_grows_with_the_graph(formula: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ops that are looked at for plans, in a graph of twice the steps: no more than about twice as many."""
    seen: list[int] = []

    def counted(members: Any, *others: Any) -> Any:
        seen.append(len(members))
        return plan_kernel(members, *others)

    monkeypatch.setattr(group, "plan_kernel", counted)
    counts: list[int] = []
    for steps in (60, 120):
        seen.clear()
        row = tile.spec((steps, 8, 16), tile.f32)
        specs = (
            (row, tile.spec((16, 16), tile.f32), tile.spec((8, 16), tile.f32)) if formula is recurrent else (ROW, ROW)
        )
        lowered(formula(steps), *specs)
        counts.append(sum(seen))
    assert counts[1] <= 2.5 * counts[0]


def test_folds_of_long_chains() -> None:
    def formula(x: Any) -> Any:
        for _ in range(1500):
            x = x * 0.5 + 1.0
        return tile.sum(x)

    module, _ = lowered(formula, tile.spec((1 << 20,), tile.f32))
    assert len(module.functions) < 40


def maps(edges: list[list[int]]) -> list[Op]:
    """An op for each list, which reads the results of those."""
    block = Block()
    parameter = block.add_argument(TensorType(f32, (4,)), "x")
    for sources in edges:
        values = [block.ops[source].result for source in sources] or [parameter]
        block.append(ops.Map(BUILTIN, fn="fma", inputs=(values * 3)[:3]))
    return block.ops


@given(st.integers(0, 10_000))
def test_groups_are_joined_where_no_way_leads_out_and_back(seed: int) -> None:
    choose = random.Random(seed)
    edges = [sorted(choose.sample(range(n), min(n, choose.randrange(4)))) for n in range(14)]
    order = maps(edges)
    of = {op: number for number, op in enumerate(order)}
    members = {number: [op] for op, number in of.items()}
    groups = GroupOrder(order, of, members)
    for _ in range(20):
        if len(members) < 2:
            break
        some = choose.sample(sorted(members), 2)
        between = groups.between(some)
        assert isinstance(between, Between) == _is_convex(some, edges, [of[op] for op in order])
        if isinstance(between, Between):
            groups.join(some, between, min(some))
            ops_ = [op for number in some for op in members.pop(number)]
            of.update(dict.fromkeys(ops_, min(some)))
            members[min(some)] = ops_


def _is_convex(some: list[int], edges: list[list[int]], of: list[int]) -> bool:
    """Whether the groups stay without circles when two of them are one, by following every way."""
    joined = [min(some) if number in some else number for number in of]
    reads: dict[int, set[int]] = {number: set() for number in joined}
    for reader, sources in enumerate(edges):
        reads[joined[reader]] |= {joined[source] for source in sources} - {joined[reader]}
    while reads:
        free = [number for number, sources in reads.items() if not sources]
        if not free:
            return False
        for number in free:
            del reads[number]
        for sources in reads.values():
            sources.difference_update(free)
    return True


def test_many_tensors_are_joined_in_steps() -> None:
    def formula(x: Any) -> Any:
        return tile.concat([x[99 - number] for number in range(100)], axis=0)

    x: Any = np.arange(800, dtype=np.float32)
    x = x.reshape(100, 2, 4)
    graph = tiledsl.trace(formula, x)
    module = tiledsl.fuse(graph).build(arch="cpu")
    np.testing.assert_array_equal(module(x), x[::-1].reshape(200, 4))
    joining = [f for f in tiledsl.fuse(graph).lowered("cpu").functions if f.name.startswith("concat")]
    assert max(len(f.parameters) for f in joining) <= MOST_SOURCES


@pytest.mark.slow
def test_twenty_thousand_ops_are_built() -> None:
    def formula(x: Any) -> Any:
        for _ in range(10_000):
            x = x * 0.5 + 0.25
        return x

    graph = tiledsl.trace(formula, tile.spec((64,), tile.f32))
    module = tiledsl.fuse(graph).build(arch="cpu")
    x = np.linspace(0, 1, 64, dtype=np.float32)
    np.testing.assert_allclose(module(x), np.full(64, 0.5, np.float32), rtol=1e-6)
    assert len({kernel.source for kernel in module.kernels.values()}) <= 3  # equal groups are compiled once
