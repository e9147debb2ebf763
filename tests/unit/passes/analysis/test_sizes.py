"""Sizes in the program, and what ops have effects."""

from __future__ import annotations

from tests.support.tile_programs import GEMM
from tiledsl.ir.symbolic import symbol
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.tile_ops import Dot, Grid, Load, Range, Size
from tiledsl.passes.analysis.effects import has_effect, tensors_written
from tiledsl.passes.analysis.sizes import blocks_in, constant_of, is_scalar, size_of, symbols_in

FUNCTION = parse_module(GEMM).entry
GRID = next(op for op in FUNCTION.walk() if isinstance(op, Grid))
RANGE = next(op for op in FUNCTION.walk() if isinstance(op, Range))


def test_blocks() -> None:
    blocks = list(blocks_in(FUNCTION).values())
    assert [(block.extent, str(block.total), block.op) for block in blocks] == [
        ("m", "M", GRID),
        ("n", "N", GRID),
        ("k", "K", RANGE),
    ]
    assert blocks[0].start is None
    assert blocks[2].start is RANGE.start


def test_sizes_of_scalars() -> None:
    assert size_of(GRID.stops[0]) == symbol("M")
    assert constant_of(GRID.stops[0]) is None
    assert constant_of(RANGE.start) == 0
    assert size_of(RANGE.initial[0]) is None


def test_symbols_that_ops_speak_of() -> None:
    found = {type(op): symbols_in(op) for op in FUNCTION.walk()}
    assert found[Load] == {"k", "n"}
    assert found[Dot] == {"m", "n"}
    assert found[Size] == {"K"}


def test_effects() -> None:
    empty = FUNCTION.body.ops[0]
    assert tensors_written([GRID]) == {empty.result}
    assert tensors_written([RANGE]) == frozenset()
    assert has_effect(GRID)
    assert not has_effect(RANGE)


def test_scalars() -> None:
    assert is_scalar(RANGE.start)
    assert not is_scalar(RANGE.result)
    assert not is_scalar(FUNCTION.parameters[0])
