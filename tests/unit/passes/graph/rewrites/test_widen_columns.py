"""Positions that become columns: the graph means the same, in the emulator too, and wide products stay."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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
from tiledsl.passes.graph import pipeline
from tiledsl.passes.graph.rewrites.widen_columns import WidenColumns
from tiledsl.passes.manager import PassContext, PassManager

Formula = Callable[..., Any]
Shape = tuple[int, ...]
LAYOUTS = {1: "NWC", 2: "NHWC", 3: "NDHWC"}


def _conv(rank: int = 2, **options: Any) -> Formula:
    conv = {1: ops.conv1d, 2: ops.conv2d, 3: ops.conv3d}[rank]
    return lambda x, w: conv(x, w, **options)


def _turned(rank: int = 2, **options: Any) -> Formula:
    conv = {1: ops.conv_transpose1d, 2: ops.conv_transpose2d, 3: ops.conv_transpose3d}[rank]
    return lambda x, w: conv(x, w, **options)


def _with_bias(x: Any, w: Any) -> Any:
    return tile.relu(ops.conv2d(x, w, w[:, 0, 0, 0], padding=1, layout="NHWC"))


def _with_norm(x: Any, w: Any) -> Any:
    return tile.gelu(ops.conv2d(x, w, w[:, 0, 0, 0], padding=1) * 0.5)


WIDENED: dict[str, tuple[Formula, Shape, Shape]] = {
    "channels first": (_conv(padding=1), (2, 32, 5, 6), (16, 32, 3, 3)),
    "channels first, bias, gelu": (_with_norm, (2, 32, 5, 6), (16, 32, 3, 3)),
    "channels last": (_conv(layout="NHWC"), (2, 5, 8, 32), (8, 3, 3, 32)),
    "bias, relu": (_with_bias, (2, 5, 8, 32), (8, 3, 3, 32)),
    "every other": (_conv(padding=1, stride=2, layout="NHWC"), (2, 6, 8, 32), (8, 3, 3, 32)),
    "one axis": (_conv(1, padding=2, layout="NWC"), (3, 12, 32), (16, 5, 32)),
    "three axes": (_conv(3, padding=1), (1, 16, 2, 3, 4), (8, 16, 2, 3, 3)),
    "transposed": (_turned(padding=1), (2, 32, 3, 5), (32, 8, 3, 4)),
    "transposed, channels last": (_turned(3, layout="NDHWC"), (1, 2, 3, 5, 16), (16, 2, 3, 4, 8)),
    "transposed, every other line": (_turned(stride=(2, 1), layout="NHWC"), (2, 3, 5, 32), (32, 3, 4, 8)),
}


def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small images gain nothing worth a launch."""
    monkeypatch.setattr(pipeline, "WidenColumns", partial(WidenColumns, least=-1000))


@pytest.mark.parametrize("name", WIDENED)
def test_in_the_emulator(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _always(monkeypatch)
    formula, *shapes = WIDENED[name]
    arrays = [normal(*shape, dtype=F16) for shape in shapes]
    graph = tiledsl.trace(formula, *arrays)
    (expected,) = execute_graph(graph.module.entry, arrays, graph.module)
    context = PassContext()
    module = PassManager([WidenColumns("sm_90", -1000)]).run(graph.module.clone(), context)
    assert "are columns of one product" in str(context.remarks)
    (widened,) = execute_graph(module.entry, arrays, module)
    assert_close(widened, expected, relative=4e-3, terms=32 * 16)
    kernels = tiledsl.fuse(graph).build(arch="sm_90").kernels
    assert any("gpu.tma_windows" in kernel.ir("gpu") for kernel in kernels.values())
    actual = emulate_graph(graph, arrays, {}, None, Request(arch="sm_90")).result
    assert_close(np.asarray(actual), expected, relative=4e-3, terms=32 * 16)


def test_epilogues_are_of_the_same_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    _always(monkeypatch)
    formula, *shapes = WIDENED["bias, relu"]
    graph = tiledsl.trace(formula, *(normal(*shape, dtype=F16) for shape in shapes))
    module = PassManager(pipeline.graph_pipeline("sm_90")).run(graph.module, PassContext())
    calls = [op for op in module.entry.body.ops if op.name == "graph.call"]
    assert len(calls) == 3  # the weights, the bias, the product


@pytest.mark.parametrize(
    ("formula", "x", "w", "together"),
    [
        (_turned(3), (16, 32, 16, 32, 64), (32, 16, 3, 5, 7), True),
        (_conv(padding=1, layout="NHWC"), (16, 256, 256, 64), (16, 3, 3, 64), True),
        (_conv(padding=1, layout="NHWC"), (16, 256, 256, 64), (128, 3, 3, 64), False),  # wide enough
        (_conv(padding=1, layout="NHWC"), (1, 16, 16, 64), (16, 3, 3, 64), False),  # less than a launch is gained
        (_conv(layout="NHWC"), (16, 256, 256, 64), (16, 1, 1, 64), False),  # windows share nothing
        (_conv(dilation=2, layout="NHWC"), (16, 256, 256, 64), (16, 3, 3, 64), False),
        (_turned(stride=2, layout="NHWC"), (16, 256, 256, 64), (64, 3, 5, 16), False),  # they take turns
    ],
)
def test_which_positions_are_columns(formula: Formula, x: Shape, w: Shape, together: bool) -> None:
    context = PassContext()
    graph = tiledsl.trace(formula, *(tile.spec(shape, tile.f16) for shape in (x, w)))
    PassManager([WidenColumns("sm_90")]).run(graph.module, context)
    assert bool(context.remarks) == together


@pytest.mark.parametrize("arch", ["cpu", "sm_80"])
def test_other_targets_keep_them(arch: str) -> None:
    formula, *shapes = WIDENED["channels first"]
    graph = tiledsl.trace(formula, *(normal(*shape, dtype=F16) for shape in shapes))
    context = PassContext()
    PassManager([WidenColumns(arch, -1000)]).run(graph.module, context)
    assert not context.remarks
