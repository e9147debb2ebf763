"""Gathers, scatters and sorting: elements at coordinates that are computed.

Sums of floats are added in any order, unless `torch.use_deterministic_algorithms(True)` held when the model came.
"""

from __future__ import annotations

import math
from typing import Any

from tiledsl import ops, tile
from tiledsl.importers.torch.register import aten
from tiledsl.ir.dtypes import bool_, f32, i64
from tiledsl.ir.type_rules import broadcast_shapes
from tiledsl.ops.checks import as_tensor, refuse_option


@aten("index_select")
def index_select(x: Any, dim: int, index: Any) -> Any:
    x, index = as_tensor(x), as_tensor(index)
    if not x.ndim:
        return x
    return tile.take(x, index if index.ndim else index[None], axis=dim)


def _no_masks(name: str, indices: Any) -> tuple[Any, ...]:
    """Indices as tensors. Raises TileTypeError for a bool mask: how much it selects depends on values."""
    given = tuple(None if i is None else as_tensor(i) for i in indices)
    for i in given:
        if i is not None and i.dtype == bool_:
            refuse_option(name, "indices", "a bool mask", "integers", "the size of the result depends on values")
    return given


@aten("index", "Tensor")
@aten("_unsafe_index", "Tensor")
def index(x: Any, indices: Any) -> Any:
    return ops.index(x, _no_masks("index", indices))


@aten("index_put")
@aten("_unsafe_index_put")
@aten("_index_put_impl")
def index_put(x: Any, indices: Any, values: Any, accumulate: bool = False, *_: Any, deterministic: bool = False) -> Any:
    x, values = as_tensor(x), as_tensor(values)
    chosen = _chosen(x, indices, values)
    if chosen is not None:
        mask, put = chosen
        put = put.to(x.dtype)
        return tile.where(mask, x + put if accumulate else put, x)
    given = _no_masks("index_put", indices)
    return ops.index_put(x, given, values.to(x.dtype), accumulate, deterministic=deterministic)


def _chosen(x: Any, indices: Any, values: Any) -> tuple[Any, Any] | None:
    """Where a bool mask among `indices` holds, and what is put there, as they go with `x`; None if there is not one
    mask alone, or what is put there differs from place to place."""
    given = [(at, as_tensor(i)) for at, i in enumerate(indices) if i is not None]
    if len(given) != 1 or given[0][1].dtype != bool_:
        return None
    at, mask = given[0]
    behind = x.ndim - at - mask.ndim
    if values.size == 1:
        values = values.reshape(())
    if values.ndim > behind:  # its axis for the chosen places, in place of those of the mask
        ahead = values.shape[: values.ndim - behind]
        if ahead[-1] != 1:
            return None
        values = values.reshape((*ahead[:-1], *(1,) * mask.ndim, *values.shape[values.ndim - behind :]))
    return mask.reshape((*mask.shape, *(1,) * behind)), values


@aten("gather")
def gather(x: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    x, index = as_tensor(x), as_tensor(index)
    if not x.ndim or not index.ndim:
        return gather(_row(x), 0, _row(index)).reshape(index.shape)
    return ops.gather(x, index, dim)


def _row(x: Any) -> Any:
    """A scalar as a vector of one element."""
    x = as_tensor(x)
    return x if x.ndim else x.reshape((1,))


@aten("take")
def take(x: Any, index: Any) -> Any:
    x, index = as_tensor(x), as_tensor(index)
    return tile.take(x.flatten(), tile.where(index < 0, index + x.size, index), axis=0)


@aten("one_hot")
def one_hot(x: Any, num_classes: int = -1) -> Any:
    if num_classes < 0:
        refuse_option("one_hot", "num_classes", num_classes, "a number from 1 on", "say how many classes there are")
    return (as_tensor(x)[..., None] == tile.arange(num_classes)).to(i64)


# Scatters

_REDUCTIONS = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min",
               "mean": "mean"}  # fmt: skip


def _scattered(
    x: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool = True, deterministic: bool = False
) -> Any:
    """As `ops.scatter`; of a source only what has an index counts."""
    x, index = as_tensor(x), as_tensor(index)
    shape = x.shape
    x, index, source = _row(x), _row(index), _row(as_tensor(source).to(x.dtype))
    if source.ndim == index.ndim and source.shape != index.shape:
        source = source[tuple(slice(0, n) for n in index.shape)]
    y = ops.scatter(
        x, index, source, dim, reduce=reduce, include_self=include_self, deterministic=deterministic
    )  # fmt: skip
    return y.reshape(shape)


@aten("scatter", "src", "reduce")
def scatter(x: Any, dim: int, index: Any, source: Any, *, reduce: str = "", deterministic: bool = False) -> Any:
    return _scattered(x, dim, index, source, _REDUCTIONS.get(reduce, "set"), deterministic=deterministic)


@aten("scatter", "value", "value_reduce")
def scatter_value(x: Any, dim: int, index: Any, value: Any, *, reduce: str = "", deterministic: bool = False) -> Any:
    x, index = as_tensor(x), as_tensor(index)
    source = tile.full(index.shape, value if x.dtype.is_float else int(value), x.dtype)
    return _scattered(x, dim, index, source, _REDUCTIONS.get(reduce, "set"), deterministic=deterministic)


