"""Elements put at computed coordinates, all at the same time: sums, minima and maxima by atomic updates.

Of several for one place, "set" keeps the last: first the greatest number of an update for each place, then a gather.
Integers, minima, maxima and "set" are the same in any order; a sum of floats rounds as its updates come, unless it is
to be `deterministic`: then, as for products, updates go one after the other, columns at the same time.
Negative coordinates count from the end; what lies outside is dropped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from tiledsl import tile
from tiledsl.ir.dtypes import DType, bool_, compute_dtype
from tiledsl.ir.graph_ops import Broadcast
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ops.checks import active, as_tensor, axis_of, refuse_rank, refuse_shapes, require_integers
from tiledsl.ops.images.pooling import lowest
from tiledsl.ops.indexing import axis_option, broadcast_indices, from_front, linear, require_alike

_OUTSIDE = -(1 << 62)
"""A place that is in no tensor, also when it is counted from the end."""
REDUCTIONS = ("set", "add", "mul", "min", "max", "mean")


@tile.kernel
def scatter(
    x: Any,
    indices: Any,
    updates: Any,
    axis: int,
    *,
    reduce: str = "set",
    include_self: bool = True,
    deterministic: bool = False,
) -> Any:
    """`x` with y[indices[i, j, k], j, k] = updates[i, j, k] for axis 0, or combined with what is there.

    `indices` has as many axes as `x`, none of the others longer; `updates` has its shape (or is one number).
    `reduce`: "set" (the last of several), "add", "mul", "min", "max" or "mean". Without `include_self` the elements of
    `x` that are written to do not count. Sums and products of narrow floats are in f32 and rounded once; sums of floats
    are added in any order, unless they are to be `deterministic`, which is slow. The shape and dtype of `x`.
    Raises TileShapeError if shapes do not fit.
    """
    name = "ops.scatter"
    x, indices, updates = as_tensor(x), as_tensor(indices), as_tensor(updates)
    at = axis_of(name, x, axis)
    require_alike(name, indices, x, at)
    axis_option(name, "reduce", reduce, REDUCTIONS)
    updates = _like(name, updates, indices, indices.shape)
    before, after = x.shape[:at], x.shape[at + 1 :]
    K = indices.shape[at]
    slices = _slices(indices, at)
    if slices is not None and (*before, *after) == (*indices.shape[:at], *indices.shape[at + 1 :]):
        places = slices.reshape((1, K, 1))
    else:
        places = indices
        missing = [(0, 0 if i == at else x.shape[i] - indices.shape[i]) for i in range(x.ndim)]
        if any(width != (0, 0) for width in missing):
            # columns that have no update get one that is dropped
            places, updates = tile.pad(places.to(tile.i64), tuple(missing), _OUTSIDE), tile.pad(updates, tuple(missing))
        places = places.reshape((math.prod(before), K, math.prod(after)))
    how = _How(reduce, include_self, deterministic)
    outer, inner = math.prod(before), math.prod(after)
    y = _combined(x.reshape((outer, x.shape[at], inner)), places, updates.reshape((outer, K, inner)), how)
    return y.reshape(x.shape)


@tile.kernel
def scatter_nd(x: Any, indices: Any, updates: Any, *, reduce: str = "set", deterministic: bool = False) -> Any:
    """`x` with y[indices[..., 0], indices[..., 1], ...] = updates[...], or combined with what is there.

    The last axis of `indices` has a coordinate for each of the first axes of `x`; `updates` has the other axes of
    `indices`, and then those of `x` that are left. `reduce` and `deterministic` as in `scatter`. Raises TileShapeError
    if shapes do not fit.
    """
    name = "ops.scatter_nd"
    x, indices, updates = as_tensor(x), as_tensor(indices), as_tensor(updates)
    require_integers(name, indices)
    axis_option(name, "reduce", reduce, REDUCTIONS)
    count = indices.shape[-1] if indices.ndim else 0
    if not isinstance(count, int) or not 1 <= count <= x.ndim:
        refuse_shapes(name, indices, x, "there are coordinates for the axes of `x`", "give at most one for each axis")
    places = [indices[..., i] for i in range(count)]
    how = _How(reduce, True, deterministic)
    return _slices_put(name, x, places, indices.shape[:-1], updates, how, indices)


@tile.kernel
def index_put(x: Any, indices: Any, values: Any, accumulate: bool = False, *, deterministic: bool = False) -> Any:
    """`x` with x[indices] = values (or += with `accumulate`), as in NumPy: `indices` is a tuple with a tensor of
    integers or None (all of it) for each of the first axes; `values` broadcasts to what they select.

    `deterministic` as in `scatter`. Raises TileShapeError if shapes do not fit.
    """
    name = "ops.index_put"
    x, values = as_tensor(x), as_tensor(values)
    entries = cast("Sequence[Any]", indices if isinstance(indices, (tuple, list)) else (indices,))
    axes = [i for i, entry in enumerate(entries) if entry is not None]
    if len(entries) > x.ndim or not axes:
        refuse_rank(name, x, f"one with {max(len(entries), 1)} axes or more", "give an index for an axis")
    places, shape = broadcast_indices(name, x, [(i, entries[i]) for i in axes], wrapped=False)
    how = _How("add" if accumulate else "set", True, deterministic)
    rest = [i for i in range(x.ndim) if i not in axes]
    together = axes == list(range(axes[0], axes[-1] + 1))
    before = axes[0] if together else 0
    kept = tuple(x.shape[i] for i in rest)
    values = _like(name, values, x, (*kept[:before], *shape, *kept[before:]))
    if together:
        return _slices_put(name, x, places, shape, values, how, x, before)
    order = (*axes, *rest)
    y = _slices_put(name, x.transpose(order), places, shape, values, how, x)
    return y.transpose(tuple(order.index(i) for i in range(x.ndim)))


@dataclass(frozen=True)
class _How:
    """How updates are combined with what is there."""

    reduce: str
    include_self: bool
    deterministic: bool

    def in_order(self, dtype: DType) -> bool:
        """Whether updates of this dtype go one after the other."""
        return self.reduce == "mul" or (self.deterministic and dtype.is_float and self.reduce in ("add", "mean"))


def _slices_put(
    name: str, x: Any, places: list[Any], shape: Any, updates: Any, how: _How, indices: Any, before: int = 0
) -> Any:
    """`x` with slices put at coordinates, which have that shape, of the axes that follow the first `before`."""
    behind = before + len(places)
    outer, sizes, inner = x.shape[:before], x.shape[before:behind], x.shape[behind:]
    updates = _like(name, updates, indices, (*outer, *shape, *inner))
    P, A, K, R = (math.prod(part) for part in (outer, sizes, shape, inner))
    if len(places) == 1:
        at = places[0]
    else:
        at = linear([from_front(place, size) for place, size in zip(places, sizes)], sizes, shape, outside=_OUTSIDE)
    at = at.reshape((1, K, 1))
    return _combined(x.reshape((P, A, R)), at, updates.reshape((P, K, R)), how).reshape(x.shape)


def _slices(indices: Any, axis: int) -> Any:
    """Of indices that are the same along all axes but one, those along it [K]; None if they may differ."""
    op = indices.value.op
    while isinstance(op, Broadcast):
        source = op.source
        added = indices.ndim - len(tensor_type(source).shape)
        sizes = (*(1,) * added, *tensor_type(source).shape)
        if all(n == 1 for i, n in enumerate(sizes) if i != axis) and sizes[axis] == indices.shape[axis]:
            return active().tensor(source).reshape(-1)
        op = source.op
    return None


def _like(name: str, updates: Any, indices: Any, shape: Any) -> Any:
    """Updates under the shape that they are to have."""
    fits = updates.ndim <= len(shape) and all(n in (1, m) for n, m in zip(updates.shape[::-1], tuple(shape)[::-1]))
    if not fits:
        refuse_shapes(name, updates, indices, f"there is one update for each place, {list(shape)}", "give that shape")
    return tile.broadcast_to(updates, tuple(shape))


def _combined(x: Any, places: Any, updates: Any, how: _How) -> Any:
    """x [P, A, R] with updates [P, K, R] at `places` of axis 1.

    `places` has the shape of the updates, or [1, K, 1] if slices have one place.
    """
    dtype, reduce = x.dtype, how.reduce
    if reduce == "set":
        return _last(x, places, updates.to(dtype))
    works_in = compute_dtype(dtype) if dtype.is_float and reduce in ("add", "mul", "mean") else dtype
    start, updates = x.to(works_in), updates.to(dtype).to(works_in)
    fn = "add" if reduce == "mean" else reduce
    counts: Any = None
    if reduce == "mean" or not how.include_self:
        ones = tile.full(places.shape, 1, tile.i32)
        untouched = tile.full((places.shape[0], x.shape[1], places.shape[2]), 0, tile.i32)
        counts = _put(untouched, places, ones, "add")
        if not how.include_self:
            start = tile.where(counts > 0, as_tensor(_identity(fn, works_in)).to(works_in), start)
    y = _put_in_order(start, places, updates, fn) if how.in_order(works_in) else _put(start, places, updates, fn)
    if reduce == "mean":
        counts = tile.maximum(counts + 1 if how.include_self else counts, 1)
        y = y / counts.to(works_in) if dtype.is_float else y // counts.to(works_in)
    return y.to(dtype)


def _last(x: Any, places: Any, updates: Any) -> Any:
    """The last update of each place, as in `_combined`: the greatest number of one is found, then it is gathered."""
    P, A, R = x.shape
    K = updates.shape[1]
    nobody = tile.full((places.shape[0], A, places.shape[2]), -1, tile.i32)
    by = _numbered(nobody, places)
    if by.shape == (1, A, 1):
        found = tile.take(updates, by.reshape(-1), axis=1)
    else:
        rows, columns = tile.arange(P)[:, None, None], tile.arange(R)
        at = linear([rows, by, columns], (P, K, R), (P, A, R), {0, 2})
        found = tile.take(updates.reshape(-1), at, axis=0)
    return tile.where(by >= 0, found, x)


def _identity(fn: str, dtype: DType) -> float:
    if fn in ("add", "mul"):
        return 0 if fn == "add" else 1
    if fn == "max":
        return lowest(dtype)
    return math.inf if dtype.is_float else -lowest(dtype) - 1 if dtype.is_signed else (1 << dtype.bits) - 1


def _put(x: Any, places: Any, updates: Any, fn: str) -> Any:
    """Updates [P, K, R] combined into x [P, A, R], at the same time."""
    as_bytes = x.dtype == bool_
    y, new = (v.to(tile.u8 if as_bytes else x.dtype) for v in (x, updates))
    (P, A, R), K = x.shape, updates.shape[1]
    if P == 1 and places.shape[2] == 1:
        if R == 1:
            y = _into_row(y.reshape((A,)), places.reshape((K,)), new.reshape((K,)), fn)
        else:
            y = _into_slices(y.reshape((A, R)), places.reshape((K,)), new.reshape((K, R)), fn)
    elif R == 1:
        places = tile.broadcast_to(places, (P, K, 1)).reshape((P, K))
        y = _into_rows(y.reshape(-1), places, new.reshape((P, K)), A, fn)
    else:
        y = _into_columns(y.reshape(-1), tile.broadcast_to(places, (P, K, R)), new, A, fn)
    y = y.reshape((P, A, R))
    return y.to(bool_) if as_bytes else y


def _numbered(y: Any, places: Any) -> Any:
    """For each place of axis 1 of y [P, A, R] the greatest k of `places` [P, K, R] that is there."""
    (P, A, R), K = y.shape, places.shape[1]
    if P == 1 and R == 1:
        y = _numbers_of_row(y.reshape((A,)), places.reshape((K,)))
    elif R == 1:
        y = _numbers_of_rows(y.reshape(-1), places.reshape((P, K)), A)
    else:
        y = _numbers_of_columns(y.reshape(-1), places, A)
    return y.reshape((P, A, R))


def _put_in_order(x: Any, places: Any, updates: Any, fn: str) -> Any:
    """As `_put`, one after the other, columns at the same time."""
    (P, A, R), K = x.shape, updates.shape[1]
    columns = P * R
    places = tile.broadcast_to(places, (P, K, R))
    y, at, new = (v.transpose((1, 0, 2)).reshape((v.shape[1], columns)) for v in (x, places, updates))
    at = from_front(at, A)
    y = _in_order(y.reshape(-1), tile.where((at >= 0) & (at < A), at, -1), new, fn)
    return y.reshape((A, P, R)).transpose((1, 0, 2))


# Kernels. Places below 0 count from the end; an element whose place is outside is dropped.


@tile.func
def _row_of(place: Any, p: Any, A: Any) -> Any:
    """The row for a place of the `p`-th part of A rows; -1 if it is outside of that."""
    place = place.to(tile.i64)
    row = tile.where(place < 0, place + A, place)
    return tile.where((row >= 0) & (row < A), p * A + row, -1)


@tile.func
def _update(y: Any, at: Any, new: Any, fn: Any) -> Any:
    """Combines elements into y[at]."""
    if fn == "add":
        tile.atomic_add(y[at], new)
    if fn == "min":
        tile.atomic_min(y[at], new)
    if fn == "max":
        tile.atomic_max(y[at], new)


@tile.kernel
def _into_row(y: tile.Tensor, places: tile.Tensor, updates: tile.Tensor, fn: tile.constexpr) -> Any:
    """updates[k] into y[places[k]]."""
    (A,) = y.shape
    (K,) = places.shape
    (K,) = updates.shape
    for k in tile.grid(K):
        at, new = _row_of(places[k], 0, A), updates[k]
        _update(y, at, new, fn)
    return y


@tile.kernel
def _into_rows(y: tile.Tensor, places: tile.Tensor, updates: tile.Tensor, A: Any, fn: tile.constexpr) -> Any:
    """updates[p, k] into y[p * A + places[p, k]]."""
    P, K = places.shape
    P, K = updates.shape
    for p, k in tile.grid(P, K):
        at, new = _row_of(places[p, k], p.index[:, None], A), updates[p, k]
        _update(y, at, new, fn)
    return y


@tile.kernel
def _into_slices(y: tile.Tensor, places: tile.Tensor, updates: tile.Tensor, fn: tile.constexpr) -> Any:
    """updates[k, r] into y[places[k], r]."""
    A, R = y.shape
    (K,) = places.shape
    K, R = updates.shape
    for k, r in tile.grid(K, R):
        at, new = _row_of(places[k], 0, A), updates[k, r]
        if fn == "add":
            tile.atomic_add(y[at, r], new)
        if fn == "min":
            tile.atomic_min(y[at, r], new)
        if fn == "max":
            tile.atomic_max(y[at, r], new)
    return y


@tile.kernel
def _into_columns(y: tile.Tensor, places: tile.Tensor, updates: tile.Tensor, A: Any, fn: tile.constexpr) -> Any:
    """updates[p, k, r] into y[(p * A + places[p, k, r]) * R + r]."""
    P, K, R = places.shape
    P, K, R = updates.shape
    for p, k, r in tile.grid(P, K, R):
        row, new = _row_of(places[p, k, r], p.index[:, None, None], A), updates[p, k, r]
        at = tile.where(row < 0, -1, row * R + r.index)
        _update(y, at, new, fn)
    return y


@tile.kernel
def _numbers_of_row(y: tile.Tensor, places: tile.Tensor) -> Any:
    """The greatest k for y[places[k]]."""
    (A,) = y.shape
    (K,) = places.shape
    for k in tile.grid(K):
        tile.atomic_max(y[_row_of(places[k], 0, A)], k.index.to(tile.i32))
    return y


@tile.kernel
def _numbers_of_rows(y: tile.Tensor, places: tile.Tensor, A: Any) -> Any:
    """The greatest k for y[p * A + places[p, k]]."""
    P, K = places.shape
    for p, k in tile.grid(P, K):
        at = _row_of(places[p, k], p.index[:, None], A)
        tile.atomic_max(y[at], tile.broadcast_to(k.index.to(tile.i32)[None, :], (p, k)))
    return y


@tile.kernel
def _numbers_of_columns(y: tile.Tensor, places: tile.Tensor, A: Any) -> Any:
    """The greatest k for y[(p * A + places[p, k, r]) * R + r]."""
    P, K, R = places.shape
    for p, k, r in tile.grid(P, K, R):
        row = _row_of(places[p, k, r], p.index[:, None, None], A)
        at = tile.where(row < 0, -1, row * R + r.index)
        tile.atomic_max(y[at], tile.broadcast_to(k.index.to(tile.i32)[None, :, None], (p, k, r)))
    return y


@tile.kernel
def _in_order(y: tile.Tensor, places: tile.Tensor, updates: tile.Tensor, fn: tile.constexpr) -> Any:
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
            y[at] = new
    return y
