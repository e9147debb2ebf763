"""Products that do not read what is carried stand in front of the loop, for all steps at once."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tiledsl
from tests.support.compare import assert_close
from tests.support.op_checks import normal
from tiledsl import tile
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.text.printer import print_module
from tiledsl.passes.graph.loops.hoist_products import HoistProducts
from tiledsl.passes.manager import PassManager

X, C = normal(5, 3, 6), normal(3, 8, seed=1)
W, U, B = normal(6, 8, seed=2, scale=0.3), normal(8, 8, seed=3, scale=0.3), normal(8, seed=4)

CELL = """
func @f(%x: tensor<f32, [5, 3, 6]>, %h: tensor<f32, [3, 8]>, %w: tensor<f32, [6, 8]>, %u: tensor<f32, [8, 8]>) {
  %last = graph.loop([%h], [%x], [%w, %u]) {callee = step, count = 5} : tensor<f32, [3, 8]>
  graph.return([%last])
}
func @step(%h: tensor<f32, [3, 8]>, %x: tensor<f32, [3, 6]>, %w: tensor<f32, [6, 8]>, %u: tensor<f32, [8, 8]>) {
  %twice = graph.map([%x, %x]) {fn = add}
  %p = graph.contract(%twice, %w) {axes = "b k, k n -> b n", dtype = f32}
  %q = graph.contract(%h, %u) {axes = "b k, k n -> b n", dtype = f32}
  %n = graph.map([%p, %q]) {fn = add}
  graph.return([%n])
}
"""


def test_a_product_in_front_of_the_loop() -> None:
    text = print_module(PassManager([HoistProducts()]).run(parse_module(CELL)))
    entry, step = text.split("func @step")
    assert '{axes = "t b k, k n -> t b n", dtype = f32} : tensor<f32, [5, 3, 8]>' in entry
    assert "graph.loop([%h], [%p], [%u])" in entry
    assert step.startswith("(%h: tensor<f32, [3, 8]>, %p: tensor<f32, [3, 8]>, %u: tensor<f32, [8, 8]>)")
    assert step.count("graph.contract") == 1


def cell(h: Any, x: Any) -> Any:
    h = tile.tanh(x @ W + B + h @ U)
    return h, h


def gated(h: Any, x: Any) -> Any:
    f = tile.sigmoid(x @ W + B)
    h = f * h + (1 - f) * tile.tanh((x * 2) @ W)
    return h, h


def scaled(h: Any, x: Any) -> Any:
    """One number of an element meets all of it; a fold before the product, and a part of it."""
    h = h * 0.5 + (x * x[0, 0] + tile.mean(x, axis=0)) @ W
    return h, tile.sum(h * (x[:, :4] @ W[:4]), axis=-1)


@pytest.mark.parametrize(("step", "launched"), [(cell, True), (gated, False), (scaled, False)])
def test_steps_mean_the_same(step: Callable[[Any, Any], Any], launched: bool) -> None:
    """Without a product that is left, all steps are one kernel."""
    graph = tiledsl.trace(lambda x, c: tiledsl.scan(step, c, x, reverse=True), X, C)
    fused = tiledsl.fuse(graph)
    assert ("graph.loop" in fused.ir()) == launched
    for result, wanted in zip(fused.build("cpu")(X, C), graph(X, C)):
        assert_close(result, wanted, relative=1e-4)
