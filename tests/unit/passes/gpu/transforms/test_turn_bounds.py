"""Bounds of integers in a loop, op by op."""

from __future__ import annotations

import pytest

from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Value
from tiledsl.ir.dtypes import i64
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.tile_ops import For
from tiledsl.passes.gpu.transforms.turn_bounds import Sum, TurnBounds

HEAD = """func @f(%m: i64, %stop: i64) {
  %0 = tile.constant() {value = 0, dtype = i64}
  %1 = tile.constant() {value = 1, dtype = i64}
  %16 = tile.constant() {value = 16, dtype = i64}
  tile.for(%0, %stop, %1, []) body(%n: i64) {
    %k = tile.map([%n, %16]) {fn = mul}
    %left = tile.map([%stop, %k]) {fn = sub}
"""
TAIL = """
    tile.yield([])
  }
  tile.return([])
}"""


def loop_of(body: str) -> tuple[For, dict[str, Value]]:
    module = parse_module(HEAD + body + TAIL)
    (loop,) = [op for op in module.walk() if isinstance(op, For)]
    values = {result.name: result for op in module.walk() for result in op.results}
    return loop, values | {value.name: value for value in module.entry.body.arguments}


def short(body: str, value: str, room: int = 0) -> list[tuple[int, int, list[tuple[str, int]]]] | None:
    """What `room - value` is at most: constants, turns, scalars by name."""
    loop, values = loop_of(body)
    bound = TurnBounds(loop).shortfall(values[value], room)
    return (
        None if bound is None else [(s.constant, s.turns, [(v.name, n) for v, n in s.scalars.items()]) for s in bound]
    )


def test_sums_and_multiples() -> None:
    assert short("", "left", 16) == [(16, 16, [("stop", -1)])]
    assert short("%v = tile.map([%left, %left]) {fn = add}", "v") == [(0, 32, [("stop", -2)])]
    assert short("%v = tile.map([%left, %left]) {fn = sub}", "v") == [(0, 0, [])]


def test_the_less_of_two_is_short_where_either_is() -> None:
    assert short("%v = tile.map([%left, %16]) {fn = minimum}", "v", 20) == [(20, 16, [("stop", -1)]), (4, 0, [])]


def test_the_greater_of_two_is_short_where_the_one_that_changes_is() -> None:
    assert short("%v = tile.map([%left, %16]) {fn = maximum}", "v", 20) == [(20, 16, [("stop", -1)])]


@pytest.mark.parametrize(
    ("body", "known"),
    [
        ("%v = tile.cast(%left) {dtype = i32}", False),  # may be more than it can hold
        ("%w = tile.map([%left, %16]) {fn = minimum} %v = tile.cast(%w) {dtype = i32}", True),
        ("%v = tile.map([%left, %16]) {fn = floordiv}", False),
        ("%v = tile.map([%left, %m]) {fn = mul}", False),
    ],
)
def test_what_is_not_known(body: str, known: bool) -> None:
    assert (short(body, "v") is not None) == known


def test_long_ways_are_not_followed() -> None:
    doubled = "".join(f"%v{n + 1} = tile.map([%v{n}, %v{n}]) {{fn = add}}\n" for n in range(40))
    assert short("%v0 = tile.map([%left, %1]) {fn = add}\n" + doubled, "v40") is None


def test_sums() -> None:
    loop, values = loop_of("")
    one = Sum(1, 2, {values["m"]: 3}).plus(Sum(1, -2, {values["m"]: -3, values["stop"]: 1}))
    assert one == Sum(2, 0, {values["stop"]: 1})
    assert not one.is_constant
    assert Sum(4).is_constant
    assert TurnBounds(loop).unless_positive(values["k"]) is None


@pytest.mark.parametrize(
    ("times", "constant", "turns", "first", "never"),
    [
        (1, -9, 0, 0, True),  # m - maximum(m - 9, 0) is at most 9
        (1, -8, 0, 0, False),
        (1, 7, -16, 1, True),
        (1, 8, -16, 1, False),
        (1, -20, 1, 0, False),  # grows
        (-1, -9, 0, 0, False),  # maximum(m - 9, 0) - m is 0 - m where m is small
    ],
)
def test_how_scalars_from_outside_are_computed_is_known(
    times: int, constant: int, turns: int, first: int, never: bool
) -> None:
    loop, values = loop_of("")
    build = Builder(Block(), loop.location)
    m, zero = values["m"], build.constant(0, i64)
    begin = build.map("maximum", build.map("sub", m, build.constant(9, i64)), zero)
    one = Sum(constant, turns, {m: times, begin: -times})
    assert TurnBounds(loop).is_never_positive(one, first) == never
