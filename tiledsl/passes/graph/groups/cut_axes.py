"""Axes that are cut in two, of `parts` and of what each has, through all that is computed for each element.

mul(%x, broadcast(%w)): [8192, 64]  =>  mul(reshape(%x), broadcast(reshape(%w))): [32, 256, 64]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.rewrite import Rewriter
from tiledsl.passes.graph.analysis.shapes import sizes_of
from tiledsl.passes.graph.analysis.value_order import operands_first
from tiledsl.passes.graph.rewrites.widen_floats import is_rounded_product

ROW = 1 << 10
"""A program is to fold as many elements at least."""
MOST_PARTS = 1 << 15
"""Coordinates of an axis that are parts of their own at most."""
SHARE = 4
"""Parts are of use if there are as many as are wanted, over this."""


@dataclass(frozen=True)
class Parts:
    """What is folded by programs of their own: each coordinate of the axes `outer`, and each of `parts` of `axis`."""

    outer: tuple[int, ...]
    axis: int
    parts: int
    count: int


def parts_of(shape: Sequence[int], axes: Sequence[int], wanted: int, least: int = ROW) -> Parts | None:
    """How to fold `axes` in about `wanted` parts, each of which folds `least` elements if it can be.

    Axes that memory has outermost become parts whole, until there are enough of them; the next one is cut.

    >>> parts_of((112, 64, 512, 512), (0, 1, 2, 3), 57344)
    Parts(outer=(0, 1), axis=2, parts=8, count=57344)
    """
    axes = sorted(axes)
    whole = math.prod(shape[axis] for axis in axes)
    outer: list[int] = []
    count = 1
    for axis in axes:
        size = shape[axis]
        left = whole // max(1, count * size)
        if count * size >= wanted and size <= MOST_PARTS and left >= least:
            return Parts(tuple(outer), axis, size, count * size)
        if count * size < wanted and left >= least:
            outer.append(axis)
            count *= size
            continue
        divisors = [d for d in range(1, math.isqrt(size) + 1) if size % d == 0]
        divisors += [size // d for d in divisors if d * d != size]
        parts = min(divisors, key=lambda parts: abs(math.log(count * parts / wanted)))
        if count * parts * SHARE >= wanted and 1 < count * parts < whole:
            return Parts(tuple(outer), axis, parts, count * parts)
        return None
    return None


class Cut:
    """Tensors of which one axis is two, of `parts` and of what each has."""

    def __init__(self, rewriter: Rewriter, axis: int, parts: int) -> None:
        self.rewriter = rewriter
        self.axis = axis
        self.parts = parts
        self.known: dict[Value, Value] = {}

    def of(self, value: Value) -> Value:
        """The tensor with the axis cut: what is computed for each element is computed so."""

        # what maps read is cut first, so that long chains of them are not followed by recursion
        # a product that was rounded is stored as narrow as it is, and read from there
        def is_computed(v: Value) -> bool:
            if v in self.known:
                return False
            return _is_spread_of_computed(v) or (isinstance(v.op, (ops.Map, ops.Cast)) and not is_rounded_product(v))

        for part in operands_first(value, is_computed):
            if part not in self.known:
                self.known[part] = self._cut(part)
        return self.known[value]

    def shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        size = shape[self.axis]
        two = (1, 1) if size == 1 else (self.parts, size // self.parts)
        return (*shape[: self.axis], *two, *shape[self.axis + 1 :])

    def _cut(self, value: Value) -> Value:
        emit = self.rewriter.emit
        shape = sizes_of(value)
        match value.op:
            case _ if not shape:
                return value
            case ops.Map() as op:
                return emit(ops.Map, fn=op.fn, inputs=[self.of(v) for v in op.inputs]).result
            case ops.Cast() as op if not is_rounded_product(value):
                return emit(ops.Cast, source=self.of(op.source), dtype=op.dtype).result
            case ops.Broadcast() as op if _is_spread_of_computed(value):
                return emit(ops.Broadcast, source=self.of(op.source), shape=self.shape(shape)).result
            case ops.Broadcast() as op:
                source = sizes_of(op.source)
                source = (*(1,) * (len(shape) - len(source)), *source)
                spread = emit(ops.Reshape, source=op.source, shape=self.shape(source)).result
                return emit(ops.Broadcast, source=spread, shape=self.shape(shape)).result
            case ops.Iota() as op if op.axis != self.axis:
                along = op.axis if op.axis < self.axis else op.axis + 1
                return emit(ops.Iota, shape=self.shape(shape), axis=along).result
            case _:
                return emit(ops.Reshape, source=value, shape=self.shape(shape)).result


def _is_spread_of_computed(value: Value) -> bool:
    """Whether a value repeats what maps make for it alone, which has all of its axes: those maps are cut as well."""
    op = value.op
    if not isinstance(op, ops.Broadcast) or len(sizes_of(op.source)) != len(sizes_of(value)):
        return False
    made = op.source.op
    return isinstance(made, (ops.Map, ops.Cast)) and len(op.source.users) == 1 and not is_rounded_product(op.source)
