"""Order: sorting, the largest elements, where they are, and where a number belongs."""

from __future__ import annotations

import math
from typing import Any

from tiledsl import tile
from tiledsl.frontend.language.promotion import promote_all
from tiledsl.frontend.trace.trace_elementwise import strength_of
from tiledsl.ir.dtypes import DType, bool_
from tiledsl.ops.checks import as_tensor, axis_of, refuse_option, refuse_shapes
from tiledsl.ops.digits import key_bits, key_of, or_by_digits

MOST_TURNS = 64
"""Up to here `top_k` finds one element after the other."""
LONG = 1024
"""From this length on `top_k` finds the best parts of a row first."""
MOST_PLACES = (1 << 31) - 1
"""Beyond the place of every element of a row."""
MOST_SORTED = 4096
"""Elements of a row that one program sorts."""
MOST_BITS = 64
"""Of an element and its place."""
SHORT = 48
"""Rows up to this length are sorted by counting for each element those before it."""


@tile.kernel
def sort(x: Any, axis: int = -1, descending: bool = False) -> Any:
    """The elements along `axis` in order, and where they were (i64), each of the shape of `x`.

    Of equal elements the first comes first, also if `descending`. NaN counts as the largest. The size of the axis is
    known. Takes n * log(n)^2 steps: rows of up to 4096 in one kernel, longer ones in one more each time that they are
    twice as long.
    """
    name = "ops.sort"
    x = as_tensor(x)
    if not x.ndim:
        return x, tile.zeros((), tile.i64)
    at = axis_of(name, x, axis)
    size = x.shape[at]
    if not isinstance(size, int):
        refuse_option(name, "axis", axis, "an axis whose size is known", "give the size as a number")
    dtype = x.dtype
    given = x.to(tile.u8) if dtype == bool_ else x
    order = (*(i for i in range(x.ndim) if i != at), at)
    rows = given.transpose(order)
    given = flat = rows.reshape((math.prod(rows.shape[:-1]), size))
    places: Any = tile.broadcast_to(tile.arange(size), flat.shape)
    if size <= SHORT:
        flat, places = (v.reshape(flat.shape) for v in _counted(flat, descending))
    else:
        width, steps, kind = 1, 1, tile.i32 if size < MOST_PLACES // 2 else tile.i64
        bits, place_bits = key_bits(flat.dtype), (size - 1).bit_length()
        if flat.dtype != tile.f64 and bits + place_bits <= MOST_BITS:
            width = min(1 << place_bits, MOST_SORTED)
            steps = width.bit_length()
            flat, places = _in_order(flat, descending, bits, place_bits, width)
        while width < size:
            flat, places = (v.reshape(flat.shape) for v in _merged(flat, places, width, steps, descending, kind))
            width, steps = 2 * width, steps + 1
    flat, places = or_by_digits(given, (flat, places), descending)
    back = tuple(order.index(i) for i in range(x.ndim))
    return flat.reshape(rows.shape).transpose(back).to(dtype), places.reshape(rows.shape).transpose(back)


@tile.kernel
def argsort(x: Any, axis: int = -1, descending: bool = False) -> Any:
    """Where the elements along `axis` are, in order; see `sort`."""
    return sort(x, axis, descending)[1]


@tile.kernel
def argmax(x: Any, axis: Any = None, keepdims: bool = False, *, last: bool = False) -> Any:
    """The place (i64) of the largest element along an axis (None: of all, in row-major order); NaN is the largest.

    Of equal elements that of the first, or the `last`.
    """
    return _extremum("ops.argmax", tile.argmax, x, axis, keepdims, last)


@tile.kernel
def argmin(x: Any, axis: Any = None, keepdims: bool = False, *, last: bool = False) -> Any:
    """The place (i64) of the smallest element along an axis; see `argmax`. NaN counts as the smallest."""
    return _extremum("ops.argmin", tile.argmin, x, axis, keepdims, last)


