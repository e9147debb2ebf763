"""Elementwise ops around a call of a tile program go into its loads and stores, and compute the same there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note, settings

import tiledsl
from tests.support.compare import assert_close
from tests.support.generators.random_graphs import RandomGraph, graph_modules
from tests.support.generators.random_modules import random_array
from tiledsl import tile
from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.ir.graph_ops import Call, Cast, Map
from tiledsl.ir.text.printer import print_module
from tiledsl.ir.types import TensorType
from tiledsl.passes.graph.groups.fuse_into_calls import FuseIntoCalls
from tiledsl.passes.graph.pipeline import graph_pipeline
from tiledsl.passes.graph.rewrites.canonicalise_graph import CanonicaliseGraph
from tiledsl.passes.graph.rewrites.set_sizes import SetSizes
from tiledsl.passes.graph.rewrites.widen_floats import WidenFloats
from tiledsl.passes.manager import PassContext, PassManager

HALF = tile.spec((3, 8, 6), tile.f16)
ROW = tile.spec((6,), tile.f16)


@tile.kernel
def attend(q: tile.Tensor, k: tile.Tensor) -> tile.Tensor:
    """exp2(q @ k.mT) @ k, and a block size of its own, so that it stays a call."""
    H, M, D = q.shape
    H, N, D = k.shape
    out = tile.empty((H, M, D), q.dtype)
    for h, i in tile.grid(H, M, block=(1, 4)):
        acc = tile.zeros((i, D))
        for j in tile.range(N):
            s = tile.dot(q[h, i, :], k[h, j, :].mT)
            acc = tile.dot(tile.tanh(s).to(k.dtype), k[h, j, :], acc)
        out[h, i, :] = acc
    return out


@tile.kernel
def neighbours(x: tile.Tensor) -> tuple[tile.Tensor, tile.Tensor]:
    """Differences to the next plane, and planes in reverse order of axes."""
    H, M, D = x.shape
    out = tile.empty((H, M, D), x.dtype)
    turned = tile.empty((D, M, H), x.dtype)
    for h, m in tile.grid(H, M, block=(1, 4)):
        out[h, m, :] = x[h, m, :] - x[h + 1, m, :]
        turned[:, m, h] = x[h, m, :].T
    return out, turned


@tile.kernel
def totals(x: tile.Tensor) -> tile.Tensor:
    H, M, D = x.shape
    out = tile.zeros((H, D), tile.f32)
    for h, m in tile.grid(H, M, block=(1, 4)):
        tile.atomic_add(out[h, :], tile.sum(x[h, m, :].to(tile.f32), axis=0))
    return out


def both_sides(q: Any, k: Any, r: Any, row: Any) -> Any:
    return tile.gelu(attend(q * row, k) + r * 2)


def kept_too(q: Any, k: Any) -> Any:
    out = attend(q, k)
    return out, tile.relu(out)


def wider(q: Any, k: Any) -> Any:
    return attend(q, k).to(tile.f32)


def of_results(x: Any) -> Any:
    a, b = neighbours(x)
    return a * 2, b + 1


def twice(q: Any, k: Any) -> Any:
    return attend(attend(q * 2, k) + 1, k * 0.5)


def of_totals(x: Any) -> Any:
    return totals(x) * 2


CASES: list[tuple[Callable[..., Any], list[Any], int, str]] = [
    (both_sides, [HALF, HALF, HALF, ROW], 0, "computed where @attend stores its result"),
    (kept_too, [HALF, HALF], 0, "computed where @attend stores its result"),
    (wider, [HALF, HALF], 1, ""),
    (of_results, [HALF], 0, "computed where @neighbours stores its result"),
    (twice, [HALF, HALF], 0, "computed where @attend loads it"),
    (of_totals, [HALF], 1, "the program reads, combines or fills it"),
    (lambda x: neighbours(x * 2)[0], [HALF], 1, "the program may read beyond it"),  # pyright: ignore
    (lambda x: totals(tile.exp(x)), [HALF], 0, "computed where @totals loads it"),  # pyright: ignore
    (lambda q, k: attend(q, tile.exp(k)), [HALF, HALF], 1, "operations are too many to repeat"),  # pyright: ignore
    (lambda q, k: attend(q, tile.cumsum(k, axis=2) * 2), [HALF, HALF], 2, "a kernel makes what"),  # pyright: ignore
]


def fused(graph: Any, arch: str) -> tuple[Any, PassContext]:
    context = PassContext()
    passes = [CanonicaliseGraph(), WidenFloats(), FuseIntoCalls(arch=arch)]
    return PassManager(passes).run(graph.module, context), context


def check(before: Any, after: Any) -> None:
    generator = np.random.default_rng(0)
    types = [p.type for p in before.entry.parameters]
    arrays = [random_array(t.dtype, t.shape, {}, generator) for t in types if isinstance(t, TensorType)]
    for actual, wanted in zip(execute_graph(after.entry, arrays, after), execute_graph(before.entry, arrays, before)):
        assert_close(actual, wanted, relative=0.02)


@pytest.mark.parametrize(("function", "specs", "left", "remark"), CASES)
def test_what_goes_into_calls(function: Callable[..., Any], specs: list[Any], left: int, remark: str) -> None:
    graph = tiledsl.trace(function, *specs)
    module, context = fused(graph, "cpu")
    count = sum(isinstance(op, (Map, Cast)) for op in module.entry.body.ops)
    assert (count == 0) == (left == 0), print_module(module)
    assert remark in " ".join(r.text for r in context.remarks)
    check(graph.module, module)


def test_matrix_operands_stay_as_they_are_on_a_gpu() -> None:
    graph = tiledsl.trace(both_sides, HALF, HALF, HALF, ROW)
    module, context = fused(graph, "sm_90")
    assert any("matrix instructions want it" in r.text for r in context.remarks)
    assert sum(isinstance(op, Map) for op in module.entry.body.ops) == 1
    check(graph.module, module)


def test_equal_programs_are_one() -> None:
    def layers(q: Any, k: Any) -> Any:
        return attend(attend(q, k) + k, k) + k

    graph = tiledsl.trace(layers, HALF, HALF)
    module = PassManager(graph_pipeline("cpu")).run(graph.module, PassContext())
    assert [op.callee for op in module.entry.body.ops if isinstance(op, Call)] == ["attend_fused"] * 2
    assert len(module.functions) == 2
    check(graph.module, module)


@given(graph=graph_modules())
@settings(max_examples=100, deadline=None)
def test_random_graphs_compute_the_same(graph: RandomGraph) -> None:
    expected = graph.execute()
    passes = [SetSizes(tuple(graph.sizes.items())), CanonicaliseGraph(), FuseIntoCalls()]
    module = PassManager(passes).run(graph.module, PassContext())
    note(print_module(module))
    graph.check(execute_graph(module.entry, graph.arguments(), module), expected)


def test_a_built_module_runs_one_kernel() -> None:
    graph = tiledsl.trace(both_sides, HALF, HALF, HALF, ROW)
    module = tiledsl.fuse(graph).build("cpu")
    generator = np.random.default_rng(2)
    arrays = [generator.standard_normal(shape).astype(np.float16) for shape in [(3, 8, 6)] * 3 + [(6,)]]
    (expected,) = execute_graph(graph.module.entry, arrays, graph.module)
    assert_close(np.asarray(module(*arrays)), expected, relative=0.02)
    assert len(tiledsl.fuse(graph).lowered("cpu").functions) == 2
