"""Views that are parts of others: a kernel that multiplies both in one loop reads one tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiledsl
from tiledsl import tile
from tiledsl.ir import graph_ops as graph
from tiledsl.ir.core import Module
from tiledsl.ir.text.printer import print_module
from tiledsl.ir.verifier import is_tile_function


def lowered(formula: Callable[..., Any], *shapes: tuple[int, ...], arch: str = "sm_90") -> Module:
    """What a formula of f16 tensors becomes: calls of tile programs."""
    return tiledsl.fuse(tiledsl.trace(formula, *(tile.spec(shape, tile.f16) for shape in shapes))).lowered(arch)


def calls_of(module: Module) -> list[int]:
    """How many tensors each launch is given."""
    return [len(op.inputs) for op in module.entry.body.ops if isinstance(op, graph.Call)]


def weighted(q: Any, k: Any, v: Any) -> Any:
    return tile.softmax(tile.dot(q, k.mT), axis=-1).to(v.dtype) @ v


def first(q: Any, c: Any) -> Any:
    return weighted(q, c, c[..., :64])


def last(q: Any, c: Any) -> Any:
    return weighted(q, c, c[..., 32:])


def every_other(q: Any, c: Any) -> Any:
    return weighted(q, c, c[..., ::2])


def of_another(q: Any, c: Any, d: Any) -> Any:
    return weighted(q, c, d[..., :64])


def sums_of_rows(x: Any) -> Any:
    return tile.sum(x, axis=1) + tile.sum(x[:, :64], axis=1)


SHAPES = (4, 64, 96), (4, 2048, 96)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_first_columns_are_read_out_of_all(arch: str) -> None:
    module = lowered(first, *SHAPES, arch=arch)
    assert calls_of(module) == [2]
    assert "0:64" in print_module(module)


@pytest.mark.parametrize("formula", [last, every_other])
def test_other_columns_are_tensors_of_their_own(formula: Callable[..., Any]) -> None:
    assert calls_of(lowered(formula, *SHAPES)) == [3]


def test_parts_of_other_tensors_are_apart() -> None:
    assert calls_of(lowered(of_another, *SHAPES, SHAPES[1])) == [3]


def test_sums_of_both_that_are_no_products_keep_their_views() -> None:
    module = lowered(sums_of_rows, (256, 96))
    assert "0:64" not in print_module(module)


@tile.kernel
def by_pages(q: tile.Tensor, k: tile.Tensor, v: tile.Tensor, table: tile.Tensor) -> tile.Tensor:
    """A kernel in tile form that reads both at the same places, without a softmax."""
    M = q.shape[0]
    E = v.shape[1]
    T = table.shape[0]
    out = tile.empty((M, E), q.dtype)
    for m in tile.grid(M):
        acc = tile.zeros((m, E))
        for j in tile.range(T):
            rows = table[j]
            p = tile.dot(q[m, :], k[rows, :].mT)
            acc = tile.dot(p.to(v.dtype), v[rows, :], acc)
        out[m, :] = acc
    return out


def test_tile_programs_that_read_both_at_the_same_places() -> None:
    def formula(q: Any, c: Any, table: Any) -> Any:
        return by_pages(q, c, c[:, :64], table)

    random = np.random.default_rng(0)
    q, c = (random.standard_normal(shape).astype(np.float16) for shape in ((32, 96), (50, 96)))
    table = np.arange(49, -1, -2, dtype=np.int64)
    graph_ = tiledsl.trace(formula, q, c, table)
    module = tiledsl.fuse(graph_).lowered("sm_90")
    assert calls_of(module) == [3]
    (program,) = (one for one in module.functions if is_tile_function(one))
    assert "0:64" in print_module(Module([program]))
    rows: Any = c[table].astype(np.float64)
    wanted: Any = np.einsum("mj,je->me", np.einsum("md,jd->mj", q.astype(np.float64), rows), rows[:, :64])
    assert np.allclose(graph_(q, c, table), wanted, rtol=1e-2, atol=1.0)


def test_tile_programs_that_read_other_places_keep_both() -> None:
    def formula(q: Any, c: Any, table: Any) -> Any:
        return by_pages(q, c, c[:, 32:], table)

    specs = tile.spec((32, 96), tile.f16), tile.spec((50, 96), tile.f16), tile.spec((25,), tile.i64)
    assert calls_of(tiledsl.fuse(tiledsl.trace(formula, *specs)).lowered("sm_90")) == [4]
