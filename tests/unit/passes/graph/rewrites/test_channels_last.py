"""Images stored with their channels last between products: graphs mean the same, and nothing is copied."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tiledsl
from tests.support.compare import assert_close
from tests.support.op_checks import F16, normal
from tiledsl import ops, tile
from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.ir.graph_ops import Call
from tiledsl.passes.graph.pipeline import graph_pipeline
from tiledsl.passes.graph.rewrites.channels_last import ChannelsLast
from tiledsl.passes.graph.rewrites.placed_copies import is_copy
from tiledsl.passes.manager import PassContext, PassManager

Formula = Callable[..., Any]
SHAPE = (2, 16, 5, 6)


def _weights(*shape: int) -> Any:
    return normal(*shape, dtype=F16) * F16(0.2)


W, BACK, SPREAD, EACH = _weights(24, 16, 1, 1), _weights(16, 24, 1, 1), _weights(16, 16, 3, 3), _weights(16, 1, 3, 3)


def _bottleneck(x: Any) -> Any:
    y = tile.relu(ops.conv2d(x, W))
    return tile.relu(ops.conv2d(y, BACK) + x)


def _two_of_one(x: Any) -> Any:
    y = tile.relu(ops.conv2d(x, SPREAD, padding=1))
    return ops.conv2d(y, W, stride=2) + ops.conv2d(ops.conv2d(y, SPREAD, padding=1, stride=2), W)


def _pool(x: Any) -> Any:
    return ops.max_pool2d(x, 3, stride=2, padding=1)


def copies(formula: Formula, *arrays: Any) -> int:
    """Copies of what was computed, in a graph that is lowered for sm_90."""
    module = PassManager(graph_pipeline("sm_90")).run(tiledsl.trace(formula, *arrays).module)
    computed = {v for op in module.entry.body.ops if isinstance(op, Call) for v in op.results}

    def is_computed(value: Any) -> bool:
        while value not in computed and value.op is not None and hasattr(value.op, "source"):
            value = value.op.source
        return value in computed

    calls = [op for op in module.entry.body.ops if isinstance(op, Call)]
    return sum(is_copy(module.function(op.callee)) and is_computed(op.inputs[0]) for op in calls)


def _lowered_as_it_was(formula: Formula, x: Any) -> None:
    graph = tiledsl.trace(formula, x)
    given_arrays: list[Any] = [graph.constants.get(parameter.name, x) for parameter in graph.module.entry.parameters]
    expected = execute_graph(graph.module.entry, given_arrays, graph.module)
    module = PassManager(graph_pipeline("sm_90")).run(graph.module)
    for actual, wanted in zip(execute_graph(module.entry, given_arrays, module), expected):
        assert_close(actual, wanted, relative=8e-3, terms=9 * 32)


@pytest.mark.parametrize("formula", [
    lambda x: _bottleneck(_bottleneck(x)).mean((2, 3)),
    lambda x: _two_of_one(x).max((2, 3)),
    lambda x: ops.conv2d(_pool(tile.relu(ops.conv2d(x, SPREAD, padding=1))), W).sum((2, 3)),
    lambda x: ops.conv2d(tile.relu(ops.conv2d(ops.conv2d(x, SPREAD), EACH, groups=16, padding=1)), W).sum((2, 3)),
], ids=["residual", "two readers", "a pool", "channels one by one"])  # fmt: skip
def test_networks_mean_the_same_and_copy_nothing(formula: Formula) -> None:
    x = normal(*SHAPE, dtype=F16)
    _lowered_as_it_was(formula, x)
    assert copies(formula, x) == 0


def _chosen(formula: Formula, arch: str = "sm_90") -> int:
    context = PassContext()
    graph = tiledsl.trace(formula, normal(*SHAPE, dtype=F16))
    PassManager([ChannelsLast(arch)]).run(graph.module, context)
    return sum(remark.pass_name == ChannelsLast.name for remark in context.remarks)


@pytest.mark.parametrize(("formula", "arch", "expected"), [
    (lambda x: ops.conv2d(ops.conv2d(x, W), BACK), "sm_90", 1),
    (lambda x: ops.conv2d(ops.conv2d(x, W), BACK), "sm_80", 0),
    (lambda x: ops.conv2d(ops.conv2d(x, W), BACK), "cpu", 0),
    (lambda x: (lambda y: (y, ops.conv2d(y, BACK)))(ops.conv2d(x, W)), "sm_90", 0),
    (lambda x: ops.conv2d(x, W), "sm_90", 0),
    (lambda x: ops.conv2d(x, W, stride=2).mean((2, 3)), "sm_90", 1),
    (lambda x: tile.softmax(ops.conv2d(x, W), axis=1), "sm_90", 0),
], ids=["two", "sm_80", "cpu", "given back", "one", "folded", "folded over channels"])  # fmt: skip
def test_who_wishes_it(formula: Formula, arch: str, expected: int) -> None:
    assert _chosen(formula, arch) == expected


@st.composite
def networks(draw: st.DrawFn) -> Formula:
    """Layers of images, with 16 channels in between."""
    layers = draw(
        st.lists(
            st.sampled_from(("one", "spread", "each", "bottleneck", "relu", "pool", "add")), min_size=1, max_size=5
        )
    )
    end = draw(st.sampled_from(("image", "mean", "both")))

    def network(x: Any) -> Any:
        y = first = ops.conv2d(x, SPREAD, padding=1)
        for layer in layers:
            match layer:
                case "one":
                    y = ops.conv2d(ops.conv2d(y, W), BACK)
                case "spread":
                    y = ops.conv2d(y, SPREAD, padding=1)
                case "each":
                    y = ops.conv2d(y, EACH, groups=16, padding=1)
                case "bottleneck":
                    y = _bottleneck(y)
                case "relu":
                    y = tile.relu(y)
                case "pool":
                    y = ops.max_pool2d(y, 3, stride=1, padding=1)
                case _:
                    y = y * 0.5 + first
        mean = y.mean((2, 3))
        return y if end == "image" else mean if end == "mean" else (y, mean)

    return network


@settings(max_examples=6, deadline=None)
@given(networks(), st.sampled_from((1, 2)))
def test_random_networks(network: Formula, images: int) -> None:
    _lowered_as_it_was(network, np.clip(normal(images, *SHAPE[1:], dtype=F16), -1, 1))
