"""Mixtures of experts: rows go to the experts that a router chooses, are multiplied with their weights, and come back.

routing = ops.route(x @ router, 2)
h = ops.silu(ops.grouped_linear(ops.dispatch(x, routing), up, routing.offsets))
y = ops.combine(ops.grouped_linear(h, down, routing.offsets), routing)
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tiledsl import tile
from tiledsl.ops.checks import (
    as_tensor,
    float_dtype,
    refuse_option,
    refuse_rank,
    refuse_shapes,
    require_float,
    require_integers,
)
from tiledsl.ops.order import top_k

ROWS = 128
"""Rows of a tile: those of two warpgroups."""


@tile.kernel
def grouped_product(
    x: tile.Tensor,
    weights: tile.Tensor,
    offsets: tile.Tensor,
    experts: tile.Tensor,
    starts: tile.Tensor,
    rows: tile.constexpr,
    transposed: tile.constexpr,
) -> Any:
    """y[t, n] = the sum over k of x[t, k] weights[e, k, n], for tiles of `rows` rows, of which tile p has those of
    expert experts[p] from starts[p] on. Rows of a tile that are the next expert's are computed, and not stored."""
    T, K = x.shape
    E = weights.shape[0]
    if transposed:
        E, N, K = weights.shape
    else:
        E, K, N = weights.shape
    P = experts.shape[0]
    P = starts.shape[0]
    y = tile.empty((T, N), x.dtype)
    for r, n in tile.grid(P * rows, N, block=(rows, tile.auto)):
        p = r.start // rows
        e, start = experts[p], starts[p]
        shift = start - r.start
        stop = tile.where(e < E, offsets[tile.minimum(e + 1, E)], T)
        tile.assert_((start >= 0) & (stop <= T), "an offset is below 0, or beyond the rows")
        mine = tile.minimum(e, E - 1)
        acc = tile.zeros((r, n), tile.f32)
        for k in tile.range(K):
            w = weights[mine, n, k].T if transposed else weights[mine, k, n]
            acc = tile.dot(x[r + shift, k], w, acc)
        at = r.index + shift
        y[tile.where(at < stop, at, T), n] = tile.where(e < E, acc, 0.0)
    return y


