"""GPU IR computes what the TILE program computes that it was made of, on random programs."""

from __future__ import annotations

from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

from tests.support.compare import assert_close
from tests.support.generators.random_modules import RandomProgram, tile_programs
from tests.support.gpu_code.gpu_lowering import lowered, plans_for, run_as_launched
from tiledsl.ir.text.printer import print_module
from tiledsl.support.errors import TileResourceError

ARCHITECTURES = st.sampled_from(["sm_80", "sm_90"])


@given(program=tile_programs(), arch=ARCHITECTURES, data=st.data())
@settings(max_examples=24)
def test_random_programs(program: RandomProgram, arch: str, data: st.DataObject) -> None:
    check(program, arch, data)


@given(program=tile_programs(max_steps=4, extents=(33, 5, 70, 17, 1)), arch=ARCHITECTURES, data=st.data())
@settings(max_examples=20)
def test_random_programs_on_larger_arrays(program: RandomProgram, arch: str, data: st.DataObject) -> None:
    assume(program.largest() <= 10_000)
    check(program, arch, data)


def check(program: RandomProgram, arch: str, data: st.DataObject) -> None:
    """Holds one of the plans for the program against the reference."""
    expected = program.execute()
    placed, plans = plans_for(program.module, program.arguments(), arch)
    plan = data.draw(st.sampled_from(plans))
    try:
        module = lowered(placed, plan, arch)
    except TileResourceError:
        reject()  # such a plan is left for the next one
    try:
        actual = run_as_launched(module.entry, program.arguments(), seed=data.draw(st.integers(0, 99)))
        for got, want, tolerance in zip(actual, expected, program.tolerances):
            assert_close(got, want, relative=0, absolute=tolerance)
    except Exception as error:
        raise AssertionError(f"{error}\nplan: {plan}\n{print_module(module)}") from error
