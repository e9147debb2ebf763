"""Gathers and scatters by computed coordinates, against NumPy and PyTorch."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportCallIssue=false
# ruff: noqa: B023 - what loops make is called at once

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.op_checks import F16, Array, agree, meant, normal
from tiledsl import TileError, ops

X = normal(4, 5, 6)
DRAW = np.random.default_rng(5)


def test_take() -> None:
    index = np.array([[0, -1], [3, 2]], np.int32)
    for axis in (0, 1, -1):
        meant(lambda x, i: ops.take(x, i, axis), [X, index], np.take(X, index, axis))
    outside = np.array([9, -9, 1])
    meant(lambda x, i: ops.take(x, i), [X, outside], np.stack([0 * X[0], 0 * X[0], X[1]]))


def test_gather() -> None:
    for axis in (0, 1, 2):
        index = DRAW.integers(-X.shape[axis], X.shape[axis], (4, 5, 6))
        meant(lambda x, i: ops.gather(x, i, axis), [X, index], np.take_along_axis(X, index, axis))
    index = DRAW.integers(0, 4, (9, 2, 3)).astype(np.int32)
    wanted = np.take_along_axis(X[:, :2, :3], index, 0)
    agree(lambda x, i: ops.gather(x, i, 0), [X, index], wanted)
    meant(lambda x, i: ops.gather(x.mT, i, 0), [np.swapaxes(X, 1, 2), index], wanted)


def test_gather_nd() -> None:
    index = np.stack([DRAW.integers(-n, n, (3, 2)) for n in X.shape], axis=-1)
    i, j, k = (index[..., d] for d in range(3))
    meant(ops.gather_nd, [X, index], X[i, j, k])
    meant(ops.gather_nd, [X, index[..., :2]], X[i, j])
    batched = DRAW.integers(0, 5, (4, 3, 1))
    agree(lambda x, i: ops.gather_nd(x, i, 1), [X, batched], np.stack([x[b[:, 0]] for x, b in zip(X, batched)]))


def test_index() -> None:
    i, j = np.array([[0], [-1]]), np.array([1, 4, 2], np.int32)
    k = np.array([5, 0, 3])
    meant(lambda x, i, j: ops.index(x, (i, j)), [X, i, j], X[i, j])
    meant(lambda x, i, j: ops.index(x, (None, i, j)), [X, i, j], X[:, i, j])
    meant(lambda x, i, j: ops.index(x, (i, None, j)), [X, i, j], X[i, :, j])
    meant(lambda x, i: ops.index(x, (None, i)), [X, i], X[:, i])
    agree(lambda x, i, j, k: ops.index(x, (i, j, k)), [X, i, j, k], X[i, j, k])


def scattered(x: Array, index: Array, updates: Array, axis: int, reduce: str) -> Array:
    """One element after the other."""
    y = x.astype(np.float64)
    for at in np.ndindex(*index.shape):
        place = list(at)
        place[axis] = index[at]
        where = tuple(place)
        old, new = y[where], updates[at]
        y[where] = {"set": new, "add": old + new, "mul": old * new, "min": min(old, new), "max": max(old, new)}[reduce]
    return y


@pytest.mark.parametrize("reduce", ["set", "add", "mul", "min", "max"])
def test_scatter(reduce: str) -> None:
    for axis, shape in ((0, (7, 5, 6)), (1, (4, 3, 6)), (2, (2, 3, 9))):
        index = DRAW.integers(-X.shape[axis], X.shape[axis], shape)
        updates = normal(*shape, seed=1)
        wanted = scattered(X, index, updates, axis, reduce)
        meant(lambda x, i, u: ops.scatter(x, i, u, axis, reduce=reduce), [X, index, updates], wanted, terms=9)
    agree(lambda x, i, u: ops.scatter(x, i, u, 2, reduce=reduce), [X, index, updates], wanted, terms=9)
    whole = (10 * X).astype(np.int32)
    wanted = scattered(whole, index, updates.astype(np.int32), 2, reduce)
    meant(lambda x, i, u: ops.scatter(x, i, u, 2, reduce=reduce), [whole, index, updates.astype(np.int32)], wanted)


def test_scatter_without_what_was_there_and_means() -> None:
    torch = pytest.importorskip("torch")
    index = DRAW.integers(0, 5, (4, 8, 6))
    updates = normal(4, 8, 6, seed=2)
    for reduce, name in (("add", "sum"), ("mul", "prod"), ("min", "amin"), ("max", "amax"), ("mean", "mean")):
        for included in (True, False):
            wanted = torch.tensor(X).scatter_reduce(
                1, torch.tensor(index), torch.tensor(updates), name, include_self=included
            )
            meant(
                lambda x, i, u: ops.scatter(x, i, u, 1, reduce=reduce, include_self=included),
                [X, index, updates], wanted.numpy(), terms=9,
            )  # fmt: skip


def test_scatter_of_slices() -> None:
    index = np.array([[2, -1], [0, 3], [2, 4], [-9, 0]])
    updates = normal(4, 6, seed=4)
    wanted = X.copy()
    wanted[[2, 0], [4, 3]] = updates[[2, 1]]
    meant(ops.scatter_nd, [X, index, updates], wanted)
    wanted = X.copy()
    np.add.at(wanted, ([2, 0, 2], [4, 3, 4]), updates[:3])
    agree(lambda x, i, u: ops.scatter_nd(x, i, u, reduce="add"), [X, index, updates], wanted)
    flags = np.zeros((5,), bool)
    meant(lambda x, i: ops.scatter_nd(x, i, np.array([True, True])), [flags, np.array([[1], [3]])], [0, 1, 0, 1, 0])


def test_index_put() -> None:
    i, j = np.array([[0], [-1]]), np.array([1, 4, 1], np.int32)
    for key, shape in (
        ((i, j), (2, 3, 6)),
        ((None, i, j), (4, 2, 3)),
        ((i, None, j), (2, 3, 5)),
        ((None, j), (4, 3, 6)),
    ):
        place: Any = tuple(slice(None) if entry is None else entry for entry in key)
        values = normal(*shape, seed=6)
        set_, added = X.copy(), X.copy()
        set_[place] = values
        np.add.at(added, place, values)
        meant(lambda x, v: ops.index_put(x, key, v), [X, values], set_)
        meant(lambda x, v: ops.index_put(x, key, v, accumulate=True), [X, values], added)
    meant(lambda x: ops.index_put(x, (i,), 2), [X], np.where(np.isin(np.arange(4), (0, 3))[:, None, None], 2, X))


def test_sums_of_narrow_floats_are_rounded_once() -> None:
    x, updates = np.ones((1, 3), F16), np.full((256, 3), 2.0**-12, F16)
    index = np.zeros((256, 3), np.int64)
    meant(lambda x, i, u: ops.scatter(x, i, u, 0, reduce="add"), [x, index, updates], np.full((1, 3), 1.0625))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ops.take(X, X), r"holds tile.f32, not integers"),
        (lambda: ops.gather(X, np.zeros((4, 9, 6), int), 0), r"no axis of the indices is longer"),
        (lambda: ops.gather(X, np.zeros(4, int), 0), r"give the indices as many axes"),
        (lambda: ops.gather_nd(X, np.zeros((2, 4), int)), r"there are coordinates for the axes of `x`"),
        (lambda: ops.index(X, (None,) * 4), r"not one with 4 axes or more"),
        (lambda: ops.scatter(X, np.zeros((1, 1, 1), int), X, 0), r"there is one update for each place, \[1, 1, 1\]"),
        (lambda: ops.scatter(X, np.zeros((1, 1, 1), int), 1, 0, reduce="sum"), r"`reduce` is 'sum', not \"set\""),
        (lambda: ops.scatter_nd(X, np.zeros((2, 4), int), X), r"there are coordinates for the axes of `x`"),
        (lambda: ops.index_put(X, (None,), X), r"not one with 1 axes or more"),
    ],
)  # fmt: skip
def test_bad_arguments(call: Any, message: str) -> None:
    with pytest.raises(TileError, match=message):
        call()


def test_dtypes_that_bytes_hold() -> None:
    x = np.arange(6, dtype=np.uint8).reshape(2, 3)
    index = np.array([[1, 0, 1]])
    meant(lambda x, i: ops.scatter(x, i, 7, 0, reduce="max"), [x, index], [[0, 7, 2], [7, 4, 7]])
    meant(lambda x, i: ops.gather(x, i, 0), [x, index], [[3, 1, 5]])
    assert ops.take(x, np.array([1])).dtype == np.uint8
