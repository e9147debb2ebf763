"""Counts for sizes and blocks, beside what the reference executor does."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.support.executed_work import Meter, counted, sizes_of
from tests.support.kernels.lowered_kernels import argument_for, lower, tensor
from tests.unit.passes.nest import test_loop_nest as programs
from tiledsl import tile
from tiledsl.ir.dtypes import i64
from tiledsl.passes.nest.count_work import WorkCounts


def stencil(u: tile.Tensor) -> tile.Tensor:
    M, N = u.shape
    o = tile.empty((M, N), u.dtype)
    for m, n in tile.grid(M, N):
        o[m, n] = u[m - 1, n] + u[m, n + 2] + u[m, 3][:, None] + u[m, 1:4].sum(axis=1)[:, None]
    return o


def triangles(u: tile.Tensor, w: tile.Tensor) -> tile.Tensor:
    M, N = u.shape
    K = w.shape[0]
    o = tile.empty((M, N), u.dtype)
    for m in tile.grid(M):
        for i in range(N):
            s = u[m, i]
            for k in tile.range(i, K):
                s = s + tile.sum(w[k]) + u[m, i - 2]
            o[m, i] = s
    return o


def windows(u: tile.Tensor, w: tile.Tensor) -> tile.Tensor:
    """Places of rows and of columns are apart; of the diagonals they are not."""
    M, N = u.shape
    R, S = w.shape
    o = tile.empty((M, N), u.dtype)
    for m, n in tile.grid(M, N):
        s = tile.zeros((m, n), u.dtype)
        for i in range(R):
            for j in range(S):
                s = s + u[m + i - 1, n + 2 * j - 3] * w[i, j] + u[m + j, n + i] + u[m + i, n + i]
        o[m, n] = s
    return o


@pytest.mark.parametrize("block", [1, 5, 16, 64])
@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (programs.gemm, [(37, 50), (50, 23)]),
        (programs.attention, [(150, 8)] * 3),
        (stencil, [(33, 21)]),
        (triangles, [(9, 11), (7,)]),
        (windows, [(11, 27), (3, 5)]),
    ],
)
def test_what_is_counted_is_what_runs(
    function: Callable[..., Any], shapes: list[tuple[int, ...]], block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = [np.ones(shape, np.float32) for shape in shapes]
    names = list(inspect.signature(function).parameters)
    entry = lower(function, **{name: len(shape) for name, shape in zip(names, shapes)}).entry
    blocks = {name: block + number for number, name in enumerate(("m", "n", "k", "i", "j"))}
    moved, exact = counted(entry, sizes_of(entry, arrays), blocks)
    assert exact
    assert moved == Meter(monkeypatch).run(entry, arrays, blocks)


def test_multiply_adds_and_turns() -> None:
    nest = programs.nest_of(programs.attention, q=2, k=2, v=2)
    counts = WorkCounts(nest, {"S": 256, "D": 8}, {"i": 64, "j": 32})
    turns = [sum(1 for _ in range(max(0, i - 100), i + 64, 32)) for i in range(0, 256, 64)]
    assert counts.programs == 4
    assert counts.turns(nest.loops[0]).number == sum(turns)
    keys = sum(min(i + 64, 256) - max(0, i - 100) for i in range(0, 256, 64))
    assert counts.multiplied(nest.dots[0]).number == 64 * keys * 8


def test_what_is_data_is_guessed() -> None:
    nest = programs.nest_of(programs.segments, x=1, ends=1)
    counts = WorkCounts(nest, {"N": 1000, "S": 10}, {"n": 16, "k": 16})
    amount = counts.moved(nest.accesses[1])
    assert not amount.exact
    assert amount.number == 1000  # all segments together make up the tensor


def test_what_data_are_at_most_is_what_they_are_guessed_to_be() -> None:
    def last_ones(x: tile.Tensor, lengths: tile.Tensor) -> tile.Tensor:
        B, N = x.shape
        B = lengths.shape[0]
        y = tile.empty(B, x.dtype)
        for b in tile.grid(B, block=1):
            total, length = 0.0, lengths[b]
            for n in tile.range(max(length - 100, 0), min(length, N)):
                total += tile.sum(x[b, n])
            y[b] = total
        return y

    nest = programs.nest_of(last_ones, x=2, lengths=tensor(1, i64))
    counts = WorkCounts(nest, {"B": 3, "N": 1000}, {"n": 16})
    (amount,) = [counts.moved(access) for access in nest.accesses if access.op.operands[0].name == "x"]
    assert (amount.number, amount.exact) == (3 * 100, False)


def test_rows_of_their_own_are_guessed_to_be_whole() -> None:
    def begins(x: tile.Tensor, lengths: tile.Tensor) -> tile.Tensor:
        B, N = x.shape
        B = lengths.shape[0]
        y = tile.empty(B, x.dtype)
        for b in tile.grid(B, block=1):
            total = 0.0
            for n in tile.range(0, lengths[b]):
                total += tile.sum(x[b, n])
            y[b] = total / N
        return y

    nest = programs.nest_of(begins, x=2, lengths=tensor(1, i64))
    counts = WorkCounts(nest, {"B": 3, "N": 1000}, {"n": 16})
    (amount,) = [counts.moved(access) for access in nest.accesses if access.op.operands[0].name == "x"]
    assert (amount.number, amount.exact) == (3 * 1000, False)


def test_a_row_that_an_argument_names_is_taken_to_be_inside() -> None:
    def copied(x: tile.Tensor, at: int) -> tile.Tensor:
        _, N = x.shape
        y = tile.empty(N, x.dtype)
        for n in tile.grid(N):
            y[n] = x[at, n]
        return y

    entry = lower(copied, x=2, at=argument_for(1)).entry
    moved, exact = counted(entry, {"x_0": 4, "N": 10}, {"n": 16})
    assert (moved.read, exact) == (10, False)


def test_large_grids_are_sampled() -> None:
    nest = programs.nest_of(programs.attention, q=2, k=2, v=2)
    counts = WorkCounts(nest, {"S": 1 << 20, "D": 8}, {"i": 16, "j": 16})
    amount = counts.moved(nest.accesses[1])
    assert not amount.exact
    assert amount.number == pytest.approx((1 << 20) // 16 * 8 * 116, rel=0.01)
