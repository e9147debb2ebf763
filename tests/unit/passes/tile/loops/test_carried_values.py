"""Changing what loops carry, with use lists and types kept right."""

from __future__ import annotations

import pytest

from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.text.printer import print_op
from tiledsl.ir.tile_ops import For, If, While
from tiledsl.ir.verifier import verify
from tiledsl.passes.tile.loops.carried_values import carried_arguments, keep_results, keep_yields, yielded

TEXT = """
func @f(%n: i64, %x: f32, %y: f32, %b: bool) {
  %one = tile.constant() {value = 1, dtype = i64}
  %a, %c = tile.for(%one, %n, %one, [%x, %y]) body(%i: i64, %u: f32, %v: f32) {
    %w = tile.map([%v]) {fn = exp}
    tile.yield([%u, %w])
  }
  %d, %e = tile.while([%x, %c]) condition(%p: f32, %q: f32) {
    %more = tile.map([%q, %y]) {fn = lt}
    tile.yield([%more])
  } body(%r: f32, %s: f32) {
    tile.yield([%r, %s])
  }
  %g, %h = tile.if(%b) then() { tile.yield([%x, %e]) } otherwise() { tile.yield([%y, %e]) }
  tile.print([%h])
  tile.return([])
}
"""


@pytest.mark.parametrize(
    ("kind", "header"),
    [
        (For, "%c = tile.for(%one, %n, %one, [%y]) : f32 body(%i: i64, %v: f32)"),
        (While, "%e = tile.while([%c]) : f32 condition(%q: f32)"),
        (If, "%h = tile.if(%b) : f32 then()"),
    ],
)
def test_the_first_of_two_goes(kind: type[For | While | If], header: str) -> None:
    module = parse_module(TEXT)
    (op,) = [op for op in module.walk() if isinstance(op, kind)]
    keep_yields(op, (False, True))
    copy = keep_results(op, (False, True))
    assert print_op(copy).startswith(header)
    verify(module)


def test_a_value_that_is_read_cannot_go() -> None:
    (op,) = [op for op in parse_module(TEXT).walk() if isinstance(op, For)]
    keep_yields(op, (True, False))
    with pytest.raises(AssertionError, match="still used"):
        keep_results(op, (True, False))


def test_arguments_and_yields() -> None:
    ops = list(parse_module(TEXT).walk())
    (loop,) = [op for op in ops if isinstance(op, While)]
    assert [v.name for v in carried_arguments(loop, loop.condition)] == ["p", "q"]
    assert [v.name for v in yielded(loop.condition)] == ["more"]
    (counted,) = [op for op in ops if isinstance(op, For)]
    assert [v.name for v in carried_arguments(counted, counted.body)] == ["u", "v"]
