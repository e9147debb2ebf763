"""Rows that are too long to be whole: folds stream, and what they read is computed again where others read it too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, note, settings

import tiledsl
from tests.support.compare import assert_close
from tests.support.generators.random_graphs import RandomGraph, graph_modules
from tiledsl import ops, tile
from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.ir.core import Module
from tiledsl.ir.text.printer import print_module
from tiledsl.ir.tile_ops import Range
from tiledsl.passes.graph.analysis import limits
from tiledsl.passes.graph.pipeline import graph_pipeline
from tiledsl.passes.graph.rewrites.set_sizes import SetSizes
from tiledsl.passes.manager import PassContext, PassManager


def long_rows(module: Module, row: int, *passes: Any) -> Module:
    with patch.object(limits, "CPU_LIMITS", replace(limits.CPU_LIMITS, row=row)):
        return PassManager([*passes, *graph_pipeline("cpu")]).run(module, PassContext())


def softmax(x: Any) -> Any:
    return ops.softmax(x, axis=-1)


def layer_norm(x: Any) -> Any:
    return ops.layer_norm(x, 333)


def variance(x: Any) -> Any:
    return ops.var(x, axis=1)


def loss(x: Any) -> Any:
    return ops.cross_entropy(x, tile.argmax(x, axis=1), reduction="none")


def running(x: Any) -> Any:
    return tile.cumsum(x, axis=1) * 2


@pytest.mark.parametrize(
    ("formula", "kernels"), [(softmax, 2), (layer_norm, 2), (variance, 1), (loss, 2), (running, 2)]
)
@pytest.mark.parametrize("dtype", [tile.f16, tile.f32])
def test_kernels_of_long_rows(formula: Callable[..., Any], kernels: int, dtype: Any) -> None:
    graph = tiledsl.trace(formula, tile.spec((5, 333), dtype))
    module = long_rows(graph.module, 100)
    x = np.random.default_rng(0).standard_normal((5, 333)).astype(np.float16 if dtype == tile.f16 else np.float32)
    (actual,) = execute_graph(module.entry, [x], module)
    (expected,) = execute_graph(graph.module.entry, [x], graph.module)
    assert_close(actual, expected, relative=0.01 if dtype == tile.f16 else 1e-4)
    assert len(module.functions) - 1 <= kernels
    loops = [op for op in module.walk() if isinstance(op, Range)]
    assert (not loops) == (formula is running)


@given(graph=graph_modules())
@settings(max_examples=100, deadline=None)
def test_random_graphs_with_long_rows_compute_the_same(graph: RandomGraph) -> None:
    expected = graph.execute()
    module = long_rows(graph.module, 2, SetSizes(tuple(graph.sizes.items())))
    note(print_module(module))
    graph.check(execute_graph(module.entry, graph.arguments(), module), expected)
