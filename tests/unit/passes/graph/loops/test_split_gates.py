"""Products that are read in parts: a product for each part, where that is predicted to gain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.compare import assert_close
from tests.support.op_checks import normal
from tiledsl import ops, tile
from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.text.printer import print_module
from tiledsl.passes.graph.loops.split_gates import SplitGates
from tiledsl.passes.manager import PassContext, PassManager

STEP = """
func @step(%h: tensor<f16, [32, 512]>, %w: tensor<f16, [1024, 512]>, %b: tensor<f32, [1024]>) {
  %p = graph.contract(%h, %w) {axes = "n k, j k -> n j", dtype = f32}
  %rows = graph.broadcast(%b) {shape = [32, 1024]}
  %sum = graph.map([%p, %rows]) {fn = add}
  %i = graph.slice(%sum) {starts = [0, 0], stops = [32, 512], steps = [1, 1]}
  %f = graph.slice(%sum) {starts = [0, 512], stops = [32, 1024], steps = [1, 1]}
  %a = graph.map([%i]) {fn = sigmoid}
  %c = graph.map([%a, %f]) {fn = mul}
  graph.return([%c])
}
"""


def test_a_product_for_each_part() -> None:
    before = parse_module(STEP)
    context = PassContext()
    after = PassManager([SplitGates(arch="sm_90")]).run(before, context)
    text = print_module(after)
    assert text.count("graph.contract") == 2
    assert "graph.slice(%w) {starts = [512, 0], stops = [1024, 512], steps = [1, 1]}" in text
    assert "graph.slice(%b) {starts = [512], stops = [1024], steps = [1]}" in text
    (remark,) = context.remarks
    assert remark.text.startswith("a product for each of its parts: ")
    arrays = [normal(32, 512, dtype=np.float16), normal(1024, 512, dtype=np.float16), normal(1024)]
    for result, wanted in zip(execute_graph(after.entry, arrays), execute_graph(before.entry, arrays)):
        assert_close(result, wanted)


@pytest.mark.parametrize(
    "part",
    ["[0, 0], stops = [32, 1024], steps = [1, 2]", "[0, 0], stops = [16, 1024], steps = [1, 1]"],
    ids=["every other column", "along two axes"],
)
def test_parts_that_are_none(part: str) -> None:
    first = "[0, 0], stops = [32, 512], steps = [1, 1]"
    text = STEP.replace(first, part).replace("%a = graph.map([%i])", "%a = graph.map([%f])")
    text = text.replace("graph.return([%c])", "graph.return([%c, %i])")
    module = PassManager([SplitGates(arch="sm_90")]).run(parse_module(text))
    assert print_module(module).count("graph.contract") == 1


@pytest.mark.parametrize(("layer", "gates"), [(ops.lstm, 4), (ops.gru, 3)])
def test_a_recurrent_step_is_one_kernel_on_tensor_cores(layer: Any, gates: int) -> None:
    shapes = [(12, 32, 512), (gates * 512, 512), (gates * 512, 512), (gates * 512,), (gates * 512,)]
    graph = tiledsl.trace(lambda *given: layer(*given), *(tile.spec(shape, tile.f16) for shape in shapes))
    lowered = tiledsl.fuse(graph).lowered("sm_90")
    (loop,) = [op for op in lowered.entry.body.ops if op.name == "graph.loop"]
    step = lowered.function(loop.attributes["callee"])
    assert [op.name for op in step.body.ops].count("graph.call") == 1


def test_a_recurrent_layer_in_the_emulator() -> None:
    arrays = [
        normal(*shape, dtype=np.float16, scale=0.2) for shape in ((2, 8, 16), (256, 16), (256, 64), (256,), (256,))
    ]
    for result, wanted in zip(ops.lstm.emulate(*arrays, arch="sm_90"), ops.lstm(*arrays)):
        assert_close(result, wanted)
