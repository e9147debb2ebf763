"""Sums over places and channels, written out or as a nest of loops, in any order of the weights: the same numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from tiledsl import tile

Array = npt.NDArray[Any]


@tile.kernel
def windows(
    x: tile.Tensor, w: tile.Tensor, rows: tile.constexpr, columns: tile.constexpr, step: tile.constexpr,
    turned: tile.constexpr, block: tile.constexpr,
) -> tile.Tensor:  # fmt: skip
    """`rows` and `columns` of a window that are written out; 0: a nest of loops over those of `w`."""
    H, W, C = x.shape
    R, S, U, V = w.shape
    N = U if turned else V
    y = tile.empty((H, W, N), tile.f32)
    for p, q, n in tile.grid(H, W, N, block=(1, tile.auto, tile.auto)):
        acc = tile.zeros((q, n))
        for r in range(rows or R):
            for s in range(columns or S):
                for c in tile.range(C, block=block):
                    weights = w[r, s, n, c].T if turned else w[r, s, c, n]
                    acc = tile.dot(x[p + r * step, q + (s - 1), c], weights, acc)
        y[p, q, n] = acc + 1
    return y


class Case(NamedTuple):
    height: int
    width: int
    channels: int
    columns: int
    window: tuple[int, int]
    step: int
    turned: bool
    block: int | None
    nest: bool
    dtype: str
    target: str


CASES = st.builds(
    Case,
    height=st.integers(1, 3),
    width=st.integers(1, 20),
    channels=st.sampled_from([0, 1, 3, 16, 24, 32, 40, 64, 70, 128]),
    columns=st.sampled_from([1, 5, 8, 24, 40]),
    window=st.tuples(st.integers(1, 3), st.integers(1, 4)),
    step=st.integers(1, 2),
    turned=st.booleans(),
    block=st.sampled_from([None, 16, 32]),
    nest=st.booleans(),
    dtype=st.sampled_from(["f2", "f4"]),
    target=st.sampled_from(["sm_80", "sm_90", "sm_90", "cpu"]),
)


def expected(x: Array, w: Array, case: Case) -> Array:
    weights: Array = np.swapaxes(w, 2, 3) if case.turned else w
    weights = weights.astype(np.float64)
    padded = np.pad(x.astype(np.float64), ((0, case.step * case.window[0]), (1, case.window[1]), (0, 0)))
    y: Array = np.ones((case.height, case.width, case.columns))
    for r in range(case.window[0]):
        for s in range(case.window[1]):
            y += padded[r * case.step :, s:][: case.height, : case.width] @ weights[r, s]
    return y


@settings(max_examples=15, deadline=None)
@given(CASES, st.integers(0, 99))
def test_random_sums(case: Case, seed: int) -> None:
    random = np.random.default_rng(seed)
    sides = (case.columns, case.channels) if case.turned else (case.channels, case.columns)
    x: Array = random.integers(-2, 3, (case.height, case.width, case.channels)).astype(case.dtype)
    w: Array = random.integers(-2, 3, (*case.window, *sides)).astype(case.dtype)
    options: dict[str, Any] = {"step": case.step, "turned": case.turned, "block": case.block or tile.auto}
    rows, columns = (0, 0) if case.nest else case.window
    options |= {"rows": rows, "columns": columns}
    kernel: Any = windows
    if case.target == "cpu":
        y = kernel(x, w, **options)
    else:
        y = kernel.emulate(x, w, **options, arch=case.target, seed=seed)
    np.testing.assert_array_equal(np.asarray(y, np.float64), expected(x, w, case))
