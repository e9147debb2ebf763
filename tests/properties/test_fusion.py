"""Fused equals unfused equals the reference, for formulas like those of models, and however the search decides."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import tiledsl
from tests.support.compare import assert_close
from tests.support.generators.random_formulas import RandomFormula, formulas
from tiledsl.api.graphs.fused import FusedGraph
from tiledsl.api.graphs.grouping_workload import drawn_case
from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.ir.graph_ops import Call, Constant, Return
from tiledsl.ir.strided_views import VIEWS
from tiledsl.ir.text.parser import parse_module
from tiledsl.passes.graph.analysis.joins import JOINS
from tiledsl.passes.graph.analysis.limits import limits_of
from tiledsl.passes.graph.groups import ties
from tiledsl.passes.graph.groups.alternatives import alternatives
from tiledsl.passes.graph.groups.group import Group, Groups
from tiledsl.passes.graph.groups.price import Price, Prices
from tiledsl.passes.graph.kernels.kernel_plan import KernelPlan
from tiledsl.passes.graph.pipeline import after_groups
from tiledsl.passes.manager import Pass, PassContext, PassManager


def check(fused: FusedGraph, formula: RandomFormula, arch: str, tolerance: float) -> None:
    """The lowered graph gives what the traced one does."""
    graph = fused.graph
    lowered = fused.lowered(arch)
    assert all(isinstance(op, (Call, Constant, Return, *JOINS, *VIEWS)) for op in lowered.entry.body.ops)
    arrays: list[Any] = [formula.x, *graph.constants.values()]
    for actual, expected in zip(execute_graph(lowered.entry, arrays, lowered), graph(formula.x)):
        largest = max(1.0, float(np.max(np.abs(expected.astype(np.float64)), initial=0.0)))
        assert_close(actual, expected, relative=tolerance, absolute=tolerance * largest)


@given(formula=formulas())
@settings(max_examples=6, deadline=None)
def test_fused_formulas(formula: RandomFormula) -> None:
    note([step.__name__ for step in formula.steps])
    graph = tiledsl.trace(formula, formula.x)
    for arch in ("cpu", "sm_90"):
        check(tiledsl.fuse(graph), formula, arch, 2e-4)
    check(tiledsl.fuse(graph, fusion=False), formula, "cpu", 2e-4)


@given(formula=formulas(np.float16))
@settings(max_examples=6, deadline=None)
def test_fused_formulas_of_narrow_floats(formula: RandomFormula) -> None:
    note([step.__name__ for step in formula.steps])
    check(tiledsl.fuse(tiledsl.trace(formula, formula.x)), formula, "sm_90", 3e-2)


@given(formula=formulas(), seed=st.integers(0, 2**16))
@settings(max_examples=14, deadline=None)
def test_any_grouping_that_the_search_can_come_to(formula: RandomFormula, seed: int) -> None:
    """Prices by chance: every merge that is legal is made in some run, and left out in another."""
    note([step.__name__ for step in formula.steps])
    chance = random.Random(seed)

    def price(prices: Prices, plan: KernelPlan) -> Price:
        return Price(chance.random(), 0)

    graph = tiledsl.trace(formula, formula.x)
    with patch.object(Prices, "of", price):
        check(tiledsl.fuse(graph), formula, "cpu", 2e-4)


def _by_chance(chance: random.Random) -> Callable[[Prices, KernelPlan], Price]:
    """Prices from 1 to 2."""

    def price(prices: Prices, plan: KernelPlan) -> Price:
        del prices, plan
        return Price(1 + chance.random(), 0)

    return price


@given(formula=formulas(), seed=st.integers(0, 2**16))
@settings(max_examples=14, deadline=None)
def test_any_decision_that_measurements_can_come_to(formula: RandomFormula, seed: int) -> None:
    """Prices by chance, all of which are near ties, and what was measured by chance too."""
    note([step.__name__ for step in formula.steps])
    chance, graph = random.Random(seed), tiledsl.trace(formula, formula.x)
    with (
        patch.object(Prices, "of", _by_chance(chance)),
        patch.object(ties, "MARGIN", 9),
    ):
        fused = tiledsl.fuse(graph)
        before = fused.before_groups("cpu", {})
        assert before is not None
        groups = Groups(before.entry, limits_of("cpu"), "cpu", PassContext())
        groups.ties = {}
        groups.grow()
        groupings = {key: chance.random() < 0.5 for key in groups.ties}
        lowered = fused.lowered("cpu", context=PassContext(groupings=groupings))
    arrays: list[Any] = [formula.x, *graph.constants.values()]
    for actual, expected in zip(execute_graph(lowered.entry, arrays, lowered), graph(formula.x)):
        largest = max(1.0, float(np.max(np.abs(expected.astype(np.float64)), initial=0.0)))
        assert_close(actual, expected, relative=2e-4, absolute=2e-4 * largest)


@given(formula=formulas(), seed=st.integers(0, 2**16))
@settings(max_examples=14, deadline=None)
def test_the_two_ways_of_a_near_tie_are_graphs_of_their_own(formula: RandomFormula, seed: int) -> None:
    """What is measured of a tie has the ops that differ, and both ways give what these ops do."""
    note([step.__name__ for step in formula.steps])
    chance = random.Random(seed)
    before = tiledsl.fuse(tiledsl.trace(formula, formula.x)).before_groups("cpu", {})
    assert before is not None
    with (
        patch.object(Prices, "of", _by_chance(chance)),
        patch.object(ties, "MARGIN", 9),
    ):
        for one in alternatives(before, "cpu", PassContext()):
            assert one.chosen != one.other
            graph = parse_module(one.text)
            arrays: list[Any] = list(drawn_case(graph.entry).contents)
            wanted = execute_graph(graph.entry, arrays)
            for kernels in (one.chosen, one.other):
                passes: list[Pass] = [Group(kernels=kernels), *after_groups("cpu")]
                lowered = PassManager(passes).run(parse_module(one.text))
                for actual, expected in zip(execute_graph(lowered.entry, arrays, lowered), wanted):
                    assert_close(actual, expected, relative=2e-4, absolute=2e-3)


@pytest.mark.slow
@given(formula=formulas())
@settings(max_examples=40, deadline=None)
def test_built_formulas(formula: RandomFormula) -> None:
    note([step.__name__ for step in formula.steps])
    graph = tiledsl.trace(formula, formula.x)
    module = tiledsl.fuse(graph).build("cpu")
    for actual, expected in zip(module(formula.x), graph(formula.x)):
        assert_close(actual, expected, relative=2e-4, absolute=2e-4)
