"""Dropout."""

from __future__ import annotations

from typing import Any

from tiledsl import tile
from tiledsl.ops.checks import as_tensor, float_dtype, refuse_option, widened


@tile.kernel
def dropout(x: Any, p: Any = 0.5, *, seed: Any = 0, offset: int = 0, training: bool = True) -> Any:
    """x / (1 - p) where a random number of each element, in [0, 1), is at least `p`; else 0.

    Element i in row-major order has the number `tile.rand(seed, offset + i)` (Philox): one seed drops the same again,
    on all targets. Draw further masks from one seed with an `offset` beyond the last. `seed` is an int or an integer
    scalar. Without `training`, or with p = 0, it is `x`. Raises TileTypeError unless 0 <= p <= 1.
    """
    name = "ops.dropout"
    if isinstance(p, bool) or not isinstance(p, (int, float)) or not 0 <= p <= 1:
        refuse_option(name, "p", p, "a number from 0 to 1", "it is the share that is dropped")
    x = as_tensor(x)
    if not training or p == 0:
        return x
    index: Any = offset
    step: Any = 1
    for axis in reversed(range(x.ndim)):
        along = tile.arange(x.shape[axis]).reshape((x.shape[axis],) + (1,) * (x.ndim - 1 - axis))
        index = index + along * step
        step = step * x.shape[axis]
    kept = tile.rand(seed, tile.broadcast_to(index, x.shape)) >= p
    scale = 0.0 if p == 1 else 1.0 / (1.0 - p)
    return tile.where(kept, widened(x) * scale, 0.0).to(float_dtype(x))
