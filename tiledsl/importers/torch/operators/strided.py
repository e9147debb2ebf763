"""Tensors told by strides: elements by where they lie in memory."""

from __future__ import annotations

import math
from typing import Any

from tiledsl import ops, tile
from tiledsl.importers.torch.axis_order import layout_of
from tiledsl.importers.torch.register import aten
from tiledsl.ir.dtypes import i64
from tiledsl.ops.checks import as_tensor, refuse_option


@aten("as_strided")
@aten("as_strided_copy")
def as_strided(
    x: Any, size: Any, stride: Any, storage_offset: int | None = None, *, memory: tuple[tuple[int, ...], int]
) -> Any:
    """Element (i, j) is that at `storage_offset` + i * stride[0] + j * stride[1] of the memory that `x` fills."""
    x = as_tensor(x)
    strides, offset = memory
    lies = layout_of(x.shape, strides)
    shape, steps = tuple(size), tuple(stride)
    start = 0 if storage_offset is None else storage_offset - offset
    last = start + sum((length - 1) * step for length, step in zip(shape, steps))
    count = math.prod(x.shape)
    if 0 not in shape and (lies.copied or lies.repeated or start < 0 or last >= count):
        fix = "make a copy of the tensor first: `.contiguous()`"
        refuse_option("as_strided", "stride", steps, "elements of that tensor, which fills its memory", fix)
    flat = (tile.transpose(x, lies.order) if x.ndim else x).reshape((count,))
    wanted = layout_of(shape, steps)
    if 0 not in shape and not wanted.copied and not wanted.repeated:
        part = flat[start : last + 1].reshape(tuple(shape[axis] for axis in wanted.order))
        return wanted.seen(part, shape)
    return ops.take(flat, _places(start, shape, steps))


def _places(start: int, shape: tuple[int, ...], steps: tuple[int, ...]) -> Any:
    """Where the elements of a strided tensor lie."""
    places = tile.full((1,) * len(shape), start, i64)
    for axis, (length, step) in enumerate(zip(shape, steps)):
        along = tuple(length if i == axis else 1 for i in range(len(shape)))
        places = places + (tile.arange(length) * step).reshape(along)
    return places


@aten("as_strided_scatter")
def as_strided_scatter(
    x: Any, source: Any, size: Any, stride: Any, storage_offset: int | None = None, *,
    memory: tuple[tuple[int, ...], int],
) -> Any:  # fmt: skip
    """`x` with `source` at the elements that `as_strided` has."""
    x = as_tensor(x)
    strides, offset = memory
    lies = layout_of(x.shape, strides)
    if lies.copied or lies.repeated:
        fix = "make a copy of the tensor first: `.contiguous()`"
        refuse_option("as_strided_scatter", "stride", strides, "those of a tensor that fills its memory", fix)
    moved = tile.transpose(x, lies.order) if x.ndim else x
    start = 0 if storage_offset is None else storage_offset - offset
    places = _places(start, tuple(size), tuple(stride)).reshape((-1,))
    put = as_tensor(source).to(x.dtype).reshape((-1,))
    y = ops.index_put(moved.reshape((-1,)), (places,), put).reshape(moved.shape)
    return tile.transpose(y, tuple(lies.order.index(i) for i in range(x.ndim))) if x.ndim else y
