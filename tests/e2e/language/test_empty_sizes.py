"""Sizes of 0: in every axis of the kernels of the language and the examples, in reshapes, parts and folds of tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.every_target import ARCHITECTURES, assert_alike
from tests.support.gpu_cases.gpu_cases import Case, assert_same, expected, outcome
from tests.support.gpu_cases.gpu_example_cases import EXAMPLE_CASES
from tests.support.gpu_cases.gpu_language_cases import LANGUAGE_CASES
from tests.support.kernels.call_kernels import ends
from tiledsl import TileError, tile

Array = npt.NDArray[Any]
MOST_ELEMENTS = 20_000
"""Of the arguments of a case."""
ORDINARY = 4
"""Every so many-th case is part of an ordinary run."""


@dataclass(frozen=True)
class Emptied:
    """The arguments of a case with every axis of one size cut to nothing."""

    case: Case
    size: int

    def __call__(self, generator: np.random.Generator) -> list[object]:
        return [_cut(argument, self.size) for argument in self.case.make(generator)]


def _cut(argument: object, size: int) -> object:
    if not isinstance(argument, np.ndarray):
        return argument
    array = cast("Array", argument)
    return array[tuple(slice(0 if extent == size else None) for extent in array.shape)]


def emptied_cases() -> Iterator[Case]:
    """For one small case of each kernel, the cases with each of its sizes made 0."""
    kernels: set[object] = set()
    for case in (*EXAMPLE_CASES, *LANGUAGE_CASES):
        arrays: list[Array] = [argument for argument in case.arguments() if isinstance(argument, np.ndarray)]
        if case.kernel in kernels or sum(map(np.size, arrays)) > MOST_ELEMENTS:
            continue
        kernels.add(case.kernel)
        for size in sorted({extent for array in arrays for extent in array.shape if extent}):
            yield replace(case, name=f"{case.name}, {size} to 0", make=Emptied(case, size))


def parameters() -> list[Any]:
    marks = [() if number % ORDINARY == 0 else (pytest.mark.slow,) for number in range(ORDINARY)]
    return [
        pytest.param(case, ARCHITECTURES[number // ORDINARY % 2], marks=marks[number % ORDINARY], id=case.name)
        for number, case in enumerate(emptied_cases())
    ]


@pytest.mark.parametrize(("case", "arch"), parameters())
@pytest.mark.filterwarnings("ignore::tiledsl.TilePerformanceWarning")
def test_kernels(case: Case, arch: str) -> None:
    """Where the reference takes such sizes, the code for GPUs gives the same."""
    try:
        wanted = expected(case)
    except (TileError, ValueError) as error:
        pytest.skip(f"no such sizes: {error}")
    arguments = case.arguments()
    returned: Any = case.kernel.emulate(*arguments, arch=arch, seed=None, **dict(cast("Any", case.constants)))
    assert_same(case, outcome(returned, arguments, lambda value: isinstance(value, np.ndarray), np.asarray), wanted)


@tile.kernel
def flattened(x: tile.Tensor) -> Any:
    B, M, N = x.shape
    rows, columns = tile.empty((B, M * N), x.dtype), tile.empty((B, N * M), x.dtype)
    for b in tile.grid(B):
        block = x[b, :, :]
        rows[b, :] = block.reshape(b, M * N)
        columns[b, :] = tile.transpose(block, (0, 2, 1)).reshape(b, N * M)
    return rows, columns


def reshaped(x: Array, *shape: int) -> Array:
    return np.reshape(x, shape)


@pytest.mark.parametrize("shape", [(4, 5, 0), (4, 0, 3), (0, 5, 3), (0, 0, 0), (4, 5, 3)], ids=str)
def test_reshapes(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    rows, columns = assert_alike(flattened, x)
    np.testing.assert_array_equal(rows, reshaped(x, shape[0], shape[1] * shape[2]))
    np.testing.assert_array_equal(columns, reshaped(np.swapaxes(x, 1, 2), *rows.shape))


@tile.kernel
def parts(x: tile.Tensor, START: tile.constexpr, STOP: tile.constexpr) -> Any:
    """Parts of a tile that nothing but a sum makes, of one that is loaded, and what is left behind a part."""
    B, N = x.shape
    kept, part = tile.empty((B, STOP - START), x.dtype), tile.empty((B, STOP - START), x.dtype)
    rest, last = tile.empty((B, N - STOP), x.dtype), tile.empty(B, x.dtype)
    for b in tile.grid(B):
        whole = tile.cumsum(x[b, :], axis=1)
        kept[b, :] = whole[:, START:STOP]
        part[b, :] = x[b, :][:, START:STOP]
        rest[b, :] = whole[:, STOP:N]
        last[b] = tile.sum(whole[:, START:STOP], axis=1)
    return kept, part, rest, last


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (1, 1), (3, 3), (7, 7), (2, 7)])
def test_parts_of_tiles(start: int, stop: int) -> None:
    x = np.random.default_rng(0).integers(-9, 9, (5, 7)).astype(np.int32)
    kept, part, rest, last = assert_alike(parts, x, START=start, STOP=stop)
    whole = np.cumsum(x, axis=1, dtype=np.int32)
    np.testing.assert_array_equal(kept, whole[:, start:stop])
    np.testing.assert_array_equal(part, x[:, start:stop])
    np.testing.assert_array_equal(rest, whole[:, stop:])
    np.testing.assert_array_equal(last, whole[:, start:stop].sum(1))


@tile.kernel
def single(x: tile.Tensor) -> Any:
    B = x.shape[0]
    nothing, total = tile.empty((B, 0), x.dtype), tile.empty((B, 1), x.dtype)
    for b in tile.grid(B):
        t = tile.sum(x[b, :], axis=1, keepdims=True).to(x.dtype)
        nothing[b, :] = t[:, 1:1]
        total[b, :] = t
    return nothing, total


@pytest.mark.parametrize("columns", [0, 1, 5])
def test_no_part_of_one_element(columns: int) -> None:
    _, total = assert_alike(single, np.ones((4, columns), np.int32))
    assert (total == columns).all()


@tile.func
def larger(a: Any, i: Any, b: Any, j: Any) -> Any:
    keeps = a >= b
    return tile.where(keeps, a, b), tile.where(keeps, i, j)


@tile.kernel
def user_folds(x: tile.Tensor) -> Any:
    """The largest of each row and where it is, by a combiner whose neutral element nobody knows."""
    M, N = x.shape
    top, where = tile.empty(M, x.dtype), tile.empty(M, tile.i64)
    for m in tile.grid(M):
        top[m], where[m] = tile.reduce((x[m, :], tile.broadcast_to(tile.arange(N), (m, N))), 1, larger)
    return top, where


@pytest.mark.parametrize("columns", [0, 1, 3, 40])
def test_folds_of_the_user(columns: int) -> None:
    """Of nothing they give 0."""
    x = reshaped(np.random.default_rng(0).permutation(6 * columns), 6, columns).astype(np.float32) - 200
    top, where = assert_alike(user_folds, x)
    if columns:
        np.testing.assert_array_equal(top, x.max(1))
        np.testing.assert_array_equal(where, x.argmax(1))
    else:
        assert not top.any()
        assert not where.any()


@pytest.mark.parametrize("columns", [0, 1, 5])
def test_ends_of_tiles(columns: int) -> None:
    """Of a view, whose neighbours are not to be seen."""
    x = np.random.default_rng(0).random((4, 8), np.float32)[:, 2 : 2 + columns]
    first, last, other = assert_alike(ends, x, 3)
    none = np.zeros(4, np.float32)
    np.testing.assert_array_equal(first, x[:, 0] + 1 if columns else none)
    np.testing.assert_array_equal(last, x[:, -1] + 1 if columns else none)
    np.testing.assert_array_equal(other, x[:, 3] + 1 if columns > 3 else none)


@tile.kernel
def inner(x: tile.Tensor) -> Any:
    M = x.shape[0]
    y = tile.zeros(M, x.dtype)
    for m in tile.grid(M):
        y[m] = tile.sum(x[m, 1:-1], axis=1) + tile.sum((x[m, :] + 0)[:, 1:-1], axis=1)
    return y


@tile.kernel
def inner_if_any(x: tile.Tensor) -> Any:
    M, N = x.shape
    y = tile.zeros(M, x.dtype)
    for m in tile.grid(M):
        if N > 2:
            y[m] = tile.sum(x[m, 1:-1], axis=1)
    return y


@pytest.mark.parametrize("columns", [0, 1, 2, 5])
def test_a_part_has_no_negative_size(columns: int) -> None:
    x = reshaped(np.arange(3 * columns, dtype=np.int32), 3, columns)
    (guarded,) = assert_alike(inner_if_any, x)
    np.testing.assert_array_equal(guarded, x[:, 1:-1].sum(1))
    if columns >= 2:
        (total,) = assert_alike(inner, x)
        np.testing.assert_array_equal(total, 2 * x[:, 1:-1].sum(1))
        return
    calls: list[Callable[[Array], object]] = [inner, inner.emulate, inner.compile(x, arch="reference")]
    for call in calls:
        with pytest.raises(TileError, match=f"axis 1 of a tile is `.* - 2` = {columns - 2}"):
            call(x)
