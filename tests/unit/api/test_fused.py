"""`tiledsl.fuse(graph).build(arch)`: what is built computes what the graph does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.compare import assert_close
from tiledsl import tile


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
