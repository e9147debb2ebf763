"""Sums that are added up in parts are the same sums, by the reference executor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.compare import assert_close
from tests.support.generators.random_modules import RandomProgram, tile_programs
from tests.support.generators.random_rescaled import RandomRescaled, random_rescaled
from tests.support.generators.random_sums import RandomSum, random_sums
from tests.support.gpu_code.gpu_lowering import lowered, plans_for, run_as_launched
from tiledsl.backend_ref.execute_tile import execute
from tiledsl.ir.core import Module
from tiledsl.ir.text.printer import print_module
from tiledsl.ir.tile_ops import Grid
from tiledsl.passes.gpu.plan import Plan
from tiledsl.passes.gpu.plans.split_candidates import program_of
from tiledsl.passes.machine import MACHINES
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.pipelines import gpu_front_pipeline
from tiledsl.passes.tile.loops.split_sums import SplitSums


@given(program=random_sums(), parts=st.integers(2, 5), unit=st.integers(1, 12), placed=st.booleans())
@settings(max_examples=120)
def test_sums_in_parts_are_the_same_sums(program: RandomSum, parts: int, unit: int, placed: bool) -> None:
    passes = gpu_front_pipeline() if placed else []
    split = PassManager([*passes, SplitSums((parts,), unit)]).run(program.module)
    assert sum(isinstance(op, Grid) for op in split.entry.body.ops) == 2, print_module(split)
    expected = execute(program.module.entry, program.arguments())
    for actual, wanted in zip(execute(split.entry, program.arguments()), expected):
        assert actual.tobytes() == wanted.tobytes(), print_module(split)


@given(program=random_sums(lengths=(300,)), parts=st.integers(2, 3), arch=st.sampled_from(["sm_80", "sm_90"]))
@settings(max_examples=4)
def test_plans_of_the_parts_are_right_in_the_emulator(program: RandomSum, parts: int, arch: str) -> None:
    arguments = program.arguments()
    placed = PassManager(gpu_front_pipeline()).run(program.module)
    split = program_of(placed.entry, Plan((), parts=(parts,)))
    _, (plan, *_) = plans_for(Module([split]), arguments, arch)
    function = lowered(placed, replace(plan, parts=(parts,)), arch).entry
    expected = execute(program.module.entry, program.arguments())
    for actual, wanted in zip(run_as_launched(function, arguments), expected):
        assert np.array_equal(actual, wanted), f"{plan}\n{print_module(placed)}"


@given(program=tile_programs())
@settings(max_examples=20)
def test_whatever_else_a_grid_does_happens_as_before(program: RandomProgram) -> None:
    before: list[str] = []
    after: list[str] = []
    expected = program.execute(output=before.append)
    split = PassManager([SplitSums((3, 2), 4)]).run(program.module, PassContext(MACHINES["avx2"]))
    actual = program.with_module(split).execute(output=after.append)
    for got, want, tolerance in zip(actual, expected, program.tolerances):
        assert_close(got, want, relative=0, absolute=tolerance)
    assert after == before


@given(program=random_rescaled(), parts=st.integers(2, 5), unit=st.integers(1, 12), placed=st.booleans())
@settings(max_examples=120)
def test_sums_relative_to_an_extremum_are_the_same_sums(
    program: RandomRescaled, parts: int, unit: int, placed: bool
) -> None:
    passes = gpu_front_pipeline() if placed else []
    context = PassContext()
    split = PassManager([*passes, SplitSums((parts,), unit)]).run(program.module, context)
    assert sum(isinstance(op, Grid) for op in split.entry.body.ops) == 2, context.remarks
    expected = execute(program.module.entry, program.arguments())
    for actual, wanted in zip(execute(split.entry, program.arguments()), expected):
        assert np.isfinite(wanted).all()
        assert_close(actual, wanted, relative=1e-4, absolute=1e-4)
