"""Loops within loops on the CPU, and what they read: carried tiles, ends that are data, places outside of a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tiledsl import ops, tile

Array = npt.NDArray[Any]
pytestmark = pytest.mark.filterwarnings("ignore::tiledsl.TilePerformanceWarning")


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def rows_of(x: Array, places: Array) -> Array:
    """Rows at places of which some lie outside, where there are zeros."""
    inside = (places >= 0) & (places < len(x))
    return np.where(inside[:, None], x[np.where(inside, places, 0)], 0)


@tile.kernel
def read_again(x: Any) -> Any:
    """What the outer loop carries is where the inner one starts, in each turn of the loop between."""
    n, c = x.shape
    y = tile.empty((n, c), tile.f32)
    for i in tile.grid(n):
        a = x[i, :]
        for _ in tile.range(2, block=1):
            s = tile.zeros((i, c), tile.f32)
            for _ in tile.range(3, block=1):
                r = a
                for _ in tile.range(2, block=1):
                    r = r * 0.5 + tile.sum(r, axis=1)[:, None] * 0.1
                s = s + r
            a = s
        y[i, :] = a
    return y


def test_what_a_loop_starts_from_is_there_for_the_next_turn() -> None:
    x = normal(9, 7)
    a = x
    for _ in range(2):
        r = a
        for _ in range(2):
            r = r * np.float32(0.5) + r.sum(1, keepdims=True) * np.float32(0.1)
        a = 3 * r
    np.testing.assert_allclose(read_again(x), a, rtol=1e-5, atol=1e-5)


@tile.kernel
def added_to_again(x: Any, w: Any) -> Any:
    n = x.shape[0]
    q, c, d = w.shape  # noqa: RUF059  # pyright: ignore[reportUnusedVariable]
    y = tile.empty((n, d), tile.f32)
    for i in tile.grid(n):
        a = tile.zeros((i, d), tile.f32)
        for _ in tile.range(2, block=1):
            s = tile.zeros((i, d), tile.f32)
            for j in tile.range(q, block=1):
                s = s + tile.dot(x[i, :], w[j, :, :], a)
            a = s
        y[i, :] = a
    return y


def test_what_products_add_to_is_there_for_the_next_turn() -> None:
    x, w = normal(20, 9), normal(3, 9, 33, seed=1)
    a = np.zeros((20, 33), np.float32)
    for _ in range(2):
        a = sum(x @ w[j] + a for j in range(3))
    np.testing.assert_allclose(added_to_again(x, w), a, rtol=1e-4, atol=1e-4)


@tile.kernel
def windows_anywhere(x: Any, places: Any, w: Any) -> Any:
    (n,) = places.shape
    r, c = w.shape
    y = tile.empty((n, c), tile.f32)
    for i, j in tile.grid(n, c):
        acc = tile.zeros((i, j), tile.f32)
        at = places[i]
        for k in tile.range(r, block=1):
            acc = acc + x[at + k, j] * w[k, j]
        y[i, j] = acc
    return y


@pytest.mark.parametrize("far", [30, -5, 10**6, 2**40])
def test_rows_between_others_may_lie_outside(far: int) -> None:
    x, w = normal(21, 40), normal(3, 40, seed=1)
    places = np.array([0, far, 3, 4, 5, 6, far, 8], np.int64)
    expected = sum(rows_of(x, places + k) * w[k] for k in range(3))
    np.testing.assert_allclose(windows_anywhere(x, places, w), expected, rtol=1e-5, atol=1e-5)


@tile.kernel
def along_both(x: Any, places: Any) -> Any:
    (n,) = places.shape
    y = tile.empty((n, n), tile.f32)
    for _ in tile.grid(1):
        acc = tile.zeros((n, n), tile.f32)
        for k in tile.range(3, block=1):
            v = x[places[:] + k]
            acc = acc + v[:, None] * v[None, :]
        y[:, :] = acc
    return y


def test_places_along_lanes_may_lie_outside() -> None:
    x, places = normal(50), np.arange(16, dtype=np.int64)
    places[[5, 13]] = 10**9
    parts = [rows_of(x[:, None], places + k)[:, 0] for k in range(3)]
    np.testing.assert_allclose(along_both(x, places), sum(np.outer(v, v) for v in parts), rtol=1e-5, atol=1e-5)


@tile.kernel
def triangle(x: Any, w: Any) -> Any:
    n, c = x.shape
    r, c = w.shape
    y = tile.empty((n, c), tile.f32)
    for i, j in tile.grid(n, c):
        acc = tile.zeros((i, j), tile.f32)
        for k in tile.range(r, block=1):
            for m in tile.range(k, block=1):
                acc = acc + x[i + m, j] * w[k, j]
        y[i, j] = acc
    return y


def test_ends_that_an_outer_loop_moves() -> None:
    x, w = normal(21, 40), normal(3, 40, seed=1)
    expected = sum(rows_of(x, np.arange(21) + m) * w[k] for k in range(3) for m in range(k))
    np.testing.assert_allclose(triangle(x, w), expected, rtol=1e-5, atol=1e-5)


@tile.kernel
def in_segments(x: Any, ends: Any, w: Any) -> Any:
    n, c = x.shape
    r, c = w.shape
    size_of_ends = ends.shape[0]
    y = tile.empty((n, c), tile.f32)
    for i, j in tile.grid(n, c):
        acc = tile.zeros((i, j), tile.f32)
        for k in tile.range(size_of_ends - 1, block=1):
            for m in tile.range(tile.minimum(ends[k], r), tile.minimum(ends[k + 1], r), block=1):
                acc = acc + x[i + m - 1, j] * w[m, j]
        y[i, j] = acc
    return y


def test_ends_that_data_say_for_each_turn() -> None:
    x, w, ends = normal(12, 20), normal(8, 20, seed=1), np.array([0, 2, 2, 6], np.int64)
    expected = sum(rows_of(x, np.arange(12) + m - 1) * w[m] for m in range(6))
    np.testing.assert_allclose(in_segments(x, ends, w), expected, rtol=1e-5, atol=1e-5)


@tile.kernel
def as_many_as_folded(x: Any, counts: Any) -> Any:
    n, c = x.shape
    n, c = counts.shape
    y = tile.empty((n, c), tile.f32)
    for i in tile.grid(n, block=4):
        stop = tile.max(counts[i, :])
        acc = x[i, :] * 2
        for k in tile.range(stop, block=1):
            acc = acc + x[i + k, :]
        y[i, :] = acc
    return y


@tile.kernel
def as_far_as_folded(x: Any, counts: Any) -> Any:
    n, c = x.shape
    n, c = counts.shape
    y = tile.empty((n, c), tile.f32)
    for i in tile.grid(n, block=4):
        far = tile.max(counts[i, :])
        acc = x[i, :] * 2
        for k in tile.range(3, block=1):
            acc = acc + x[i + (k + far), :]
        y[i, :] = acc
    return y


def test_ends_and_places_that_a_fold_gives() -> None:
    x, counts = normal(12, 20), np.random.default_rng(1).integers(0, 4, (12, 20))
    counts[4:8] = 0
    so_many, so_far = x * 2, x * 2
    for b in range(0, 12, 4):
        most, rows = int(counts[b : b + 4].max()), np.arange(b, b + 4)
        for k in range(most):
            so_many[rows] += rows_of(x, rows + k)
        for k in range(3):
            so_far[rows] += rows_of(x, rows + k + most)
    np.testing.assert_allclose(as_many_as_folded(x, counts), so_many, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(as_far_as_folded(x, counts), so_far, rtol=1e-5, atol=1e-5)


@tile.kernel
def columns_of_two_axes(x: Any, w: Any) -> Any:
    m, k = x.shape
    k, a, b = w.shape
    y = tile.empty((m, a * b), tile.f32)
    for i in tile.grid(m):
        y[i, :] = tile.dot(x[i, :], tile.reshape(w[:, :, :], (k, a * b)))
    return y


@pytest.mark.parametrize("sides", [(10, 20), (3, 48), (7, 1), (1, 100)])
def test_columns_of_a_product_that_are_two_axes(sides: tuple[int, int]) -> None:
    x, w = normal(64, 64), normal(64, *sides, seed=1)
    np.testing.assert_allclose(columns_of_two_axes(x, w), x @ np.reshape(w, (64, -1)), rtol=1e-4, atol=1e-3)


@tile.kernel
def turned_convolution(x: Any, w: Any, b: Any) -> Any:
    return ops.conv_transpose2d(x, w, b, stride=(3, 3), padding=(1, 1), layout="NHWC")


def test_a_transposed_convolution_whose_taps_are_padded() -> None:
    x, w, b = normal(3, 7, 6, 5), normal(5, 3, 5, 64, seed=1), normal(64, seed=2)
    full = np.zeros((3, 7 * 3 + 3, 6 * 3 + 5, 64))
    for r in range(3):
        for s in range(5):
            full[:, r : r + 19 : 3, s : s + 16 : 3] += x @ w[:, r, s]
    height, width = 6 * 3 + 3 - 2, 5 * 3 + 5 - 2
    expected = full[:, 1 : 1 + height, 1 : 1 + width] + b
    np.testing.assert_allclose(turned_convolution(x, w, b), expected, rtol=1e-4, atol=1e-4)


@tile.kernel
def strided_convolution(x: Any, w: Any) -> Any:
    return ops.conv2d(x, w, stride=(1, 3))


def test_a_convolution_of_no_images() -> None:
    assert strided_convolution(normal(0, 3, 14, 9), normal(24, 3, 7, 3)).shape == (0, 24, 8, 3)


@tile.kernel
def doubles(x: Any, w: Any, b: Any) -> Any:
    return ops.conv_transpose1d(x, w, b, stride=2)


def test_a_bias_of_doubles_is_not_rounded() -> None:
    """Half of the places have no tap at all."""
    x, w, b = (normal(*shape, seed=n).astype(np.float64) + 1e-9 for n, shape in enumerate([(1, 2, 4), (2, 3, 1), (3,)]))
    y = doubles(x, w, b)
    np.testing.assert_array_equal(y[0, :, 1], b)
