"""The programs made of kernels are legal, and compute what their kernels do."""

from __future__ import annotations

import pytest

from tests.support.gpu_cases.lowered_programs import lowered_programs
from tests.support.gpu_code.gpu_lowering import run_as_launched
from tests.support.hopper.hopper_text import HopperProgram
from tiledsl.ir.gpu.gpu_ops import Barrier, Copy, Launch, Reduce, Scan
from tiledsl.ir.verifier import Form, verify


@pytest.mark.parametrize("program", lowered_programs(), ids=str)
def test_results(program: HopperProgram) -> None:
    verify(program.module, Form.GPU)
    program.check(run_as_launched, seed=1)


def test_what_they_use() -> None:
    names = [program.name for program in lowered_programs()]
    assert len(set(names)) == len(names)
    ops = [op for program in lowered_programs() for op in program.module.walk()]
    assert {type(op) for op in ops} >= {Barrier, Copy, Reduce, Scan}
    assert any(isinstance(op, Launch) and op.cluster > 1 for op in ops)
