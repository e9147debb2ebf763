"""Folds of much into little are done in two steps, and give the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.compare import assert_close
from tiledsl import tile
from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.ir.graph_ops import Reduce
from tiledsl.passes.graph.groups.cut_axes import Parts, parts_of
from tiledsl.passes.graph.groups.split_folds import SplitFolds
from tiledsl.passes.graph.pipeline import graph_pipeline
from tiledsl.passes.manager import PassContext, PassManager


def squares(x: Any) -> Any:
    return tile.sum(x * x)


def columns(x: Any) -> Any:
    return tile.max(x + 1, axis=0, keepdims=True)


def rows_of(x: Any, w: Any) -> Any:
    return tile.sum(x * w[:, None], axis=1)


CASES: list[tuple[Callable[..., Any], list[tuple[int, ...]], int]] = [
    (squares, [(96, 1024)], 2),
    (squares, [(90000,)], 2),
    (squares, [(2, 70000)], 2),
    (columns, [(80000, 2)], 2),
    (rows_of, [(3, 66000), (3,)], 2),
    (squares, [(65537,)], 1),  # a prime
    (squares, [(65536,)], 1),  # not many
    (squares, [(2, 3)], 1),
]


@pytest.mark.parametrize(("function", "shapes", "steps"), CASES)
@pytest.mark.parametrize("arch", ["cpu", "sm_90"])
def test_splits(function: Callable[..., Any], shapes: list[tuple[int, ...]], steps: int, arch: str) -> None:
    graph = tiledsl.trace(function, *(tile.spec(shape, tile.f32) for shape in shapes))
    module = PassManager([SplitFolds(arch=arch)]).run(graph.module, PassContext())
    assert sum(isinstance(op, Reduce) for op in module.walk()) == steps
    generator = np.random.default_rng(1)
    arrays = [generator.standard_normal(shape).astype(np.float32) for shape in shapes]
    (expected,) = execute_graph(graph.module.entry, arrays)
    (actual,) = execute_graph(module.entry, arrays)
    assert_close(actual, expected, relative=1e-4)


def test_what_is_computed_for_each_element_is_one_kernel_with_the_first_step() -> None:
    graph = tiledsl.trace(squares, tile.spec((8192, 8192), tile.f32))
    context = PassContext()
    module = PassManager(graph_pipeline("sm_90")).run(graph.module, context)
    assert len(module.functions) == 3
    assert any("by 8192 programs for each first" in remark.text for remark in context.remarks)


def places(x: Any) -> Any:
    return tile.argmax(x, axis=0), tile.argmin(x, axis=0, keepdims=True)


@pytest.mark.parametrize("shape", [(70000,), (8192, 2048)])
def test_places_of_extrema_in_two_steps(shape: tuple[int, ...]) -> None:
    graph = tiledsl.trace(places, tile.spec(shape, tile.f16))
    module = PassManager([SplitFolds(arch="sm_90")]).run(graph.module, PassContext())
    assert sum(isinstance(op, Reduce) for op in module.walk()) == 8
    # many are equal, some are no number
    array = np.random.default_rng(2).integers(-9, 9, shape).astype(np.float16)
    if array.ndim > 1:
        array[[77, 5000], 3] = np.nan
    expected, actual = (execute_graph(f, [array]) for f in (graph.module.entry, module.entry))
    for one, other in zip(actual, expected):
        np.testing.assert_array_equal(one, other)


def test_very_many_parts_are_folded_in_parts_too() -> None:
    graph = tiledsl.trace(squares, tile.spec((1 << 12, 1 << 20), tile.f32))
    module = PassManager([SplitFolds(arch="sm_90")]).run(graph.module, PassContext())
    assert sum(isinstance(op, Reduce) for op in module.walk()) == 3


def test_cuts_are_near_to_what_is_wanted() -> None:
    assert parts_of((4096, 2048), (0, 1), 1000) == Parts((), 0, 4096, 4096)
    assert parts_of((16, 1 << 20), (0, 1), 1000) == Parts((0,), 1, 64, 1024)
    assert parts_of((112, 64, 512, 512), (0, 1, 2, 3), 57344) == Parts((0, 1), 2, 8, 57344)
    assert parts_of((2 * 1000003,), (0,), 8) == Parts((), 0, 2, 2)
    assert parts_of((2 * 1000003,), (0,), 1000) is None
    assert parts_of((1000003,), (0,), 1000) is None
