"""Loops whose steps carry values from one to the next: `tiledsl.scan`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tiledsl import tile
from tiledsl.frontend.trace.trace_loops import record_loop
from tiledsl.ops.checks import active


@tile.kernel
def scan(
    step: Callable[[Any, Any], Any], carry: Any, xs: Any = None, *, length: Any = None, reverse: bool = False
) -> Any:
    """`jax.lax.scan`: `carry, y = step(carry, x)` for each element x along axis 0 of `xs`.

    `carry`, `xs`, and what `step` gives are tensors, numbers, or tuples, lists and dicts of these; `xs` may be None if
    `length`, the number of steps, is given. Gives (the last carry, all y stacked along a new axis 0). `reverse`: from
    the last element to the first, in `xs` and in what is stacked. `step` is a formula, which is traced once: the loop
    is part of what is compiled. It may read tensors from outside. Raises TileTypeError where a step carries on another
    shape or dtype than it was given, or does not give a pair; TileShapeError for sequences of unlike lengths.
    """
    return record_loop(active(), step, carry, xs, length, reverse)