@aten("scatter_add")
def scatter_add(x: Any, dim: int, index: Any, source: Any, *, deterministic: bool = False) -> Any:
    return _scattered(x, dim, index, source, "add", deterministic=deterministic)


@aten("scatter_reduce", "two")
def scatter_reduce(
    x: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True, deterministic: bool = False
) -> Any:
    return _scattered(x, dim, index, source, _REDUCTIONS[reduce], include_self, deterministic)


@aten("masked_scatter")
def masked_scatter(x: Any, mask: Any, source: Any) -> Any:
    """Where the mask holds, the elements of `source` in order."""
    x, mask, source = as_tensor(x), as_tensor(mask), as_tensor(source)
    shape: Any = broadcast_shapes(x.type.shape, mask.type.shape)
    held: Any = tile.broadcast_to(mask, shape)
    held = held.reshape(-1)
    nth = tile.cumsum(held.to(i64), axis=0) - 1
    picked = tile.take(source.flatten(), nth, axis=0)
    before: Any = tile.broadcast_to(x, shape)
    return tile.where(held, picked, before.reshape(-1)).reshape(shape)


@aten("select_scatter")
def select_scatter(x: Any, source: Any, dim: int, index: Any) -> Any:
    x = as_tensor(x)
    at = dim % x.ndim
    source = as_tensor(source).reshape((*x.shape[:at], 1, *x.shape[at + 1 :]))
    here = _along(x, at) == (index + x.shape[at] if index < 0 else index)
    return tile.where(here, source.to(x.dtype), x)


