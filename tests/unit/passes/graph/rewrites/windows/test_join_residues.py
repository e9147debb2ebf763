"""Residues that become columns: the graph means the same, in the emulator too, and there are fewer products."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.compare import assert_close
from tests.support.kernels.wider_convolutions import Formula, Shape
from tests.support.op_checks import F16, normal
from tiledsl import ops, tile
from tiledsl.api.graphs.emulate_graph import emulate_graph
from tiledsl.api.programs.emulate import Request
from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.ir import graph_ops
from tiledsl.ir.core import Module
from tiledsl.passes.graph import pipeline
from tiledsl.passes.graph.rewrites.windows.join_residues import JoinResidues
from tiledsl.passes.manager import PassContext, PassManager


def _turned(rank: int = 2, last: bool = True, **options: Any) -> Formula:
    conv = {1: ops.conv_transpose1d, 2: ops.conv_transpose2d, 3: ops.conv_transpose3d}[rank]
    layout = {1: "NWC", 2: "NHWC", 3: "NDHWC"}[rank] if last else None
    return lambda x, w: conv(x, w, layout=layout, **options)


def _with_bias(x: Any, w: Any) -> Any:
    return tile.gelu(ops.conv_transpose2d(x, w, w[0, 0, 0], stride=2, padding=1, layout="NHWC"))


JOINED: dict[str, tuple[Formula, Shape, Shape, int]] = {
    "3x3": (_turned(stride=2, padding=1, output_padding=1), (2, 3, 5, 32), (32, 3, 3, 16), 2),
    "3x3, bias, gelu": (_with_bias, (2, 3, 5, 32), (32, 4, 4, 16), 1),
    "3x3, channels first": (_turned(last=False, stride=2, output_padding=1), (2, 32, 3, 5), (32, 16, 3, 3), 2),
    "4x4": (_turned(stride=2, padding=1), (2, 3, 5, 32), (32, 4, 4, 16), 1),
    "4x4, no padding": (_turned(stride=2), (2, 3, 5, 32), (32, 4, 4, 16), 1),
    "5x6 in threes": (_turned(stride=(2, 3), padding=(0, 2), output_padding=(0, 1)), (2, 3, 5, 32), (32, 5, 6, 8), 2),
    "one axis": (_turned(1, stride=2, padding=1, output_padding=1), (2, 9, 32), (32, 3, 16), 1),
    "one axis, dilated": (_turned(1, stride=3, dilation=4, output_padding=2), (2, 9, 32), (32, 5, 16), 3),
    "three axes": (_turned(3, stride=2, output_padding=1), (1, 2, 3, 4, 16), (16, 2, 3, 3, 8), 4),
    "along one axis": (_turned(stride=(1, 2), padding=1, output_padding=(0, 1)), (2, 3, 5, 32), (32, 3, 5, 16), 1),
}
"""With the number of products that are left."""


def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small images gain nothing worth a launch."""
    monkeypatch.setattr(pipeline, "JoinResidues", partial(JoinResidues, least=-1000))


def _products(module: Module) -> int:
    multiplied = {f.name for f in module.functions[1:] if any(op.name == "tile.dot" for op in f.walk())}
    return sum(isinstance(op, graph_ops.Call) and op.callee in multiplied for op in module.entry.body.ops)


@pytest.mark.parametrize("name", JOINED)
def test_in_the_emulator(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _always(monkeypatch)
    formula, *shapes, count = JOINED[name]
    arrays = [normal(*shape, dtype=F16) for shape in shapes]
    graph = tiledsl.trace(formula, *arrays)
    (expected,) = execute_graph(graph.module.entry, arrays, graph.module)
    lowered = PassManager(pipeline.graph_pipeline("sm_90")).run(graph.module.clone(), PassContext())
    assert _products(lowered) == count
    (joined,) = execute_graph(lowered.entry, arrays, lowered)
    assert_close(joined, expected, relative=4e-3, terms=32 * 16)
    actual = emulate_graph(graph, arrays, {}, None, Request(arch="sm_90")).result
    assert_close(np.asarray(actual), expected, relative=4e-3, terms=32 * 16)


@pytest.mark.parametrize(
    ("formula", "x", "w", "joined"),
    [
        (_turned(stride=2, padding=1, output_padding=1), (16, 64, 64, 64), (64, 3, 3, 128), True),
        (_turned(3, stride=2, padding=1, output_padding=1), (8, 16, 32, 32, 32), (32, 3, 3, 3, 64), True),
        (_turned(stride=2, padding=1), (16, 4, 4, 512), (512, 4, 4, 256), False),  # one launch, and products are wide
        (_turned(stride=2, padding=1), (1, 8, 8, 64), (64, 3, 3, 64), False),  # less than a launch is gained
    ],
)
def test_which_residues_are_columns(formula: Formula, x: Shape, w: Shape, joined: bool) -> None:
    context = PassContext()
    graph = tiledsl.trace(formula, *(tile.spec(shape, tile.f16) for shape in (x, w)))
    PassManager([JoinResidues("sm_90")]).run(graph.module, context)
    assert bool(context.remarks) == joined


@pytest.mark.parametrize("arch", ["cpu", "sm_80"])
def test_other_targets_keep_them(arch: str) -> None:
    formula, *shapes, _ = JOINED["3x3"]
    graph = tiledsl.trace(formula, *(normal(*shape, dtype=F16) for shape in shapes))
    context = PassContext()
    PassManager([JoinResidues(arch, -1000)]).run(graph.module, context)
    assert not context.remarks
