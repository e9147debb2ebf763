"""Tensors put together, taken apart, repeated and looked at in another order."""

from __future__ import annotations

import math
from typing import Any

from tiledsl import tile
from tiledsl.frontend.trace.trace_shapes import entries_of
from tiledsl.ops.checks import as_tensor, axis_of, refuse_option


@tile.kernel
def concat(tensors: Any, axis: int = 0) -> Any:
    """The tensors of a tuple or list behind each other along `axis`; dtypes are promoted.

    Raises TileShapeError if their other axes differ.
    """
    return tile.concat(tensors, axis=axis)


@tile.kernel
def stack(tensors: Any, axis: int = 0) -> Any:
    """Tensors of one shape along a new axis, which is axis `axis` of the result; dtypes are promoted.

    Raises TileShapeError if their shapes differ.
    """
    return tile.stack(tensors, axis=axis)


@tile.kernel
def split(x: Any, parts: Any, axis: int = 0) -> Any:
    """A tuple of the parts of `x` along `axis`: `parts` equal ones, or of the sizes that a tuple `parts` lists.

    Raises TileShapeError if the sizes do not add up to the axis.
    """
    return tile.split(x, parts, axis=axis)


@tile.kernel
def unstack(x: Any, axis: int = 0) -> Any:
    """A tuple of the slices of `x` at each coordinate of an axis, which they do not have. Its size is known."""
    x = as_tensor(x)
    at = axis_of("ops.unstack", x, axis)
    if not isinstance(x.shape[at], int):
        refuse_option("ops.unstack", "axis", axis, "an axis whose size is known", "split it into parts of given sizes")
    return tuple(part.squeeze(at) for part in tile.split(x, (1,) * x.shape[at], axis=at)) if x.shape[at] else ()


@tile.kernel
def transpose(x: Any, axes: Any = None) -> Any:
    """Axis i of the result is axis `axes[i]` of `x`; all reversed if there are none. A view, as in NumPy."""
    return tile.transpose(x, axes)


@tile.kernel
def reshape(x: Any, shape: Any) -> Any:
    """The elements of `x` in row-major order under another shape, in which one size may be -1.

    Raises TileShapeError if the shapes differ in size.
    """
    return as_tensor(x).reshape(shape)


@tile.kernel
def flip(x: Any, axis: Any = None) -> Any:
    """The elements along some axes (an int, a tuple, None for all) from the last to the first."""
    x = as_tensor(x)
    axes = _axes("ops.flip", x, axis)
    return x[tuple(slice(None, None, -1) if i in axes else slice(None) for i in range(x.ndim))] if axes else x


@tile.kernel
def roll(x: Any, shift: Any, axis: Any = None) -> Any:
    """Element i becomes element i + shift of its axis, and what leaves it at one end comes in at the other.

    `shift` and `axis` are ints, or tuples with a shift for each axis. None: along the elements of `x` in row-major
    order. Raises TileTypeError unless there are as many shifts as axes.
    """
    x = as_tensor(x)
    if axis is None:
        return _rolled(x.reshape(-1), (shift,), (0,)).reshape(x.shape)
    shifts, axes = entries_of(shift), tuple(axis_of("ops.roll", x, each) for each in entries_of(axis))
    if len(shifts) != len(axes) or not all(isinstance(n, int) for n in shifts):
        refuse_option("ops.roll", "shift", shift, f"an int for each of the axes {axes}", "give one for each axis")
    return _rolled(x, shifts, axes)


def _rolled(x: Any, shifts: tuple[Any, ...], axes: tuple[int, ...]) -> Any:
    for shift, at in zip(shifts, axes):
        size = x.shape[at]
        if size != 0 and (not isinstance(size, int) or shift % size):
            x = tile.take(x, (tile.arange(size) - shift) % size, axis=at)
    return x


@tile.kernel
def repeat(x: Any, repeats: Any) -> Any:
    """`x` so many times behind each other along each axis, as NumPy's `tile` and PyTorch's `repeat`.

    `repeats` is an int (for the last axis), or a number for each of the last axes; more of them than axes are new
    leading ones.
    """
    x = as_tensor(x)
    counts = entries_of(repeats)
    if not all(isinstance(n, int) and n >= 0 for n in counts):
        refuse_option("ops.repeat", "repeats", repeats, "ints from 0 on", "say how often for each axis")
    counts = (1,) * (x.ndim - len(counts)) + counts
    shape = (1,) * (len(counts) - x.ndim) + tuple(x.shape)
    apart = tuple(n for size in shape for n in (1, size))
    wide = tuple(n for count, size in zip(counts, shape) for n in (count, size))
    joined = tuple(count * size for count, size in zip(counts, shape))
    return tile.broadcast_to(x.reshape(apart), wide).reshape(joined)


@tile.kernel
def repeat_interleave(x: Any, repeats: Any, axis: int = -1) -> Any:
    """Each element so many times, one after the other, along an axis. `repeats` is an int."""
    x = as_tensor(x)
    at = axis_of("ops.repeat_interleave", x, axis)
    if not isinstance(repeats, int) or repeats < 0:
        refuse_option("ops.repeat_interleave", "repeats", repeats, "an int from 0 on", "repeat all of them as often")
    before, after = tuple(x.shape[: at + 1]), tuple(x.shape[at + 1 :])
    wide = tile.broadcast_to(x.reshape((*before, 1, *after)), (*before, repeats, *after))
    return wide.reshape((*before[:-1], before[-1] * repeats, *after))


@tile.kernel
def diagonal(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The elements (i, i + offset) of two axes, which become one axis at the end. Their sizes are known."""
    name = "ops.diagonal"
    x = as_tensor(x)
    first, second = axis_of(name, x, axis1), axis_of(name, x, axis2)
    if first == second:
        refuse_option(name, "axis2", axis2, f"another axis than axis1, {axis1}", "name two axes")
    rest = tuple(i for i in range(x.ndim) if i not in (first, second))
    rows, columns = x.shape[first], x.shape[second]
    count = max(min(rows - max(-offset, 0), columns - max(offset, 0)), 0)
    start = max(offset, 0) + max(-offset, 0) * columns
    flat = x.transpose((*rest, first, second)).reshape((*(x.shape[i] for i in rest), rows * columns))
    if not count:
        return flat[..., :0]
    return flat[..., start : start + (count - 1) * (columns + 1) + 1 : columns + 1]


@tile.kernel
def diag_embed(x: Any, offset: int = 0) -> Any:
    """Matrices with the last axis of `x` on a diagonal, (i, i + offset), and zeros elsewhere."""
    x = as_tensor(x)
    size = x.shape[-1] + abs(offset)
    low = max(offset, 0)
    wide = tile.pad(x, ((0, 0),) * (x.ndim - 1) + ((low, size - x.shape[-1] - low),))
    place = tile.arange(size)
    return tile.where(place[None, :] == place[:, None] + offset, wide[..., None, :], 0)


def _axes(name: str, x: Any, axis: Any) -> tuple[int, ...]:
    """Some axes of a tensor; None means all."""
    return tuple(range(x.ndim)) if axis is None else tuple(axis_of(name, x, each) for each in entries_of(axis))


def count_of(sizes: Any) -> Any:
    """The number of elements of a shape."""
    return math.prod(sizes)