def _extremum(name: str, fold: Any, x: Any, axis: Any, keepdims: bool, last: bool) -> Any:
    x = as_tensor(x)
    rank = x.ndim
    if axis is None:
        x, at = x.reshape(-1), 0
    else:
        at = axis_of(name, x, axis)
    if last:
        backwards = x[tuple(slice(None, None, -1) if i == at else slice(None) for i in range(x.ndim))]
        found = x.shape[at] - 1 - fold(backwards, axis=at, keepdims=keepdims and axis is not None)
    else:
        found = fold(x, axis=at, keepdims=keepdims and axis is not None)
    return found.reshape((1,) * rank) if keepdims and axis is None else found


@tile.kernel
def searchsorted(edges: Any, x: Any, right: bool = False) -> Any:
    """How many `edges`, which ascend, are below each number of `x` (or not above it, if `right`), as i64.

    `edges` is [E], for `x` of any shape, or [..., E] for `x` [..., N] with the same leading axes. NaN is above all.
    Raises TileShapeError if they are not.
    """
    edges, x = as_tensor(edges), as_tensor(x)
    leading = edges.shape[:-1]
    if not edges.ndim or (edges.ndim > 1 and x.shape[:-1] != leading):
        refuse_shapes("ops.searchsorted", edges, x, "leading axes are the same", "give one row of edges, or as many")
    rows = (math.prod(leading), math.prod(x.shape[edges.ndim - 1 :]))
    common = promote_all([strength_of(edges), strength_of(x)]).dtype
    count = edges.shape[-1]
    steps = count.bit_length() if isinstance(count, int) else 63
    flat = edges.reshape((rows[0], count)).to(common)
    return _searched(flat, x.reshape(rows).to(common), steps, right).reshape(x.shape)


@tile.kernel
def bucketize(x: Any, edges: Any, right: bool = False) -> Any:
    """The bucket of each number of `x`: `searchsorted(edges, x, right)`, with `edges` [E]."""
    return searchsorted(edges, x, right)


@tile.func
def _precedes(a: Any, b: Any, equal: Any, descending: Any) -> Any:
    """Whether `a` comes before `b`, where NaN is the largest; of equals where `equal` holds."""
    if descending:
        first = (a > b) | ((a != a) & (b == b))
    else:
        first = (a < b) | ((a == a) & (b != b))
    return first | (equal & ((a == b) | ((a != a) & (b != b))))


@tile.kernel
def _counted(x: tile.Tensor, descending: tile.constexpr) -> Any:
    """Rows in order, and where their elements were: as many come before an element as its place says."""
    M, N = x.shape
    y = tile.empty(M * N, x.dtype)
    places = tile.empty(M * N, tile.i64)
    for m, n in tile.grid(M, N):
        mine = x[m, n]
        rank = tile.zeros((m, n), tile.i64)
        for j in tile.range(N, block=1):
            other = x[m, j][:, None]
            rank += _precedes(other, mine, (j < n.index)[None, :], descending).to(tile.i64)
        at = m.index[:, None] * N + rank
        y[at] = mine
        places[at] = tile.broadcast_to(n.index[None, :], (m, n))
    return y, places


@tile.kernel
def _in_order(
    x: tile.Tensor,
    descending: tile.constexpr,
    bits: tile.constexpr,
    place_bits: tile.constexpr,
    width: tile.constexpr,
) -> Any:
    """Parts of rows in order, each of `width`, and where their elements were: a number of so many bits in the order of
    the elements, and below it the place, are sorted as one."""
    M, N = x.shape
    y = tile.empty((M, N), x.dtype)
    places = tile.empty((M, N), tile.i64)
    for m, n in tile.grid(M, N, block=(tile.auto, width)):
        word = tile.u32 if bits + place_bits <= 32 else tile.u64
        key = (key_of(x[m, n], descending, bits) & ((1 << bits) - 1)).to(word) << place_bits
        found = tile.sort(key | n.index[None, :].to(word), axis=1)
        at = (found & ((1 << place_bits) - 1)).to(tile.i64)
        places[m, n] = at
        y[m, n] = x[tile.broadcast_to(m.index[:, None], (m, n)), at]
    return y, places


