"""Windows of padded tensors within groups: each stage computes what the graph does, and nothing padded is in memory."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import tiledsl
from tests.support.compare import assert_close
from tests.support.op_checks import normal
from tiledsl import ops, tile
from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.ir.text.printer import print_module
from tiledsl.passes.graph.pipeline import graph_pipeline
from tiledsl.passes.manager import PassContext, PassManager

Formula = Callable[..., Any]

READERS: dict[str, Formula] = {
    "product": lambda v, w: tile.einsum("n c p q r s, k c r s -> n k p q", v, w),
    "product, channels last": lambda v, w: tile.relu(tile.einsum("n c p q r s, k c r s -> n p q k", v, w) * 2 + 1),
    "each channel by itself": lambda v, w: tile.einsum("n c p q r s, c r s -> n c p q", v, w[0]),
    "largest": lambda v, w: tile.max(v, axis=(-2, -1)) + w[0, 0, 0, 0],
    "sum over channels too": lambda v, w: tile.sum(v, axis=(1, -2, -1)),
    "a part of a window": lambda v, w: tile.sum(v, axis=-1),
    "positions": lambda v, w: tile.sum(v, axis=(2, 3)),
    "one axis of positions": lambda v, w: tile.max(v, axis=3) * 2,
    "spread": lambda v, w: tile.sum((v - tile.mean(v, axis=(-2, -1), keepdims=True)) ** 2, axis=(-2, -1)),
    "the windows themselves": lambda v, w: v * 2,
    "in memory": lambda v, w: v,
    "the middle and the sum": lambda v, w: tile.sum(v, axis=(-2, -1)) / (1 + tile.abs(v[..., 0, 0])),
    "where the largest is": lambda v, w: tile.argmax(v, axis=-1),
    "softmax along a row": lambda v, w: tile.softmax(tile.einsum("n c p q r s, k c r s -> n k p q", v, w), axis=-1),
    "running sums": lambda v, w: tile.cumsum(v, axis=-1),
}


@st.composite
def windowed(draw: st.DrawFn) -> tuple[str, Formula, list[Any]]:
    """A formula of windows of a padded tensor, and arrays for it."""
    size = [draw(st.sampled_from((1, 2, 5, 6))) for _ in range(2)]
    inner = [draw(st.sampled_from((1, 2, 3))) for _ in range(2)]
    dilation = tuple(draw(st.sampled_from((1, 1, 2))) for _ in range(2))
    stride = tuple(draw(st.sampled_from((1, 1, 2))) for _ in range(2))
    beside = draw(st.sampled_from((0, 0, 0, 1)))
    widths = [(beside, beside), (beside, beside)]
    for n, k, d in zip(size, inner, dilation):
        low, high = draw(st.integers(0, 2)), draw(st.integers(0, 2))
        widths.append((low, max(high, (k - 1) * d + 1 - n - low)))
    value = draw(st.sampled_from((0.0, 2.0)))
    name = draw(st.sampled_from(sorted(READERS)))

    def formula(x: Any, w: Any) -> Any:
        return READERS[name](tile.window(tile.pad(x, tuple(widths), value), tuple(inner), (2, 3), stride, dilation), w)

    channels = 3 + sum(widths[1])
    return name, formula, [normal(2, 3, *size), normal(4, channels, *inner)]


@pytest.mark.filterwarnings("ignore:.*does not use its input")
@pytest.mark.parametrize("fuse", [True, False])
@given(case=windowed())
@settings(max_examples=20, deadline=None)
def test_each_stage_computes_the_same(fuse: bool, case: tuple[str, Formula, list[Any]]) -> None:
    _, formula, arrays = case
    graph = tiledsl.trace(formula, *arrays)
    expected = execute_graph(graph.module.entry, arrays, graph.module)
    module = graph.module
    note(print_module(module))
    for step in graph_pipeline("cpu", fuse=fuse):
        module = PassManager([step]).run(module, PassContext())
        for actual, wanted in zip(execute_graph(module.entry, arrays, module), expected):
            assert_close(actual, wanted, terms=40)


def lowered(formula: Formula, *specs: Any) -> str:
    return tiledsl.fuse(tiledsl.trace(formula, *specs)).ir("sm_90")


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_a_padded_convolution_with_what_follows_is_one_kernel(layout: str) -> None:
    def block(x: Any, w: Any, mean: Any, var: Any) -> Any:
        y = ops.conv2d(x, w, padding=1, layout=layout)
        return ops.relu(ops.batch_norm(y, mean, var, axis=layout.index("C")))

    shapes = ((2, 64, 14, 14), (32, 64, 3, 3)) if layout == "NCHW" else ((2, 14, 14, 64), (32, 3, 3, 64))
    text = lowered(block, *(tile.spec(s, tile.f16) for s in (*shapes, (32,), (32,))))
    copies = 2 if layout == "NCHW" else 0  # of the image and the weights, channels last
    assert text.count("graph.call(") == 1 + copies
    assert "graph.pad" not in text
    assert "tile.shift" in text
    assert text.index("tile.range") < text.index("tile.dot")


def test_padded_pooling_is_one_kernel_that_reads_what_is_not_padded() -> None:
    text = lowered(lambda x: ops.max_pool2d(x, 3, 2, 1), tile.spec((2, 64, 56, 56), tile.f16))
    assert text.count("graph.call(") == 1
    assert "value = -inf, dtype = f16" in text


def test_what_is_padded_for_others_too_is_in_memory_for_them() -> None:
    def formula(x: Any) -> Any:
        y = tile.pad(x, 1)
        return tile.max(tile.window(y, 3, 1), axis=-1), y

    x = normal(2, 9)
    graph = tiledsl.trace(formula, x)
    for actual, wanted in zip(tiledsl.fuse(graph).build("cpu")(x), graph(x)):
        assert np.array_equal(actual, wanted)


ORDERS: dict[str, Formula] = {
    "a norm of channels, last": lambda x: tile.transpose(
        ops.layer_norm(tile.transpose(x, (0, 2, 3, 1)), 16), (0, 3, 1, 2)
    ),
    "softmax of rows that stand": lambda x: tile.transpose(tile.softmax(tile.transpose(x, (0, 1, 3, 2))), (0, 1, 3, 2)),
    "scaled": lambda x: tile.transpose(tile.transpose(x, (0, 2, 3, 1)) * 2, (0, 3, 1, 2)),
    "images last": lambda x: tile.transpose(tile.softmax(tile.transpose(x, (1, 2, 3, 0))), (3, 0, 1, 2)),
}


@pytest.mark.parametrize("images", [1, 2])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("order", ORDERS)
def test_windows_of_what_a_group_lays_otherwise(order: str, stride: int, images: int) -> None:
    """Windows are copied with channels side by side, before the group that makes the image chooses how that lies."""

    def formula(x: Any, w: Any) -> Any:
        return ops.conv2d(ORDERS[order](x), w, stride=stride)

    x, w = normal(images, 16, 8, 8), normal(16, 16, 2, 2)
    graph = tiledsl.trace(formula, x, w)
    module = tiledsl.fuse(graph).build("cpu")
    assert "copy-windows" in module.explain()
    assert "wants axis" not in module.explain()
    assert_close(module(x, w), tiledsl.fuse(graph).build("reference")(x, w), terms=100)
