"""Padding, rolling, repeating, masks, diagonals, windows as columns: against NumPy and PyTorch."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportCallIssue=false
# ruff: noqa: B023 - what loops make is called at once

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.op_checks import F16, F32, F64, agree, meant, normal
from tiledsl import TileError, ops, tile

X = normal(3, 4, 5)
MODES: Any = ("edge", "reflect", "symmetric", "wrap")


@pytest.mark.parametrize("mode", MODES)
def test_padding_with_own_elements(mode: Any) -> None:
    for widths in (1, (2, 3), ((0, 0), (3, 1), (4, 9)), ((7, 0), (0, 0), (0, 2))):
        meant(lambda x: ops.pad(x, widths, mode=mode), [X], np.pad(X, widths, mode=mode))
    one = X[:1, :, 2:3]
    meant(lambda x: ops.pad(x, 2, mode=mode), [one], np.pad(one, 2, mode=mode))
    wide = np.pad(X, ((0, 0), (0, 0), (2, 3)), mode=mode)[..., 3:-4]
    meant(lambda x: ops.pad(x, ((0, 0), (0, 0), (-1, -1)), mode=mode), [X], wide)


def test_padding_with_a_number() -> None:
    meant(
        lambda x: ops.pad(x, ((1, 0), (0, 2), (3, 0)), 7), [X], np.pad(X, ((1, 0), (0, 2), (3, 0)), constant_values=7)
    )
    wanted = np.pad(X[:, 1:, :-2], ((0, 1), (0, 0), (2, 0)), constant_values=-1)
    meant(lambda x: ops.pad(x, ((0, 1), (-1, 0), (2, -2)), -1), [X], wanted)
    agree(
        lambda x: ops.pad(ops.pad(x, ((1, 2),), mode="reflect"), -1),
        [X[0]],
        np.pad(X[0], ((1, 2),), "reflect")[1:-1, 1:-1],
    )


def test_flips_rolls_and_repeats() -> None:
    for axis in (None, 0, -1, (0, 2)):
        meant(lambda x: ops.flip(x, axis), [X], np.flip(X, axis))
    for shift, axis in ((2, 1), (-3, 0), ((1, -2), (0, 2)), (17, None), (0, 1)):
        meant(lambda x: ops.roll(x, shift, axis), [X], np.roll(X, shift, axis))
    for counts in (2, (1, 3), (2, 1, 3), (2, 1, 1, 2), (0, 1, 1)):
        meant(lambda x: ops.repeat(x, counts), [X], np.tile(X, counts))
    for axis in (0, 1, -1):
        meant(lambda x: ops.repeat_interleave(x, 3, axis), [X], np.repeat(X, 3, axis))
    agree(
        lambda x: ops.repeat(ops.roll(x, (1, 2), (0, 1)), (2, 1)) + 1,
        [X[0]],
        np.tile(np.roll(X[0], (1, 2), (0, 1)), (2, 1)) + 1,
    )


def test_stacks() -> None:
    a, b = X[0], X[1]
    meant(lambda a, b: ops.stack((a, b), -1), [a, b], np.stack((a, b), -1))
    meant(lambda x: ops.unstack(x, 1), [X], tuple(X[:, i] for i in range(4)))


def test_diagonals_and_triangles() -> None:
    for k in (-5, -1, 0, 2, 4):
        meant(lambda x: ops.triu(x, k), [X], np.triu(X, k))
        meant(lambda x: ops.tril(x, k), [X], np.tril(X, k))
        meant(lambda x: ops.diagonal(x, k, 1, 2), [X], np.diagonal(X, k, 1, 2))
        meant(lambda x: ops.diagonal(x, k, -1, 0), [X], np.diagonal(X, k, -1, 0))
        meant(lambda: ops.eye(3, 5, k), [], np.eye(3, 5, k), dtype=F32)
        wide = np.stack([np.diag(row, k) for row in X[0]])
        meant(lambda x: ops.diag_embed(x, k), [X[0]], wide)
    meant(lambda: ops.eye(3, dtype=tile.i64), [], np.eye(3), dtype=np.int64)
    agree(lambda x: ops.tril(x) + ops.diagonal(x)[:, None], [X[0]], np.tril(X[0]) + np.diagonal(X[0])[:, None])


def test_choices() -> None:
    mask = X > 0
    meant(lambda x, m: ops.masked_fill(x, m, -2), [X, mask], np.where(mask, -2, X))
    meant(lambda x, m: ops.where(m, x, 1.5), [X, mask], np.where(mask, X, 1.5))
    for start, stop, count in ((0, 1, 5), (-3, 7.5, 6), (2, -1, 4), (5, 6, 1)):
        meant(lambda: ops.linspace(start, stop, count), [], np.linspace(start, stop, count), dtype=F32)
    index = np.array([[0, 3, -1], [4, 1, -5]], np.int8)
    one = np.where(np.arange(4) == np.where(index < 0, index + 4, index)[..., None], 1, 0)
    meant(lambda i: ops.one_hot(i, 4), [index], one, dtype=np.int64)
    for axis in (0, 1):
        wanted = np.moveaxis(np.where(one, 5.0, -1.0), -1, axis)
        meant(lambda i: ops.one_hot(i, 4, axis, on=5, off=-1, dtype=tile.f16), [index], wanted, dtype=F16)


def test_windows_as_columns_and_back() -> None:
    torch = pytest.importorskip("torch")
    cases: list[tuple[tuple[int, ...], Any, Any, Any, Any]] = [
        ((5, 6), 3, 1, 0, 1), ((7, 6), (2, 3), (2, 1), (1, 0), (2, 1)), ((4, 9), (1, 2), 3, 1, (1, 3)),
    ]  # fmt: skip
    for size, *rest in cases:
        x = normal(2, 3, *size)
        columns = torch.nn.functional.unfold(torch.tensor(x), *rest)
        meant(lambda x: ops.unfold(x, *rest), [x], columns.numpy())
        y = normal(*columns.shape, seed=3)
        image = torch.nn.functional.fold(torch.tensor(y.astype(F64)), size, *rest).numpy()
        (agree if size == (4, 9) else meant)(lambda y: ops.fold(y, size, *rest), [y], image, terms=9)
    x = normal(1, 2, 8)
    meant(lambda x: ops.fold(ops.unfold(x, 4, stride=4), (8,), 4, stride=4), [x], x)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ops.pad(X, 1, mode="mirror"), r"`mode` is 'mirror', not \"constant\", \"edge\""),
        (lambda: ops.pad(X, ((1, 2), (-1, 2))), r"`widths` is \(\(1, 2\), \(-1, 2\)\), not an int, a pair, or 3 pairs"),
        (lambda: ops.roll(X, (1, 2), 0), r"`shift` is \(1, 2\), not an int for each of the axes \(0,\)"),
        (lambda: ops.repeat(X, -1), r"`repeats` is -1, not ints from 0 on"),
        (lambda: ops.repeat_interleave(X, X), r"not an int from 0 on"),
        (lambda: ops.diagonal(X, axis2=0), r"`axis2` is 0, not another axis than axis1"),
        (lambda: ops.triu(X[0, 0]), r"not \[..., rows, columns\]"),
        (lambda: ops.one_hot(X, 4), r"holds tile.f32, not integers"),
        (lambda: ops.one_hot(np.zeros(2, int), 4, axis=2), r"`axis` is 2, not an axis of a tensor of rank 2"),
        (lambda: ops.unfold(X, 9), r"`kernel_size` is 9, not within the padded axis of 5"),
        (lambda: ops.fold(X, (4, 4), 2), r"has the shape \[3, 4, 5\], not \[N, C \* 4, 9\]"),
    ],
)  # fmt: skip
def test_bad_arguments(call: Any, message: str) -> None:
    with pytest.raises(TileError, match=message):
        call()
