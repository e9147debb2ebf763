"""Which loads read rows in runs that lie anywhere."""

from __future__ import annotations

import pytest

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.text.parser import parse_module
from tiledsl.passes.gpu.products.row_runs import RowRuns, row_runs, says_where

TEXT = """
func @f(
  %x: tensor<f16, [X, P, G, C], unit=3>, %t: tensor<i32, [B, T], unit=1>, %y: tensor<f16, [N, C]>, %b: i64, %n: i64
) {
  %0 = tile.constant() {value = 0, dtype = i64} : i64
  %16 = tile.constant() {value = 16, dtype = i64} : i64
  %48 = tile.constant() {value = 48, dtype = i64} : i64
  %64 = tile.constant() {value = 64, dtype = i64} : i64
  %C = tile.size() {value = C} : i64
  tile.grid([%C]) {blocks = [auto]} body(%c: axis<c>) {
    %parts = tile.map([%n, %64]) {fn = mul} : i64
    %from = tile.map([%parts, %n]) {fn = minimum} : i64
    tile.range(%0, %n, []) {blocks = [auto]} body(%j: axis<j>) {
      %at = tile.index(%j) : tile<i64, [j]>
      %number = tile.map([%at, %48]) {fn = floordiv} : tile<i64, [j]>
      %page = tile.load(%t, [%b, %number]) : tile<i32, [j]>
      %row = tile.map([%at, %48]) {fn = mod} : tile<i64, [j]>
      %tile = tile.load(%x, [%page, %row, %b, %c]) : tile<f16, [j, c]>
      tile.store(%y, [%j, %c], %tile)
      tile.yield([])
    }
  }
}
"""
DOUBLED = """%wide = tile.cast(%page) {dtype = i64} : tile<i64, [j]>
      %more = tile.map([%wide, %b]) {fn = add} : tile<i64, [j]>
      %row ="""


def _load(text: str) -> ops.Load:
    return next(op for op in parse_module(text).walk() if isinstance(op, ops.Load) and op.tensor.name == "x")


def _runs(text: str) -> RowRuns | None:
    return row_runs(_load(text))


def test_what_lies_in_runs() -> None:
    runs = _runs(TEXT)
    assert runs is not None
    assert (runs.axis.name, runs.run, runs.rows, runs.jumps, runs.divisor) == ("j", 48, 1, (0,), 0)
    assert [runs.together(block) for block in (32, 48, 64, 96)] == [16, 48, 16, 48]


@pytest.mark.parametrize(("offset", "divisor"), [(16, 16), (8, 8), (0, 0), (12, None), (3, None)])
def test_blocks_that_are_shifted_begin_within_runs(offset: int, divisor: int | None) -> None:
    by = f"%by = tile.constant() {{value = {offset}, dtype = i64}}\n%later = tile.shift(%j, %by)\n"
    runs = _runs(TEXT.replace("%at = tile.index(%j)", f"{by} %at = tile.index(%later)"))
    assert (None if runs is None else runs.divisor) == divisor


def test_where_runs_lie_may_be_computed() -> None:
    runs = _runs(TEXT.replace("%row =", DOUBLED).replace("[%page, %row, %b, %c]", "[%more, %row, %b, %c]"))
    assert runs is not None
    assert runs.jumps == (0,)
    every = _runs(TEXT.replace("[%page, %row, %b, %c]", "[%page, %row, %number, %c]"))
    assert every is not None
    assert every.jumps == (0, 2)


@pytest.mark.parametrize(("start", "together"), [("%parts", 16), ("%16", 16), ("%0", 48)])
def test_blocks_begin_where_their_loop_does(start: str, together: int) -> None:
    runs = _runs(TEXT.replace("tile.range(%0, %n", f"tile.range({start}, %n"))
    assert runs is not None
    assert runs.together(96) == together


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[%at, %48]) {fn = mod}", "[%at, %64]) {fn = mod}"),  # runs of another length
        ("[%at, %48]) {fn = mod}", "[%at, %n]) {fn = mod}"),
        ("%48 = tile.constant() {value = 48", "%48 = tile.constant() {value = 12"),  # within a swizzle
        ("tile.range(%0, %n", "tile.range(%from, %n"),  # blocks may begin within runs
        ("tile.load(%t, [%b, %number])", "tile.load(%t, [%b, %at])"),  # each row is anywhere
        ("[%page, %row, %b, %c]", "[%page, %page, %b, %c]"),
    ],
)
def test_others_are_gathers(old: str, new: str) -> None:
    assert old in TEXT
    assert _runs(TEXT.replace(old, new)) is None


def test_what_only_says_where() -> None:
    module = parse_module(TEXT)
    loads = {op.tensor.name: op for op in module.walk() if isinstance(op, ops.Load)}
    where = [op.results[0].name for op in module.walk() if op.results and says_where(op, frozenset([loads["x"]]))]
    assert {"at", "number", "page", "row"} <= set(where)
    assert not says_where(loads["x"], frozenset([loads["x"]]))
