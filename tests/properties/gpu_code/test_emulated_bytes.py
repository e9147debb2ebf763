"""Bytes that are counted from a program are those that its GPU code asks for in the emulator."""

from __future__ import annotations

from hypothesis import given, settings

from tests.support.generators.random_modules import RandomProgram, tile_programs
from tests.support.gpu_code.emulated_work import bytes_by_plan


@given(program=tile_programs())
@settings(max_examples=15, deadline=None)
def test_random_programs(program: RandomProgram) -> None:
    """Loads whose values nobody needs once sizes are known are counted, but not made."""
    for plan, counted, exact, moved in bytes_by_plan(program.module, program.arguments(), 1):
        if exact:
            assert moved[0] <= counted[0], plan
            assert moved[1] == counted[1], plan
