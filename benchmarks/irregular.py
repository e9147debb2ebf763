"""What has loops that are not the same for all: masks, scans, sparse matrices; beside NumPy, SciPy, or the plain op."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.throughput import Comparison, normal
from beside_numpy import Array
from tiledsl import ops, tile


@tile.kernel
def neighbours(q: Any, k: Any, v: Any, width: tile.constexpr) -> Any:
    """Attention to the keys less than `width` away, as a formula says it."""
    i, j = tile.arange(q.shape[-2])[:, None], tile.arange(k.shape[-2])[None, :]
    scores = tile.where(tile.abs(i - j) < width, tile.dot(q, k.mT) * q.shape[-1] ** -0.5, -math.inf)
    return tile.dot(tile.softmax(scores, axis=-1), v)


def window_case(length: int, width: int) -> Comparison:
    """A formula with a mask beside the op of the library, which is the same with other words."""
    q, k, v = (normal(8, length, 64, seed=seed) for seed in range(3))
    plain = partial(ops.attention, q, k, v, window=width)
    work = 4e-9 * 8 * length * 2 * width * 64
    what = f"window of {width} in {length}, beside ops.attention"
    return Comparison(what, partial(neighbours, q, k, v, width), plain, 0.9, work, "GFLOP/s")


@tile.kernel
def running_sums(x: Any) -> Any:
    return tile.cumsum(x, axis=-1)


def scan_case(*shape: int) -> Comparison:
    """Sums of i64 that run along the last axis, into arrays that are there."""
    x = np.random.default_rng(0).integers(-5, 5, shape)
    ours, numpys = np.empty_like(x), np.empty_like(x)
    return Comparison(
        f"running sums of i64, {'x'.join(map(str, shape))}",
        partial(running_sums, x, out=ours), partial(np.cumsum, x, axis=-1, out=numpys), 0.9, 2e-9 * x.nbytes, "GB/s",
    )  # fmt: skip


@tile.kernel
def sparse_product(starts: Any, columns: Any, data: Any, x: Any) -> Any:
    """A matrix of compressed rows times a vector."""
    P = starts.shape[0]
    y = tile.empty(P - 1, x.dtype)
    for row in tile.grid(P - 1, block=1):
        total = 0.0
        for j in tile.range(starts[row], starts[row + 1]):
            total += tile.sum(data[j] * x[columns[j]])
        y[row] = total
    return y


def sparse_case(size: int, each: int) -> Comparison:
    """About `each` elements in each of `size` rows, in f32, beside sums of products of NumPy."""
    generator = np.random.default_rng(0)
    lengths = generator.integers(1, 2 * each, size)
    starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    columns = generator.integers(0, size, starts[-1], np.int32)
    data, x = normal(int(starts[-1])), normal(size, seed=1)

    def numpys() -> Array:
        return np.add.reduceat(data * x[columns], starts[:-1])

    ours = partial(sparse_product, starts, columns, data, x)
    work = 2e-9 * int(starts[-1])
    return Comparison(f"sparse {size}x{size}, {each} in a row", ours, numpys, 0.9, work, "GFLOP/s", tolerance=1e-4)


def convolution_case(image: tuple[int, ...], channels: int, size: int, stride: int) -> Comparison:
    """[N, C, H, W] with windows of size x size, beside a product with copied windows."""
    inner, padding = image[1], size // 2
    x, weight = normal(*image), normal(channels, inner, size, size, seed=1)
    ours = partial(ops.conv2d, x, weight, stride=stride, padding=padding)
    what = f"convolution {'x'.join(map(str, image))} to {channels}, {size}x{size} / {stride}"
    rows, columns = (-(-length // stride) for length in image[2:])
    work = 2e-9 * image[0] * rows * columns * channels * inner * size**2
    numpys = partial(_numpy_convolution, x, weight, stride, padding)
    return Comparison(what, ours, numpys, 0.6, work, "GFLOP/s", tolerance=1e-4)


def rows_of_channels_case(image: tuple[int, ...], channels: int, size: int) -> Comparison:
    """The same computation in NHWC; NumPy's side has its arrays in the order that suits it."""
    inner, padding = image[3], size // 2
    x, weight = normal(*image), normal(channels, size, size, inner, seed=1)
    ours = partial(ops.conv2d, x, weight, padding=padding, layout="NHWC")
    image_of_planes: Array = np.ascontiguousarray(np.transpose(x, (0, 3, 1, 2)))
    weight_of_planes: Array = np.ascontiguousarray(np.transpose(weight, (0, 3, 1, 2)))

    def numpys() -> Array:
        return np.transpose(_numpy_convolution(image_of_planes, weight_of_planes, 1, padding), (0, 2, 3, 1))

    what = f"convolution {'x'.join(map(str, image))} (NHWC) to {channels}, {size}x{size}"
    work = 2e-9 * image[0] * image[1] * image[2] * channels * inner * size**2
    return Comparison(what, ours, numpys, 0.6, work, "GFLOP/s", tolerance=1e-4)


def _numpy_convolution(x: Array, weight: Array, stride: int, padding: int) -> Array:
    around = ((0, 0), (0, 0), (padding, padding), (padding, padding))
    outer, inner, size, _ = weight.shape
    image: Array = np.pad(x, around)
    windows: Array = np.lib.stride_tricks.sliding_window_view(image, (size, size), axis=(2, 3))
    windows = windows[:, :, ::stride, ::stride]
    batch, _, rows, columns = windows.shape[:4]
    copied: Array = np.reshape(np.transpose(windows, (0, 2, 3, 1, 4, 5)), (batch * rows * columns, inner * size * size))
    y: Array = copied @ np.transpose(np.reshape(weight, (outer, -1)))
    return np.transpose(np.reshape(y, (batch, rows, columns, outer)), (0, 3, 1, 2))


CASES: dict[str, Callable[[], Comparison]] = {
    "window": partial(window_case, 2048, 64),
    "conv-stem": partial(convolution_case, (1, 3, 224, 224), 64, 7, 2),
    "conv-56": partial(convolution_case, (2, 64, 56, 56), 64, 3, 1),
    "conv-14": partial(convolution_case, (1, 256, 14, 14), 256, 3, 1),
    "conv-7": partial(convolution_case, (1, 512, 7, 7), 512, 3, 1),
    "conv-7-nhwc": partial(rows_of_channels_case, (1, 7, 7, 512), 512, 3),
    "sparse": partial(sparse_case, 4000, 20),
    "scan": partial(scan_case, 1 << 20),
    "scan-rows": partial(scan_case, 1024, 1024),
}
