"""Fused graphs compute what graphs compute: random ones, and each of their stages."""

from __future__ import annotations

import pytest
from hypothesis import given, note, settings

from tests.support.generators.random_graphs import RandomGraph, graph_modules
from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.ir.graph_ops import Call, Constant, Return
from tiledsl.ir.strided_views import VIEWS
from tiledsl.ir.text.printer import print_module
from tiledsl.passes.graph.analysis.joins import JOINS
from tiledsl.passes.graph.pipeline import graph_pipeline
from tiledsl.passes.graph.rewrites.set_sizes import SetSizes
from tiledsl.passes.manager import PassContext, PassManager


@pytest.mark.parametrize("fuse", [True, False])
@given(graph=graph_modules())
@settings(max_examples=60, deadline=None)
def test_each_stage_of_a_random_graph_computes_the_same(fuse: bool, graph: RandomGraph) -> None:
    sizes = SetSizes(tuple(graph.sizes.items()))
    expected = graph.execute()
    module = graph.module
    note(print_module(module))
    for step in [sizes, *graph_pipeline("cpu", fuse=fuse)]:
        module = PassManager([step]).run(module, PassContext())
        graph.check(execute_graph(module.entry, graph.arguments(), module), expected)
    left = [op for op in module.entry.body.ops if not isinstance(op, (Call, Constant, Return, *JOINS, *VIEWS))]
    assert not left, "the entry has calls, views, joins and constants"
