"""The programs for Hopper are legal, are read back from their text, and ask for what they say."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.hopper.hopper_programs import hopper_programs, wrapping_programs
from tests.support.hopper.hopper_text import HopperProgram
from tiledsl.backend_ref.arguments import bind_arguments
from tiledsl.ir.compare import same_module
from tiledsl.ir.gpu.async_ops import (
    BulkWait,
    MbarrierWait,
    NamedBarrier,
    ProxyFence,
    Role,
    TmaLoad,
    TmaStore,
    WgmmaWait,
)
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.text.printer import print_module
from tiledsl.ir.verifier import Form, verify

PROGRAMS = pytest.mark.parametrize("program", hopper_programs(), ids=str)


@PROGRAMS
def test_legal(program: HopperProgram) -> None:
    verify(program.module, Form.GPU)


@PROGRAMS
def test_text(program: HopperProgram) -> None:
    assert same_module(parse_module(print_module(program.module)), program.module, locations=False)


@PROGRAMS
def test_arguments(program: HopperProgram) -> None:
    arguments = program.arguments(np.random.default_rng(0))
    bind_arguments(program.module.entry, arguments)
    again = program.arguments(np.random.default_rng(0))
    for one, other in zip(arguments, again):
        np.testing.assert_array_equal(one, other)
    outcome = program.expected(arguments)
    assert np.any(np.asarray(outcome.returned[0], np.float32) != 0)


def test_names() -> None:
    names = [program.name for program in hopper_programs()]
    assert len(set(names)) == len(names)
    assert len(wrapping_programs()) > len(names) // 3


def test_what_they_use() -> None:
    used = {type(op) for program in wrapping_programs() for op in program.module.walk()}
    assert used >= {Role, MbarrierWait, TmaLoad, TmaStore, WgmmaWait, BulkWait, ProxyFence, NamedBarrier}


def test_check() -> None:
    program = hopper_programs()[0]
    right = program.expected(program.arguments(np.random.default_rng(0))).returned
    program.check(lambda function, arguments: right)
    with pytest.raises(AssertionError, match="elements of bfloat16"):
        program.check(lambda function, arguments: [right[0] + right[0]])
