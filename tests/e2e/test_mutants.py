"""The emulator bites: programs with one mistake each are caught, and correct ones are not.

By hand, over all programs, with a table: `python -m tests.support.mutant_table`.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from _pytest.mark import ParameterSet

from tests.support.hopper_programs import wrapping_programs
from tests.support.hopper_text import HopperProgram
from tests.support.lowered_programs import lowered_programs
from tests.support.mutant_survivors import Tally, judge

QUICK = 3
"""One in so many programs in hand-written IR is tried in quick runs, too."""
LOWERED = 6
"""One in so many programs that the compiler made is tried: their mutants are much alike."""


def some(programs: Sequence[HopperProgram], every: int) -> list[ParameterSet]:
    """All programs; those that are not tried in quick runs are marked as slow."""
    return [
        pytest.param(program, id=program.name, marks=() if number % every == 0 else (pytest.mark.slow,))
        for number, program in enumerate(programs)
    ]


@pytest.mark.parametrize("program", [*some(wrapping_programs(), QUICK), *some(lowered_programs()[::LOWERED], 1)])
def test_mutants(program: HopperProgram) -> None:
    tally = Tally()
    judge(program, tally)
    assert not tally.missed
    assert not tally.false_alarms
    assert sum(tally.caught.values()) > 5
