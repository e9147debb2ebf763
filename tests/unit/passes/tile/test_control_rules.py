"""Branches and loops that are decided, at their edges."""

from __future__ import annotations

import pytest

from tests.support.pass_runs import ops_after, scalar_program

ZERO = "%zero = tile.constant() {value = 0, dtype = i64}"
PARAMETERS = "%t: tensor<f32, [M]>, %n: i64, %x: f32, %y: f32, %b: bool"


def after(*lines: str, pipeline: str = "canonicalise,dce") -> list[str]:
    return ops_after(pipeline, scalar_program(PARAMETERS, "\n".join(lines), "r"))


def loop(start: str, stop: str, step: str = "one") -> list[str]:
    return [
        ZERO,
        "%one = tile.constant() {value = 1, dtype = i64}",
        "%minus = tile.constant() {value = -1, dtype = i64}",
        "%M = tile.size() {value = M}",
        "%M1 = tile.size() {value = M + 1}",
        f"%r = tile.for(%{start}, %{stop}, %{step}, [%x]) body(%i: i64, %c: f32) {{",
        "%next = tile.map([%c]) {fn = exp}",
        "tile.yield([%next])",
        "}",
    ]


@pytest.mark.parametrize(
    ("start", "stop", "step"),
    [("one", "one", "one"), ("M1", "M", "one"), ("zero", "M", "minus"), ("one", "zero", "one")],
)
def test_loops_of_no_turns_vanish(start: str, stop: str, step: str) -> None:
    assert after(*loop(start, stop, step)) == []


@pytest.mark.parametrize(
    ("start", "stop", "step"),
    [("zero", "M", "one"), ("M", "M1", "n"), ("M", "M1", "one"), ("zero", "n", "one"), ("zero", "one", "zero")],
)
def test_loops_that_may_turn_stay(start: str, stop: str, step: str) -> None:
    assert any("tile.for" in line for line in after(*loop(start, stop, step)))


@pytest.mark.parametrize(("start", "stop", "step"), [("zero", "one", "one"), ("one", "zero", "minus")])
def test_a_single_turn_is_written_out(start: str, stop: str, step: str) -> None:
    assert after(*loop(start, stop, step)) == ["%next = tile.map([%x]) {fn = exp} : f32"]


def test_a_loop_that_swaps_its_values_stays() -> None:
    lines = after(
        ZERO,
        "%one = tile.constant() {value = 1, dtype = i64}",
        "%r, %s = tile.for(%zero, %n, %one, [%x, %y]) body(%i: i64, %c: f32, %d: f32) { tile.yield([%d, %c]) }",
    )
    assert any("tile.yield([%d, %c])" in line for line in lines)


def test_a_while_that_is_false_from_the_start() -> None:
    lines = after(
        "%r = tile.while([%x]) condition(%c: f32) {",
        "%never = tile.constant() {value = false, dtype = bool}",
        "tile.yield([%never])",
        "} body(%d: f32) {",
        "%e = tile.map([%d]) {fn = exp}",
        "tile.yield([%e])",
        "}",
    )
    assert lines == []


def test_a_carried_value_that_only_the_condition_reads_stays() -> None:
    lines = after(
        ZERO,
        "%s, %r = tile.while([%n, %x]) condition(%c: i64, %u: f32) {",
        "%more = tile.map([%c, %zero]) {fn = gt}",
        "tile.yield([%more])",
        "} body(%d: i64, %v: f32) {",
        "%one = tile.constant() {value = 1, dtype = i64}",
        "%less = tile.map([%d, %one]) {fn = sub}",
        "%w = tile.map([%v]) {fn = exp}",
        "tile.yield([%less, %w])",
        "}",
    )
    assert any("tile.while([%n, %x])" in line for line in lines)


def test_a_grid_of_no_programs_vanishes() -> None:
    lines = after(
        "%r = tile.constant() {value = 0, dtype = i64}",
        "%M = tile.size() {value = M}",
        "tile.grid([%M, %r]) {blocks = [auto, auto]} body(%m: axis<m>, %k: axis<k>) {",
        "%v = tile.load(%t, [%m])",
        "tile.store(%t, [%m], %v)",
        "}",
    )
    assert lines == ["%r = tile.constant() {value = 0, dtype = i64} : i64"]
