"""Gathers, scatters and sorting: elements at coordinates that are computed."""

from __future__ import annotations

import math
from typing import Any

from tiledsl import ops, tile
from tiledsl.importers.torch.register import aten
from tiledsl.ir.dtypes import bool_, i64
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
def index_put(x: Any, indices: Any, values: Any, accumulate: bool = False, *_: Any) -> Any:
    x, values = as_tensor(x), as_tensor(values)
    masks = [i for i in indices if i is not None and as_tensor(i).dtype == bool_]
    if masks and len(indices) == 1 and values.size == 1:
        mask = as_tensor(masks[0])
        mask = mask.reshape((*mask.shape, *(1,) * (x.ndim - mask.ndim)))
        put = values.reshape(()).to(x.dtype)
        return tile.where(mask, x + put if accumulate else put, x)
    return ops.index_put(x, _no_masks("index_put", indices), values.to(x.dtype), accumulate)


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


def _scattered(x: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool = True) -> Any:
    """As `ops.scatter`; of a source only what has an index counts."""
    x, index = as_tensor(x), as_tensor(index)
    shape = x.shape
    x, index, source = _row(x), _row(index), _row(as_tensor(source).to(x.dtype))
    if source.ndim == index.ndim and source.shape != index.shape:
        source = source[tuple(slice(0, n) for n in index.shape)]
    return ops.scatter(x, index, source, dim, reduce=reduce, include_self=include_self).reshape(shape)


@aten("scatter", "src", "reduce")
def scatter(x: Any, dim: int, index: Any, source: Any, *, reduce: str = "") -> Any:
    return _scattered(x, dim, index, source, _REDUCTIONS.get(reduce, "set"))


@aten("scatter", "value", "value_reduce")
def scatter_value(x: Any, dim: int, index: Any, value: Any, *, reduce: str = "") -> Any:
    x, index = as_tensor(x), as_tensor(index)
    source = tile.full(index.shape, value if x.dtype.is_float else int(value), x.dtype)
    return _scattered(x, dim, index, source, _REDUCTIONS.get(reduce, "set"))


@aten("scatter_add")
def scatter_add(x: Any, dim: int, index: Any, source: Any) -> Any:
    return _scattered(x, dim, index, source, "add")


@aten("scatter_reduce", "two")
def scatter_reduce(x: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Any:
    return _scattered(x, dim, index, source, _REDUCTIONS[reduce], include_self)


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
def index_add(x: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    x, source = as_tensor(x), as_tensor(source)
    shape = x.shape
    x, source, index = _row(x), _row(source).to(x.dtype), _row(index)
    at = dim % x.ndim
    entries = (None,) * at + (index,)
    return ops.index_put(x, entries, source if alpha == 1 else source * alpha, True).reshape(shape)


@aten("embedding_dense_backward")
def embedding_dense_backward(grad: Any, indices: Any, count: int, padding_idx: int, scale: bool) -> Any:
    grad, indices = as_tensor(grad), as_tensor(indices).flatten()
    if scale:
        refuse_option("embedding", "scale_grad_by_freq", scale, "False", "leave it out")
    width = grad.shape[-1]
    if padding_idx >= 0:
        indices = tile.where(indices == padding_idx, count, indices)  # outside: dropped
    table = tile.zeros((count, width), grad.dtype)
    return ops.index_put(table, (indices,), grad.reshape((math.prod(grad.shape[:-1]), width)), True)


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


@aten("searchsorted", "Tensor")
def searchsorted(
    edges: Any, x: Any, *, out_int32: bool = False, right: bool = False, side: Any = None, sorter: Any = None
) -> Any:
    if sorter is not None:
        edges = gather(edges, -1, sorter)
    return ops.searchsorted(edges, x, right or side == "right")


@aten("bucketize", "Tensor")
def bucketize(x: Any, edges: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    return ops.searchsorted(edges, x, right)
