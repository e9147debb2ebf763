"""Plans that are made when somebody asks for more than the best."""

from __future__ import annotations

from tiledsl.passes.gpu.plan import GridPlan, Plan
from tiledsl.passes.gpu.plans.plans_on_demand import PlansOnDemand

PLANS = [Plan((GridPlan(threads),)) for threads in (128, 256, 512)]


def test_the_others_are_made_once_and_only_when_they_are_wanted() -> None:
    asked: list[int] = []

    def every() -> list[Plan]:
        asked.append(1)
        return PLANS

    plans = PlansOnDemand(PLANS[0], every)
    assert plans[0] == PLANS[0]
    assert next(iter(plans)) == PLANS[0]
    assert plans.chained(True)[0].chained
    assert asked == []
    assert list(plans) == list(plans[:3]) == PLANS
    assert len(plans) == 3
    assert [plan.chained for plan in plans.chained(True)] == [True] * 3
    assert asked == [1]


def test_the_best_comes_first_and_once_wherever_it_stands_among_all() -> None:
    assert list(PlansOnDemand(PLANS[1], lambda: PLANS)) == [PLANS[1], PLANS[0], PLANS[2]]
