"""An elementwise op at the edge of a group goes to the kernel that reads it, where that costs less."""

from __future__ import annotations

from typing import Any

import numpy as np

import tiledsl
from tests.support.compare import assert_close
from tiledsl import tile
from tiledsl.backend_ref.execute_graph import execute_graph


def normed_product(x: Any, w: Any) -> Any:
    wide = (x @ w).to(tile.f32)
    return (wide * tile.rsqrt(tile.mean(wide * wide, axis=-1, keepdims=True) + 1e-5)).to(x.dtype)


def test_squares_are_made_where_they_are_summed() -> None:
    half = tile.spec((2048, 4096), tile.f16), tile.spec((4096, 4096), tile.f16)
    audit = tiledsl.fuse(tiledsl.trace(normed_product, *half)).audit("sm_90")
    assert sum(kernel.runs for kernel in audit.kernels) == 2  # the product; all of the norm
    assert audit.ratio < 1.5


def test_results_are_the_same() -> None:
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(shape).astype(np.float16) for shape in ((64, 32), (32, 48)))
    graph = tiledsl.trace(normed_product, x, w)
    expected = execute_graph(graph.module.entry, [x, w], graph.module)
    lowered = tiledsl.fuse(graph).lowered("sm_90")
    for actual, wanted in zip(execute_graph(lowered.entry, [x, w], lowered), expected):
        assert_close(actual, wanted, relative=4e-3)
