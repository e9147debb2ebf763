"""Gathers: elements at coordinates that are computed."""

from __future__ import annotations

import math
from typing import Any

from tiledsl import tile
from tiledsl.importers.torch.register import aten
from tiledsl.ir.dtypes import bool_, i64
from tiledsl.ops.checks import as_tensor, refuse_option


def wrapped(indices: Any, size: Any) -> Any:
    """Coordinates of which negative ones count from the end."""
    indices = as_tensor(indices).to(i64)
    return tile.where(indices < 0, indices + size, indices)


@aten("index_select")
@aten("index_select_backward")
def index_select(x: Any, dim: int, index: Any) -> Any:
    x, index = as_tensor(x), as_tensor(index)
    if not x.ndim:
        return tile.broadcast_to(x[None], (1,)) if index.ndim else x
    return tile.take(x, index if index.ndim else index[None], axis=dim)


@aten("index", "Tensor")
@aten("_unsafe_index", "Tensor")
def index(x: Any, indices: Any) -> Any:
    """`x[i, j]`: the axes that are indexed become one, in which the elements have one coordinate."""
    x = as_tensor(x)
    given = [None if i is None else as_tensor(i) for i in indices]
    given += [None] * (x.ndim - len(given))
    for i in given:
        if i is not None and i.dtype == bool_:
            refuse_option("index", "indices", "a bool mask", "integers", "the size of the result depends on values")
    axes = [i for i, at in enumerate(given) if at is not None]
    if not axes:
        return x
    rest = [i for i in range(x.ndim) if i not in axes]
    together = axes == list(range(axes[0], axes[-1] + 1))
    first = axes[0] if together else 0
    order = (*rest[:first], *axes, *rest[first:])
    moved = tile.transpose(x, order)
    sizes = moved.shape[first : first + len(axes)]
    flat = moved.reshape((*moved.shape[:first], math.prod(sizes), *moved.shape[first + len(axes) :]))
    place: Any = 0
    for axis, size in zip(axes, sizes):
        place = place * size + wrapped(given[axis], size)
    return tile.take(flat, place, axis=first)


@aten("gather")
def gather(x: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    """Each element of the result at its own coordinates but for axis `dim`, whose coordinate `index` holds."""
    x, index = as_tensor(x), as_tensor(index)
    if not x.ndim:
        return tile.broadcast_to(x, index.shape)
    if not index.ndim:
        return gather(x, dim, index[None])[0]
    at = dim % x.ndim
    place: Any = 0
    for axis in range(x.ndim):
        here: Any = index.to(i64)
        if axis != at:
            here = tile.arange(index.shape[axis]).reshape((index.shape[axis], *(1,) * (x.ndim - 1 - axis)))
        place = place * x.shape[axis] + here
    return tile.take(x.flatten(), tile.broadcast_to(place, index.shape), axis=0)


@aten("take")
def take(x: Any, index: Any) -> Any:
    x = as_tensor(x)
    return tile.take(x.flatten(), wrapped(index, x.size), axis=0)


@aten("one_hot")
def one_hot(x: Any, num_classes: int = -1) -> Any:
    if num_classes < 0:
        refuse_option("one_hot", "num_classes", num_classes, "a number from 1 on", "say how many classes there are")
    return (as_tensor(x)[..., None] == tile.arange(num_classes)).to(i64)
