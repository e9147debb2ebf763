"""Running folds along an axis."""

from __future__ import annotations

import math
from typing import Any

from tiledsl import tile
from tiledsl.ops.checks import as_tensor, axis_of, float_dtype, require_float, widened

LOG2_E = math.log2(math.e)


@tile.kernel
def cumsum(x: Any, axis: int = -1, reverse: bool = False, *, exclusive: bool = False) -> Any:
    """y[i] = x[0] + ... + x[i] along `axis`; from its end if `reverse`. Integers become 64 bits wide, as in NumPy.

    `exclusive`: without x[i] itself. Narrow floats are summed in f32, and each sum is rounded. Raises TileShapeError if
    there is no such axis.
    """
    x = as_tensor(x)
    at = axis_of("ops.cumsum", x, axis)
    y = tile.cumsum(x, axis=at, reverse=reverse)
    return _without_own(y, at, reverse, 0) if exclusive else y


@tile.kernel
def cumprod(x: Any, axis: int = -1, reverse: bool = False, *, exclusive: bool = False) -> Any:
    """y[i] = x[0] * ... * x[i] along `axis`; otherwise as `cumsum`."""
    x = as_tensor(x)
    at = axis_of("ops.cumprod", x, axis)
    wide = x if x.dtype.is_float else x.to(tile.i64 if not x.dtype.is_integer or x.dtype.is_signed else tile.u64)
    y = tile.scan(wide, at, tile.prod, reverse=reverse)
    return _without_own(y, at, reverse, 1) if exclusive else y


@tile.kernel
def cummax(x: Any, axis: int = -1, reverse: bool = False) -> Any:
    """The largest of x[0] to x[i], and where the last of these is (i64), along `axis`; NaN is the largest."""
    return _extrema("ops.cummax", tile.maximum, x, axis, reverse)


@tile.kernel
def cummin(x: Any, axis: int = -1, reverse: bool = False) -> Any:
    """The smallest of x[0] to x[i], and where the last of these is (i64), along `axis`; NaN is the smallest."""
    return _extrema("ops.cummin", tile.minimum, x, axis, reverse)


def _extrema(name: str, fn: Any, x: Any, axis: Any, reverse: bool) -> Any:
    x = as_tensor(x)
    at = axis_of(name, x, axis)
    values = tile.scan(x, at, fn, reverse=reverse)
    place = tile.arange(x.shape[at]).reshape(tuple(-1 if i == at else 1 for i in range(x.ndim)))
    reached = (x == values) | (x != x) if x.dtype.is_float else x == values
    if reverse:
        return values, tile.scan(tile.where(reached, place, x.shape[at]), at, tile.minimum, reverse=True)
    return values, tile.scan(tile.where(reached, place, -1), at, tile.maximum)


@tile.kernel
def logcumsumexp(x: Any, axis: int = -1) -> Any:
    """log(exp(x[0]) + ... + exp(x[i])) along `axis`, without overflow. In f32 for narrow floats."""
    name = "ops.logcumsumexp"
    x = as_tensor(x)
    require_float(name, x)
    at = axis_of(name, x, axis)
    order = (*(i for i in range(x.ndim) if i != at), at)
    rows = widened(x).transpose(order)
    flat = rows.reshape((math.prod(rows.shape[:-1]), rows.shape[-1]))
    back = tuple(order.index(i) for i in range(x.ndim))
    return _log_sums(flat).reshape(rows.shape).transpose(back).to(float_dtype(x))


@tile.func
def _joined(a: Any, s: Any, b: Any, t: Any) -> Any:
    """log(s exp(a) + t exp(b)), as an exponent and a sum relative to it: one exponential, no logarithm"""
    apart = tile.where(a == b, 0.0, tile.abs(a - b))  # two infinities of one sign
    less = tile.exp2(apart * -LOG2_E)
    return tile.maximum(a, b), tile.where(a < b, s * less + t, s + t * less)


@tile.kernel
def _log_sums(x: tile.Tensor) -> Any:
    M, N = x.shape
    y = tile.empty(x.shape, x.dtype)
    for m in tile.grid(M):
        top, total = tile.scan((x[m, :], tile.full((m, N), 1.0, x.dtype)), 1, _joined)
        y[m, :] = top + tile.log(total)
    return y


def _without_own(y: Any, axis: int, reverse: bool, first: int) -> Any:
    """Each element moved to its next: the fold of those before it."""
    size = y.shape[axis]
    part = slice(1, size) if reverse else slice(0, size - 1)
    kept = y[tuple(part if i == axis else slice(None) for i in range(y.ndim))]
    width = (0, 1) if reverse else (1, 0)
    return tile.pad(kept, tuple(width if i == axis else (0, 0) for i in range(y.ndim)), first) if size != 0 else y
