"""Running sums, and the largest elements."""

from __future__ import annotations

import math
from typing import Any

from tiledsl import tile
from tiledsl.ir.dtypes import DType
from tiledsl.ops.checks import as_tensor, axis_of, refuse_option


@tile.kernel
def cumsum(x: Any, axis: int = -1, reverse: bool = False) -> Any:
    """y[i] = x[0] + ... + x[i] along `axis`; from its end if `reverse`. Integers become 64 bits wide, as in NumPy.

    Narrow floats are summed in f32, and each sum is rounded. Raises TileShapeError if there is no such axis.
    """
    x = as_tensor(x)
    return tile.cumsum(x, axis=axis_of("ops.cumsum", x, axis), reverse=reverse)


@tile.kernel
def top_k(x: Any, k: Any, axis: int = -1, largest: bool = True) -> Any:
    """The `k` largest elements along `axis` (the smallest if not `largest`), the largest first, and where they are.

    Gives (values, indices): both have `k` elements along `axis`; indices are i64. Of equal elements the first comes
    first. Rows that hold NaN have no order. Raises TileTypeError unless 0 <= k <= the size of the axis.
    """
    name = "ops.top_k"
    x = as_tensor(x)
    at = axis_of(name, x, axis)
    size = x.shape[at]
    if not isinstance(k, int) or k < 0 or (isinstance(size, int) and k > size):
        refuse_option(name, "k", k, f"an int from 0 to {size}, the size of axis {axis}", "take as many as there are")
    order = (*(i for i in range(x.ndim) if i != at), at)
    rows = x.transpose(order)
    low, high = _bounds(x.dtype)
    flat = rows.reshape((math.prod(rows.shape[:-1]), size))
    values, indices = _best_of_rows(flat, k, not largest, low, high)
    back = tuple(order.index(i) for i in range(x.ndim))
    shape = (*rows.shape[:-1], k)
    return values.reshape(shape).transpose(back), indices.reshape(shape).transpose(back)


@tile.kernel
def _best_of_rows(
    x: tile.Tensor, K: tile.constexpr, smallest: tile.constexpr, low: tile.constexpr, high: tile.constexpr
) -> Any:
    """In each turn the best of what comes after the last one, by value and then by place: no element is changed.

    `low` and `high` are the bounds of the dtype.
    """
    M, N = x.shape
    values = tile.empty((M, K), x.dtype)
    indices = tile.empty((M, K), tile.i64)
    for m in tile.grid(M):
        row = x[m, :]
        at = tile.arange(N)[None, :]
        last = tile.full((m, 1), low if smallest else high, x.dtype)
        place = tile.full((m, 1), -1, tile.i64)
        for i in tile.range(K, block=1):
            behind = row > last if smallest else row < last
            left = behind | ((row == last) & (at > place))
            kept = tile.where(left, row, high if smallest else low)
            last = tile.min(kept, axis=1, keepdims=True) if smallest else tile.max(kept, axis=1, keepdims=True)
            place = tile.min(tile.where(left & (row == last), at, N), axis=1, keepdims=True)
            values[m, i] = last.reshape((m,))
            indices[m, i] = place.reshape((m,))
    return values, indices


def _bounds(dtype: DType) -> tuple[float, float]:
    """The least and the greatest number of a dtype."""
    if dtype.is_float:
        return -math.inf, math.inf
    if dtype.is_signed:
        return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
    return 0, (1 << dtype.bits) - 1
