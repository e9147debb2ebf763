"""`tiledsl.fuse(graph).build(arch)`: what is built computes what the graph does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.compare import assert_close
from tiledsl import tile
from tiledsl.support.errors import TileError


def attention(q: Any, k: Any, v: Any) -> Any:
    """Causal, for any leading axes."""
    s = (q @ k.mT) * q.shape[-1] ** -0.5
    rows, columns = tile.arange(s.shape[-2])[:, None], tile.arange(s.shape[-1])[None, :]
    return tile.softmax(tile.where(rows >= columns, s, -np.inf), axis=-1) @ v


def normals(*shapes: tuple[int, ...]) -> list[np.ndarray[Any, Any]]:
    generator = np.random.default_rng(0)
    return [generator.standard_normal(shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("arch", ["cpu", "reference"])
def test_attention_is_one_kernel_and_right(arch: str) -> None:
    arrays = normals(*[(2, 3, 40, 16)] * 3)
    graph = tiledsl.trace(attention, *arrays)
    fused = tiledsl.fuse(graph)
    assert fused.ir(arch).count("graph.call") == 1
    assert_close(fused.build(arch)(*arrays), graph(*arrays))


def test_without_fusion_each_op_is_a_kernel() -> None:
    arrays = normals(*[(1, 2, 8, 4)] * 3)
    graph = tiledsl.trace(attention, *arrays)
    fused = tiledsl.fuse(graph, fusion=False)
    assert fused.ir().count("graph.call") > 8
    assert_close(fused.build("cpu")(*arrays), graph(*arrays))


def test_open_sizes_are_those_of_each_call() -> None:
    spec = tile.spec(("B", "H", "N", 8), tile.f32)
    graph = tiledsl.trace(attention, spec, spec, spec)
    module = tiledsl.fuse(graph).build()
    for length in (5, 16, 5):
        arrays = normals(*[(1, 2, length, 8)] * 3)
        assert_close(module(*arrays), graph(*arrays))
    assert len(module.modules) == 2


def test_structures_of_arguments_and_results_are_kept() -> None:
    def formula(x: Any, weights: dict[str, Any]) -> dict[str, Any]:
        h = x @ weights["w"]
        return {"sum": h + weights["b"], "rows": tile.sum(h, axis=-1)}

    x, w, b = normals((4, 6), (6, 5), (5,))
    graph = tiledsl.trace(formula, x, {"w": w, "b": b})
    results = tiledsl.fuse(graph).build("cpu")(x, {"w": w, "b": b})
    assert_close(results["sum"], x @ w + b)
    assert_close(results["rows"], (x @ w).sum(-1), terms=8)


def test_arguments_of_any_number_are_called_as_they_were_traced() -> None:
    def formula(x: Any, *rest: Any, k: Any, **named: Any) -> Any:
        return x - 2 * rest[0] + 3 * rest[1] - 5 * k + 7 * named["scale"]

    arrays = [np.full((2, 3), value, np.float32) for value in (1, 2, 4, 8, 16)]
    x, *rest, k, scale = arrays
    graph = tiledsl.trace(formula, x, *rest, k=k, scale=scale)
    module = tiledsl.fuse(graph).build(arch="cpu")
    for run in (graph, module):
        np.testing.assert_array_equal(run(x, *rest, scale=scale, k=k), formula(x, *rest, k=k, scale=scale))
    with pytest.raises(tiledsl.TileTypeError, match="without `rest_1`"):
        module(x, rest[0], k=k, scale=scale)


def test_arguments_of_any_number_keep_clear_of_other_names() -> None:
    def formula(*a: Any, a_0: Any) -> Any:
        return a[0] - 2 * a_0

    x = np.arange(4, dtype=np.float32)
    graph = tiledsl.trace(formula, x, a_0=x * 3)
    np.testing.assert_array_equal(graph(x, a_0=x * 3), -5 * x)


def test_calls_of_a_formula_look_at_their_arguments() -> None:
    @tile.kernel
    def formula(x: Any, w: Any) -> Any:
        return x @ w

    x, w, longer = normals((4, 6), (6, 5), (7, 6))
    for _ in range(3):  # the second and the third call take the short way
        assert_close(formula(x, w), x @ w)
        assert_close(formula(longer, w), longer @ w)
        assert_close(formula(x[:1][None][0], w), x[:1] @ w)
        assert_close(formula(x, np.asfortranarray(w)), x @ w)
        assert_close(formula(x.astype(np.float64), w.astype(np.float64)), x.astype(np.float64) @ w)
        assert_close(formula(x=x, w=w, out=np.empty((4, 5), np.float32)), x @ w)
        for wrong in ((x,), (x, w, w), (x, x), (x, None)):
            with pytest.raises(TileError):
                formula(*wrong)
