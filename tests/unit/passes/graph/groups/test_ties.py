"""Near ties of groups: what they are known by, what measurements decide, and what else a graph may become."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tiledsl.ir.graph_ops import Call
from tiledsl.ir.text.parser import parse_module
from tiledsl.passes.graph.analysis.limits import limits_of
from tiledsl.passes.graph.groups import ties
from tiledsl.passes.graph.groups.alternatives import alternatives, connected
from tiledsl.passes.graph.groups.group import Group, Groups
from tiledsl.passes.graph.groups.price import Price, Prices
from tiledsl.passes.graph.groups.ties import Tie, is_near
from tiledsl.passes.graph.kernels.kernel_plan import KernelPlan
from tiledsl.passes.manager import PassContext

ONE = """
func @layer(%x: tensor<f32, [64, 64]>, %w: tensor<f32, [64, 64]>) {
  %p = graph.contract(%x, %w) {axes = "m k, k n -> m n", dtype = f32}
  %q = graph.map([%p]) {fn = exp}
  graph.return([%q])
}
"""
TWICE = """
func @layers(%a: tensor<f32, [64, 64]>, %w: tensor<f32, [64, 64]>) {
  %b = graph.contract(%a, %w) {axes = "m k, k n -> m n", dtype = f32}
  %c = graph.map([%b]) {fn = exp}
  %i = graph.reduce(%c) {axes = [0], fn = add, keepdims = false}
  %d = graph.contract(%c, %w) {axes = "m k, k n -> m n", dtype = f32}
  %e = graph.map([%d]) {fn = exp}
  graph.return([%e, %i])
}
"""

BESIDE = """
func @layers(%a: tensor<f32, [64, 64]>, %c: tensor<f32, [64, 64]>, %w: tensor<f32, [64, 64]>) {
  %b = graph.contract(%a, %w) {axes = "m k, k n -> m n", dtype = f32}
  %e = graph.map([%b]) {fn = exp}
  %d = graph.contract(%c, %w) {axes = "m k, k n -> m n", dtype = f32}
  %f = graph.map([%d]) {fn = exp}
  graph.return([%e, %f])
}
"""


@pytest.fixture
def prices(monkeypatch: pytest.MonkeyPatch) -> dict[int, float]:
    """Seconds of a kernel by how many ops it has."""
    seconds = {1: 1.0, 2: 2.1, 3: 9.0, 4: 9.0, 5: 9.0}

    def price(self: Prices, plan: KernelPlan) -> Price:
        return Price(seconds[len(plan.outlined.function.body.ops) - 1], 0)

    monkeypatch.setattr(Prices, "of", price)
    monkeypatch.setattr("tiledsl.passes.graph.groups.group.ALIKE", 1.0)
    return seconds


def ties_of(text: str) -> list[Tie]:
    groups = Groups(parse_module(text).entry, limits_of("cpu"), "cpu", PassContext())
    groups.ties = {}
    groups.grow()
    return list(groups.ties.values())


def kernels(text: str, groupings: Mapping[str, bool], remarks: list[str] | None = None) -> int:
    context = PassContext(groupings=groupings)
    module = Group().run(parse_module(text), context)
    if remarks is not None:
        remarks += [remark.text for remark in context.remarks]
    return sum(isinstance(op, Call) for op in module.entry.body.ops)


def test_what_was_measured_decides_a_near_tie(prices: dict[int, float]) -> None:
    (tie,) = ties_of(ONE)
    assert (tie.joined, tie.together, tie.apart, tie.words) == (False, 2.1, 2.0, "map with contract")
    said: list[str] = []
    assert kernels(ONE, {}) == 2
    assert kernels(ONE, {tie.key: True}, said) == 1
    assert any("measured to be faster in one: 2100000.0 us in one, 2000000.0 us in two" in text for text in said)
    prices[2] = 1.9
    assert kernels(ONE, {}) == 1
    said.clear()
    assert kernels(ONE, {tie.key: False}, said) == 2
    assert any("that was measured, and is slower in one" in text for text in said)


def test_where_prices_are_certain_nothing_else_counts(prices: dict[int, float]) -> None:
    (tie,) = ties_of(ONE)
    prices[2] = 2 * ties.MARGIN + 0.01
    assert ties_of(ONE) == []
    assert kernels(ONE, {tie.key: True}) == 2
    prices[2] = 2 / ties.MARGIN - 0.01
    assert kernels(ONE, {tie.key: False}) == 1
    assert [is_near(1.0, 1.05), is_near(1.0, 1.07), is_near(1.07, 1.0), is_near(1.0, 0.0)] == [
        True,
        False,
        False,
        False,
    ]


def test_a_tie_is_known_by_its_ops_wherever_they_are(prices: dict[int, float]) -> None:
    del prices
    (tie,) = ties_of(ONE)
    renamed = ONE.replace("%p", "%other").replace("@layer", "@f")
    assert [other.key for other in ties_of(renamed)] == [tie.key]
    assert [other.key for other in ties_of(ONE.replace("exp", "neg"))] != [tie.key]
    assert [other.key for other in ties_of(ONE.replace("64", "32"))] != [tie.key]
    assert tie.key in {other.key for other in ties_of(TWICE)}


def test_the_other_decision_is_a_graph_of_the_ops_that_differ(prices: dict[int, float]) -> None:
    del prices
    (one,) = alternatives(parse_module(ONE), "cpu", PassContext())
    assert (one.chosen, one.other, one.seconds, one.places) == ("0 | 1", "0 1", (2.0, 2.1), 1)
    (again,) = alternatives(parse_module(BESIDE), "cpu", PassContext())
    assert (again.places, again.chosen, again.other) == (2, "0 | 1", "0 1")
    assert alternatives(parse_module(ONE), "cpu", PassContext(), {one.tie.key}) == []
    assert alternatives(parse_module(ONE), "cpu", PassContext(groupings={one.tie.key: True})) == []


def test_results_that_others_read_are_results_of_the_graph(prices: dict[int, float]) -> None:
    del prices
    found = alternatives(parse_module(TWICE), "cpu", PassContext())
    first = next(one for one in found if one.other == "0 1")
    assert len(parse_module(first.text).entry.body.ops[-1].operands) == 1


def test_given_kernels_are_made(prices: dict[int, float]) -> None:
    del prices
    module = Group(kernels="0 1").run(parse_module(ONE), PassContext())
    assert [len(function.body.ops) for function in module.functions[1:]] == [3]
    module = Group(kernels="0 | 1").run(parse_module(ONE), PassContext())
    assert [len(function.body.ops) for function in module.functions[1:]] == [2, 2]


def test_what_may_be_gained_is_more_where_the_model_is_less_sure() -> None:
    near, far = Tie("a", True, 0.99, 1.0, ""), Tie("b", True, 0.96, 1.0, "")
    assert near.doubt > far.doubt > 0
    assert Tie("c", False, 1.01, 1.0, "").doubt > Tie("d", False, 1.04, 1.0, "").doubt > 0


def test_groups_that_share_ops_are_one_region() -> None:
    a, b, c, d = parse_module(TWICE).entry.body.ops[:4]
    found = connected([frozenset({a}), frozenset({b, c}), frozenset({a, b}), frozenset({d})])
    assert sorted(map(len, found)) == [1, 3]
