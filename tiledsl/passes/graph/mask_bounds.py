"""Which blocks of a stream a mask leaves anything of.

    s = where(iota_j + b <= iota_i + a, scores, -inf)          max(s, j), sum(exp(s - m), j) ...

A block of i ends at `start + extent`, so keys from `start + extent + a - b` on are hidden from all of it: the loop over
j ends there. A mask the other way round (`iota_j + b > iota_i + a`, a sliding window) tells where it begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Value
from tiledsl.passes.graph.axes import Axis, GroupAxes
from tiledsl.passes.graph.online_rules import is_constant


class Bound(NamedTuple):
    """Of the streamed axis: it ends at `last of the block of rows + offset`, or begins at `its first + offset`."""

    kind: str
    rows: Axis
    offset: int


class _Coordinate(NamedTuple):
    axis: Axis
    offset: int


_FLIPPED = {"le": "ge", "lt": "gt", "ge": "le", "gt": "lt"}


def bounds_of(folded: Value, streamed: Axis, axes: GroupAxes) -> list[Bound]:
    """What masks say of the stream whose maximum is taken of `folded`, which is -inf where it is masked."""
    return [bound for mask in _masks(folded) for bound in _comparisons(mask, streamed, axes)]


def _masks(value: Value) -> Iterator[Value]:
    op = value.op
    match op:
        case ops.Map(fn="where") if is_constant(op.inputs[2], float("-inf")):
            yield op.inputs[0]
            yield from _masks(op.inputs[1])
        case ops.Cast() | ops.Transpose():
            yield from _masks(op.source)
        case _:
            return


def _comparisons(mask: Value, streamed: Axis, axes: GroupAxes) -> Iterator[Bound]:
    op = mask.op
    if isinstance(op, (ops.Broadcast, ops.Reshape, ops.Transpose)):
        yield from _comparisons(op.source, streamed, axes)
    if not isinstance(op, ops.Map):
        return
    if op.fn == "and":
        for part in op.inputs:
            yield from _comparisons(part, streamed, axes)
    if op.fn not in _FLIPPED:
        return
    left, right = (_coordinate(v, axes) for v in op.inputs)
    if left is None or right is None:
        return
    fn = op.fn
    if right.axis is streamed:
        left, right, fn = right, left, _FLIPPED[fn]
    if left.axis is not streamed or right.axis is streamed:
        return
    apart = right.offset - left.offset
    match fn:
        case "le":
            yield Bound("end", right.axis, apart)
        case "lt":
            yield Bound("end", right.axis, apart - 1)
        case "ge":
            yield Bound("start", right.axis, apart)
        case _:
            yield Bound("start", right.axis, apart + 1)


def _coordinate(value: Value, axes: GroupAxes) -> _Coordinate | None:
    """A value that is a coordinate along one axis, and a constant more."""
    op = value.op
    match op:
        case ops.Broadcast() | ops.Reshape() | ops.Transpose():
            return _coordinate(op.source, axes)
        case ops.Iota():
            size = op.shape[op.axis]
            kept = axes.kept[value]
            position = sum(1 for dim in op.shape[: op.axis] if dim != 1)
            return _Coordinate(kept[position], 0) if size != 1 else None
        case ops.Map(fn="add" | "sub"):
            left, right = op.inputs
            number = _number(right)
            if number is None and op.fn == "add":
                left, number = right, _number(left)
            inner = _coordinate(left, axes) if number is not None else None
            if inner is None or number is None:
                return None
            return _Coordinate(inner.axis, inner.offset + (number if op.fn == "add" else -number))
        case _:
            return None


def _number(value: Value) -> int | None:
    op = value.op
    while isinstance(op, (ops.Broadcast, ops.Reshape)):
        op = op.source.op
    match op:
        case ops.Constant() if op.dtype.is_integer:
            return int(op.value)
        case ops.Size() if isinstance(op.value, int):
            return op.value
        case _:
            return None
