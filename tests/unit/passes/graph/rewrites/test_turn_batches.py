"""Products whose batches lie side by side: kernels compute the same, of turned copies where there is enough to do."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.compare import assert_close
from tests.support.op_checks import F16, normal
from tiledsl import tile
from tiledsl.api.graphs.emulate_graph import emulate_graph
from tiledsl.api.programs.emulate import Request
from tiledsl.backend_ref.execute_graph import execute_graph


def _triangle(a: Any, b: Any, g: Any) -> Any:
    """A product for each channel, the channels last, and a gate."""
    return tile.einsum("i k c, j k c -> i j c", a, b).to(a.dtype) * tile.sigmoid(g)


@pytest.mark.parametrize("seed", [0, 1])
def test_kernels_compute_the_same(seed: int) -> None:
    arrays = [normal(*shape, dtype=F16) for shape in ((56, 40, 6), (48, 40, 6), (56, 48, 6))]
    graph = tiledsl.trace(_triangle, *arrays)
    (expected,) = execute_graph(graph.module.entry, arrays, graph.module)
    found = emulate_graph(graph, arrays, {}, None, Request(arch="sm_90", plan=seed, seed=seed)).result
    assert_close(np.asarray(found), expected, relative=4e-3, terms=40)


def test_copies_are_made_where_there_is_enough_to_multiply() -> None:
    big = [tile.spec(shape, tile.f16) for shape in ((384, 256, 64), (384, 256, 64), (384, 384, 64))]
    small = [tile.spec(shape, tile.f16) for shape in ((8, 8, 64), (8, 8, 64), (8, 8, 64))]
    names = [tuple(f.name for f in tiledsl.fuse(tiledsl.trace(_triangle, *specs)).lowered("sm_90").functions)
             for specs in (big, small)]  # fmt: skip
    assert [any("turned" in name for name in found) for found in names] == [True, False]


def test_predicted_beside_the_floor() -> None:
    specs = [tile.spec(shape, tile.bf16) for shape in ((384, 384, 128), (384, 384, 128), (384, 384, 128))]
    assert tiledsl.fuse(tiledsl.trace(_triangle, *specs)).audit("sm_90").ratio < 4
