"""Which loads go along quotients of coordinates, and what is counted of them."""

from __future__ import annotations

import pytest

from tiledsl.ir.core import Module
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.tile_ops import Load
from tiledsl.passes.analysis.quotients import quotient_of, repeated, repeats
from tiledsl.passes.nest.count_work import WorkCounts
from tiledsl.passes.nest.loop_nest import loop_nests

PROGRAM = """
func @f(%w: tensor<u8, [M, D], unit={unit}>) {{
  %out = tile.empty() {{shape = [M, K], dtype = u8}}
  %M = tile.size() {{value = M}}
  %K = tile.size() {{value = K}}
  tile.grid([%M, %K]) {{blocks = [16, 64]}} body(%m: axis<m>, %k: axis<k>) {{
    %i = tile.index(%k) : tile<i64, [k]>
    %by = tile.constant() {{value = {by}, dtype = i64}} : i64
    %at = tile.map([%i, %by]) {{fn = {fn}}} : tile<i64, [k]>
    %b = tile.load(%w, [%m, %at]) {{in_bounds = [{inside}]}} : tile<u8, [m, k]>
    tile.store(%out, [%m, %k], %b)
  }}
  tile.return([%out])
}}
"""


def program(unit: int = 1, by: int = 2, fn: str = "floordiv", inside: str = "1") -> Module:
    return parse_module(PROGRAM.format(unit=unit, by=by, fn=fn, inside=inside))


def load(unit: int = 1, by: int = 2, fn: str = "floordiv", inside: str = "1") -> Load:
    (found,) = [op for op in program(unit, by, fn, inside).walk() if isinstance(op, Load)]
    return found


def test_a_quotient() -> None:
    found = repeated(load())
    assert found is not None
    assert (found.block.name, found.divisor, repeats(load())) == ("k", 2, 2)


@pytest.mark.parametrize(
    "other",
    [
        {"unit": 0},  # neighbours are apart in memory
        {"by": 3},  # blocks would begin within a quotient
        {"by": 0},
        {"fn": "mul"},
        {"inside": ""},  # each element is checked by itself
    ],
    ids=str,
)
def test_others(other: dict[str, int | str]) -> None:
    assert repeated(load(**other)) is None  # pyright: ignore[reportArgumentType]
    assert repeats(load(**other)) == 1  # pyright: ignore[reportArgumentType]


def test_quotients_by_any_number_are_told() -> None:
    op = load(by=3)
    found = quotient_of(op.indices[1])
    assert found is not None
    assert found.divisor == 3
    assert quotient_of(op.indices[0]) is None


def test_each_element_counts_once() -> None:
    (nest,) = loop_nests(program(by=4).entry)
    counts = WorkCounts(nest, {"M": 32, "D": 64, "K": 256}, {"m": 16, "k": 64})
    (read,) = [access for access in nest.accesses if access.is_read]
    assert not read.gathers
    assert counts.moved(read).number == 32 * 64
