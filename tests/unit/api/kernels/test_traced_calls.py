"""Kernels in formulas, and kernels that are formulas."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.kernels.call_kernels import gemm
from tiledsl import TileError, TileSyntaxError, tile
from tiledsl.ir.verifier import Form, verify

F32 = np.float32
SQUARE = np.full((16, 16), 0.5, F32)


@tile.kernel
def shifted(x: Any, by: Any, times: tile.constexpr = 1) -> Any:
    y = tile.empty(x.shape, x.dtype)
    for m, n in tile.grid(x.shape[0], x.shape[1]):
        y[m, n] = x[m, n] + by * times
    return y


@tile.func
def twice(x: Any) -> Any:
    return x + x


@tile.kernel
def layer(x: Any, w: Any, *, act: Any = tile.relu) -> Any:
    return act(twice(gemm(x, w)) - 1)


@tile.kernel
def statistics(x: Any, k: tile.constexpr = 1) -> Any:
    return x.sum(-1), x.max(-1) * k


def test_tile_form_is_called_and_tensor_form_is_inlined() -> None:
    def model(x: Any, w: Any) -> Any:
        for _ in range(2):
            x = layer(x, w)
        return shifted(shifted(x, x.sum(), times=3), 2), shifted(x, w.sum(), times=3)

    graph = tiledsl.trace(model, SQUARE, SQUARE)
    verify(graph.module, Form.GRAPH)
    assert [f.name for f in graph.module.functions] == ["model", "gemm", "shifted", "shifted_1"]
    x = SQUARE
    for _ in range(2):
        x = np.maximum(x @ SQUARE * 2 - 1, 0)
    first, second = graph(SQUARE, SQUARE)
    np.testing.assert_allclose(first, x + 3 * x.sum() + 2, rtol=1e-5)
    np.testing.assert_allclose(second, x + 3 * SQUARE.sum(), rtol=1e-5)


def test_locations_tell_the_chain_of_calls() -> None:
    graph = tiledsl.trace(lambda x: layer(x, x), SQUARE)
    doubled = graph.module.entry.body.ops[1]
    assert [place.source for place in doubled.location.chain()][:2] in (["x + x", "twice(gemm(x, w))"], [""] * 2)
    assert len(list(doubled.location.chain())) == 3


def test_a_formula_is_called_with_arrays() -> None:
    np.testing.assert_allclose(layer(SQUARE, w=SQUARE), SQUARE @ SQUARE * 2 - 1)
    total, most = statistics(SQUARE, k=3)
    assert (total[0], most[0]) == (8, 1.5)
    out = (np.zeros(16, F32), np.zeros(16, F32))
    assert statistics(SQUARE, out=out) is out
    assert out[0][3] == 8
    bound = statistics.bind(SQUARE)
    assert "statistics" in statistics.explain()
    assert bound()[1][0] == 0.5  # pyright: ignore[reportIndexIssue]


@tile.kernel
def plus(x: Any, y: Any) -> Any:
    return x + y


def test_numbers_of_other_kinds_are_other_formulas() -> None:
    x = np.ones(3, np.int32)
    assert [plus(x, y).dtype for y in (1, 1.0, True, 1)] == [np.int32, np.float64, np.int32, np.int32]
    assert [np.signbit(plus(-np.zeros(1), y)).item() for y in (0.0, -0.0)] == [False, True]


LIMIT = 1.0


@tile.kernel
def limited(x: Any) -> Any:
    return tile.minimum(x, LIMIT)


def test_a_changed_global_is_seen() -> None:
    global LIMIT
    assert limited(SQUARE * 8)[0, 0] == 1
    LIMIT = 3.0
    assert limited(SQUARE * 8)[0, 0] == 3


def test_the_ir_of_a_formula() -> None:
    text = statistics.ir(tile.spec(("M", 4), tile.f16), level="graph")
    assert text.startswith("func @statistics(%x: tensor<f16, [M, 4], unit=1>) {\n  %0 = graph.reduce(%x)")


def test_a_formula_is_compiled() -> None:
    compiled: Any = statistics.compile(SQUARE, arch="cpu", k=3)
    assert compiled.ir("graph") == statistics.ir(SQUARE, level="graph", k=3)
    assert "tile.grid" in compiled.ir("tile")
    total, most = compiled(SQUARE)
    assert (total[0], most[0]) == (8, 1.5)
    assert compiled.explain()
    with pytest.raises(TileError, match="level"):
        compiled.ir("gpu")


def test_helpers_and_words_need_a_trace() -> None:
    with pytest.raises(TileSyntaxError):
        twice(SQUARE)
    with pytest.raises(TileSyntaxError):
        tile.exp(1.0)
