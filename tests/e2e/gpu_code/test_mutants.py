"""The emulator bites: programs with one mistake each are caught, and correct ones are not.

By hand, over all programs, with a table: `python -m tests.support.mutants.mutant_table`.
"""

from __future__ import annotations

import pytest

from tests.support.gpu_cases.lowered_programs import lowered_programs
from tests.support.hopper.hopper_programs import wrapping_programs
from tests.support.hopper.hopper_text import HopperProgram
from tests.support.mutants.mutant_survivors import Tally, judge

BY_HAND = 3
COMPILED = 12
"""One in so many programs is tried here: the mutants of the others are much alike."""


@pytest.mark.slow
@pytest.mark.parametrize("program", [*wrapping_programs()[::BY_HAND], *lowered_programs()[::COMPILED]], ids=str)
def test_mutants(program: HopperProgram) -> None:
    tally = Tally()
    judge(program, tally)
    assert not tally.missed
    assert not tally.false_alarms
    assert sum(tally.caught.values()) > 5
