"""What the padding of tiles is known to be that are computed of a masked one: it is not padded again.

    scores = tile.where(mask, scores, -math.inf)      -inf, as the mask leaves out the padding too
    p = tile.exp2(scores * scale - top * scale)       0, since scale is positive, and top is never -inf

In a row that has NaN besides, padding may be NaN too.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.passes.tile.loops.carried_values import carried_arguments, yielded
from tiledsl.support.follow import follow


def fills_of(loop: ops.Range, sources: Mapping[Value, float]) -> dict[Value, float]:
    """The padding of tiles of a loop's body along an axis, from that of some of them."""
    fills = dict(sources)
    signs: dict[Value, bool] = {}
    bounds = _Bounds(loop, signs)
    for op in loop.body.ops:
        fill: float | None = None
        match op:
            case ops.Cast(source=source) if source in fills and op.result.dtype.is_float:
                fill = fills[source]
            case ops.Map(fn="mul"):
                left, right = op.inputs
                lowest = [fills.get(v) == -math.inf for v in (left, right)]
                if (lowest[0] and is_positive(right, signs)) or (lowest[1] and is_positive(left, signs)):
                    fill = -math.inf
            case ops.Map(fn="sub"):
                if fills.get(op.inputs[0]) == -math.inf and bounds.below(op.inputs[1]):
                    fill = -math.inf
            case ops.Map(fn="exp" | "exp2"):
                fill = 0.0 if fills.get(op.inputs[0]) == -math.inf else None
            case _:
                continue
        if fill is not None:
            fills[op.results[0]] = fill
    return fills


def is_positive(value: Value, known: dict[Value, bool] | None = None) -> bool:
    """Whether all elements are known to be above 0. `known`: of values that were asked for before."""
    return follow(_positive, value, known)


def _positive(value: Value) -> Generator[Value, bool, bool]:
    match value.op:
        case ops.Constant(value=constant):
            return constant > 0
        case ops.Size():
            return True  # where there is a tile to compute, no size is 0
        case ops.Cast(source=source) | ops.Broadcast(source=source) | ops.Reshape(source=source):
            return (yield source)
        case ops.Map(fn="mul" | "div" | "add") as op:
            for operand in op.inputs:
                if not (yield operand):
                    return False
            return True
        case ops.Map(fn="pow") as op:
            return (yield op.inputs[0])
        case _:
            return False


class _Bounds:
    """Which values have no element that is -inf, in any turn of a loop."""

    def __init__(self, loop: ops.Range, signs: dict[Value, bool]) -> None:
        self.loop = loop
        self.signs = signs
        self._known: dict[Value, bool] | None = None

    def below(self, value: Value) -> bool:
        """Whether no element is -inf."""
        if self._known is None:
            self._known = self._carried()
        return follow(self._bounded, value, self._known)

    def _carried(self) -> dict[Value, bool]:
        """What the loop carries: all of it is taken to be bounded, until it is known to begin or go on otherwise."""
        loop = self.loop
        entries = list(zip(carried_arguments(loop, loop.body), loop.initial, yielded(loop.body)))
        unbounded: set[Value] = set()
        while True:
            known = {argument: argument not in unbounded for argument in loop.body.arguments}
            known[loop.body.arguments[0]] = False
            failing = [
                argument
                for argument, *sources in entries
                if argument not in unbounded and not all(follow(self._bounded, v, known) for v in sources)
            ]
            if not failing:
                return known
            unbounded.update(failing)

    def _bounded(self, value: Value) -> Generator[Value, bool, bool]:
        match value.op:
            case ops.Constant(value=constant):
                return math.isfinite(constant)
            case ops.Broadcast(source=source) | ops.Reshape(source=source) | ops.Transpose(source=source):
                return (yield source)
            case ops.Map(fn="maximum") as op:
                return (yield op.inputs[0]) or (yield op.inputs[1])
            case ops.Map(fn="mul") as op:
                left, right = op.inputs
                if is_positive(left, self.signs):
                    left, right = right, left
                return is_positive(right, self.signs) and (yield left)
            case _:
                return False
