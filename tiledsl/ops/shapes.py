"""Tensors put together, taken apart and looked at in another order: the words of the language as ops."""

from __future__ import annotations

from typing import Any

from tiledsl import tile
from tiledsl.ops.checks import as_tensor


@tile.kernel
def concat(tensors: Any, axis: int = 0) -> Any:
    """The tensors of a tuple or list behind each other along `axis`; dtypes are promoted.

    Raises TileShapeError if their other axes differ.
    """
    return tile.concat(tensors, axis=axis)


@tile.kernel
def split(x: Any, parts: Any, axis: int = 0) -> Any:
    """A tuple of the parts of `x` along `axis`: `parts` equal ones, or of the sizes that a tuple `parts` lists.

    Raises TileShapeError if the sizes do not add up to the axis.
    """
    return tile.split(x, parts, axis=axis)


@tile.kernel
def pad(x: Any, widths: Any, value: float = 0) -> Any:
    """`x` with `value` around it. `widths` is one int, one pair (before, after), or a pair for each axis, as in NumPy.

    Raises TileShapeError for other widths, and for negative ones.
    """
    return tile.pad(x, widths, value)


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
