"""Tensors in another shape, put together and taken apart; and what is known of shapes alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tiledsl import ops, tile
from tiledsl.importers.onnx.call import Call
from tiledsl.importers.onnx.operators.casts import dtype_of
from tiledsl.importers.onnx.register import operator
from tiledsl.importers.onnx.sizes import shape_array
from tiledsl.ir.dtypes import from_numpy


def ints(array: Any) -> list[Any]:
    """The entries of a vector: ints, or sizes that are left open."""
    entries: list[Any] = np.ravel(array).tolist()
    return entries


def is_int(size: object) -> bool:
    """Whether a size is known."""
    return isinstance(size, int)


@operator("Identity", since=1, kind="values")
def identity(x: Any) -> Any:
    return (x,)


@operator("Reshape", since=5, known=("shape",))
def reshape(x: Any, shape: Any, *, allowzero: int = 0) -> Any:
    sizes = [x.shape[i] if n == 0 and not allowzero else n for i, n in enumerate(ints(shape))]
    if -1 in sizes and 0 in x.shape:
        known = math.prod([n for n in sizes if n != -1])
        sizes[sizes.index(-1)] = 0 if known == 0 else math.prod(x.shape) // known
    return x.reshape(tuple(sizes))


@operator("Flatten", since=1)
def flatten(x: Any, *, axis: int = 1) -> Any:
    at = axis % x.ndim if axis < 0 else axis
    return x.reshape((math.prod(x.shape[:at]), math.prod(x.shape[at:])))


@operator("Transpose", since=1)
def transpose(x: Any, *, perm: tuple[int, ...] | None = None) -> Any:
    return tile.transpose(x, perm)


def _squeezed(x: Any, axes: list[int] | None) -> Any:
    return x.squeeze() if axes is None else x.squeeze(tuple(axes)) if axes else x


@operator("Squeeze", since=1)
def squeeze_axes(x: Any, *, axes: tuple[int, ...] | None = None) -> Any:
    return _squeezed(x, None if axes is None else list(axes))


@operator("Squeeze", since=13, known=("axes",))
def squeeze(x: Any, axes: Any = None) -> Any:
    return _squeezed(x, None if axes is None else ints(axes))


def _unsqueezed(x: Any, axes: list[int]) -> Any:
    rank = x.ndim + len(axes)
    new = {axis % rank for axis in axes}
    old = iter(x.shape)
    return x.reshape(tuple(1 if i in new else next(old) for i in range(rank)))


@operator("Unsqueeze", since=1)
def unsqueeze_axes(x: Any, *, axes: tuple[int, ...]) -> Any:
    return _unsqueezed(x, list(axes))


@operator("Unsqueeze", since=13, known=("axes",))
def unsqueeze(x: Any, axes: Any) -> Any:
    return _unsqueezed(x, ints(axes))


@operator("Expand", since=8, known=("shape",))
def expand(x: Any, shape: Any) -> Any:
    sizes = ints(shape)
    rank = max(len(sizes), x.ndim)
    before = (1,) * (rank - x.ndim) + tuple(x.shape)
    wanted = [1] * (rank - len(sizes)) + sizes
    return tile.broadcast_to(x, tuple(b if w == 1 else w for b, w in zip(before, wanted)))


@operator("Tile", since=6, known=("repeats",))
def repeated(x: Any, repeats: Any) -> Any:
    return ops.repeat(x, tuple(ints(repeats)))


@operator("Concat", since=4)
def concat(x: Any, *others: Any, axis: int) -> Any:
    return tile.concat((x, *others), axis=axis)


def _split(x: Any, sizes: list[Any] | None, axis: int, count: int) -> Any:
    if sizes is None:
        length = x.shape[axis]
        each = -(-length // count)
        sizes = [max(min(each, length - i * each), 0) for i in range(count)]
    return tile.split(x, tuple(sizes), axis=axis)


@operator("Split", since=2)
def split_by_attribute(x: Any, *, axis: int = 0, split: tuple[int, ...] | None = None, node: Call) -> Any:
    return _split(x, None if split is None else list(split), axis, node.outputs)


@operator("Split", since=13, known=("split",))
def split(x: Any, split: Any = None, *, axis: int = 0, num_outputs: int | None = None, node: Call) -> Any:
    if num_outputs not in (None, node.outputs):
        node.invalid(f"it has {node.outputs} outputs, and `num_outputs` is {num_outputs}")
    return _split(x, None if split is None else ints(split), axis, node.outputs)


@operator("Slice", since=1)
def slice_by_attributes(x: Any, *, starts: Any, ends: Any, axes: Any = None) -> Any:
    return sliced(x, starts, ends, axes, None)


@operator("Slice", since=10, known=("starts", "ends", "axes", "steps"))
def sliced(x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    first, last = ints(starts), ints(ends)
    along = list(range(len(first))) if axes is None else ints(axes)
    by = [1] * len(first) if steps is None else ints(steps)
    key: list[slice] = [slice(None)] * x.ndim
    for start, stop, axis, step in zip(first, last, along, by):
        size = x.shape[axis]
        if all(map(is_int, (size, start, stop))):
            start, stop, _ = slice(start, stop, step).indices(size)
            key[axis] = slice(start, None if stop < 0 else stop, step)
        else:
            key[axis] = slice(start, None if isinstance(stop, int) and abs(stop) >= 2**31 - 1 else stop, step)
    return x[tuple(key)]


@operator("Shape", since=1, kind="values")
def shape_of(x: Any, *, start: int = 0, end: int | None = None, node: Call) -> Any:
    return shape_array(node.shape(x)[start:end])


@operator("Size", since=1, kind="values")
def size_of(x: Any, *, node: Call) -> Any:
    count: Any = math.prod(node.shape(x))
    return np.array(count, np.int64 if is_int(count) else object)


@operator("Constant", since=1, kind="values")
def constant(
    *,
    value: Any = None,
    sparse_value: Any = None,
    value_float: float | None = None,
    value_floats: Any = None,
    value_int: int | None = None,
    value_ints: Any = None,
    value_string: str | None = None,
    value_strings: Any = None,
) -> Any:
    if value is not None or sparse_value is not None:
        return value if value is not None else sparse_value
    floats = value_floats if value_float is None else value_float
    if floats is not None:
        return np.array(floats, np.float32)
    whole = value_ints if value_int is None else value_int
    if whole is not None:
        return np.array(whole, np.int64)
    return np.array(value_strings if value_string is None else value_string, object)


@operator("ConstantOfShape", since=9, known=("shape",))
def constant_of_shape(shape: Any, *, value: Any = None) -> Any:
    number: Any = np.zeros(1, np.float32) if value is None else np.asarray(value)
    sizes = ints(shape)
    if all(map(is_int, sizes)) and math.prod(sizes) <= 1 << 16:
        return np.full(sizes, number.reshape(())[()], number.dtype)
    return tile.full(tuple(sizes), number.item(), from_numpy(number.dtype))


@operator("Range", since=11, known=("start", "limit", "delta"))
def span(start: Any, limit: Any, delta: Any) -> Any:
    first, last, step = (np.ravel(n)[0] for n in (start, limit, delta))
    count = max(math.ceil((float(last) - float(first)) / float(step)), 0)
    return (first + np.arange(count) * step).astype(np.asarray(start).dtype)


@operator("EyeLike", since=9)
def eye_like(x: Any, *, dtype: int | None = None, k: int = 0) -> Any:
    rows, columns = x.shape
    return ops.eye(rows, columns, k, x.dtype if dtype is None else dtype_of(dtype))


@operator("Trilu", since=14, known=("k",))
def triangle(x: Any, k: Any = None, *, upper: int = 1) -> Any:
    return (ops.triu if upper else ops.tril)(x, 0 if k is None else int(np.ravel(k)[0]))


@operator("DepthToSpace", since=1)
def depth_to_space(x: Any, *, blocksize: int, mode: str = "DCR") -> Any:
    if mode == "DCR":
        n, c, h, w = x.shape
        b, inner = blocksize, c // (blocksize * blocksize)
        return x.reshape((n, b, b, inner, h, w)).transpose((0, 3, 4, 1, 5, 2)).reshape((n, inner, h * b, w * b))
    return ops.pixel_shuffle(x, blocksize)


@operator("SpaceToDepth", since=1)
def space_to_depth(x: Any, *, blocksize: int, mode: str = "DCR") -> Any:
    if mode == "DCR":
        n, c, h, w = x.shape
        b = blocksize
        parts = x.reshape((n, c, h // b, b, w // b, b)).transpose((0, 3, 5, 1, 2, 4))
        return parts.reshape((n, c * b * b, h // b, w // b))
    return ops.pixel_unshuffle(x, blocksize)


_PAD_MODES = ("constant", "reflect", "edge", "wrap")


@operator("Pad", since=2)
def pad_by_attributes(x: Any, *, pads: Any, mode: str = "constant", value: float = 0.0, node: Call) -> Any:
    return pad(x, pads, value, mode=mode, node=node)


@operator("Pad", since=11, known=("pads", "constant_value", "axes"))
def pad(x: Any, pads: Any, constant_value: Any = None, axes: Any = None, *, mode: str = "constant", node: Call) -> Any:
    if mode not in _PAD_MODES:
        node.refuse("mode", mode, ", ".join(_PAD_MODES))
    given = ints(pads)
    along = list(range(x.ndim)) if axes is None else [a % x.ndim for a in ints(axes)]
    widths = [(0, 0)] * x.ndim
    for i, axis in enumerate(along):
        widths[axis] = (given[i], given[len(along) + i])
    value = 0 if constant_value is None or np.size(constant_value) == 0 else np.ravel(constant_value)[0].item()
    return ops.pad(x, tuple(widths), value, mode=mode)
