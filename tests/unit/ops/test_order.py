"""Sorting, scans and searches, against NumPy and PyTorch."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportCallIssue=false
# ruff: noqa: B023 - what loops make is called at once

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tiledsl
from tests.support.gpu_cases.scalar_operands import DTYPES
from tests.support.op_checks import F16, F64, Array, agree, meant, normal
from tiledsl import TileError, ops
from tiledsl.ir.dtypes import DType, bool_, f64, to_numpy
from tiledsl.ops.digits import KEY_BITS, by_digits, by_wide_digits

X = normal(3, 7, 4)
HALVES = np.round(2 * normal(3, 200))
"""Many equal elements."""


def places(x: Array, axis: int, descending: bool) -> Array:
    """A stable order with NaN as the largest."""
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    backwards = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
    return np.flip(x.shape[axis] - 1 - backwards, axis)


@pytest.mark.parametrize("descending", [False, True])
def test_sort(descending: bool) -> None:
    for axis in (0, 1, -1):
        order = places(X, axis, descending)
        wanted = (np.take_along_axis(X, order, axis), order)
        meant(lambda x: ops.sort(x, axis, descending), [X], wanted)
    order = places(HALVES, 1, descending)
    agree(lambda x: ops.sort(x, 1, descending), [HALVES], (np.take_along_axis(HALVES, order, 1), order))
    short = HALVES[:, :31].astype(np.int8)
    order = places(short, 1, descending)
    agree(lambda x: ops.sort(x, 1, descending), [short], (np.take_along_axis(short, order, 1), order))
    spoilt = HALVES[:, :150].astype(F16)
    spoilt[1, 5:150:7], spoilt[1, 3], spoilt[2, 4] = np.nan, np.inf, -np.inf
    for part in (spoilt, spoilt[:, :50]):
        order = places(part, 1, descending)
        wanted = (np.take_along_axis(part, order, 1), order)
        meant(lambda x: ops.sort(x, 1, descending), [np.ascontiguousarray(part)], wanted)


def test_sort_of_little() -> None:
    for shape in ((3, 1), (1, 2), (2, 0)):
        x = normal(*shape)
        meant(lambda x: ops.sort(x), [x], (np.sort(x), np.argsort(x)))
    flags = np.array([True, False, True])
    meant(lambda x: ops.sort(x), [flags], (np.sort(flags), [1, 0, 2]))
    meant(lambda x: ops.argsort(x, 0), [X], np.argsort(X, 0), dtype=np.int64)


def test_the_largest_many() -> None:
    x = HALVES[:, :110]
    order = places(x, 1, True)[:, :100]
    meant(lambda x: ops.top_k(x, 100), [x], (np.take_along_axis(x, order, 1), order))
    order = places(x, 1, False)[:, :70]
    meant(lambda x: ops.top_k(x, 70, largest=False)[1], [x], order, dtype=np.int64)


@pytest.mark.parametrize(("size", "k"), [(1024, 3), (1531, 5), (5000, 8), (4099, 20)])
def test_the_largest_of_long_rows(size: int, k: int) -> None:
    """Many are equal; some are infinite, as many as there are at all."""
    x = np.random.default_rng(size).integers(-40, 40, (4, size)).astype(np.float32)
    x[0], x[1, 2:700:9], x[2, 5:] = -np.inf, np.inf, -np.inf
    for largest in (True, False):
        order = places(x, 1, largest)[:, :k]
        wanted = (np.take_along_axis(x, order, 1), order)
        meant(lambda x: ops.top_k(x, k, largest=largest), [x], wanted)
    whole = np.clip(x, -100, 100).astype(np.int8)
    order = places(whole, 1, True)[:, :k]
    agree(lambda x: ops.top_k(x, k), [whole], (np.take_along_axis(whole, order, 1), order))


def test_places_of_extrema() -> None:
    flat = HALVES[:, :30]
    for ours, fold in ((ops.argmax, np.argmax), (ops.argmin, np.argmin)):
        for axis in (0, -1):
            last = flat.shape[axis] - 1 - fold(np.flip(flat, axis), axis)
            meant(lambda x: ours(x, axis), [flat], fold(flat, axis), dtype=np.int64)
            meant(lambda x: ours(x, axis, last=True), [flat], last, dtype=np.int64)
            wanted = np.expand_dims(last, axis)
            meant(lambda x: ours(x, axis, keepdims=True, last=True), [flat], wanted, dtype=np.int64)
        meant(lambda x: ours(x), [flat], fold(flat), dtype=np.int64)
        meant(
            lambda x: ours(x, keepdims=True, last=True),
            [flat],
            [[flat.size - 1 - fold(flat[::-1, ::-1])]],
            dtype=np.int64,
        )


def test_searches() -> None:
    edges = np.sort(HALVES, axis=1)
    x = np.concatenate([HALVES[:, :9], [[np.nan], [np.inf], [-np.inf]]], axis=1).astype(np.float32)
    for right in (False, True):
        side: Any = "right" if right else "left"
        wanted = np.stack([np.searchsorted(e, v, side) for e, v in zip(edges, x)])
        agree(lambda e, x: ops.searchsorted(e, x, right), [edges, x], wanted, dtype=np.int64)
        wanted = np.searchsorted(edges[0], x[None], side)
        meant(lambda e, x: ops.bucketize(x, e, right), [edges[0], x[None]], wanted, dtype=np.int64)
    whole = np.array([1, 3, 5], np.int32)
    meant(lambda e, x: ops.searchsorted(e, x), [whole, np.array([2.5, 3.0])], [1, 1], dtype=np.int64)
    meant(lambda e, x: ops.searchsorted(e, x), [whole[:0], np.array([2, 3])], [0, 0], dtype=np.int64)


def test_running_sums_and_products() -> None:
    for axis in (0, 1, -1):
        for reverse in (False, True):
            turn = (lambda v: np.flip(v, axis)) if reverse else (lambda v: v)
            sums, products = (turn(fn(turn(X.astype(F64)), axis)) for fn in (np.cumsum, np.cumprod))
            meant(lambda x: ops.cumsum(x, axis, reverse), [X], sums, terms=7)
            meant(lambda x: ops.cumprod(x, axis, reverse), [X], products, terms=7)
            meant(lambda x: ops.cumsum(x, axis, reverse, exclusive=True), [X], sums - X, terms=7)
            own = np.where(X == 0, 1, X)
            meant(lambda x: ops.cumprod(x, axis, reverse, exclusive=True), [X], products / own, terms=7)
    whole = np.array([[3, -2, 5]], np.int8)
    meant(lambda x: ops.cumprod(x), [whole], [[3, -6, -30]], dtype=np.int64)
    meant(lambda x: ops.cumsum(x, exclusive=True), [whole], [[0, 3, 1]], dtype=np.int64)
    agree(lambda x: ops.cumprod(x, 1, exclusive=True), [X], (np.cumprod(X, 1) / X), terms=7)


def test_running_extrema() -> None:
    torch = pytest.importorskip("torch")
    x = HALVES[:, :40].copy()
    x[1, 20], x[2, 0] = np.nan, np.nan
    for ours, theirs in ((ops.cummax, torch.cummax), (ops.cummin, torch.cummin)):
        for axis in (0, 1):
            values, index = theirs(torch.tensor(x), axis)
            meant(lambda x: ours(x, axis), [x], (values.numpy(), index.numpy()))
        values, index = theirs(torch.tensor(x[:, ::-1].copy()), 1)
        wanted = (values.numpy()[:, ::-1], 39 - index.numpy()[:, ::-1])
        meant(lambda x: ours(x, 1, reverse=True), [x], wanted)
    values, index = torch.cummax(torch.tensor(x), 1)
    agree(lambda x: ops.cummax(x, 1), [x], (values.numpy(), index.numpy()))


def test_running_sums_of_exponentials() -> None:
    x = 100 * normal(3, 9, 4)
    x[0, 0], x[1, 4] = -np.inf, np.inf
    for axis in (0, 1, 2):
        wanted = np.logaddexp.accumulate(x.astype(F64), axis)
        meant(lambda x: ops.logcumsumexp(x, axis), [x], wanted, terms=4)
    agree(lambda x: ops.logcumsumexp(x, 1), [x], np.logaddexp.accumulate(x.astype(F64), 1), terms=4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ops.sort(X, 3), r"not a tensor with an axis 3"),
        (lambda: ops.top_k(X, 5), r"`k` is 5, not an int from 0 to 4"),
        (lambda: ops.searchsorted(X, X[:2]), r"leading axes are the same"),
        (lambda: ops.logcumsumexp(X.astype(int)), r"holds tile.i64, not floats"),
    ],
)  # fmt: skip
def test_bad_arguments(call: Any, message: str) -> None:
    with pytest.raises(TileError, match=message):
        call()


AWKWARD = [0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1.0, -1.0, 3.5, -3.5]
BY_DIGITS = [dtype for dtype in DTYPES if dtype not in (f64, bool_)]


def ordered(x: Array, descending: bool) -> Array:
    """`places` of rows, of any dtype; the bits of a NaN do not count."""
    wide = x.astype(np.float64) if x.dtype.kind not in "iu" else x
    return places(np.where(np.isnan(wide), np.nan, wide) if wide.dtype.kind == "f" else wide, 1, descending)


@pytest.mark.parametrize("dtype", BY_DIGITS, ids=str)
@given(data=st.data())
@settings(max_examples=12, deadline=None)
def test_rows_digit_by_digit(dtype: DType, data: st.DataObject) -> None:
    """Ragged and short rows, with equal elements, in one range of values or all that there are."""
    shape = data.draw(st.tuples(st.integers(0, 5), st.integers(1, 70).filter(lambda n: n % 16)))
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    if dtype.is_float:
        some = random.normal(0, data.draw(st.sampled_from([1e-3, 1, 100])), shape)
        x = np.where(random.random(shape) < 0.3, random.choice(AWKWARD, shape), np.round(some, 2)).astype(
            to_numpy(dtype)
        )
    else:
        whole = np.iinfo(to_numpy(dtype))
        bounds = data.draw(st.sampled_from([(0, 3), (whole.min // 3, whole.max // 5), (whole.min, whole.max)]))
        x = random.integers(*bounds, shape, to_numpy(dtype), endpoint=True)
    descending = data.draw(st.booleans())
    bits = KEY_BITS.get(dtype, dtype.bits)
    kernel = by_wide_digits if bits == 64 else by_digits
    values, found = kernel(x, descending, 8, bits, 3)
    wanted = ordered(x, descending)
    np.testing.assert_array_equal(found, wanted)
    assert values.tobytes() == np.take_along_axis(x, wanted, 1).tobytes()


def test_no_elements_digit_by_digit() -> None:
    for kernel, x in (
        (by_digits, np.zeros((3, 0), np.int8)),
        (by_wide_digits, np.zeros((0, 5), int)),
    ):
        values, found = kernel(x, False, 8, 8 * x.itemsize, 2)
        assert values.shape == found.shape == x.shape


@pytest.mark.parametrize("size", [49, 1024, 1531])
def test_long_rows_digit_by_digit(size: int) -> None:
    """As a formula is built for a CPU; the shared program, which is run op by op, gives the same."""
    x = np.round(np.random.default_rng(size).normal(0, 30, (3, size)), 1).astype(np.float32)
    x[1, 3:size:5] = np.nan
    for descending in (False, True):
        graph = tiledsl.trace(lambda x: ops.sort(x, 1, descending), x)
        wanted = ordered(x, descending)
        for run in (tiledsl.fuse(graph).build("cpu"), *([graph] if size < 100 else [])):
            values, found = run(x)
            np.testing.assert_array_equal(found, wanted)
            np.testing.assert_array_equal(values, np.take_along_axis(x, wanted, 1))
