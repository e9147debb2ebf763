"""Prints what the emulator catches of all mutants: `python -m tests.support.mutants.mutant_table [hopper|lowered]`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples"))

from tests.support.gpu_cases.lowered_programs import lowered_programs
from tests.support.hopper.hopper_programs import wrapping_programs
from tests.support.mutants.mutant_survivors import Tally, judge, lines

GROUPS = {"hopper": wrapping_programs, "lowered": lowered_programs}


def main(names: list[str]) -> None:
    """One table for each group of programs."""
    for name in names or list(GROUPS):
        tally = Tally()
        programs = GROUPS[name]()
        for program in programs:
            judge(program, tally)
        print(f"{name}: {len(programs)} programs", *lines(tally), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
