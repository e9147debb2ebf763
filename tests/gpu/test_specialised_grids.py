"""Grids whose blocks have roles, on a device: each of the plans, launched several times."""

from __future__ import annotations

import pytest

from tests.e2e.test_gpu_plans import module_of
from tests.support.gpu_cases import Outcome, assert_same, expected
from tests.support.gpu_lowering import lowered, plans_for
from tests.support.hopper_text import arrays_of
from tests.support.run_gpu_ir import CompiledIr
from tests.support.specialised_cases import SPECIALISED_CASES, PlannedCase

LAUNCHES = 3


@pytest.mark.parametrize("planned", SPECIALISED_CASES, ids=str)
def test_specialised_grid(planned: PlannedCase) -> None:
    case = planned.case
    arguments = case.arguments()
    placed, _ = plans_for(module_of(case, arguments), arguments)
    returned = CompiledIr(lowered(placed, planned.plan)).run(arguments, LAUNCHES)
    assert_same(case, Outcome(tuple(returned), tuple(arrays_of(arguments))), expected(case))
