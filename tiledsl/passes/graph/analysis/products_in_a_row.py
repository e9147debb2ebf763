"""Whether a product that feeds another one stays a product of matrices if one program makes both.

s = contract(q, k)    h i d, h j d -> h i j      the second one sums over j, a side of the first: so attention does
o = contract(s, v)    h i j, h j e -> h i e

a = contract(z, w)    i k d, d c -> i k c        the second one is a product for each c, the only column that the first
p = contract(a, b)    i k c, j k c -> i j c      one would have then
"""

from __future__ import annotations

from typing import TypeAlias

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Value
from tiledsl.passes.graph.analysis.shapes import sizes_of

Named: TypeAlias = "tuple[str | None, ...]"
"""The first product's name for each axis of a value; None for an axis that it has not."""


def stay_matrices(first: ops.Contract, second: ops.Contract) -> bool:
    """Whether what the second product sums is of a side of the first one, which keeps something of both sides besides
    what the second one has several matrices along. Where axes cannot be followed, they are taken to do so."""
    a, b, result = second.axis_names()
    of_a, of_b, made = first.axis_names()
    rows, columns = set(of_a) - set(of_b), set(of_b) - set(of_a)
    for names, operand, others in ((a, second.a, b), (b, second.b, a)):
        known = _Following(first).of(operand)
        if known is None or not any(known):
            continue
        pairs = list(zip(names, known))
        summed = {axis for name, axis in pairs if name not in result and axis is not None}
        several = {axis for name, axis in pairs if name in result and name in others}
        sides = (rows & set(made)) - several, (columns & set(made)) - several
        if not (summed <= rows or summed <= columns) or not all(sides):
            return False
    return True


class _Following:
    """Follows the axes of a product through elementwise ops and reindexing."""

    def __init__(self, first: ops.Contract) -> None:
        self.first = first
        self.known: dict[Value, Named | None] = {}

    def of(self, value: Value) -> Named | None:
        """The axes of a value; None for what is not computed from the product, or regroups axes."""
        if value not in self.known:
            self.known[value] = None
            self.known[value] = self._of(value)
        return self.known[value]

    def _of(self, value: Value) -> Named | None:
        match value.op:
            case ops.Contract() as op if op is self.first:
                return tuple(op.axis_names()[2])
            case ops.Map() as op:
                return next((found for v in op.inputs if (found := self.of(v)) is not None), None)
            case ops.Cast() as op:
                return self.of(op.source)
            case ops.Transpose() as op:
                source = self.of(op.source)
                return source and tuple(source[axis] for axis in op.permutation)
            case ops.Broadcast() as op:
                source = self.of(op.source)
                return source and (*(None,) * (len(sizes_of(value)) - len(source)), *source)
            case ops.Reshape() as op:
                return self._reshaped(op)
            case ops.Reduce() as op:
                source = self.of(op.source)
                if source is None or op.keepdims:
                    return source and tuple(None if i in op.axes else axis for i, axis in enumerate(source))
                return tuple(axis for i, axis in enumerate(source) if i not in op.axes)
            case _:
                return None

    def _reshaped(self, op: ops.Reshape) -> Named | None:
        source, sizes, shape = self.of(op.source), sizes_of(op.source), sizes_of(op.result)
        if source is None or [n for n in sizes if n != 1] != [n for n in shape if n != 1]:
            return None
        following = iter([axis for axis, n in zip(source, sizes) if n != 1])
        return tuple(None if n == 1 else next(following) for n in shape)
