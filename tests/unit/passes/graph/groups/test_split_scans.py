"""Running folds of long axes go in two steps, and give the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.compare import assert_close
from tiledsl import ops, tile
from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.ir.graph_ops import Scan
from tiledsl.passes.graph.analysis.shapes import sizes_of
from tiledsl.passes.graph.groups.split_scans import SplitScans
from tiledsl.passes.graph.pipeline import graph_pipeline
from tiledsl.passes.manager import PassContext, PassManager


def sums(x: Any) -> Any:
    return tile.cumsum(x * 2, axis=0)


def sums_from_the_end(x: Any) -> Any:
    return tile.cumsum(x, axis=-1, reverse=True)


def products(x: Any) -> Any:
    return tile.scan(1 + x / 1024, 0, tile.prod)


def largest(x: Any) -> Any:
    return tile.scan(x, 1, tile.maximum)


def places(x: Any) -> Any:
    return ops.cummin(x, axis=0, reverse=True)


CASES: list[tuple[Callable[..., Any], tuple[int, ...], int]] = [  # and the scans that they have then
    (sums, (40000,), 1),
    (sums, (32771,), 1),  # a prime: padded
    (sums, (16384,), 1),  # a block has it at hand
    (sums, (4096, 24), 1),
    (sums, (1031, 130), 1),
    (sums_from_the_end, (3, 65536), 1),
    (sums_from_the_end, (2, 30011), 1),
    (products, (50000,), 1),
    (largest, (2, 2000, 40), 1),
    (places, (2501, 33), 2),
    (sums, (2200000,), 2),  # what parts come to is scanned, too
]


@pytest.mark.parametrize(("function", "shape", "scans"), CASES)
def test_the_same_in_two_steps(function: Callable[..., Any], shape: tuple[int, ...], scans: int) -> None:
    graph = tiledsl.trace(function, tile.spec(shape, tile.f32))
    module = PassManager([SplitScans()]).run(graph.module, PassContext())
    generator = np.random.default_rng(1)
    array: Any = generator.integers(-50, 50, shape).astype(np.float32)
    expected, actual = (execute_graph(f, [array]) for f in (graph.module.entry, module.entry))
    for one, other in zip(actual, expected):
        assert_close(one, other, relative=1e-4)
    assert sum(isinstance(op, Scan) for op in module.walk()) == scans


def test_very_long_ones_are_split_again() -> None:
    graph = tiledsl.trace(sums, tile.spec((10**9 + 7,), tile.i32))
    module = PassManager([SplitScans()]).run(graph.module, PassContext())
    assert all(sizes_of(op.result)[-1] <= 8192 for op in module.walk() if isinstance(op, Scan))
    assert sum(isinstance(op, Scan) for op in module.walk()) == 2


@pytest.mark.parametrize(("function", "shape"), [(sums, (1 << 20,)), (sums, (4096, 8192)), (largest, (8, 1 << 17))])
def test_what_stands_before_a_part_is_folded_where_the_part_is_scanned(
    function: Callable[..., Any], shape: tuple[int, ...]
) -> None:
    graph = tiledsl.trace(function, tile.spec(shape, tile.f16))
    module = PassManager(graph_pipeline("sm_90")).run(graph.module, PassContext())
    assert len(module.functions) <= 3
