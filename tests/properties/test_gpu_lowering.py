"""GPU IR computes what the TILE program computes that it was made of, on random programs."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.compare import assert_close
from tests.support.gpu_lowering import lowered, plans_for, run_as_launched
from tests.support.random_modules import RandomProgram, tile_programs
from tiledsl.ir.printer import print_module


@given(program=tile_programs(), arch=st.sampled_from(["sm_80", "sm_90"]), data=st.data())
@settings(max_examples=40)
def test_random_programs(program: RandomProgram, arch: str, data: st.DataObject) -> None:
    expected = program.execute()
    placed, plans = plans_for(program.module, program.arguments(), arch)
    plan = data.draw(st.sampled_from(plans))
    module = lowered(placed, plan, arch)
    try:
        actual = run_as_launched(module.entry, program.arguments())
        for got, want, tolerance in zip(actual, expected, program.tolerances):
            assert_close(got, want, relative=0, absolute=tolerance)
    except Exception as error:
        raise AssertionError(f"{error}\nplan: {plan}\n{print_module(module)}") from error
