"""Patches that become rows of a matrix: the graph means the same, in the emulator too; wide ones and others stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.kernels.wider_convolutions import Formula, Shape, assert_means_the_same, conv
from tests.support.op_checks import F16
from tiledsl import ops, tile
from tiledsl.api.graphs.fused import FusedGraph
from tiledsl.passes.graph.rewrites.windows.join_patches import JoinPatches

REMARK = "windows lie side by side"


def _with_bias(x: Any, w: Any) -> Any:
    return tile.relu(ops.conv2d(x, w, w[:, 0, 0, 0], stride=(8, 4), layout="NHWC"))


def _twice(x: Any, w: Any) -> Any:
    return ops.conv2d(x, w, stride=8) + ops.conv2d(x, w * 2, stride=8)


JOINED: dict[str, tuple[Formula, Shape, Shape]] = {
    "channels first": (conv(stride=8), (2, 3, 16, 24), (16, 3, 8, 8)),
    "what is left at the ends": (conv(stride=8), (1, 3, 21, 18), (16, 3, 8, 8)),
    "channels last, bias, relu": (_with_bias, (2, 16, 12, 3), (24, 8, 4, 3)),
    "one channel": (conv(stride=8), (1, 1, 16, 16), (16, 1, 8, 8)),
    "one axis": (conv(1, stride=32, layout="NWC"), (2, 64, 3), (16, 32, 3)),
    "three axes": (conv(3, stride=(2, 4, 4)), (1, 3, 4, 8, 8), (16, 3, 2, 4, 4)),
    "two products of one image": (_twice, (1, 3, 16, 16), (16, 3, 8, 8)),
}
LEFT: dict[str, tuple[Formula, Shape, Shape]] = {
    "many channels": (conv(stride=2), (1, 32, 4, 4), (16, 32, 2, 2)),
    "overlapping": (conv(stride=4), (1, 3, 16, 16), (16, 3, 8, 8)),
    "apart": (conv(stride=9), (1, 3, 17, 17), (16, 3, 8, 8)),
    "padded": (conv(stride=8, padding=4), (1, 3, 16, 16), (16, 3, 8, 8)),
    "pixels": (conv(), (1, 3, 8, 8), (16, 3, 1, 1)),
    "few places": (conv(stride=2), (1, 3, 8, 8), (16, 3, 2, 2)),
}


def _fused(formula: Formula, shapes: Sequence[Shape]) -> FusedGraph:
    return tiledsl.fuse(tiledsl.trace(formula, *(np.zeros(shape, F16) for shape in shapes)))


@pytest.mark.parametrize("name", JOINED)
def test_in_the_emulator(name: str) -> None:
    formula, *shapes = JOINED[name]
    assert_means_the_same(JoinPatches("sm_90"), REMARK, formula, shapes, "mma")


@pytest.mark.parametrize("name", LEFT)
def test_others_stay(name: str) -> None:
    formula, *shapes = LEFT[name]
    assert REMARK not in _fused(formula, shapes).build("sm_90").explain()


def test_cpus_copy_windows_themselves() -> None:
    formula, *shapes = JOINED["channels first"]
    assert REMARK not in _fused(formula, shapes).build("cpu").explain()


def test_the_product_has_warps_with_roles() -> None:
    audit = _fused(conv(stride=16), [(64, 3, 224, 224), (768, 3, 16, 16)]).audit("sm_90")
    assert "no plan with specialised warps" not in str(audit)
    assert sum(kernel.runs for kernel in audit.kernels) == 2
