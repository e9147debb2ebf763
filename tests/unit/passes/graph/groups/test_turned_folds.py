"""Folds of what is transposed are made in the order of memory, and give the same."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.compare import assert_close
from tiledsl import tile
from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.ir.core import Module
from tiledsl.ir.graph_ops import Reduce, Transpose
from tiledsl.passes.graph.groups.turned_folds import turned_fold

SHAPE = (2, 3, 4, 5)


def turned(formula: Callable[..., Any], *arrays: Any) -> tuple[Module, list[Reduce], list[Reduce]]:
    """The formula's graph, its folds as they were, and as they are now."""
    module = tiledsl.trace(formula, *arrays).module
    before = [op for op in module.entry.body.ops if isinstance(op, Reduce)]
    return module, before, [turned_fold(op) for op in before]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axes", [(1,), (2, 3), (0, 2), (0, 1, 3), (0, 1, 2, 3)])
def test_gives_the_same(axes: tuple[int, ...], keepdims: bool) -> None:
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    for order in permutations(range(4)):
        if order == (0, 1, 2, 3):
            continue

        def formula(x: Any, order: tuple[int, ...] = order) -> Any:
            return tile.sum(tile.exp(x.transpose(order)) * 2.0, axis=axes, keepdims=keepdims) + 1.0

        expected = execute_graph(tiledsl.trace(formula, x).module.entry, [x])
        module, before, (now,) = turned(formula, x)
        assert now not in before
        assert sorted(now.axes) == sorted(order[axis] for axis in axes)
        for actual, wanted in zip(execute_graph(module.entry, [x], module), expected):
            assert_close(actual, wanted, terms=200)


def _with_another(x: Any, w: Any) -> Any:
    return tile.sum(x.transpose(1, 0) * w, axis=0)


def _read_twice(x: Any, w: Any) -> Any:
    seen = x.transpose(1, 0)
    return tile.sum(seen, axis=0) + tile.max(seen, axis=0) + w[0]


def _as_it_lies(x: Any, w: Any) -> Any:
    return tile.sum(x * 2.0, axis=0) + w[0, 0]


@pytest.mark.parametrize("formula", [_with_another, _read_twice, _as_it_lies])
def test_others_stay(formula: Callable[..., Any]) -> None:
    x, w = (np.ones(shape, np.float32) for shape in ((4, 6), (6, 4)))
    module, before, now = turned(formula, x, w)
    assert now == before
    assert any(isinstance(op, Transpose) for op in module.walk()) == (formula is not _as_it_lies)
