"""Softmax, norms, losses, sums and orders of rows against NumPy in f64."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportCallIssue=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.op_checks import F16, F32, FLOATS, Array, agree, normal, results_of, wide
from tiledsl import TileError, ops, tile


def log_softmax(x: Array, axis: Any = -1) -> Any:
    with np.errstate(invalid="ignore"):
        shifted = x - x.max(axis=axis, keepdims=True)
        return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


@given(shape=st.lists(st.integers(1, 9), min_size=1, max_size=3), data=st.data())
@settings(max_examples=8)
def test_softmax_along_any_axis(shape: list[int], data: st.DataObject) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    dtype = data.draw(st.sampled_from(FLOATS))
    x = normal(*shape, dtype=dtype, scale=4.0)
    agree(lambda x: ops.softmax(x, axis=axis), [x], np.exp(log_softmax(wide(x)[0], axis)))
    agree(lambda x: ops.log_softmax(x, axis=axis), [x], log_softmax(wide(x)[0], axis))


@pytest.mark.parametrize("dtype", FLOATS)
def test_softmax_of_extremes(dtype: Any) -> None:
    x = np.array([[-np.inf] * 3, [1e4, 1e4, -1e4], [-np.inf, 2, 3], [6e4, 0, 1]], dtype)
    agree(ops.softmax, [x], np.exp(log_softmax(*wide(x))))
    agree(ops.log_softmax, [x], log_softmax(*wide(x)))
    one = np.full((3, 1), 5, dtype)
    agree(ops.softmax, [one], np.ones((3, 1)))
    agree(ops.log_softmax, [one], np.zeros((3, 1)))
    agree(ops.softmax, [np.zeros((0, 4), dtype)], np.zeros((0, 4)))


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("shape", [(5,), (4, 7), (3, 5, 2)])
def test_cross_entropy(shape: tuple[int, ...], reduction: str) -> None:
    at = 0 if len(shape) == 1 else 1
    x = normal(*shape, scale=3.0)
    target = np.random.default_rng(1).integers(0, shape[at], (*shape[:at], *shape[at + 1 :]))
    if target.ndim:
        target.flat[1] = -100
    logs = -log_softmax(*wide(x), at)
    picked = np.take_along_axis(logs, np.expand_dims(np.maximum(target, 0), at), at).squeeze(at)
    losses = np.where(target != -100, picked, 0)
    folded = {"none": losses, "sum": losses.sum(), "mean": losses.sum() / (target != -100).sum()}
    agree(lambda x, t: ops.cross_entropy(x, t, reduction=reduction), [x, target], folded[reduction], terms=8)


def test_cross_entropy_of_odd_targets() -> None:
    x, target = normal(4, 3), np.array([0, 3, -100, -1], np.int32)
    for result in results_of(lambda x, t: ops.cross_entropy(x, t, reduction="none"), [x, target]).values():
        assert np.isfinite(result[0])
        assert list(result[1:]) == [np.inf, 0, np.inf]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(3, 7), (2, 3, 1), (2, 3, 4)])
def test_norms_of_rows(shape: tuple[int, ...], dtype: Any) -> None:
    x, w, b = normal(*shape, dtype=dtype, scale=3.0), normal(shape[-1], dtype=dtype), normal(shape[-1], dtype=dtype)
    x.flat[0] = 1e4
    wx, ww, wb = wide(x, w, b)
    centred = wx - wx.mean(-1, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    agree(lambda x, w, b: ops.layer_norm(x, shape[-1], w, b), [x, w, b], expected * ww + wb, terms=4)
    agree(lambda x, w: ops.rms_norm(x, shape[-1:], w), [x, w],
          wx / np.sqrt((wx**2).mean(-1, keepdims=True) + 1e-6) * ww, terms=4)  # fmt: skip


def test_layer_norm_over_two_axes() -> None:
    x, w = normal(3, 4, 5), normal(4, 5)
    wx = wide(x)[0]
    centred = wx - wx.mean((1, 2), keepdims=True)
    expected = centred / np.sqrt((centred**2).mean((1, 2), keepdims=True) + 1e-3) * w
    agree(lambda x, w: ops.layer_norm(x, (4, 5), w, eps=1e-3), [x, w], expected, terms=4)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("axis", [1, -1, 0])
def test_batch_norm(axis: int, dtype: Any) -> None:
    x = normal(2, 3, 4, dtype=dtype)
    m, v, w, b = (normal(x.shape[axis], dtype=dtype, seed=i) for i in range(4))
    v = np.abs(v) + dtype(0.5)
    shape = [-1 if i == axis % 3 else 1 for i in range(3)]
    wx, wm, wv, ww, wb = wide(x, m, v, w, b)
    expected = (wx - wm.reshape(shape)) / np.sqrt(wv.reshape(shape) + 1e-5) * ww.reshape(shape) + wb.reshape(shape)
    agree(lambda x, m, v, w, b: ops.batch_norm(x, m, v, w, b, axis=axis), [x, m, v, w, b], expected, terms=4)


@given(shape=st.lists(st.integers(1, 7), min_size=1, max_size=3), data=st.data())
@settings(max_examples=6)
def test_means_and_variances(shape: list[int], data: st.DataObject) -> None:
    axes = st.lists(st.integers(0, len(shape) - 1), unique=True, min_size=1).map(tuple)
    axis = data.draw(st.one_of(st.none(), axes, st.just(-1)))
    keepdims = data.draw(st.booleans())
    dtype = data.draw(st.sampled_from(FLOATS))
    x = normal(*shape, dtype=dtype, scale=3.0)
    agree(lambda x: ops.mean(x, axis, keepdims), [x], np.mean(wide(x)[0], axis=axis, keepdims=keepdims), terms=9)
    agree(lambda x: ops.var(x, axis, keepdims=keepdims), [x],
          np.var(wide(x)[0], axis=axis, keepdims=keepdims), terms=16)  # fmt: skip


def test_the_variance_of_a_sample() -> None:
    x = normal(4, 5)
    agree(lambda x: ops.var(x, 0, ddof=1), [x], np.var(wide(x)[0], axis=0, ddof=1), terms=4)
    with np.errstate(all="ignore"):
        agree(lambda x: ops.var(x, 1, ddof=1), [x[:, :1]], np.full(4, np.nan))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("shape", "axis"), [((3, 7), -1), ((3, 7), 0), ((2, 3, 5), 1), ((4, 1), 1), ((0, 3), 0)])
def test_cumsum(shape: tuple[int, ...], axis: int, reverse: bool) -> None:
    def expected(x: Array) -> Array:
        flipped = np.flip(x, axis) if reverse else x
        return np.flip(np.cumsum(flipped, axis), axis) if reverse else np.cumsum(flipped, axis)

    for dtype in FLOATS:
        x = normal(*shape, dtype=dtype)
        agree(lambda x: ops.cumsum(x, axis, reverse), [x], expected(*wide(x)), terms=8)
    counts = (10 * normal(*shape)).astype(np.int8)
    agree(lambda x: ops.cumsum(x, axis, reverse), [counts], expected(counts.astype(np.int64)), dtype=np.int64)


def top_k(x: Array, k: int, axis: int, largest: bool) -> tuple[Array, Array]:
    order = np.argsort(-wide(x)[0] if largest else wide(x)[0], axis=axis, kind="stable")
    index = np.take(order, np.arange(k), axis=axis)
    return np.take_along_axis(x, index, axis), index


@pytest.mark.parametrize("dtype", [F32, F16, np.int32, np.uint8])
@pytest.mark.parametrize(("shape", "k", "axis"), [((3, 9), 4, -1), ((5, 3), 5, 0), ((2, 4, 3), 1, 1), ((3, 2), 0, 1)])
def test_top_k(shape: tuple[int, ...], k: int, axis: int, dtype: Any) -> None:
    x = (3 * np.abs(normal(*shape))).astype(dtype)  # with equal ones among integers
    if x.dtype.kind == "f":
        x.flat[0], x.flat[1] = -np.inf, np.inf
    for largest in (True, False):
        expected = top_k(x, k, axis, largest)
        for result in results_of(lambda x: ops.top_k(x, k, axis, largest), [x]).values():  # noqa: B023
            assert np.array_equal(result[0], expected[0])
            assert np.array_equal(result[1], expected[1])


def test_rows_of_infinities_have_an_order_too() -> None:
    values, indices = ops.top_k(np.full((1, 3), -np.inf, F32), 3)
    assert np.all(values == -np.inf)
    assert np.array_equal(indices, [[0, 1, 2]])


X = normal(3, 4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ops.softmax(X, 2), r"ops.softmax: `x` has the shape \[3, 4\], not a tensor with an axis 2"),
        (lambda: ops.log_softmax(X, "rows"), r"`axis` is 'rows', not an int"),
        (lambda: ops.layer_norm(X, 3), r"`normalized_shape` is 3, not the last sizes of `x`, \[3, 4\]"),
        (lambda: ops.layer_norm(X, 4, X), r"`weight` of shape \[3, 4\] does not fit `x` .* have the last axes of `x`"),
        (lambda: ops.rms_norm(X.astype(np.int32), 4), r"holds tile.i32, not floats"),
        (lambda: ops.batch_norm(X, X[0], X[:, 0]), r"there is one number for each channel, axis 1"),
        (lambda: ops.cross_entropy(X, X[:, 0]), r"ops.cross_entropy: .* holds tile.f32, not integers"),
        (lambda: ops.cross_entropy(X, np.zeros(4, int)), r"of shape \[4\] does not fit `logits` of shape .*: the tar"),
        (lambda: ops.cross_entropy(X, np.zeros(3, int), reduction="max"), r"`reduction` is 'max', not"),
        (lambda: ops.cross_entropy(np.zeros((), F32), np.zeros(1, int)), r"has the shape \[\], not \[C\]"),
        (lambda: ops.var(X, ddof=-1), r"`ddof` is -1, not an int from 0 on"),
        (lambda: ops.cumsum(X, 5), r"not a tensor with an axis 5"),
        (lambda: ops.top_k(X, 5), r"`k` is 5, not an int from 0 to 4, the size of axis -1"),
    ],
)  # fmt: skip
def test_bad_arguments(call: Any, message: str) -> None:
    with pytest.raises(TileError, match=message):
        call()


def test_sizes_may_be_open() -> None:
    import tiledsl

    spec = tile.spec(("N", 6), tile.f32)
    module = tiledsl.fuse(tiledsl.trace(lambda x: ops.log_softmax(ops.layer_norm(x, 6)), spec)).build("cpu")
    assert module(normal(5, 6)).shape == (5, 6)
