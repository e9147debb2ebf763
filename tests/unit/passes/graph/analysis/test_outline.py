"""What goes through memory between groups, and what each group computes again."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

import tiledsl
from tests.support.compare import assert_close
from tiledsl import tile


def normalised(x: Any) -> Any:
    wide = x.to(tile.f32)
    return (wide * tile.rsqrt((wide * wide).mean(axis=-1, keepdims=True) + 1e-6)).to(x.dtype)


def residual(x: Any, w: Any, v: Any) -> Any:
    """A narrow value that a product reads, and a sum that computes in f32."""
    y = normalised(x)
    return normalised(tile.relu(y @ w) @ v + y)


def test_narrow_floats_are_stored_narrow_and_widened_where_they_are_read() -> None:
    generator = np.random.default_rng(0)
    x, w, v = (generator.standard_normal(shape).astype(np.float16) for shape in ((64, 32), (32, 512), (512, 32)))
    graph = tiledsl.trace(residual, x, w, v)
    fused = tiledsl.fuse(graph)
    assert re.findall(r"%y = graph.call.* : (.*)", fused.ir("sm_90")) == ["tensor<f16, [64, 32]>"]
    assert_close(fused.build("cpu")(x, w, v), graph(x, w, v), relative=1e-2, absolute=1e-2)


def test_a_widened_result_is_stored() -> None:
    x = np.ones((3, 4), np.float16) * np.arange(4, dtype=np.float16)

    def formula(x: Any) -> Any:
        return x.to(tile.f32), x.to(tile.f32).T + 1

    graph = tiledsl.trace(formula, x)
    wide, turned = tiledsl.fuse(graph).build("cpu")(x)
    assert_close(wide, x.astype(np.float32))
    assert_close(turned, np.transpose(x).astype(np.float32) + 1)


def test_whole_rows_are_stored_as_they_lie_for_products() -> None:
    """Those read operands of two bytes in either order; threads have a row each."""

    def linear(x: Any, v: Any) -> Any:
        return x @ normalised(v).T

    fused = tiledsl.fuse(tiledsl.trace(linear, tile.spec((3000, 1536), tile.f16), tile.spec((1280, 1536), tile.f16)))
    found = re.findall(r"graph.call.*tensor<f16, \[(\d+), (\d+)\]>", fused.ir("sm_90"))
    assert found == [("1280", "1536"), ("3000", "1280")]
