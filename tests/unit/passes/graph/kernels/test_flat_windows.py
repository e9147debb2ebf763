"""Products with windows whose positions are one axis: the program means the same, and goes by warpgroups and TMA."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.compare import assert_close
from tests.support.op_checks import F16, normal
from tiledsl import ops, tile
from tiledsl.api.graphs.emulate_graph import emulate_graph
from tiledsl.api.programs.emulate import Request
from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.ir.tile_ops import Dot, Grid
from tiledsl.passes.graph.pipeline import graph_pipeline
from tiledsl.passes.manager import PassContext, PassManager

Formula = Callable[..., Any]


def _conv(**options: Any) -> Formula:
    return lambda x, w: ops.conv2d(x, w, layout="NHWC", **options)


def _turned(x: Any, w: Any) -> Any:
    return ops.conv2d(x.transpose(0, 3, 1, 2), w.transpose(0, 3, 1, 2), padding=1).transpose(0, 2, 3, 1)


def _block(x: Any, w: Any) -> Any:
    return tile.relu(ops.conv2d(x, w, padding=1, layout="NHWC") * 2 + x)


def _in_turns(x: Any, w: Any) -> Any:
    """Pixels of two images in turns, which strides cannot tell as one axis."""
    y = ops.conv2d(x, w, padding=1, layout="NHWC")
    return tile.interleave((y, tile.relu(y)), axis=2)


FLAT: dict[str, tuple[Formula, tuple[int, ...], tuple[int, ...]]] = {
    "plain": (_conv(padding=1), (2, 5, 6, 64), (24, 3, 3, 64)),
    "every other": (_conv(padding=1, stride=2), (2, 5, 6, 64), (24, 3, 3, 64)),
    "wide apart": (_conv(padding=2, dilation=2), (2, 5, 6, 32), (24, 3, 3, 32)),
    "two sides": (_conv(padding=((0, 1), (2, 0)), stride=(1, 2)), (2, 5, 6, 16), (8, 2, 3, 16)),
    "channels that fill no block": (_conv(padding=1), (2, 4, 3, 72), (16, 3, 3, 72)),
    "turned views": (_turned, (2, 5, 6, 64), (24, 3, 3, 64)),
    "residual": (_block, (2, 5, 6, 32), (32, 3, 3, 32)),
    "one axis": (lambda x, w: ops.conv1d(x, w, padding=1, layout="NWC"), (3, 9, 64), (24, 3, 64)),
    "three axes": (lambda x, w: ops.conv3d(x, w, padding=1, layout="NDHWC"), (2, 3, 4, 3, 32), (16, 3, 3, 3, 32)),
    "one image": (_conv(padding=1), (1, 9, 7, 64), (24, 3, 3, 64)),
    "groups": (_conv(padding=1, groups=2), (2, 5, 6, 64), (64, 3, 3, 32)),
    "rows in turns": (_in_turns, (2, 5, 6, 64), (24, 3, 3, 64)),
    "every other pixel": (lambda x, w: tile.einsum("n h w c, c k -> n h w k", x[:, ::2, ::2], w), (2, 6, 10, 64),
                          (64, 24)),
}  # fmt: skip


@pytest.mark.parametrize("name", FLAT)
def test_positions_are_one_axis(name: str) -> None:
    formula, *shapes = FLAT[name]
    arrays = [normal(*shape, dtype=F16) for shape in shapes]
    graph = tiledsl.trace(formula, *arrays)
    expected = execute_graph(graph.module.entry, arrays, graph.module)
    module = PassManager(graph_pipeline("sm_90")).run(graph.module, PassContext())
    (grid,) = (op for op in module.walk() if isinstance(op, Grid))
    assert len(grid.stops) == 2 + (name == "groups")
    for actual, wanted in zip(execute_graph(module.entry, arrays, module), expected):
        assert_close(actual, wanted, relative=4e-3, terms=9 * 64)


@pytest.mark.parametrize("name", FLAT)
def test_they_go_by_tma(name: str) -> None:
    formula, *shapes = FLAT[name]
    graph = tiledsl.trace(formula, *(normal(*shape, dtype=F16) for shape in shapes))
    (kernel,) = tiledsl.fuse(graph).build(arch="sm_90").kernels.values()
    assert "gpu.tma_windows" in kernel.ir("gpu")
    assert kernel.resources[next(iter(kernel.resources))]["spills"] == 0


@pytest.mark.parametrize(
    "name",
    ["plain", "every other", "residual", "channels that fill no block", "groups", "rows in turns", "every other pixel"],
)
def test_the_emulator_agrees(name: str) -> None:
    formula, *shapes = FLAT[name]
    arrays = [normal(*shape, dtype=F16) for shape in shapes]
    graph = tiledsl.trace(formula, *arrays)
    (expected,) = execute_graph(graph.module.entry, arrays, graph.module)
    actual = emulate_graph(graph, arrays, {}, None, Request(arch="sm_90")).result
    assert_close(np.asarray(actual), expected, relative=4e-3, terms=9 * 64)


@pytest.mark.parametrize(
    ("formula", "x", "w"),
    [
        (_conv(padding=1), (2, 5, 6, 3), (24, 3, 3, 3)),  # rows of 6 bytes
        (_conv(padding=130, dilation=130), (2, 5, 6, 64), (24, 3, 3, 64)),  # windows begin too far outside
        (lambda x, w: ops.conv2d(x, w, padding=1), (2, 64, 5, 6), (24, 64, 3, 3)),  # channels lie apart
    ],
)
def test_what_tma_does_not_know_stays_as_it_is(formula: Formula, x: tuple[int, ...], w: tuple[int, ...]) -> None:
    graph = tiledsl.trace(formula, normal(*x, dtype=F16), normal(*w, dtype=F16))
    module = PassManager(graph_pipeline("sm_90")).run(graph.module, PassContext())
    assert any(len(op.stops) > 2 for op in module.walk() if isinstance(op, Grid))


def test_rows_that_lie_together_are_one_axis_though_what_is_made_of_them_takes_turns() -> None:
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(shape).astype(np.float32) for shape in ((2, 5, 6, 32), (32, 16)))
    graph = tiledsl.trace(lambda x, w: tile.interleave((x @ w, tile.exp(x[..., :16])), axis=2), x, w)
    (expected,) = execute_graph(graph.module.entry, [x, w], graph.module)
    module = PassManager(graph_pipeline("sm_90")).run(graph.module, PassContext())
    product = next(op for op in module.walk() if isinstance(op, Grid) and any(isinstance(o, Dot) for o in op.walk()))
    assert len(product.stops) == 2
    assert_close(execute_graph(module.entry, [x, w], module)[0], expected, terms=32)
    actual = emulate_graph(graph, [x, w], {}, None, Request(arch="sm_90")).result
    assert_close(np.asarray(actual), expected, terms=32)
