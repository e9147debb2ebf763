"""A program computes the same in blocks of any size, and in any order of its programs."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from tests.support.compare import assert_close
from tests.support.generators.random_modules import RandomProgram, ignore_output, tile_programs
from tiledsl.backend_ref.execute_tile import execute
from tiledsl.backend_ref.execution import BlockChooser
from tiledsl.ir.core import Op
from tiledsl.ir.types import BlockSize


def random_blocks(source: random.Random) -> BlockChooser:
    """Chooses every block anew, within its limits."""

    def choose(op: Op, axis: int, size: BlockSize) -> int:
        del op, axis
        return source.randint(1, 20) if size.kind == "auto" else size.unit * source.randint(1, size.size // size.unit)

    return choose


@given(tile_programs(), st.randoms(use_true_random=False))
def test_results_do_not_depend_on_blocks(program: RandomProgram, source: random.Random) -> None:
    function = program.module.entry
    expected = program.execute()
    blocks = random_blocks(source)
    actual = execute(function, program.arguments(), blocks=blocks, order=source, output=ignore_output)
    for got, want, tolerance in zip(actual, expected, program.tolerances):
        assert_close(got, want, relative=0, absolute=tolerance)