@aten("slice_scatter")
def slice_scatter(x: Any, source: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    x, source = as_tensor(x), as_tensor(source)
    at = dim % x.ndim
    size = x.shape[at]
    first, last, _ = slice(start, end).indices(size)
    place = tile.arange(size) - first
    inside = (place >= 0) & (place < last - first) & (place % step == 0)
    spread = tile.take(source.to(x.dtype), place // step, axis=at)
    shape = tuple(size if i == at else 1 for i in range(x.ndim))
    return tile.where(inside.reshape(shape), spread, x)


def _along(x: Any, at: int) -> Any:
    """The coordinates of an axis, as they go with `x`."""
    return tile.arange(x.shape[at]).reshape(tuple(x.shape[at] if i == at else 1 for i in range(x.ndim)))


@aten("index_add")
def index_add(x: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1, deterministic: bool = False) -> Any:
    x, source = as_tensor(x), as_tensor(source)
    shape = x.shape
    x, source, index = _row(x), _row(source).to(x.dtype), _row(index)
    at = dim % x.ndim
    entries = (None,) * at + (index,)
    updates = source if alpha == 1 else source * alpha
    return ops.index_put(x, entries, updates, True, deterministic=deterministic).reshape(shape)


@aten("embedding_dense_backward")
def embedding_dense_backward(
    grad: Any, indices: Any, count: int, padding_idx: int, scale: bool, *, deterministic: bool = False
) -> Any:
    grad, indices = as_tensor(grad), as_tensor(indices).flatten()
    if scale:
        refuse_option("embedding", "scale_grad_by_freq", scale, "False", "leave it out")
    width = grad.shape[-1]
    if padding_idx >= 0:
        indices = tile.where(indices == padding_idx, count, indices)  # outside: dropped
    table = tile.zeros((count, width), grad.dtype)
    updates = grad.reshape((math.prod(grad.shape[:-1]), width))
    return ops.index_put(table, (indices,), updates, True, deterministic=deterministic)


@aten("put")
def put(x: Any, index: Any, source: Any, accumulate: bool = False, *, deterministic: bool = False) -> Any:
    """At places of the elements in order."""
    x, index = as_tensor(x), as_tensor(index).flatten()
    index = tile.where(index < 0, index + x.size, index)
    values = as_tensor(source).flatten().to(x.dtype)
    return ops.index_put(x.flatten(), (index,), values, accumulate, deterministic=deterministic).reshape(x.shape)


@aten("index_reduce")
def index_reduce(
    x: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True, deterministic: bool = False
) -> Any:
    x, source = as_tensor(x), _row(as_tensor(source))
    at = dim % source.ndim
    places = as_tensor(index).reshape(tuple(-1 if i == at else 1 for i in range(source.ndim)))
    places = tile.broadcast_to(places, source.shape)
    return _scattered(x, dim, places, source, _REDUCTIONS[reduce], include_self, deterministic)


@aten("diagonal_scatter")
def diagonal_scatter(x: Any, source: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    x, source = as_tensor(x), as_tensor(source)
    first, second = dim1 % x.ndim, dim2 % x.ndim
    rest = tuple(i for i in range(x.ndim) if i not in (first, second))
    moved = tile.transpose(x, (*rest, first, second))
    rows, columns = tile.arange(moved.shape[-2])[:, None], tile.arange(moved.shape[-1])
    nth = tile.clip(tile.minimum(rows, columns), 0, source.shape[-1] - 1)  # which element of the diagonal
    y = tile.where(columns - rows == offset, tile.take(source.to(x.dtype), nth, axis=-1), moved)
    order = (*rest, first, second)
    return tile.transpose(y, tuple(order.index(i) for i in range(x.ndim)))


@aten("repeat_interleave", "self_Tensor")
def repeat_interleave_each(x: Any, repeats: Any, dim: Any = None, *, output_size: Any = None) -> Any:
    x = as_tensor(x)
    if dim is None:
        x, dim = x.flatten(), 0
    return tile.take(x, repeated(repeats, output_size=output_size), axis=dim)


@aten("repeat_interleave", "Tensor")
def repeated(repeats: Any, *, output_size: Any = None) -> Any:
    """Each number as often as it says, of a total that is known."""
    if output_size is None:
        refuse_option("repeat_interleave", "output_size", None, "a number", "say it: the sum of `repeats`")
    ends = tile.cumsum(as_tensor(repeats).to(i64), axis=0)
    return ops.searchsorted(ends, tile.arange(output_size), True)


# Order


@aten("sort", "default", "stable")
def sort(x: Any, dim: int = -1, descending: bool = False, *, stable: Any = None) -> Any:
    return ops.sort(x, dim, descending)


@aten("argsort", "default", "stable")
def argsort(x: Any, dim: int = -1, descending: bool = False, *, stable: Any = None) -> Any:
    return ops.sort(x, dim, descending)[1]


@aten("topk")
def topk(x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    x = as_tensor(x)
    if not x.ndim:
        return x, tile.zeros((), i64)
    return ops.top_k(x, k, dim, largest)


@aten("kthvalue")
def kthvalue(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    x = as_tensor(x)
    if not x.ndim:
        return x, tile.zeros((), i64)
    at = (slice(None),) * (dim % x.ndim) + (slice(k - 1, k) if keepdim else k - 1,)
    return tuple(found[at] for found in ops.sort(x, dim))


@aten("median")
def median_all(x: Any) -> Any:
    return median(as_tensor(x).flatten(), 0)[0]


@aten("median", "dim")
def median(x: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """The lower of the two in the middle."""
    x = as_tensor(x)
    return kthvalue(x, (x.shape[dim] + 1) // 2 if x.ndim else 1, dim, keepdim)


@aten("nanmedian")
def nanmedian_all(x: Any) -> Any:
    return nanmedian(as_tensor(x).flatten(), 0)[0]


@aten("nanmedian", "dim")
def nanmedian(x: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """The lower of the two in the middle of those that are numbers, which are sorted to the front."""
    x = as_tensor(x)
    if not x.ndim:
        return x, tile.zeros((), i64)
    count = tile.sum((x == x).to(i64), axis=dim, keepdims=True)
    middle = tile.maximum((count - 1) // 2, 0)
    found = [ops.gather(part, middle, dim) for part in ops.sort(x, dim)]
    return tuple(found if keepdim else (_without(part, dim % x.ndim) for part in found))


def _without(x: Any, at: int) -> Any:
    """Without an axis of one element."""
    return x.reshape((*x.shape[:at], *x.shape[at + 1 :]))


@aten("mode")
def mode(x: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """The value that is there most often, the lowest of several, and its last place."""
    x = as_tensor(x)
    if not x.ndim:
        return x, tile.zeros((), i64)
    ordered, places = ops.sort(x, dim)
    at = dim % x.ndim
    alike = tile.reshape(ordered, (*x.shape[: at + 1], 1, *x.shape[at + 1 :])) == tile.reshape(
        ordered, (*x.shape[:at], 1, *x.shape[at:])
    )
    counts = tile.sum(alike.to(i64), axis=at + 1)
    first = tile.argmax(counts, axis=at, keepdims=True)
    end = first + ops.gather(counts, first, at) - 1
    found = [ops.gather(ordered, first, at), ops.gather(places, end, at)]
    return tuple(found if keepdim else (_without(part, at) for part in found))


@aten("searchsorted", "Tensor")
def searchsorted(
    edges: Any, x: Any, *, out_int32: bool = False, right: bool = False, side: Any = None, sorter: Any = None
) -> Any:
    if sorter is not None:
        edges = gather(edges, -1, sorter)
    return ops.searchsorted(edges, x, right or side == "right")


@aten("searchsorted", "Scalar")
def searchsorted_number(edges: Any, x: Any, **options: Any) -> Any:
    return searchsorted(edges, _row(_number_like(edges, x)), **options).reshape(())


@aten("bucketize", "Scalar")
def bucketize_number(x: Any, edges: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    return ops.searchsorted(edges, _row(_number_like(edges, x)), right).reshape(())


def _number_like(edges: Any, x: Any) -> Any:
    """A number as a tensor: a float, and an int in the dtype of the edges."""
    dtype = as_tensor(edges).dtype
    return tile.full((), x, dtype if dtype.is_float or isinstance(x, int) else f32)


@aten("bucketize", "Tensor")
def bucketize(x: Any, edges: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    return ops.searchsorted(edges, x, right)
