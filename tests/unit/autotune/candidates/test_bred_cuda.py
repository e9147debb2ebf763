"""Plans for GPUs, bred among those that the model has ranked; and given up where none is likely to win."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from benchmarks.search.gpu_landscape import LEAST_CHANCE, space, table
from tiledsl.autotune.candidates.bred_cuda import MOST_APART, BredCudaPlans, decisions_of
from tiledsl.autotune.candidates.evolve import Breeder
from tiledsl.passes.gpu.plan import parse_plan


@cache
def seconds() -> dict[str, float]:
    return space(2000, 1000, 3000).seconds


def bred() -> BredCudaPlans:
    return BredCudaPlans(seconds())


def test_mutated_plans_differ_by_few_decisions_and_are_ranked() -> None:
    for plan in seconds():
        own = decisions_of(parse_plan(plan))
        for other in bred().mutated(plan):
            theirs = decisions_of(parse_plan(other))
            assert other in seconds()
            assert 0 < sum(own.get(name) != theirs.get(name) for name in {*own, *theirs}) <= MOST_APART
    assert any(list(bred().mutated(plan)) for plan in seconds())


def test_crossed_plans_have_each_decision_of_either() -> None:
    plans = list(seconds())
    crossed = 0
    for one in plans:
        for other in plans:
            for child in bred().crossed(one, other):
                first, second = (decisions_of(parse_plan(parent)) for parent in (one, other))
                for name, value in decisions_of(parse_plan(child)).items():
                    assert value in (first[name], second[name])
                assert child not in (one, other)
                crossed += 1
    assert crossed > 0


def test_terms_tell_plans_apart_and_are_as_many_for_a_plan_that_nobody_has_ranked() -> None:
    terms = {plan: bred().terms(plan) for plan in seconds()}
    assert len(set(terms.values())) == len(terms)
    stranger = "m=16, n=16, k=16, 64 threads, 3 stages"
    assert {len(found) for found in terms.values()} == {len(bred().terms(stranger))}
    assert bred().predicted(stranger) == 0.0
    assert list(bred().mutated(stranger)) == []


def timed(count: int, error: float) -> dict[str, float]:
    """The first plans as the model has them, but for an error in turns."""
    ranked = sorted(seconds().items(), key=lambda one: one[1])[:count]
    return {plan: time * (1 + error * (-1) ** number) for number, (plan, time) in enumerate(ranked)}


def test_where_the_model_is_right_nothing_more_is_tried() -> None:
    found = timed(8, 0.0)
    assert Breeder(bred()).next(found, (), 12)
    assert Breeder(bred(), least_chance=LEAST_CHANCE).next(found, (), 12) == []


def test_where_the_model_is_wrong_more_is_tried() -> None:
    found = timed(8, 0.3)
    tried = Breeder(bred(), least_chance=LEAST_CHANCE).next(found, (), 12)
    assert tried
    assert {one.plan for one in tried} <= {one.plan for one in Breeder(bred()).next(found, (), 100)}


@pytest.mark.parametrize("count", [1, 3])
def test_few_samples_give_nothing_up(count: int) -> None:
    found = timed(count, 0.0)
    given_up = Breeder(bred(), least_chance=0.99).next(found, (), 100)
    assert [one.plan for one in given_up] == [one.plan for one in Breeder(bred()).next(found, (), 100)]


def test_a_plan_that_the_model_has_no_opinion_of_may_be_a_parent_of_none() -> None:
    stranger: Any = "m=16, n=16, k=16, 64 threads, 3 stages"
    found = {stranger: min(seconds().values()) / 2, **timed(8, 0.0)}
    assert Breeder(bred(), least_chance=LEAST_CHANCE).next(found, (), 12) == []


def test_the_landscape_of_a_gpu() -> None:
    head, row = table([(512, 512, 512)], spreads=(0.08,), machines=3)
    assert len(head) == len(row)
    every, at_once, first = map(float, row[2:5])
    assert every >= at_once >= 1.0
    assert every >= first >= 1.0
    assert float(row[5]) < 20
