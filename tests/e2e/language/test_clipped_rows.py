"""Products of rows whose number is data: what no store keeps is not computed, and nothing else changes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.compare import assert_close
from tiledsl import ops, tile


@tile.kernel
def rows_before(x: tile.Tensor, w: tile.Tensor, counts: tile.Tensor, moves: tile.Tensor) -> Any:
    """In y[g] the rows from moves[g] on, before counts[g], of x @ w."""
    T, K = x.shape
    K, N = w.shape
    G = counts.shape[0]
    G = moves.shape[0]
    y = tile.empty((G, T, N), x.dtype)
    for g, r, n in tile.grid(G, T, N, block=(1, 24, tile.auto)):
        stop, move = counts[g], moves[g]
        acc = tile.zeros((r, n), tile.f32)
        for k in tile.range(K):
            acc = tile.dot(x[r + move, k], w[k, n], acc)
        at = r.index + move
        y[g, tile.where(at < stop, at, T), n] = acc
    return y


def integers(random: np.random.Generator, *shape: int) -> Any:
    """Of few bits, so that sums are exact."""
    return random.integers(-4, 5, shape).astype(np.float32)


@settings(max_examples=8)
@given(
    st.integers(0, 70), st.integers(0, 40), st.integers(0, 50), st.lists(st.integers(-3, 80), min_size=1, max_size=3),
    st.integers(-30, 30), st.integers(0, 99),
)  # fmt: skip
def test_rows_before_an_end(t: int, k: int, n: int, counts: list[int], move: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    x, w = integers(random, t, k), integers(random, k, n)
    moves = np.array([move] * len(counts), np.int32)
    expected = np.full((len(counts), t, n), -1, np.float32)
    for g, count in enumerate(counts):
        first, last = max(0, move), min(t, count, t + move)
        expected[g, first:last] = x[first:last] @ w
    given = np.full_like(expected, -1)
    rows_before(x, w, np.array(counts, np.int32), moves, out=given)
    np.testing.assert_array_equal(given, expected)


@settings(max_examples=7)
@given(st.lists(st.integers(0, 150), min_size=1, max_size=5), st.integers(0, 20), st.booleans(), st.integers(0, 99))
def test_rows_of_experts(counts: list[int], rest: int, transposed: bool, seed: int) -> None:
    random = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    x, w = integers(random, int(offsets[-1]) + rest, 20), integers(random, len(counts), 20, 36)
    expected = np.zeros((len(x), 36), np.float32)
    for e, (first, last) in enumerate(pairwise(offsets)):
        expected[first:last] = x[first:last] @ w[e]
    given_weights = np.ascontiguousarray(w.transpose(0, 2, 1)) if transposed else w
    np.testing.assert_array_equal(ops.grouped_linear(x, given_weights, offsets, transposed=transposed), expected)


@pytest.mark.parametrize("count", [0, 1, 16, 17, 24])
def test_few_rows_and_many(count: int) -> None:
    random = np.random.default_rng(count)
    x, w = random.standard_normal((24, 64), np.float32), random.standard_normal((64, 100), np.float32)
    y = np.full((1, 24, 100), -1, np.float32)
    rows_before(x, w, np.array([count], np.int32), np.zeros(1, np.int32), out=y)
    expected = np.full((1, 24, 100), -1.0)
    expected[0, :count] = x[:count].astype(np.float64) @ w
    assert_close(y, expected.astype(np.float32), terms=64)


def test_a_loop_is_left_of_the_rows() -> None:
    specs = [tile.spec(shape, tile.f32) for shape in (("T", "K"), ("K", "N"))]
    compiled = rows_before.compile(*specs, tile.spec(("G",), tile.i32), tile.spec(("G",), tile.i32), arch="cpu")
    assert "body(%r_kept: axis<r_kept>)" in compiled.ir("tile")
