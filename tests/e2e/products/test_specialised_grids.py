"""Grids whose blocks have roles compute the same as all threads alike, in the emulator, and compile without a warning.

The emulator finds races, waits that never end, arrivals that do not fit and missing fences, whatever the order is.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.e2e.gpu_code.test_gpu_plans import module_of
from tests.support.gpu_cases.fused_cases import FUSED_CASES
from tests.support.gpu_cases.gpu_cases import assert_same, expected, outcome
from tests.support.gpu_cases.shares import share
from tests.support.gpu_cases.specialised_cases import SPECIALISED_CASES, PlannedCase
from tests.support.gpu_code.gpu_lowering import lowered, plans_for, run_as_launched
from tiledsl.backend_cuda.build.gate import refusals
from tiledsl.backend_cuda.build.nvrtc import compile_cubin
from tiledsl.backend_cuda.emit.emit_program import emit_program
from tiledsl.ir.core import Module
from tiledsl.ir.gpu.async_ops import Role, Wgmma

SEEDS = (None, 0, 1)
"""None: threads in step."""


def lowered_case(planned: PlannedCase) -> Module:
    arguments = planned.case.arguments()
    placed, _ = plans_for(module_of(planned.case, arguments), arguments)
    return lowered(placed, planned.plan)


@pytest.mark.parametrize("planned", share([*SPECIALISED_CASES, *FUSED_CASES], 4), ids=str)
def test_in_the_emulator(planned: PlannedCase) -> None:
    module = lowered_case(planned)
    kinds = {type(op) for op in module.walk()}
    assert Role in kinds
    assert Wgmma in kinds
    wanted = expected(planned.case)
    for seed in SEEDS:
        changed = planned.case.arguments()
        returned = run_as_launched(module.entry, changed, seed=seed)
        actual = outcome(returned, changed, lambda value: isinstance(value, np.ndarray), np.asarray)
        assert_same(planned.case, actual, wanted)


def test_rows_that_are_not_loaded_hold_nothing() -> None:
    """A plan that leaves out rows which the product does have: the emulator makes them NaN."""
    planned = next(one for one in SPECIALISED_CASES if one.plan.grids[0].rows == 16 and "13x" in one.case.name)
    wrong = replace(planned, plan=replace(planned.plan, grids=(replace(planned.plan.grids[0], rows=8),)))
    (result,) = run_as_launched(lowered_case(wrong).entry, planned.case.arguments())
    holds = ~np.isnan(result.astype(np.float32))
    assert holds[:8].all()
    assert not holds[8:].any()


@pytest.mark.parametrize("planned", share([*SPECIALISED_CASES, *FUSED_CASES], 3), ids=str)
def test_compiles_without_spills_or_warnings(planned: PlannedCase) -> None:
    source = emit_program(lowered_case(planned), 90)
    assert refusals(compile_cubin(source.text, "sm_90", "kernel")) == []
