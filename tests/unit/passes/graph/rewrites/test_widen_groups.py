"""Narrow groups that become one: the graph means the same, TMA brings windows, and wide or few groups stay."""

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
from tiledsl.passes.graph.rewrites.widen_groups import WidenGroups
from tiledsl.passes.manager import PassContext, PassManager

Formula = Callable[..., Any]
Shape = tuple[int, ...]


def _conv(rank: int = 2, **options: Any) -> Formula:
    conv = {1: ops.conv1d, 2: ops.conv2d, 3: ops.conv3d}[rank]
    return lambda x, w: conv(x, w, **options)


def _turned(rank: int = 2, **options: Any) -> Formula:
    conv = {1: ops.conv_transpose1d, 2: ops.conv_transpose2d, 3: ops.conv_transpose3d}[rank]
    return lambda x, w: conv(x, w, **options)


def _with_bias(x: Any, w: Any) -> Any:
    return tile.relu(ops.conv2d(x, w, w[:, 0, 0, 0], padding=1, groups=8))


WIDENED: dict[str, tuple[Formula, Shape, Shape]] = {
    "channels first": (_conv(padding=1, groups=8), (2, 32, 5, 6), (32, 4, 3, 3)),
    "channels first, bias, relu": (_with_bias, (2, 32, 5, 6), (32, 4, 3, 3)),
    "channels last": (_conv(layout="NHWC", groups=4), (2, 5, 6, 32), (64, 3, 3, 8)),
    "every other": (_conv(padding=1, stride=2, groups=4), (2, 32, 5, 6), (32, 8, 3, 3)),
    "one axis": (_conv(1, padding=1, dilation=2, groups=4), (3, 32, 11), (32, 8, 3)),
    "three axes": (_conv(3, padding=1, groups=4), (1, 32, 2, 3, 4), (32, 8, 2, 3, 3)),
    "transposed": (_turned(stride=2, padding=1, groups=4), (2, 32, 3, 5), (32, 8, 4, 4)),
    "transposed, three axes": (_turned(3, stride=2, groups=2, output_padding=1), (1, 32, 2, 2, 3), (32, 8, 2, 3, 3)),
    "transposed, channels last": (_turned(stride=2, layout="NHWC", groups=4), (2, 3, 5, 32), (32, 3, 3, 8)),
}


def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small images gain nothing worth a launch."""
    monkeypatch.setattr(pipeline, "WidenGroups", partial(WidenGroups, least=-1))


@pytest.mark.parametrize("name", WIDENED)
def test_in_the_emulator(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _always(monkeypatch)
    formula, *shapes = WIDENED[name]
    arrays = [normal(*shape, dtype=F16) for shape in shapes]
    graph = tiledsl.trace(formula, *arrays)
    (expected,) = execute_graph(graph.module.entry, arrays, graph.module)
    context = PassContext()
    (module,) = [PassManager([WidenGroups("sm_90", -1)]).run(graph.module.clone(), context)]
    assert "groups are one" in str(context.remarks)
    (widened,) = execute_graph(module.entry, arrays, module)
    assert_close(widened, expected, relative=4e-3, terms=32 * 16)
    kernels = tiledsl.fuse(graph).build(arch="sm_90").kernels
    assert any("gpu.tma_windows" in kernel.ir("gpu") for kernel in kernels.values())
    actual = emulate_graph(graph, arrays, {}, None, Request(arch="sm_90")).result
    assert_close(np.asarray(actual), expected, relative=4e-3, terms=32 * 16)


def test_epilogues_are_of_the_same_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    _always(monkeypatch)
    formula, *shapes = WIDENED["channels first, bias, relu"]
    graph = tiledsl.trace(formula, *(normal(*shape, dtype=F16) for shape in shapes))
    module = PassManager(pipeline.graph_pipeline("sm_90")).run(graph.module, PassContext())
    assert (
        len([op for op in module.entry.body.ops if op.name == "graph.call"]) == 3
    )  # the image, the weights, the product


@pytest.mark.parametrize(
    ("x", "w", "groups", "together"),
    [
        ((32, 128, 56, 56), (128, 4, 3, 3), 32, 16),  # ResNeXt
        ((32, 256, 28, 28), (256, 8, 3, 3), 32, 8),
        ((32, 256, 28, 28), (256, 64, 3, 3), 4, None),  # rows of 128 bytes
        ((32, 128, 56, 56), (128, 1, 3, 3), 128, None),  # depthwise: a fold
        ((1, 32, 7, 7), (32, 8, 3, 3), 4, None),  # less than a launch is to be gained
    ],
)
def test_which_groups_are_one(x: Shape, w: Shape, groups: int, together: int | None) -> None:
    context = PassContext()
    graph = tiledsl.trace(_conv(padding=1, groups=groups), *(tile.spec(shape, tile.f16) for shape in (x, w)))
    PassManager([WidenGroups("sm_90")]).run(graph.module, context)
    wanted = [] if together is None else [f"{together} groups are one, with zeros among the weights"]
    assert [remark.text for remark in context.remarks] == wanted


@pytest.mark.parametrize("arch", ["cpu", "sm_80"])
def test_other_targets_keep_them(arch: str) -> None:
    formula, *shapes = WIDENED["channels first"]
    graph = tiledsl.trace(formula, *(normal(*shape, dtype=F16) for shape in shapes))
    context = PassContext()
    PassManager([WidenGroups(arch, -1)]).run(graph.module, context)
    assert not context.remarks


def test_wide_groups_with_channels_first_are_laid() -> None:
    given = [tile.spec(shape, tile.f16) for shape in ((32, 256, 28, 28), (256, 64, 3, 3))]
    audit = tiledsl.fuse(tiledsl.trace(_conv(padding=1, groups=4), *given)).audit("sm_90")
    assert audit.ratio < 4
