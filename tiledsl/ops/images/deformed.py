"""Convolutions of images whose places within windows are moved, by what other parts of a network computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tiledsl import tile
from tiledsl.ops.images.sampling import sample


def deformed_convolution(
    x: Any, w: Any, offset: Any, bias: Any, mask: Any, *, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], groups: int, offset_groups: int,
) -> Any:  # fmt: skip
    """y[n, k, p, q] of `x` [N, C, H, W] and weights `w` [K, C / groups, R, S], in the dtype of `x`.

    The place of tap (r, s) of the window at (p, q) is moved by `offset` [N, offset_groups * R * S * 2, P, Q], rows
    before columns, and what is there is weighted by `mask` [N, offset_groups * R * S, P, Q], if there is one. Zeros lie
    beyond the image. `padding`: before the first row and column. Sums are in f32 for narrow floats.
    """
    n, c = x.shape[:2]
    sizes, (rows, columns) = w.shape[2:], offset.shape[2:]
    wide = tile.f64 if x.dtype == tile.f64 else tile.f32
    taps = math.prod(sizes)
    moved = offset.to(wide).reshape((n * offset_groups, *sizes, 2, rows, columns))
    at: list[Any] = []
    for axis, (count, step, d, size) in enumerate(zip((rows, columns), stride, dilation, sizes)):
        first = (tile.arange(count) * step - padding[axis]).reshape((-1, 1) if axis == 0 else (1, -1))
        within = (tile.arange(size) * d).reshape((-1, 1, 1, 1) if axis == 0 else (1, -1, 1, 1))
        at.append(moved[:, :, :, axis] + (first + within).to(wide))
    images = x.reshape((n * offset_groups, c // offset_groups, *x.shape[2:]))
    picked = sample(images, at).to(wide)
    if mask is not None:
        picked = picked * mask.to(wide).reshape((n * offset_groups, 1, *sizes, rows, columns))
    parts = picked.reshape((n, groups, c // groups, taps, rows, columns))
    weights = w.to(wide).reshape((groups, w.shape[0] // groups, c // groups, taps))
    y = tile.einsum("n g c t p q, g k c t -> n g k p q", parts, weights).reshape((n, w.shape[0], rows, columns))
    return (y if bias is None else y + bias.to(wide).reshape((1, -1, 1, 1))).to(x.dtype)
