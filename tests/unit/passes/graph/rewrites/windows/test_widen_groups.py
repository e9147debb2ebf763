"""Narrow groups that become one: the graph means the same, TMA brings windows, and wide or few groups stay."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import tiledsl
from tests.support.kernels.wider_convolutions import Formula, Shape, assert_means_the_same, conv, turned
from tests.support.op_checks import F16, normal
from tiledsl import ops, tile
from tiledsl.passes.graph import pipeline
from tiledsl.passes.graph.rewrites.windows.widen_groups import WidenGroups
from tiledsl.passes.manager import PassContext, PassManager


def _with_bias(x: Any, w: Any) -> Any:
    return tile.relu(ops.conv2d(x, w, w[:, 0, 0, 0], padding=1, groups=8))


WIDENED: dict[str, tuple[Formula, Shape, Shape]] = {
    "channels first": (conv(padding=1, groups=8), (2, 32, 5, 6), (32, 4, 3, 3)),
    "channels first, bias, relu": (_with_bias, (2, 32, 5, 6), (32, 4, 3, 3)),
    "channels last": (conv(layout="NHWC", groups=4), (2, 5, 6, 32), (64, 3, 3, 8)),
    "every other": (conv(padding=1, stride=2, groups=4), (2, 32, 5, 6), (32, 8, 3, 3)),
    "one axis": (conv(1, padding=1, dilation=2, groups=4), (3, 32, 11), (32, 8, 3)),
    "three axes": (conv(3, padding=1, groups=4), (1, 32, 2, 3, 4), (32, 8, 2, 3, 3)),
    "transposed": (turned(stride=2, padding=1, groups=4), (2, 32, 3, 5), (32, 8, 4, 4)),
    "transposed, three axes": (turned(3, stride=2, groups=2, output_padding=1), (1, 32, 2, 2, 3), (32, 8, 2, 3, 3)),
    "transposed, channels last": (turned(stride=2, layout="NHWC", groups=4), (2, 3, 5, 32), (32, 3, 3, 8)),
}


def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small images gain nothing worth a launch."""
    monkeypatch.setattr(pipeline, "WidenGroups", partial(WidenGroups, least=-1))


@pytest.mark.parametrize("name", WIDENED)
def test_in_the_emulator(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _always(monkeypatch)
    formula, *shapes = WIDENED[name]
    assert_means_the_same(WidenGroups("sm_90", -1), "groups are one", formula, shapes)


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
    graph = tiledsl.trace(conv(padding=1, groups=groups), *(tile.spec(shape, tile.f16) for shape in (x, w)))
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
    audit = tiledsl.fuse(tiledsl.trace(conv(padding=1, groups=4), *given)).audit("sm_90")
    assert audit.ratio < 4
