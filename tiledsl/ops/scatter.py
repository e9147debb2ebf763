"""Elements put at computed coordinates, in order: of several for one place, "set" keeps the last.

Nothing depends on which program comes first: a column of updates goes one after the other, columns at the same time.
Negative coordinates count from the end; what lies outside is dropped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

from tiledsl import tile
from tiledsl.ir.dtypes import DType, bool_, compute_dtype
from tiledsl.ops.checks import as_tensor, axis_of, refuse_rank, refuse_shapes, require_integers
from tiledsl.ops.images.pooling import lowest
from tiledsl.ops.indexing import axis_option, broadcast_indices, from_front, linear, require_alike

REDUCTIONS = ("set", "add", "mul", "min", "max", "mean")


@tile.kernel
def scatter(x: Any, indices: Any, updates: Any, axis: int, *, reduce: str = "set", include_self: bool = True) -> Any:
    """`x` with y[indices[i, j, k], j, k] = updates[i, j, k] for axis 0, or combined with what is there.

    `indices` has as many axes as `x`, none of the others longer; `updates` has its shape (or is one number).
    `reduce`: "set", "add", "mul", "min", "max" or "mean". Without `include_self` the elements of `x` that are written
    to do not count. Sums and products of narrow floats are in f32 and rounded once. The shape and dtype of `x`.
    Raises TileShapeError if shapes do not fit.
    """
    name = "ops.scatter"
    x, indices, updates = as_tensor(x), as_tensor(indices), as_tensor(updates)
    at = axis_of(name, x, axis)
    require_alike(name, indices, x, at)
    axis_option(name, "reduce", reduce, REDUCTIONS)
    updates = _like(name, updates, indices, indices.shape)
    places = from_front(indices, x.shape[at])
    missing = [(0, 0 if i == at else x.shape[i] - indices.shape[i]) for i in range(x.ndim)]
    if any(width != (0, 0) for width in missing):
        # columns that have no update get one that is dropped
        places, updates = tile.pad(places, tuple(missing), -1), tile.pad(updates, tuple(missing))
    order = (at, *(i for i in range(x.ndim) if i != at))
    columns = math.prod(x.shape[i] for i in order[1:])
    matrices = [v.transpose(order).reshape((v.shape[at], columns)) for v in (x, places, updates)]
    y = _combined(matrices[0], matrices[1], matrices[2], reduce, include_self)
    back = tuple(order.index(i) for i in range(x.ndim))
    return y.reshape(tuple(x.shape[i] for i in order)).transpose(back)


@tile.kernel
def scatter_nd(x: Any, indices: Any, updates: Any, *, reduce: str = "set") -> Any:
    """`x` with y[indices[..., 0], indices[..., 1], ...] = updates[...], or combined with what is there.

    The last axis of `indices` has a coordinate for each of the first axes of `x`; `updates` has the other axes of
    `indices`, and then those of `x` that are left. `reduce` as in `scatter`. Raises TileShapeError if shapes do not
    fit.
    """
    name = "ops.scatter_nd"
    x, indices, updates = as_tensor(x), as_tensor(indices), as_tensor(updates)
    require_integers(name, indices)
    axis_option(name, "reduce", reduce, REDUCTIONS)
    count = indices.shape[-1] if indices.ndim else 0
    if not isinstance(count, int) or not 1 <= count <= x.ndim:
        refuse_shapes(name, indices, x, "there are coordinates for the axes of `x`", "give at most one for each axis")
    places = [from_front(indices[..., i], x.shape[i]) for i in range(count)]
    return _rows(name, x, places, indices.shape[:-1], updates, reduce, indices)


@tile.kernel
def index_put(x: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """`x` with x[indices] = values (or += with `accumulate`), as in NumPy: `indices` is a tuple with a tensor of
    integers or None (all of it) for each of the first axes; `values` broadcasts to what they select.

    Raises TileShapeError if shapes do not fit.
    """
    name = "ops.index_put"
    x, values = as_tensor(x), as_tensor(values)
    entries = cast("Sequence[Any]", indices if isinstance(indices, (tuple, list)) else (indices,))
    axes = [i for i, entry in enumerate(entries) if entry is not None]
    if len(entries) > x.ndim or not axes:
        refuse_rank(name, x, f"one with {max(len(entries), 1)} axes or more", "give an index for an axis")
    places, shape = broadcast_indices(name, x, [(i, entries[i]) for i in axes])
    rest = [i for i in range(x.ndim) if i not in axes]
    together = axes == list(range(axes[0], axes[-1] + 1))
    before = axes[0] if together else 0
    kept = tuple(x.shape[i] for i in rest)
    wanted = (*kept[:before], *shape, *kept[before:])
    values = _like(name, values, x, wanted)
    rank = len(shape)
    values = values.transpose((*range(before, before + rank), *range(before), *range(before + rank, values.ndim)))
    order = (*axes, *rest)
    y = _rows(name, x.transpose(order), places, shape, values, "add" if accumulate else "set", x)
    return y.transpose(tuple(order.index(i) for i in range(x.ndim)))


def _rows(name: str, x: Any, places: list[Any], shape: Any, updates: Any, reduce: str, indices: Any) -> Any:
    """`x` with slices put at coordinates of its first axes, which have that shape."""
    count = len(places)
    inner = tuple(x.shape[count:])
    updates = _like(name, updates, indices, (*shape, *inner))
    rows, number, columns = math.prod(x.shape[:count]), math.prod(shape), math.prod(inner)
    at = linear(places, x.shape[:count], shape).reshape((number, 1))
    at = tile.broadcast_to(at, (number, columns))
    y = _combined(x.reshape((rows, columns)), at, updates.reshape((number, columns)), reduce, include_self=True)
    return y.reshape(x.shape)


def _like(name: str, updates: Any, indices: Any, shape: Any) -> Any:
    """Updates under the shape that they are to have."""
    fits = updates.ndim <= len(shape) and all(n in (1, m) for n, m in zip(updates.shape[::-1], tuple(shape)[::-1]))
    if not fits:
        refuse_shapes(name, updates, indices, f"there is one update for each place, {list(shape)}", "give that shape")
    return tile.broadcast_to(updates, tuple(shape))


def _combined(x: Any, places: Any, updates: Any, reduce: str, include_self: bool) -> Any:
    """The columns of x [A, R] with updates [K, R] at rows `places` [K, R], which are from 0 on, or dropped."""
    dtype = x.dtype
    works_in = compute_dtype(dtype) if dtype.is_float and reduce in ("add", "mul", "mean") else dtype
    start, updates = x.to(works_in), updates.to(dtype).to(works_in)
    fn = "add" if reduce == "mean" else reduce
    if not include_self and reduce != "set":
        start = _put(start, places, tile.broadcast_to(as_tensor(_identity(fn, works_in)), places.shape), "set")
    y = _put(start, places, updates, fn)
    if reduce == "mean":
        one = tile.full(places.shape, 1, tile.i64)
        first = tile.full(x.shape, 1 if include_self else 0, tile.i64)
        counts = tile.maximum(_put(first, places, one, "add"), 1)
        y = y / counts.to(works_in) if dtype.is_float else y // counts.to(works_in)
    return y.to(dtype)


def _identity(fn: str, dtype: DType) -> float:
    if fn in ("add", "mul"):
        return 0 if fn == "add" else 1
    if fn == "max":
        return lowest(dtype)
    return math.inf if dtype.is_float else -lowest(dtype) - 1 if dtype.is_signed else (1 << dtype.bits) - 1


def _put(x: Any, places: Any, updates: Any, fn: str) -> Any:
    as_bytes = x.dtype == bool_
    given = [v.to(tile.u8 if as_bytes else x.dtype) for v in (x, updates)]
    y = _scattered(given[0].reshape(-1), places, given[1], fn).reshape(x.shape)
    return y.to(bool_) if as_bytes else y


@tile.kernel
def _scattered(y: tile.Tensor, places: tile.Tensor, updates: tile.Tensor, fn: tile.constexpr) -> Any:
    """y[places[k, r] * R + r] with updates[k, r], one k after the other. A place below 0 is dropped."""
    K, R = updates.shape
    K, R = places.shape
    for r in tile.grid(R):
        for k in tile.range(K, block=1):
            place = places[k, r]
            at = tile.where(place < 0, -1, place * R + r.index)
            new = updates[k, r]
            if fn == "add":
                new = y[at] + new
            if fn == "mul":
                new = y[at] * new
            if fn == "min":
                new = tile.minimum(y[at], new)
            if fn == "max":
                new = tile.maximum(y[at], new)
            y[at] = new
    return y
