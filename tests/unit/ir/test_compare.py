"""Structural equality: what makes a difference and what does not."""

from __future__ import annotations

import pytest

from tests.support.every_op import TILE
from tiledsl.ir.compare import same_module
from tiledsl.ir.core import Module
from tiledsl.ir.text.parser import parse_module

BASE = """func @f(%x: tensor<f32, [M]>, %y: f32, %z: f32) facts [M % 4 == 0] {
  %c = tile.constant() {value = 0.0, dtype = f32}
  %d = tile.map([%y, %z]) {fn = add}
  %e = tile.if(%b) : f32 then() { tile.yield([%c]) } otherwise() { tile.yield([%d]) }
  tile.return([%x])
}"""
BASE = BASE.replace("%z: f32)", "%z: f32, %b: bool)")


def module_of(text: str) -> Module:
    return parse_module(text)


def test_a_copy_is_equal_and_another_object() -> None:
    module = module_of(TILE)
    copy = module.clone()
    assert copy == module
    assert same_module(copy, module)
    assert hash(copy) != hash(module)
    assert module != TILE


def test_names_do_not_matter() -> None:
    assert same_module(module_of(BASE), module_of(BASE.replace("%d", "%other").replace("%y", "%why")), locations=False)


def test_locations_matter_unless_told_otherwise() -> None:
    moved = module_of("\n" + BASE)
    assert module_of(BASE) != moved
    assert same_module(module_of(BASE), moved, locations=False)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("@f", "@g"),
        ("[M]", "[N]"),
        ("[M]", "[M], unit=0"),
        ("M % 4", "M % 8"),
        ("value = 0.0", "value = -0.0"),
        ("value = 0.0", "value = 0"),
        ("value = 0.0", "value = false"),
        ("value = 0.0", "value = nan"),
        ("fn = add", "fn = sub"),
        ("[%y, %z]", "[%z, %y]"),
        ("[%y, %z]", "[%y, %y]"),
        ("yield([%c])", "yield([%y])"),
        ("  tile.return", "  %f = tile.map([%y]) {fn = neg}\n  tile.return"),
        ("return([%x])", "return([])"),
    ],
)
def test_everything_else_matters(old: str, new: str) -> None:
    assert old in BASE
    assert not same_module(module_of(BASE), module_of(BASE.replace(old, new)), locations=False)


def test_nan_is_itself() -> None:
    text = BASE.replace("value = 0.0", "value = nan")
    assert module_of(text) == module_of(text)