@tile.kernel
def grouped_linear(x: Any, weights: Any, offsets: Any, *, transposed: bool = False) -> Any:
    """y[t, n] = the sum over k of x[t, k] * weights[e, k, n], where expert e has the rows offsets[e] to offsets[e + 1].

    `x` is [T, K], its rows sorted by expert, `weights` [E, K, N], or [E, N, K] if `transposed` (as those of `linear`),
    `offsets` [E + 1] integers that begin at 0 and do not fall; an expert may have no rows. They are data: no plan and
    no launch depends on them. Rows behind the last offset give 0. Sums are in f32, rounded once to the dtype of `x`,
    which is that of the weights. Raises TileShapeError if sizes do not fit.
    """
    name = "ops.grouped_linear"
    x, weights, offsets = as_tensor(x), as_tensor(weights), as_tensor(offsets)
    require_float(name, x)
    require_integers(name, offsets)
    if x.ndim != 2:
        refuse_rank(name, x, "[T, K]", "make one axis of all rows")
    if weights.ndim != 3:
        refuse_rank(name, weights, "[E, K, N]", "give a matrix for each expert")
    if weights.dtype != x.dtype:
        refuse_shapes(name, x, weights, f"{x.dtype} is multiplied with {weights.dtype}", "convert one: `.to`")
    if x.shape[1] != weights.shape[2 if transposed else 1]:
        reason = "a row has a number for each row of its expert's matrix"
        refuse_shapes(name, x, weights, reason, "give [E, K, N], or `transposed=True` and [E, N, K]")
    count = weights.shape[0]
    if offsets.shape != (count + 1,):
        refuse_shapes(name, offsets, weights, "there is one offset more than experts", "give it [E + 1]")
    offsets = offsets.to(tile.i32)
    experts, starts = _tiles(offsets, (x.shape[0] + ROWS - 1) // ROWS + count)
    return grouped_product(x, weights, offsets, experts, starts, ROWS, bool(transposed))


def _tiles(offsets: Any, tiles: Any) -> tuple[Any, Any]:
    """The expert of each tile of rows, and the first of its rows; one more expert has what lies behind the last offset.

    Each expert has as many tiles as its rows need, so there are not more than all rows fill, and one for each expert.
    """
    counts = (offsets[1:] - offsets[:-1] + (ROWS - 1)) // ROWS
    ends = tile.cumsum(counts, axis=0)
    p = tile.arange(tiles)
    before = ends[None, :] <= p[:, None]
    experts = tile.sum(before.to(tile.i32), axis=1).to(tile.i32)
    first = tile.sum(tile.where(before, counts[None, :], 0), axis=1)
    starts = offsets[experts] + ((p - first) * ROWS).to(tile.i32)
    return experts, starts


class Routing(NamedTuple):
    """Where rows go. Of T rows each goes to k experts: choice j of row t is copy t * k + j of a row."""

    weights: Any
    """[T, k]: what the copies of a row count when they are put together, f32."""
    experts: Any
    """[T, k] i32: the expert of each copy."""
    places: Any
    """[T * k] i32: where each copy stands among all, sorted by expert; of one expert they stay in order."""
    copies: Any
    """[T * k] i32: which copy stands at each of these places."""
    offsets: Any
    """[E + 1] i32: where the copies of each expert begin, and end."""


@tile.kernel
def inverse(places: tile.Tensor) -> Any:
    """copies[places[i]] = i, of a permutation."""
    C = places.shape[0]
    copies = tile.empty(C, tile.i32)
    for c in tile.grid(C):
        copies[places[c]] = c.index
    return copies


@tile.kernel
def route(logits: Any, k: Any, *, normalize: bool = True) -> Any:
    """The `k` experts of each row: those with the largest of `logits` [T, E], by softmax over all experts.

    Gives a `Routing`: the copies of rows are sorted by expert, stably. `normalize`: the weights of a row are divided by
    their sum. Raises TileTypeError unless 1 <= k <= E.
    """
    name = "ops.route"
    logits = as_tensor(logits)
    require_float(name, logits)
    if logits.ndim != 2:
        refuse_rank(name, logits, "[T, E]", "make one axis of all rows")
    rows, count = logits.shape
    if not isinstance(k, int) or isinstance(k, bool) or k < 1 or (isinstance(count, int) and k > count):
        refuse_option(name, "k", k, f"an int from 1 to {count}, the number of experts", "choose as many as there are")
    values, chosen = top_k(logits.to(tile.f32), k)
    if normalize:
        weights = tile.softmax(values, axis=-1)
    else:
        weights = tile.exp(values - _log_sum(logits.to(tile.f32)))
    experts = chosen.to(tile.i32)
    flat = experts.reshape((rows * k,))
    mine = (flat[:, None] == tile.arange(count).to(tile.i32)[None, :]).to(tile.i32)
    running = tile.cumsum(mine, axis=0)
    ends = tile.cumsum(tile.sum(mine, axis=0), axis=0).to(tile.i32)
    offsets = tile.concat((tile.zeros((1,), tile.i32), ends))
    places = (tile.sum(running * mine, axis=1) - 1).to(tile.i32) + offsets[flat]
    return Routing(weights, experts, places, inverse(places), offsets)


def _log_sum(x: Any) -> Any:
    top = tile.max(x, axis=-1, keepdims=True)
    return top + tile.log(tile.sum(tile.exp(x - top), axis=-1, keepdims=True))


@tile.kernel
def dispatch(x: Any, routing: Any) -> Any:
    """The copies of the rows of `x` [T, K] in the order of their experts: [T * k, K], for `grouped_linear`."""
    x = as_tensor(x)
    k = routing.weights.shape[1]
    return x[routing.copies // k]


@tile.kernel
def combine(y: Any, routing: Any) -> Any:
    """Row t is the sum of its copies in `y` [T * k, N] by their weights: [T, N], summed in f32, in the dtype of `y`."""
    y = as_tensor(y)
    rows, k = routing.weights.shape
    copies = y[routing.places].reshape((rows, k, y.shape[1]))
    weighted = copies.to(tile.f32) * routing.weights[:, :, None]
    return tile.sum(weighted, axis=1).to(float_dtype(y))