@tile.kernel
def _merged(
    x: tile.Tensor, places: tile.Tensor, width: int, steps: int, descending: tile.constexpr, kind: tile.constexpr
) -> Any:
    """Pairs of parts of a row, each of `width` and in order, as one in order. `kind`: the dtype of what is halved.

    An element's place is its own in its part plus how many of the other part come before it, found by halving.
    """
    M, N = x.shape
    M, N = places.shape
    y = tile.empty(M * N, x.dtype)
    moved = tile.empty(M * N, tile.i64)
    for m, n in tile.grid(M, N):
        mine = x[m, n]
        row = tile.broadcast_to(m.index[:, None], (m, n))
        place = tile.broadcast_to(n.index[None, :], (m, n))
        part = place // width
        second = part % 2 == 1
        start = tile.minimum(tile.where(second, part - 1, part + 1) * width, N)
        low, high = start.to(kind), tile.minimum(start + width, N).to(kind)
        for _ in range(steps):
            middle = (low + high) // 2
            open_ = low < high
            before = open_ & _precedes(x[row, middle], mine, second, descending)
            high = tile.where(open_ & ~before, middle, high)
            low = tile.where(before, middle + 1, low)
        at = row * N + place + (low.to(tile.i64) - start) - tile.where(second, width, 0)
        y[at] = mine
        moved[at] = places[m, n]
    return y, moved


@tile.kernel
def _searched(edges: tile.Tensor, x: tile.Tensor, steps: int, right: tile.constexpr) -> Any:
    """By halving, how many edges of a row come before each number."""
    M, E = edges.shape
    M, N = x.shape
    y = tile.empty((M, N), tile.i64)
    for m, n in tile.grid(M, N):
        mine = x[m, n]
        row = tile.broadcast_to(m.index[:, None], (m, n))
        low, high = tile.zeros((m, n), tile.i64), tile.full((m, n), E, tile.i64)
        for _ in range(steps):
            middle = (low + high) // 2
            open_ = low < high
            before = open_ & _precedes(edges[row, middle], mine, right, False)
            high = tile.where(open_ & ~before, middle, high)
            low = tile.where(before, middle + 1, low)
        y[m, n] = low
    return y


@tile.kernel
def top_k(x: Any, k: Any, axis: int = -1, largest: bool = True) -> Any:
    """The `k` largest elements along `axis` (the smallest if not `largest`), the largest first, and where they are.

    Gives (values, indices): both have `k` elements along `axis`; indices are i64. Of equal elements the first comes
    first; for k of more than 64 the whole axis is sorted. Rows that hold NaN have no order.
    Raises TileTypeError unless 0 <= k <= the size of the axis.
    """
    name = "ops.top_k"
    x = as_tensor(x)
    at = axis_of(name, x, axis)
    size = x.shape[at]
    if not isinstance(k, int) or k < 0 or (isinstance(size, int) and k > size):
        refuse_option(name, "k", k, f"an int from 0 to {size}, the size of axis {axis}", "take as many as there are")
    if k > MOST_TURNS:
        kept = tuple(slice(0, k) if i == at else slice(None) for i in range(x.ndim))
        values, indices = sort(x, at, descending=largest)
        return values[kept], indices[kept]
    order = (*(i for i in range(x.ndim) if i != at), at)
    rows = x.transpose(order)
    flat = rows.reshape((math.prod(rows.shape[:-1]), size))
    values, indices = _best(flat, k, not largest)
    back = tuple(order.index(i) for i in range(x.ndim))
    shape = (*rows.shape[:-1], k)
    return values.reshape(shape).transpose(back), indices.reshape(shape).transpose(back)


