"""Calls of plain tile programs become ops of the graph; all others stay, and a remark says what stood in the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.compare import assert_close
from tests.support.generators.random_modules import random_array
from tiledsl import tile
from tiledsl.api.graphs.graph import Graph
from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.ir.core import Module
from tiledsl.ir.graph_ops import Call
from tiledsl.ir.types import TensorType
from tiledsl.passes.graph.raising.raise_programs import RaisePrograms
from tiledsl.passes.manager import PassContext, PassManager

X = tile.spec((5, 6), tile.f32)
HALF = tile.spec((5, 6), tile.f16)
BATCH = tile.spec((2, 5, 6), tile.f32)


@tile.kernel
def scaled(x: tile.Tensor, by: float = 2.0) -> tile.Tensor:
    M, N = x.shape
    y = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N, block=(1, tile.auto)):
        y[m, n] = x[m, n] * by + tile.where(n.index > m, x[m, n], M)
    return y


@tile.kernel
def softmax_columns(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    y = tile.empty((N, M), x.dtype)
    for n in tile.grid(N):
        column = x[:, n].to(tile.f32)
        e = tile.exp(column - tile.max(column, axis=0))
        y[n, :] = (e / tile.sum(e, axis=0)).T
    return y


@tile.kernel
def linear(x: tile.Tensor, w: tile.Tensor, b: tile.Tensor) -> tile.Tensor:
    M, K = x.shape
    N, K = w.shape
    y = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N):
        acc = tile.full((m, n), 0.5)
        for k in tile.range(K):
            acc += tile.dot(x[m, k], w[n, k].T)
        y[m, n] = tile.relu(acc + b[n])
    return y


@tile.kernel
def batched(a: tile.Tensor, b: tile.Tensor) -> tuple[tile.Tensor, tile.Tensor]:
    H, M, K = a.shape
    N, H, K = b.shape
    c = tile.empty((M, H, N), tile.f32)
    same = tile.empty((N, H, M), tile.f16)
    for h, m in tile.grid(H, M, block=(1, tile.auto)):
        acc = tile.zeros((m, N))
        for k in tile.range(K):
            acc = tile.dot(a[h, m, k], b[:, h, k].T, acc)
        c[m, h, :] = acc
        same[:, h, m] = acc.T * 2
    return c, same


@tile.kernel
def sum_of_products(a: tile.Tensor, b: tile.Tensor) -> tile.Tensor:
    H, M, K = a.shape
    H, N, K = b.shape
    c = tile.empty((M, N), tile.f32)
    for m, n in tile.grid(M, N):
        acc = tile.zeros((m, n))
        for h in tile.range(H, block=1):
            for k in tile.range(1, K):
                acc = tile.dot(a[h, m, k], b[h, n, k].T, acc)
        c[m, n] = acc
    return c


@tile.kernel
def running(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    y = tile.empty((M, 1, N), x.dtype)
    for m in tile.grid(M):
        y[m, 0, :] = tile.cumsum(x[m, :], axis=1)[:, :] - x[m, 0:1]
    return y


@tile.kernel
def copy(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    y = tile.empty((N, M), x.dtype)
    for m, n in tile.grid(M, N):
        y[n, m] = x[m, n].T
    return y


def scaled_and_more(x: Any) -> Any:
    return scaled(x, 0.5) + 1


def scaled_softmax(x: Any) -> Any:
    return scaled(softmax_columns(x))


def copied_twice(x: Any) -> Any:
    return copy(copy(x)) * 2


RAISED: list[tuple[Callable[..., Any], list[Any], set[str]]] = [
    (scaled_and_more, [X], {"map", "iota"}),
    (scaled_softmax, [HALF], {"reduce"}),
    (linear, [X, tile.spec((7, 6), tile.f32), tile.spec((7,), tile.f32)], {"contract"}),
    (batched, [BATCH, tile.spec((7, 2, 6), tile.f32)], {"contract", "transpose"}),
    (sum_of_products, [BATCH, tile.spec((2, 4, 6), tile.f32)], {"contract", "slice"}),
    (running, [X], {"scan", "slice"}),
    (copied_twice, [X], {"map"}),
]


def raised(function: Callable[..., Any], specs: list[Any]) -> tuple[Graph, Module, PassContext]:
    graph = tiledsl.trace(function, *specs)
    context = PassContext()
    return graph, PassManager([RaisePrograms()]).run(graph.module, context), context


def same_results(before: Module, after: Module) -> None:
    generator = np.random.default_rng(0)
    types = [p.type for p in before.entry.parameters]
    arrays = [random_array(t.dtype, t.shape, {}, generator) for t in types if isinstance(t, TensorType)]
    expected = execute_graph(before.entry, arrays, before)
    for actual, wanted in zip(execute_graph(after.entry, arrays, after), expected, strict=True):
        assert_close(actual, wanted)


@pytest.mark.parametrize(("function", "specs", "ops"), RAISED)
def test_plain_programs_become_ops(function: Callable[..., Any], specs: list[Any], ops: set[str]) -> None:
    graph, module, context = raised(function, specs)
    assert len(module.functions) == 1
    assert ops <= {op.name.removeprefix("graph.") for op in module.entry.body.ops}
    assert all("is taken for the ops" in remark.text for remark in context.remarks)
    same_results(graph.module, module)


@tile.kernel
def fixed(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    y = tile.empty((M, N), x.dtype)
    for m in tile.grid(M, block=4):
        y[m, :] = x[m, :]
    return y


@tile.kernel
def staged(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    y = tile.empty((M,), x.dtype)
    for m in tile.grid(M):
        acc = tile.zeros((m,))
        for n in tile.range(N, num_stages=3):
            acc += tile.sum(x[m, n], axis=1)
        y[m] = acc
    return y


@tile.kernel
def in_shared(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    y = tile.empty((M, N), x.dtype)
    for m in tile.grid(M):
        y[m, :] = tile.load(x[m, :], level=tile.shared)
    return y


@tile.kernel
def shifted(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    y = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N):
        y[m, n] = x[m, n] + x[m + 1, n]
    return y


@tile.kernel
def part(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    y = tile.zeros((M, N), x.dtype)
    for m in tile.grid(M):
        y[m, 0:2] = x[m, 0:2]
    return y


@tile.kernel
def online(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    y = tile.empty((M,), x.dtype)
    for m in tile.grid(M):
        top = tile.full((m,), -1e30)
        total = tile.zeros((m,))
        for n in tile.range(N):
            higher = tile.maximum(top, tile.max(x[m, n], axis=1))
            total = total * tile.exp(top - higher) + tile.sum(tile.exp(x[m, n] - higher[:, None]), axis=1)
            top = higher
        y[m] = total
    return y


@tile.kernel
def of_blocks(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    y = tile.empty((M,), x.dtype)
    for m in tile.grid(M):
        acc = tile.zeros((m,))
        for n in tile.range(N):
            acc += tile.exp(tile.sum(x[m, n], axis=1))
        y[m] = acc
    return y


@tile.kernel
def total_of_all(x: tile.Tensor) -> tile.Tensor:
    M = x.shape[0]
    y = tile.zeros((1,), x.dtype)
    for m in tile.grid(M):
        tile.atomic_add(y[0], tile.sum(x[m, :]))
    return y


@tile.kernel
def until(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    y = tile.empty((M,), x.dtype)
    for m in tile.grid(M):
        acc = tile.zeros((m,))
        for n in tile.range(0, min(m.start + m.size, N)):
            acc += tile.sum(x[m, n], axis=1)
        y[m] = acc
    return y


STAY = [
    (fixed, "it says a block of 4"),
    (staged, "it says num_stages=3"),
    (in_shared, "it says a level"),
    (shifted, "`tile.shift`"),
    (part, "it does not write each element of the result once"),
    (online, "it reads what a loop has carried so far"),
    (of_blocks, "it reads the sum of one block of a loop"),
    (total_of_all, "it depends on the block m"),
    (until, "`tile.start`"),
]


@pytest.mark.parametrize(("kernel", "reason"), STAY)
def test_other_programs_stay_calls(kernel: Callable[..., Any], reason: str) -> None:
    def twice(x: Any) -> Any:
        return kernel(x) * 2

    graph, module, context = raised(twice, [X])
    assert any(isinstance(op, Call) for op in module.entry.body.ops)
    (remark,) = context.remarks
    assert reason in remark.text
    assert "test_raise_programs.py" in remark.text
    same_results(graph.module, module)
