"""What has loops that are not the same for all: masks, scans, sparse matrices; beside NumPy, SciPy, or the plain op."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.throughput import Comparison, normal
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


CASES: dict[str, Callable[[], Comparison]] = {
    "window": partial(window_case, 2048, 64),
    "scan": partial(scan_case, 1 << 20),
    "scan-rows": partial(scan_case, 1024, 1024),
}
