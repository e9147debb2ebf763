"""Correct programs run in the emulator, whatever the order: nothing is said of them, and their numbers are right."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.gpu_cases.lowered_programs import lowered_programs
from tests.support.hopper.async_programs import async_programs
from tests.support.hopper.hopper_programs import hopper_programs
from tests.support.hopper.hopper_text import HopperProgram
from tiledsl.backend_ref.emulator.emulate import emulate
from tiledsl.ir.core import Function

SEEDS = (None, 0, 1, 2)
FEW = (0,)
"""Seeds for what is for devices: many programs, or large ones."""
LONG = ("again and again", "one after the other", "gemm_epilogue: 3 stages, 9 steps")


@pytest.mark.parametrize("program", [*hopper_programs(), *lowered_programs()], ids=str)
def test_program(program: HopperProgram) -> None:
    check(program, SEEDS)


@pytest.mark.parametrize(
    "program", [p for p in async_programs() if not p.name.startswith(LONG)], ids=str
)  # fmt: skip
def test_program_for_devices(program: HopperProgram) -> None:
    check(program, FEW)


def check(program: HopperProgram, seeds: tuple[int | None, ...]) -> None:
    """Runs a program by some seeds."""
    for seed in seeds:

        def run(function: Function, arguments: list[Any], seed: int | None = seed) -> tuple[Any, ...]:
            return emulate(function, arguments, seed=seed, output=lambda line: None).results

        program.check(run)
