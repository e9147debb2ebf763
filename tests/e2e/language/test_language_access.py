"""Subscripts, loads, stores, atomics and shapes of the language against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.support.compare import assert_close
from tests.support.kernels.kernels_access import (
    axes,
    computed,
    coordinates,
    filling,
    gather,
    gather_elements,
    histogram,
    levels,
    neighbours,
    open_reshapes,
    ranges,
    scalars,
    scatter,
    slices,
    stepped,
    tile_shapes,
    update,
    views,
)
from tests.support.kernels.lowered_kernels import run_kernel
from tiledsl import TileRuntimeError, tile, trace
from tiledsl.api.kernels.kernel import Kernel

RNG = np.random.default_rng(2)


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("block", [1, 4, 32])
def test_shifted_blocks_read_other_and_drop_writes_outside(block: int) -> None:
    x = floats(11)
    padded = np.pad(x, 1)
    beyond = np.concatenate([x[2:], [-np.inf, -np.inf]]).astype(np.float32)
    expected = np.stack([padded[:-2] + x + padded[2:], beyond, np.append(x[1:], np.float32(0))])
    assert_close(run_kernel(neighbours, x, block=block)[0], expected)


def test_gather_of_rows() -> None:
    x, idx = floats(12, 9), RNG.integers(0, 12, 23).astype(np.int32)
    assert_close(run_kernel(gather, x, idx)[0], x[idx])
    outside = np.array([0, -1, 12, 3], np.int64)
    expected = np.where(((outside >= 0) & (outside < 12))[:, None], x[outside % 12], 0).astype(np.float32)
    assert_close(run_kernel(gather, x, outside)[0], expected)


def test_gather_on_two_axes_and_from_a_transposed_view() -> None:
    x, i, j = floats(6, 8), RNG.integers(0, 6, 9), RNG.integers(0, 8, 5)
    expected = x[i[:, None], j[None, :]]
    assert_close(run_kernel(gather_elements, x, i, j)[0], np.stack([expected, expected]))


def test_scatter() -> None:
    x, idx = floats(5, 3), np.array([7, 0, 100, 2, -1])
    expected = np.zeros((9, 3), np.float32)
    expected[[7, 0, 2]] = 2 * x[[0, 1, 3]]
    assert_close(run_kernel(scatter, x, idx, np.zeros((9, 3), np.float32))[0], expected)


def test_transposed_views() -> None:
    x = floats(3, 8, 9)
    swapped, reversed_ = run_kernel(views, x, block=4)
    assert_close(swapped, x.swapaxes(1, 2))
    assert_close(reversed_, x.T)


@pytest.mark.parametrize("columns", [8, 9])
def test_slices_and_constant_coordinates(columns: int) -> None:
    x = floats(9, columns)
    left, right, picked, corner = run_kernel(slices, x, constants={"half": 4}, block=4)
    assert_close(left, x[:, :4])
    assert_close(right, x[:, 4:])
    assert_close(picked, x[:, 1:5])
    assert_close(corner, np.stack([x[:, -1], x[:, 0] + x[:, -2]]))


@pytest.mark.parametrize("known", [-2, -1, 0, 5])
def test_coordinates_that_are_computed_lie_outside_and_never_wrap(known: int) -> None:
    x = floats(3, 5)
    wide = np.pad(x, ((0, 0), (2, 4)))  # column j is at j + 2
    expected = np.zeros((6, 3, 7), np.float32)
    expected[0] = expected[3] = 2 * wide[:, 1:8]
    expected[1] = np.pad(x, ((0, 0), (1, 1)), constant_values=9)
    expected[2] = expected[4] = 2 * wide[:, known + 2, None]
    expected[4] += 2 * x[:, -1:]
    places = np.arange(7) + known - 3
    expected[5][:, places[(places >= 0) & (places < 7)]] = x[:, :1]
    assert_close(run_kernel(computed, x, known, constants={"known": known})[0], expected)
    kernel = Kernel(computed)
    assert_close(kernel(x, known, known=known), expected)
    assert_close(kernel.emulate(x, known, known=known, seed=None), expected)


def test_new_axes_ellipsis_and_reshape() -> None:
    x = floats(4, 6)
    outer, stacked, flat = run_kernel(axes, x)
    assert_close(outer, x[:, 0][:, None] - x[:, 0])
    assert_close(stacked, x[:, None])
    assert_close(flat, x.reshape(6, 4))


def test_reshapes_with_an_open_size() -> None:
    x = floats(5, 3, 7)
    expected = x.reshape(5, -1), x.reshape(5, -1, 3), x.reshape(5, -1)
    for run in (lambda: run_kernel(open_reshapes, x), lambda: Kernel(open_reshapes)(x)):
        for got, wanted in zip(run(), expected, strict=True):
            assert_close(got, wanted)


@pytest.mark.parametrize("columns", [8, 9])
def test_slices_with_steps(columns: int) -> None:
    x = floats(5, columns)
    spread = np.zeros_like(x)
    spread[:, ::-2] = x[:, ::2]
    expected = x[:, ::-1], x[:, ::2] * 2, x[:, -1:-7:-2], spread
    kernel = Kernel(stepped)
    for run in (lambda: run_kernel(stepped, x), lambda: kernel(x), lambda: kernel.emulate(x, seed=None)):
        for got, wanted in zip(run(), expected, strict=True):
            assert_close(got, wanted)


def test_formulas_with_steps_backwards() -> None:
    def formula(x: Any) -> Any:
        return x[:, ::-1], x[::-1, ::-2] + 1, x[3:0:-1, 1], x[-2::-1], x[10:2:-3, :-2], x[1:3:-1]

    x = floats(5, 9)
    open_sizes = trace(formula, tile.spec(("M", "N"), tile.f32))
    for run in (Kernel(formula), open_sizes):
        for got, wanted in zip(run(x), formula(x), strict=True):
            assert_close(np.asarray(got), wanted)


def test_a_slice_of_a_tile_lies_within_it() -> None:
    def first(x: tile.Tensor, n: tile.constexpr) -> tile.Tensor:
        M = x.shape[0]
        y = tile.empty((M, n), x.dtype)
        for m in tile.grid(M):
            y[m, :] = x[m, :][:, 0:n]
        return y

    x = floats(3, 4)
    kernel: Any = Kernel(first)
    runs: list[Callable[[int], Any]] = [
        lambda n: kernel(x, n=n),
        lambda n: kernel.compile(x, n=n, arch="reference")(x),
        lambda n: kernel.emulate(x, n=n, seed=None),
    ]
    for run in runs:
        assert_close(run(3), x[:, :3])
        with pytest.raises(TileRuntimeError, match="the slice 0:8 lies within"):
            run(8)


def test_shapes_of_tiles() -> None:
    x = floats(4, 6)
    turned, sums, wide = run_kernel(tile_shapes, x)
    assert_close(turned, 3 * x.T)
    assert_close(sums, x.sum(axis=0, keepdims=True))
    assert_close(wide, np.broadcast_to(x, (3, 4, 6)))


def test_atomics() -> None:
    x = RNG.integers(0, 6, 40)
    counts, extremes = run_kernel(histogram, x, np.zeros(6, np.int32), np.array([-9, 99, 0, 0]))
    assert_close(counts, np.bincount(x, minlength=6).astype(np.int32))
    assert_close(extremes, np.array([x.max(), x.min(), 1, 5]))


def test_filled_tensors_and_tiles() -> None:
    zeros, ones, sevens, made = run_kernel(filling, constants={"n": 9}, block=4)
    assert_close(zeros, np.zeros((9, 3), np.float32))
    assert_close(ones, np.ones(9, np.int32))
    assert_close(sevens, np.full(9, 7))
    count = np.arange(9)
    assert_close(made, np.stack([0 * count + 1, 0 * count + 2.5, count, count]).astype(np.float32))


def test_arange() -> None:
    expected = np.stack([np.arange(3, 17, 2), np.arange(7)]).astype(np.int32)
    assert_close(run_kernel(ranges, constants={"n": 7})[0], expected)


def test_updates_in_place() -> None:
    x, y = floats(11), floats(11)
    expected = (y + x * 2) - 1 + 0.5
    assert run_kernel(update, x, y) == ()
    assert_close(y, expected.astype(np.float32))


def test_blocks_of_one_leave_no_axis() -> None:
    x = floats(5, 9)
    assert_close(run_kernel(coordinates, x, np.zeros_like(x), constants={"B": 1})[0], x)


@pytest.mark.parametrize("flag", [True, False])
def test_scalar_parameters(flag: bool) -> None:
    x = floats(9)
    expected = x * np.float32(0.5) if flag else np.full(9, 3, np.float32)
    assert_close(run_kernel(scalars, x, flag, 3, 0.5)[0], expected)


def test_levels_and_stages() -> None:
    x = floats(19)
    assert_close(run_kernel(levels, x)[0], 2 * x)
