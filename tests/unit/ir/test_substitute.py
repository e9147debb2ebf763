"""Sizes in place of symbols."""

from __future__ import annotations

from tests.support.gpu_code.every_gpu_op import GPU
from tiledsl.ir.substitute import substitute_symbols
from tiledsl.ir.symbolic import Dim, symbol
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.text.printer import print_module
from tiledsl.ir.verifier import Form, verify

TEXT = """\
func @f(%x: tensor<f32, [M, N], unit=1>) facts [M % 16 == 0, (M + N) % 2 == 0] {
  %y = tile.empty() {shape = [2 * M, 3], dtype = f32} : tensor<f32, [2 * M, 3], unit=1>
  %size = tile.size() {value = M // 4} : i64
  tile.grid([%size]) {blocks = [auto]} body(%m: axis<m>) {
    %t = tile.load(%x, [%m, 0:min(M, N)]) : tile<f32, [m, min(M, N)], register>
    %r = tile.arange() {extent = M} : tile<i64, [M], register>
  }
  tile.return([%y])
}
"""


def after(**values: Dim) -> str:
    module = parse_module(TEXT)
    substitute_symbols(module.entry, values)
    verify(module, Form.TILE_PLACED)
    return print_module(module)


def test_nothing_to_replace() -> None:
    assert after() == TEXT
    assert after(K=3) == TEXT


def test_a_number() -> None:
    assert (
        after(M=64)
        == """\
func @f(%x: tensor<f32, [64, N], unit=1>) facts [(N + 64) % 2 == 0] {
  %y = tile.empty() {shape = [128, 3], dtype = f32} : tensor<f32, [128, 3], unit=1>
  %size = tile.size() {value = 16} : i64
  tile.grid([%size]) {blocks = [auto]} body(%m: axis<m>) {
    %t = tile.load(%x, [%m, 0:min(64, N)]) : tile<f32, [m, min(64, N)], register>
    %r = tile.arange() {extent = 64} : tile<i64, [64], register>
  }
  tile.return([%y])
}
"""
    )


def test_another_symbol() -> None:
    assert after(M=symbol("rows")) == TEXT.replace("M", "rows").replace("rows + N", "N + rows").replace(
        "min(rows, N)", "min(N, rows)"
    )


def test_two_at_once_are_not_mixed_up() -> None:
    assert after(M=symbol("N"), N=symbol("M")).startswith("func @f(%x: tensor<f32, [N, M], unit=1>)")


def test_the_extent_of_a_block() -> None:
    text = after(m=8)
    assert "body(%m: axis<8>)" in text
    assert "tile<f32, [8, min(M, N)], register>" in text


def test_a_fact_that_does_not_hold_stays() -> None:
    module = parse_module(TEXT)
    substitute_symbols(module.entry, {"M": 8})
    assert [str(fact) for fact in module.entry.facts] == ["(8) % 16 == 0", "(N + 8) % 2 == 0"]


def test_operands_of_slices_keep_their_use_lists() -> None:
    module = parse_module(TEXT)
    block = module.entry.body.ops[2].bodies["body"].arguments[0]
    before = dict(block.users)
    substitute_symbols(module.entry, {"M": 8})
    assert block.users == before


def test_the_layout_of_a_tile_stays() -> None:
    module = parse_module(GPU)
    substitute_symbols(module.entry, {"N": 8})
    assert "tensor<bf16, [16, 8]>" in print_module(module)
    verify(module, Form.GPU)
