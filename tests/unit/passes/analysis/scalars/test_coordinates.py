"""Where integers are known to lie."""

from __future__ import annotations

import pytest

from tiledsl.ir.text.parser import parse_module
from tiledsl.passes.analysis.scalars.coordinates import CoordinateAnalysis

BEFORE = """
func @f(%at: tensor<i64, [M]>, %byte: tensor<i8, [M]>, %n: i64, %w: i32, %flag: bool) {
  %M = tile.size() {value = M}
  %zero = tile.constant() {value = 0, dtype = i64}
  %two = tile.constant() {value = 2, dtype = i64}
  %six = tile.constant() {value = 6, dtype = i64}
  %minus = tile.constant() {value = -1, dtype = i64}
  tile.grid([%M, %six]) {blocks = [auto, 1]} body(%m: axis<m>, %i: i64) {
    %start = tile.start(%m)
    %extent = tile.extent(%m)
    %at_m = tile.index(%m)
"""
AFTER = """
  }
  tile.return([])
}
"""


def span_of(line: str) -> str:
    """The span of `%it`, which `line` defines inside of a grid, as text."""
    function = parse_module(BEFORE + line + AFTER).entry
    (found,) = [value for op in function.walk() for value in op.results if value.name == "it"]
    span = CoordinateAnalysis(function).span(found)
    return f"{', '.join(map(str, span.lows))} .. {', '.join(map(str, span.highs))}"


@pytest.mark.parametrize(
    ("line", "span"),
    [
        ("%it = tile.size() {value = M + 1}", "M + 1 .. M + 1"),
        ("%it = tile.index(%m)", "0 .. M - 1"),
        ("%it = tile.arange() {extent = m}", "0 .. m - 1"),
        ("%it = tile.map([%start, %extent]) {fn = add}", "m .. M, M + m - 1"),
        ("%it = tile.map([%at_m, %two]) {fn = mul}", "0 .. 2 * M - 2"),
        ("%it = tile.map([%at_m, %minus]) {fn = mul}", "-M + 1 .. 0"),
        ("%it = tile.map([%at_m, %i]) {fn = mul}", "0 .. 5 * M - 5"),
        ("%it = tile.map([%at_m]) {fn = neg}", "-M + 1 .. 0"),
        ("%it = tile.map([%at_m, %i]) {fn = sub}", "-5 .. M - 1"),
        ("%it = tile.map([%at_m, %two]) {fn = floordiv}", "0 .. (M - 1) // 2"),
        ("%it = tile.map([%at_m, %six]) {fn = mod}", "0 .. 5"),
        ("%it = tile.map([%n, %M]) {fn = minimum}", " .. M"),
        ("%it = tile.map([%n, %zero]) {fn = maximum}", "0 .. "),
        ("%it = tile.map([%flag, %i, %M]) {fn = where}", "min(0, M) .. max(5, M)"),
    ],
)
def test_arithmetic_of_bounded_values(line: str, span: str) -> None:
    assert span_of(line) == span


@pytest.mark.parametrize(
    "line",
    [
        "%it = tile.load(%at, [%m])",
        "%it = tile.map([%n, %two]) {fn = add}",
        # a huge %n wraps around, so that the sum may be negative after all
        "%p = tile.map([%n, %zero]) {fn = maximum}\n %it = tile.map([%p, %two]) {fn = add}",
        "%it = tile.map([%at_m, %n]) {fn = mod}",
        "%it = tile.map([%at_m, %two]) {fn = shl}",
        # what an extract outside of its tile gives is not specified
        "%it = tile.extract(%at_m, [%two])",
    ],
)
def test_what_is_not_known(line: str) -> None:
    assert span_of(line) == " .. "


@pytest.mark.parametrize(
    ("line", "span"),
    [
        ("%it = tile.load(%byte, [%m])", "-128 .. 127"),
        ("%x = tile.load(%byte, [%m])\n %it = tile.cast(%x) {dtype = i64}", "-128 .. 127"),
        ("%it = tile.cast(%w) {dtype = i64}", "-2147483648 .. 2147483647"),
        ("%it = tile.cast(%i) {dtype = i8}", "0 .. 5"),
        ("%it = tile.cast(%start) {dtype = u8}", "0 .. 255"),
        ("%it = tile.cast(%flag) {dtype = i64}", " .. "),
    ],
)
def test_dtypes_bound_what_they_hold(line: str, span: str) -> None:
    assert span_of(line) == span


@pytest.mark.parametrize(
    ("bounds", "span"),
    [
        ("%zero, %M, %two", "0 .. M - 1"),
        ("%two, %n, %two", "2 .. "),
        ("%six, %minus, %minus", "0 .. 6"),
        ("%zero, %M, %n", " .. "),
    ],
)
def test_the_index_of_a_loop(bounds: str, span: str) -> None:
    line = f"tile.for({bounds}, []) body(%j: i64) {{ %it = tile.broadcast(%j) {{shape = [m]}} tile.yield([]) }}"
    assert span_of(line) == span
