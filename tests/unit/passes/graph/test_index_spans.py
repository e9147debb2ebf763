"""Between which numbers coordinates of graphs lie."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiledsl
from tiledsl import tile
from tiledsl.ir.graph_ops import Gather
from tiledsl.ir.tile_ops import Load
from tiledsl.passes.graph.analysis.index_spans import index_span

SIZE = 12


@pytest.mark.parametrize(
    ("at", "span"),
    [
        (lambda i: i // 2, (0, 3)),
        (lambda i: i % 5, (0, 4)),
        (lambda i: 7 - i, (0, 7)),
        (lambda i: tile.minimum(i * 3, 11), (0, 11)),
        (lambda i: tile.maximum(i - 9, -4), (-4, -2)),
        (lambda i: i.to(tile.i32) + 1, (1, 8)),
        (lambda i: i.to(tile.i32) * 1000000000, None),
        (lambda i: i.to(tile.i16) + 1, None),
    ],
)
def test_spans(at: Any, span: tuple[int, int] | None) -> None:
    def formula(x: Any) -> Any:
        return x[at(tile.arange(8))]

    graph = tiledsl.trace(formula, tile.spec((SIZE,), tile.f32))
    (gather,) = [op for op in graph.module.entry.walk() if isinstance(op, Gather)]
    assert index_span(gather.indices) == span


def test_what_is_inside_is_not_checked() -> None:
    def formula(x: Any) -> Any:
        i = tile.arange(SIZE)
        return x[:, i // 2] * 2.0, x[:, i + 3] * 3.0

    fused = tiledsl.fuse(tiledsl.trace(formula, tile.spec((4, SIZE), tile.f32)))
    loads = [op for op in fused.lowered("sm_90").walk() if isinstance(op, Load)]
    assert sorted(op.in_bounds for op in loads) == [(), (1,)]
    x = np.arange(48, dtype=np.float32).reshape(4, SIZE)
    inside, beyond = fused.build("cpu")(x)
    assert np.array_equal(inside, np.repeat(x[:, :6], 2, axis=1) * 2)
    assert np.array_equal(beyond, np.pad(x[:, 3:], ((0, 0), (0, 3))) * 3)
