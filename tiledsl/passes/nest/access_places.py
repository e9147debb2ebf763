"""Where accesses of one tensor lie beside each other: what their subscripts have in common, and how much they differ.

u[z, y, x - 1]   u[z, y, x + 1]        alike but for 2 along the last axis: about the same elements, asked for twice
x[m, n]          x[m, n + 4096]        alike but for 4096: other elements
f[0, y, x]       f[3, y, x]            alike but for 3 along the first axis
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.types import Slice
from tiledsl.passes.analysis.sizes import size_of
from tiledsl.passes.nest.loop_nest import Access

Number = Callable[[Dim], float]
"""What a size is."""


@dataclass(frozen=True)
class Places:
    """The subscripts of an access: `bases`, and what is added to each of them."""

    bases: tuple[object, ...]
    offsets: tuple[float, ...]

    def apart(self, other: Places, sizes: Sequence[float]) -> float:
        """How many elements of a tensor of these sizes lie between two that are alike but for offsets."""
        steps = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
        return sum(abs(a - b) * step for a, b, step in zip(self.offsets, other.offsets, steps))


def places_of(access: Access, number: Number) -> Places:
    """Those of an access; what is added and not known is part of the base."""
    found = [_place(index, number) for index in access.op.indices]
    return Places(tuple(base for base, _ in found), tuple(offset for _, offset in found))


def _place(index: object, number: Number) -> tuple[object, float]:
    if isinstance(index, Slice):
        return ("slice", number(index.stop) - number(index.start)), number(index.start)
    if not isinstance(index, Value):
        return index, 0.0
    known = _known(index, number)
    if known is not None:
        return "known", known
    op = index.op
    if isinstance(op, ops.Shift):
        by, (base, before) = _known(op.offset, number), _place(op.axis, number)
        return (base, before + by) if by is not None else (index, 0.0)
    if isinstance(op, ops.Map) and op.fn in ("add", "sub"):
        first, last = op.inputs
        by = _known(last, number)
        if by is not None:
            base, before = _place(first, number)
            return base, before + (by if op.fn == "add" else -by)
    return index, 0.0


def _known(value: Value, number: Number) -> float | None:
    """What an integer scalar is, as a constant or a size."""
    size = size_of(value)
    return None if size is None else float(number(size))
