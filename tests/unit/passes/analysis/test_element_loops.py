"""Which loops change the tiles that they carry element by element."""

from __future__ import annotations

import pytest

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.text.parser import parse_module
from tiledsl.passes.analysis.element_loops import is_elementwise

LOOP = """
func @f(%x: tensor<f32, [N, N]>, %w: tensor<f32, [K, N]>) {
  %y = tile.empty() {shape = [N, N], dtype = f32}
  %size = tile.size() {value = N} : i64
  tile.grid([%size]) {blocks = [auto]} body(%n: axis<n>) {
    %start = tile.load(%x, [%n, %n]) : tile<f32, [n, n]>
    %0 = tile.constant() {value = 0, dtype = i64} : i64
    %stop = tile.size() {value = K} : i64
    %sum = tile.range(%0, %stop, [%start]) {blocks = [1]} : tile<f32, [n, n]> body(%k: INDEX, %s: tile<f32, [n, n]>) {
      BODY
      tile.yield([%t])
    }
    tile.store(%y, [%n, %n], %sum)
  }
  tile.return([%y])
}
"""
ROW = "%row = tile.load(%w, [%k, %n]) : tile<f32, [n]>\n %rows = tile.broadcast(%row) {shape = [n, n]}\n"
BODIES = {
    "a sum": (ROW + "%t = tile.map([%s, %rows]) {fn = add}", True),
    "a cast": ("%h = tile.cast(%s) {dtype = f16}\n %t = tile.cast(%h) {dtype = f32}", True),
    "its transpose": (
        "%other = tile.transpose(%s) {permutation = [1, 0]}\n %t = tile.map([%s, %other]) {fn = add}",
        False,
    ),
    "a fold": ("%m = tile.reduce([%s]) {axes = [1], fn = max}\n %t = tile.broadcast(%m) {shape = [n, n]}", False),
    "a product": ("%t = tile.dot(%s, %s) {dtype = f32}", False),
    "what is written": ("%z = tile.load(%y, [%n, %n])\n %t = tile.map([%s, %z]) {fn = add}", False),
    "a store": ("tile.store(%y, [%n, %n], %s)\n %t = tile.map([%s, %s]) {fn = add}", False),
}


def loop_of(body: str, index: str = "i64") -> tuple[ops.Range, set[object]]:
    """The loop, and the tensors that the program writes."""
    module = parse_module(LOOP.replace("BODY", body).replace("INDEX", index))
    (loop,) = (op for op in module.walk() if isinstance(op, ops.Range))
    return loop, {op.tensor for op in module.walk() if isinstance(op, ops.Store)}


@pytest.mark.parametrize("name", BODIES)
def test_bodies(name: str) -> None:
    body, expected = BODIES[name]
    loop, written = loop_of(body)
    assert is_elementwise(loop, written) is expected  # pyright: ignore[reportArgumentType]


def test_loops_over_blocks_are_none() -> None:
    loop, written = loop_of("%t = tile.map([%s, %s]) {fn = add}", "axis<k>")
    assert not is_elementwise(loop, written)  # pyright: ignore[reportArgumentType]
