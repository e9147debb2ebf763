"""What the padding of tiles is known to be that are computed of a masked one: it is not padded again.

    scores = tile.where(mask, scores, -math.inf)      -inf, as the mask leaves out the padding too
    p = tile.exp2(scores * scale - top * scale)       0, since scale is positive, and top is never -inf

In a row that has NaN besides, padding may be NaN too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.passes.tile.carried_values import carried_arguments, yielded


def fills_of(loop: ops.Range, sources: Mapping[Value, float]) -> dict[Value, float]:
    """The padding of tiles of a loop's body along an axis, from that of some of them."""
    fills = dict(sources)
    for op in loop.body.ops:
        fill: float | None = None
        match op:
            case ops.Cast(source=source) if source in fills and op.result.dtype.is_float:
                fill = fills[source]
            case ops.Map(fn="mul"):
                left, right = op.inputs
                lowest = [fills.get(v) == -math.inf for v in (left, right)]
                if (lowest[0] and is_positive(right)) or (lowest[1] and is_positive(left)):
                    fill = -math.inf
            case ops.Map(fn="sub"):
                if fills.get(op.inputs[0]) == -math.inf and is_bounded_below(op.inputs[1], loop):
                    fill = -math.inf
            case ops.Map(fn="exp" | "exp2"):
                fill = 0.0 if fills.get(op.inputs[0]) == -math.inf else None
            case _:
                continue
        if fill is not None:
            fills[op.results[0]] = fill
    return fills


def is_positive(value: Value) -> bool:
    """Whether all elements are known to be above 0."""
    match value.op:
        case ops.Constant(value=constant):
            return constant > 0
        case ops.Size():
            return True  # where there is a tile to compute, no size is 0
        case ops.Cast(source=source) | ops.Broadcast(source=source) | ops.Reshape(source=source):
            return is_positive(source)
        case ops.Map(fn="mul" | "div" | "add") as op:
            return all(map(is_positive, op.inputs))
        case ops.Map(fn="pow") as op:
            return is_positive(op.inputs[0])
        case _:
            return False


def is_bounded_below(value: Value, loop: ops.Range, assumed: frozenset[Value] = frozenset()) -> bool:
    """Whether no element is -inf, in any turn of a loop."""
    if value in assumed:
        return True
    if value.owner is loop.body:
        arguments = carried_arguments(loop, loop.body)
        if value not in arguments:
            return False
        number, seen = arguments.index(value), assumed | {value}
        return all(is_bounded_below(v, loop, seen) for v in (loop.initial[number], yielded(loop.body)[number]))
    match value.op:
        case ops.Constant(value=constant):
            return math.isfinite(constant)
        case ops.Broadcast(source=source) | ops.Reshape(source=source) | ops.Transpose(source=source):
            return is_bounded_below(source, loop, assumed)
        case ops.Map(fn="maximum") as op:
            return any(is_bounded_below(v, loop, assumed) for v in op.inputs)
        case ops.Map(fn="mul") as op:
            left, right = op.inputs
            if is_positive(left):
                left, right = right, left
            return is_positive(right) and is_bounded_below(left, loop, assumed)
        case _:
            return False
