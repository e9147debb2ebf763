"""Means and variances. Narrow floats are summed in f32 and rounded once; integers give f64, as in NumPy."""

from __future__ import annotations

import math
from typing import Any

from tiledsl import tile
from tiledsl.frontend.trace.trace_shapes import entries_of
from tiledsl.ops.checks import as_tensor, axis_of, float_dtype, refuse_option, widened


@tile.kernel
def mean(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The sum over some axes (an int, a tuple, None for all) divided by how many elements that are."""
    return tile.mean(as_tensor(x), axis, keepdims)


@tile.kernel
def var(x: Any, axis: Any = None, ddof: Any = 0, keepdims: bool = False) -> Any:
    """The sum of (x - mean)^2 over some axes, divided by the number of elements less `ddof` (1: the sample variance).

    NaN (or inf) where that is nothing. Raises TileShapeError for an axis that `x` does not have.
    """
    name = "ops.var"
    x = as_tensor(x)
    if not isinstance(ddof, int) or ddof < 0:
        refuse_option(name, "ddof", ddof, "an int from 0 on", "use 1 for the variance of a sample")
    given = range(x.ndim) if axis is None else entries_of(axis)
    axes = tuple(axis_of(name, x, each) for each in given)
    wide = widened(x)
    centred = wide - tile.mean(wide, axes, keepdims=True)
    total = tile.sum(centred * centred, axes, keepdims=keepdims)
    count: Any = math.prod([x.shape[i] for i in axes])
    left = tile.maximum(count - ddof, 0) if isinstance(count, int) else count - ddof
    return (total / left).to(float_dtype(x))
