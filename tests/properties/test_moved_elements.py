"""Tensors in another order of axes, short ones among them, against NumPy: read and written to the ends of memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import tiledsl
from tests.support import guard_pages
from tiledsl import tile
from tiledsl.ir.dtypes import BY_NAME, to_numpy

DTYPES = st.sampled_from(["f32", "f16", "i8", "f64"])
SIZES = st.sampled_from([1, 2, 3, 4, 5, 8, 13, 16, 17, 28, 33, 64])


def at_the_end(values: Any) -> Any:
    """A copy in memory behind which there is none."""
    if not guard_pages.available:
        return values.copy()
    room: Any = guard_pages.memory_before_a_guard(values.nbytes)
    placed = room[-values.nbytes :].view(values.dtype).reshape(values.shape)
    placed[...] = values
    return placed


def check(formula: Any, meaning: Any, x: Any, dtype: str) -> None:
    """Runs a formula of one array into an array that ends where memory does."""
    built = tiledsl.fuse(tiledsl.trace(formula, tile.spec(x.shape, BY_NAME[dtype]))).build("cpu")
    expected = meaning(x)
    out = at_the_end(np.zeros(expected.shape, expected.dtype))
    built(at_the_end(x), out=out)
    np.testing.assert_array_equal(out, expected)


def drawn(shape: tuple[int, ...], dtype: str) -> Any:
    return np.random.default_rng(0).integers(-9, 9, shape).astype(to_numpy(BY_NAME[dtype]))


@settings(max_examples=25, deadline=None)
@given(shape=st.lists(SIZES, min_size=2, max_size=4), data=st.data(), dtype=DTYPES)
def test_axes_in_another_order(shape: list[int], data: st.DataObject, dtype: str) -> None:
    order = data.draw(st.permutations(range(len(shape))))

    def turned(x: Any) -> Any:
        return x.transpose(*order) + 0

    check(turned, turned, drawn(tuple(shape), dtype), dtype)


def _apart(x: Any) -> Any:
    return x.transpose(2, 0, 1) + 1


def _together(x: Any) -> Any:
    return x.transpose(1, 2, 0) + 1


def _turned_about(x: Any) -> Any:
    return x[..., ::-1] + x


def _ends(x: Any) -> Any:
    return x[..., 1] + x[..., 0]


@settings(max_examples=25, deadline=None)
@given(outer=SIZES, inner=SIZES, few=st.integers(2, 9), dtype=DTYPES, data=st.data())
def test_rows_of_a_few(outer: int, inner: int, few: int, dtype: str, data: st.DataObject) -> None:
    """Few elements lie side by side in what is read, in what is written, or in both."""
    formula = data.draw(st.sampled_from([_apart, _together, _turned_about, _ends]))
    shape = (few, outer, inner) if formula is _together else (outer, inner, few)
    check(formula, formula, drawn(shape, dtype), dtype)


@settings(max_examples=10, deadline=None)
@given(outer=SIZES, few=st.integers(2, 9), dtype=DTYPES)
def test_folds_of_a_few(outer: int, few: int, dtype: str) -> None:
    def largest(x: Any) -> Any:
        return tile.max(x, axis=-1)

    def meaning(x: Any) -> Any:
        return x.max(axis=-1)

    check(largest, meaning, drawn((outer, 7, few), dtype), dtype)
