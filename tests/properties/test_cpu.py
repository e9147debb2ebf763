"""The CPU back end computes what the reference executor computes, on random programs and for any block sizes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.compare import assert_close
from tests.support.cpu_programs import run_module_on_cpu
from tests.support.generators.random_modules import RandomProgram, tile_programs
from tiledsl.backend_cpu.llvm import writer
from tiledsl.ir.text.printer import print_module
from tiledsl.passes.machine import host
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.pipelines import cpu_pipeline


@given(program=tile_programs(), block=st.sampled_from([1, 5, 16]), tiled=st.booleans(), outlined=st.booleans())
@settings(max_examples=20)
def test_random_programs(program: RandomProgram, block: int, tiled: bool, outlined: bool) -> None:
    """`outlined`: every loop nest is a function, as in programs of many loops."""
    expected = program.execute()
    module = program.module.clone()
    if tiled:
        module = PassManager(cpu_pipeline()).run(module, PassContext(host()))
    with pytest.MonkeyPatch.context() as patch:
        if outlined:
            patch.setattr(writer, "MOST_LOOPS", 0)
        actual = run_module_on_cpu(module, *program.arguments(), block=block)
    try:
        for got, want, tolerance in zip(actual, expected, program.tolerances):
            assert_close(got, want, relative=0, absolute=tolerance)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{print_module(module)}") from error
