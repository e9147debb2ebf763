"""Races that a mutation puts into random kernels are found when compiling and by a run; sound ones are left alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings

import tiledsl
from tests.support.generators.random_formulas import RandomFormula, formulas
from tests.support.generators.random_modules import RandomProgram, ignore_output, tile_programs
from tests.support.generators.random_races import MUTATIONS, RandomKernel, kernels
from tests.support.kernels.lowered_kernels import argument_for, lower
from tiledsl import TileRaceError
from tiledsl.backend_ref.check_tile import Checked, check
from tiledsl.ir.core import Module
from tiledsl.ir.text.printer import print_module
from tiledsl.ir.tile_ops import Grid
from tiledsl.passes.analysis.races import refuse_races


def lowered(kernel: RandomKernel) -> tuple[Module, list[Any]]:
    note(kernel.text)
    arguments = kernel.arguments()
    names = ["x", "w", *(f"p{axis}" for axis in range(len(kernel.shape)))]
    return lower(kernel.function, **{n: argument_for(a) for n, a in zip(names, arguments)}), arguments


def run(module: Module, arguments: list[Any]) -> Checked:
    found = check(module.entry, arguments)
    for error in found.findings.errors:
        note(str(error))
    return found


@given(kernel=kernels())
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_sound_kernels_are_left_alone(kernel: RandomKernel) -> None:
    module, arguments = lowered(kernel)
    refuse_races(module.entry)
    assert not run(module, arguments).findings


@given(program=tile_programs())
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_sound_programs_are_left_alone(program: RandomProgram) -> None:
    """Those on which passes are tested, whose results depend neither on blocks nor on the order of programs."""
    note(print_module(program.module))
    refuse_races(program.module.entry)
    found = check(program.module.entry, program.arguments(), output=ignore_output).findings
    assert found.codes <= {"check-outside"}


@given(kernel=kernels(MUTATIONS))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_races_are_found_when_compiling(kernel: RandomKernel) -> None:
    module, _ = lowered(kernel)
    with pytest.raises(TileRaceError):
        refuse_races(module.entry)


@given(kernel=kernels(MUTATIONS))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_races_are_found_by_a_run(kernel: RandomKernel) -> None:
    """If a later store hides what came of it, for these arguments, it is in the notes."""
    module, arguments = lowered(kernel)
    found = run(module, arguments)
    told = [*found.findings.codes, *(text for text in found.notes if "race: " in text)]
    assert any("race" in text for text in told)


@given(formula=formulas())
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_programs_of_formulas_are_sound(formula: RandomFormula) -> None:
    note([step.__name__ for step in formula.steps])
    lowered = tiledsl.fuse(tiledsl.trace(formula, formula.x)).lowered("cpu")
    for function in lowered.functions:
        if any(isinstance(op, Grid) for op in function.body.ops):
            refuse_races(function)
