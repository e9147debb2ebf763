"""Positions that become columns: the graph means the same, in the emulator too, and wide products stay."""

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
from tiledsl.passes.graph.rewrites.windows.widen_columns import WidenColumns
from tiledsl.passes.manager import PassContext, PassManager

LAYOUTS = {1: "NWC", 2: "NHWC", 3: "NDHWC"}


def _with_bias(x: Any, w: Any) -> Any:
    return tile.relu(ops.conv2d(x, w, w[:, 0, 0, 0], padding=1, layout="NHWC"))


def _with_norm(x: Any, w: Any) -> Any:
    return tile.gelu(ops.conv2d(x, w, w[:, 0, 0, 0], padding=1) * 0.5)


WIDENED: dict[str, tuple[Formula, Shape, Shape]] = {
    "channels first": (conv(padding=1), (2, 32, 5, 6), (16, 32, 3, 3)),
    "channels first, bias, gelu": (_with_norm, (2, 32, 5, 6), (16, 32, 3, 3)),
    "channels last": (conv(layout="NHWC"), (2, 5, 8, 32), (8, 3, 3, 32)),
    "bias, relu": (_with_bias, (2, 5, 8, 32), (8, 3, 3, 32)),
    "three channels": (conv(padding=1), (2, 3, 5, 6), (16, 3, 3, 3)),
    "15 positions": (conv(), (1, 32, 4, 17), (8, 32, 3, 3)),
    "every other": (conv(padding=1, stride=2, layout="NHWC"), (2, 6, 8, 32), (8, 3, 3, 32)),
    "one axis": (conv(1, padding=2, layout="NWC"), (3, 12, 32), (16, 5, 32)),
    "three axes": (conv(3, padding=1), (1, 16, 2, 3, 4), (8, 16, 2, 3, 3)),
    "transposed": (turned(padding=1), (2, 32, 3, 5), (32, 8, 3, 4)),
    "transposed, channels last": (turned(3, layout="NDHWC"), (1, 2, 3, 5, 16), (16, 2, 3, 4, 8)),
    "transposed, every other line": (turned(stride=(2, 1), layout="NHWC"), (2, 3, 5, 32), (32, 3, 4, 8)),
}


def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small images gain nothing worth a launch."""
    monkeypatch.setattr(pipeline, "WidenColumns", partial(WidenColumns, least=-1000))


@pytest.mark.parametrize("name", WIDENED)
def test_in_the_emulator(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _always(monkeypatch)
    formula, *shapes = WIDENED[name]
    assert_means_the_same(WidenColumns("sm_90", -1000), "are columns of one product", formula, shapes)


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
        (turned(3), (16, 32, 16, 32, 64), (32, 16, 3, 5, 7), True),
        (conv(padding=1, layout="NHWC"), (16, 256, 256, 64), (16, 3, 3, 64), True),
        (conv(padding=1, layout="NHWC"), (16, 256, 256, 64), (128, 3, 3, 64), False),  # wide enough
        (conv(padding=1, layout="NHWC"), (1, 16, 16, 64), (16, 3, 3, 64), False),  # less than a launch is gained
        (conv(3), (128, 3, 16, 64, 64), (16, 3, 3, 3, 3), True),  # by rows of windows, 62 positions
        (conv(padding=3, stride=2, layout="NHWC"), (16, 224, 224, 3), (64, 7, 7, 3), False),  # wide enough
        (conv(layout="NHWC"), (16, 256, 256, 64), (16, 1, 1, 64), False),  # windows share nothing
        (conv(dilation=2, layout="NHWC"), (16, 256, 256, 64), (16, 3, 3, 64), False),
        (turned(stride=2, layout="NHWC"), (16, 256, 256, 64), (64, 3, 5, 16), False),  # they take turns
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
