"""Tensors that are made of coordinates, and choices between tensors."""

from __future__ import annotations

from typing import Any

from tiledsl import tile
from tiledsl.ops.checks import as_tensor, axis_of, refuse_option, refuse_rank, require_integers


@tile.kernel
def where(condition: Any, x: Any, y: Any) -> Any:
    """`x` where the condition holds, else `y`; all broadcast, `x` and `y` are promoted."""
    return tile.where(condition, x, y)


@tile.kernel
def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    """`value` where the mask holds, else `x`, in the dtype of `x`; both broadcast."""
    x = as_tensor(x)
    return tile.where(mask, as_tensor(value).to(x.dtype), x)


@tile.kernel
def triu(x: Any, k: Any = 0) -> Any:
    """`x` with zeros below diagonal `k` of its last two axes: elements (i, j) with j - i >= k stay."""
    return _triangle("ops.triu", x, k, upper=True)


@tile.kernel
def tril(x: Any, k: Any = 0) -> Any:
    """`x` with zeros above diagonal `k` of its last two axes: elements (i, j) with j - i <= k stay."""
    return _triangle("ops.tril", x, k, upper=False)


def _triangle(name: str, x: Any, k: Any, upper: bool) -> Any:
    x = as_tensor(x)
    if x.ndim < 2:
        refuse_rank(name, x, "[..., rows, columns]", "give it an axis of rows and one of columns")
    rows, columns = tile.arange(x.shape[-2])[:, None], tile.arange(x.shape[-1])[None, :]
    kept = columns - rows >= k if upper else columns - rows <= k
    return tile.where(kept, x, 0)


@tile.kernel
def eye(rows: Any, columns: Any = None, k: Any = 0, dtype: Any = tile.f32) -> Any:
    """A matrix with 1 on diagonal `k`, the elements (i, i + k), and 0 elsewhere; square without `columns`."""
    i, j = tile.arange(rows)[:, None], tile.arange(rows if columns is None else columns)[None, :]
    return (j == i + k).to(dtype)


@tile.kernel
def linspace(start: Any, stop: Any, num: Any, dtype: Any = tile.f32) -> Any:
    """`num` numbers from `start` to `stop`, both included, at equal distances. Computed in f64."""
    if num == 1:
        return tile.full((1,), start, tile.f64).to(dtype)
    step = (stop - start) / (num - 1)
    i = tile.arange(num)
    up, down = start + i.to(tile.f64) * step, stop - (num - 1 - i).to(tile.f64) * step
    return tile.where(i < num // 2, up, down).to(dtype)


@tile.kernel
def one_hot(indices: Any, depth: Any, axis: Any = -1, *, on: Any = 1, off: Any = 0, dtype: Any = tile.i64) -> Any:
    """`on` at coordinate `indices` of a new axis of `depth` elements, else `off`.

    The axis is axis `axis` of the result. Negative indices count from the end; others outside have no `on`.
    Raises TileTypeError unless indices are integers.
    """
    name = "ops.one_hot"
    indices = as_tensor(indices)
    require_integers(name, indices)
    if not isinstance(axis, int) or not -indices.ndim - 1 <= axis <= indices.ndim:
        refuse_option(name, "axis", axis, f"an axis of a tensor of rank {indices.ndim + 1}", "use -1")
    at = axis % (indices.ndim + 1)
    given = indices.to(tile.i64)
    given = tile.where(given < 0, given + depth, given)
    given = given.reshape((*indices.shape[:at], 1, *indices.shape[at:]))
    place = tile.arange(depth).reshape((depth, *(1,) * (indices.ndim - at)))
    return tile.where(given == place, as_tensor(on).to(dtype), as_tensor(off).to(dtype))


def beside(x: Any, axis: int) -> Any:
    """The coordinates along an axis of `x`, in a shape that broadcasts to it."""
    at = axis_of("ops", x, axis)
    return tile.arange(x.shape[at]).reshape(tuple(-1 if i == at else 1 for i in range(x.ndim)))
