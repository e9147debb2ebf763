"""Loops over single coordinates that store what they compute: on every target they give what the reference gives,
however many turns load together."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.every_target import assert_alike
from tiledsl import tile


@tile.kernel
def recurrence(
    x: tile.Tensor,
    table: tile.Tensor,
    rows: tile.Tensor,
    y: tile.Tensor,
    low: int,
    high: int,
    folds: tile.constexpr,
    gathers: tile.constexpr,
    adds: tile.constexpr,
    turned: tile.constexpr,
) -> tile.Tensor:
    T, M, N = x.shape
    _, N = table.shape
    T = rows.shape[0]
    T, M, N = y.shape
    for m in tile.grid(M):
        h, seen = tile.zeros((m, N)), tile.zeros((), tile.i64)
        for i in tile.range(low, high, block=1):
            t = T - 1 - i if turned else i
            e = x[t, m, :]
            if gathers == "by data":
                e += table[rows[t], :]
            if gathers == "by what is carried":
                e += table[seen, :]
                seen = (seen + rows[t]) % 3
            h = h * 0.5 + e
            if folds:
                h = h - tile.sum(h, axis=1, keepdims=True) * 0.125
            if adds:
                y[t, m, :] += h
            else:
                y[t, m, :] = h
    return y


@settings(max_examples=4)
@given(
    st.integers(1, 5), st.integers(1, 20), st.integers(0, 8), st.integers(-5, 40), st.booleans(),
    st.sampled_from(["no", "by data", "by what is carried"]), st.booleans(), st.booleans(),
)  # fmt: skip
def test_turns_that_load_together_change_nothing(
    m: int, n: int, low: int, more: int, folds: bool, gathers: str, adds: bool, turned: bool
) -> None:
    random = np.random.default_rng(m * n)
    steps = low + max(more, 0) + 2
    x = random.integers(-4, 5, (steps, m, n)).astype(np.float32)
    table = random.integers(-4, 5, (3, n)).astype(np.float32)
    rows = random.integers(-1, 4, steps)
    y = random.integers(-4, 5, (steps, m, n)).astype(np.float32)
    assert_alike(
        recurrence, x, table, rows, y, low, low + more,
        folds=folds, gathers=gathers, adds=adds, turned=turned, tolerance=1e-3,
    )  # fmt: skip
