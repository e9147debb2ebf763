"""Plans of variants that are kept: nothing of one is lost on the way to disk and back."""

from __future__ import annotations

import json

from hypothesis import given

from tests.unit.passes.gpu.test_plan import PLANS
from tiledsl.backend_cuda.build.stored_variant import plan_from_json, plan_to_json
from tiledsl.passes.gpu.plan import Plan


@given(PLANS)
def test_plans_come_back(plan: Plan) -> None:
    assert plan_from_json(json.loads(json.dumps(plan_to_json(plan)))) == plan