def _best(x: Any, k: int, smallest: bool) -> tuple[Any, Any]:
    """The best of each row, and where they are.

    Of a long row they lie in those parts that are best themselves: of others each comes behind one of each of these.
    """
    low, high = _bounds(x.dtype)
    rows, size = x.shape
    part = _part_of_row(size, k)
    if not part:
        return _best_of_rows(x, k, smallest, low, high)
    whole = size // part * part
    parts = x[:, :whole].reshape((rows, size // part, part))
    tops = tile.min(parts, axis=2) if smallest else tile.max(parts, axis=2)
    _, chosen = _best(tops, k, smallest)
    tail = x[:, whole:] if whole < size else chosen
    return _best_of_parts(parts, chosen, tail, k, whole < size, smallest, low, high)


@tile.func
def _following(row: Any, at: Any, last: Any, place: Any, smallest: Any, low: Any, high: Any, beyond: Any) -> Any:
    """The best of what comes after the last one, by value and then by place, and its place; `beyond` if there is none.

    `low` and `high` are the bounds of the dtype.
    """
    behind = row > last if smallest else row < last
    left = behind | ((row == last) & (at > place))
    kept = tile.where(left, row, high if smallest else low)
    best = tile.min(kept, axis=1, keepdims=True) if smallest else tile.max(kept, axis=1, keepdims=True)
    return best, tile.min(tile.where(left & (row == best), at, beyond), axis=1, keepdims=True)


@tile.kernel
def _best_of_rows(
    x: tile.Tensor, K: tile.constexpr, smallest: tile.constexpr, low: tile.constexpr, high: tile.constexpr
) -> Any:
    """In each turn the best of what comes after the last one: no element is changed."""
    M, N = x.shape
    values = tile.empty((M, K), x.dtype)
    indices = tile.empty((M, K), tile.i64)
    for m in tile.grid(M):
        row = x[m, :]
        at = tile.arange(N).to(tile.i32)[None, :]
        last = tile.full((m, 1), low if smallest else high, x.dtype)
        place = tile.full((m, 1), -1, tile.i32)
        for i in tile.range(K, block=1):
            last, place = _following(row, at, last, place, smallest, low, high, MOST_PLACES)
            values[m, i] = last.reshape((m,))
            indices[m, i] = place.reshape((m,)).to(tile.i64)
    return values, indices


@tile.kernel
def _best_of_parts(
    x: tile.Tensor,
    chosen: tile.Tensor,
    tail: tile.Tensor,
    K: tile.constexpr,
    has_tail: tile.constexpr,
    smallest: tile.constexpr,
    low: tile.constexpr,
    high: tile.constexpr,
) -> Any:
    """The best of what `chosen` parts of rows have, and of what stands behind all parts."""
    M, P, C = x.shape
    M, _ = chosen.shape
    M, T = tail.shape
    values = tile.empty((M, K), x.dtype)
    indices = tile.empty((M, K), tile.i64)
    for m in tile.grid(M):
        parts = chosen[m, 0:K].to(tile.i32)
        row = tile.broadcast_to(m.index[:, None], (m, K))
        kept = x[row, parts, :].reshape((m, K * C))
        offsets = parts[:, :, None] * C + tile.arange(C).to(tile.i32)[None, None, :]
        at = offsets.to(tile.i32).reshape((m, K * C))
        last = tile.full((m, 1), low if smallest else high, x.dtype)
        place = tile.full((m, 1), -1, tile.i32)
        if has_tail:
            rest = tail[m, :]
            rest_at = (tile.arange(T) + P * C).to(tile.i32)[None, :]
            for i in tile.range(K, block=1):
                one, one_at = _following(kept, at, last, place, smallest, low, high, MOST_PLACES)
                other, other_at = _following(rest, rest_at, last, place, smallest, low, high, MOST_PLACES)
                behind = other < one if smallest else other > one
                behind = behind | ((other == one) & (other_at < one_at))
                last, place = tile.where(behind, other, one), tile.where(behind, other_at, one_at)
                values[m, i] = last.reshape((m,))
                indices[m, i] = place.reshape((m,)).to(tile.i64)
        else:
            for i in tile.range(K, block=1):
                last, place = _following(kept, at, last, place, smallest, low, high, MOST_PLACES)
                values[m, i] = last.reshape((m,))
                indices[m, i] = place.reshape((m,)).to(tile.i64)
    return values, indices


def _part_of_row(size: Any, k: int) -> int:
    """How many elements the parts of a row have of which the best are found first; 0 where a row is better whole.

    The best parts and their elements are gone through `k` times, the row once.
    """
    if not isinstance(size, int) or size < LONG or k == 0:
        return 0
    part = 1 << max(4, math.isqrt(size // k).bit_length() - 1)
    # rather a part that divides the row than what stands behind
    part = next((p for p in (part, part // 2, 2 * part) if p >= 8 and size % p == 0), part)
    return part if 2 * (size // part + k * part) <= size and k <= size // part else 0


def _bounds(dtype: DType) -> tuple[float, float]:
    """The least and the greatest number of a dtype."""
    if dtype.is_float:
        return -math.inf, math.inf
    if dtype.is_signed:
        return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
    return 0, (1 << dtype.bits) - 1
