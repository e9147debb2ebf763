"""Which loads read positions of windows one after the other."""

from __future__ import annotations

import pytest

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.text.parser import parse_module
from tiledsl.passes.gpu.products.window_rows import Slide, WindowRows, window_rows

TEXT = """
func @f(%x: tensor<f16, [N, H, W, C], unit=3>, %y: tensor<f16, [M, C]>, %r: i64) {
  %M = tile.size() {value = M} : i64
  %C = tile.size() {value = C} : i64
  %20 = tile.constant() {value = 20, dtype = i64} : i64
  %5 = tile.constant() {value = 5, dtype = i64} : i64
  %4 = tile.constant() {value = 4, dtype = i64} : i64
  %2 = tile.constant() {value = 2, dtype = i64} : i64
  tile.grid([%M, %C]) {blocks = [auto, auto]} body(%i: axis<i>, %c: axis<c>) {
    %at = tile.index(%i) : tile<i64, [i]>
    %image = tile.map([%at, %20]) {fn = floordiv} : tile<i64, [i]>
    %lines = tile.map([%at, %5]) {fn = floordiv} : tile<i64, [i]>
    %line = tile.map([%lines, %4]) {fn = mod} : tile<i64, [i]>
    %down = tile.map([%line, %2]) {fn = mul} : tile<i64, [i]>
    %start = tile.start(%c) : i64
    %place = tile.map([%start, %4]) {fn = floordiv} : i64
    %offset = tile.map([%place, %2]) {fn = sub} : i64
    %row = tile.map([%down, %offset]) {fn = add} : tile<i64, [i]>
    %column = tile.map([%at, %5]) {fn = mod} : tile<i64, [i]>
    %tile = tile.load(%x, [%image, %row, %column, %c]) : tile<f16, [i, c]>
    tile.store(%y, [%i, %c], %tile)
  }
}
"""


def _rows(text: str) -> WindowRows | None:
    (load,) = (op for op in parse_module(text).walk() if isinstance(op, ops.Load))
    return window_rows(load)


def test_what_is_read_of_windows() -> None:
    rows = _rows(TEXT)
    assert rows is not None
    assert (rows.axis.name, rows.pixels, rows.channels) == ("i", (0, 1, 2), 3)
    down, across = rows.slides
    assert down[:3] == (4, 2, -2)
    assert down.place is not None
    assert down.place.name == "offset"
    assert across == Slide(5, 1, 0, None)


def test_windows_may_be_turned_round() -> None:
    backwards = "%last = tile.map([%3, %place]) {fn = sub} : i64\n    %offset = tile.map([%last, %2]) {fn = sub} : i64"
    text = TEXT.replace("%offset = tile.map([%place, %2]) {fn = sub} : i64", backwards)
    text = text.replace("  %4 = tile", "  %3 = tile.constant() {value = 3, dtype = i64} : i64\n  %4 = tile")
    rows = _rows(text.replace("[%start, %4]) {fn = floordiv}", "[%start, %4]) {fn = mod}"))
    assert rows is not None
    assert rows.slides[0][:3] == (4, 2, -2)
    assert _rows(text.replace("[%start, %4]) {fn = floordiv}", "[%start, %5]) {fn = mod}")) is None  # may be 4


def test_axes_may_lie_in_any_order() -> None:
    text = TEXT.replace("[%image, %row, %column, %c]", "[%image, %c, %row, %column]").replace("unit=3", "unit=1")
    rows = _rows(text)
    assert rows is not None
    assert (rows.pixels, rows.channels) == ((0, 2, 3), 1)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%image = tile.map([%at, %20])", "%image = tile.map([%at, %4])"),  # images of another size
        ("%lines = tile.map([%at, %5])", "%lines = tile.map([%at, %4])"),
        ("%place = tile.map([%start, %4]) {fn = floordiv}", "%place = tile.map([%r, %4]) {fn = floordiv}"),  # below 0?
        ("[%image, %row, %column, %c]", "[%image, %row, %r, %c]"),
    ],
)
def test_others_are_gathers(old: str, new: str) -> None:
    assert old in TEXT
    assert _rows(TEXT.replace(old, new)) is None


OF_PLANES = """
    %three = tile.arange() {extent = 3} : tile<i64, [3]>
    %7 = tile.constant() {value = 7, dtype = i64} : i64
    %far = tile.map([%three, %7]) {fn = mul} : tile<i64, [3]>
    %down_them = tile.reshape(%far) {shape = [3, 1]} : tile<i64, [3, 1]>
    %every = tile.broadcast(%down_them) {shape = [3, i]} : tile<i64, [3, i]>
    %line_of = tile.reshape(%image) {shape = [1, i]} : tile<i64, [1, i]>
    %rows = tile.broadcast(%line_of) {shape = [3, i]} : tile<i64, [3, i]>
    %images = tile.map([%every, %rows]) {fn = add} : tile<i64, [3, i]>
    %tile = tile.load(%x, [%images, %row, %column, %c]) : tile<f16, [3, i, c]>
"""


def test_rows_of_several_planes() -> None:
    start = TEXT.index("    %tile =")
    text = TEXT[:start] + OF_PLANES.lstrip("\n") + "  }\n}\n"
    rows = _rows(text)
    assert rows is not None
    assert (rows.apart, rows.pixels, rows.channels) == (7, (0, 1, 2), 3)
    plain = _rows(TEXT)
    assert plain is not None
    assert (plain.apart, [slide[:3] for slide in plain.slides]) == (0, [slide[:3] for slide in rows.slides])
    assert _rows(text.replace("fn = add} : tile<i64, [3, i]>", "fn = sub} : tile<i64, [3, i]>")) is None
