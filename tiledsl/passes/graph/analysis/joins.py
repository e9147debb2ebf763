"""Which results of calls are written where a join has them, so that the join itself costs nothing.

%a = graph.call(%x) {callee = left}              the first half of each row of %j
%b = graph.call(%x) {callee = right}             the other half
%j = graph.concat([%a, %b]) {axis = 1}           a buffer, and nothing to do

So are elements in turns (`graph.interleave`), and joins of joins, of which the outermost has the buffer. What one call
makes of elements side by side, in rows of a few, it can write as records (`kernels/records.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias, Union

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Function, Value
from tiledsl.ir.strided_views import StridedView, reshaped, row_major, sliced, strided_view, transposed, whole
from tiledsl.ir.verifier import is_tile_function
from tiledsl.passes.analysis.fields import MOST_FIELDS
from tiledsl.passes.graph.analysis.shapes import sizes_of

JOINS = (ops.Concat, ops.Interleave)
Join: TypeAlias = Union[ops.Concat, ops.Interleave]


class Part(NamedTuple):
    """A part of a join that has a buffer, and where in it the elements of a value lie."""

    join: Join
    place: StridedView


def part_of(value: Value) -> Part | None:
    """The part of a join that a value is, perhaps reshaped or transposed before, if it is nothing else; None where it
    has to have a buffer of its own. Elements that lie side by side in the value do so in the join."""
    found = _part(value)
    shape = sizes_of(value)
    if found is None or (any(n > 1 for n in shape) and found.place.unit != _last(shape)):
        return None
    return found


def starts_of(sources: Sequence[Value], axis: int) -> Iterator[tuple[int, ...]]:
    """Where each of some tensors begins, that lie behind each other along an axis."""
    at = 0
    for source in sources:
        sizes = sizes_of(source)
        yield tuple(at if n == axis else 0 for n in range(len(sizes)))
        at += sizes[axis]


def places_of(join: Join) -> Iterator[StridedView]:
    """Where each source of a join lies in what it makes."""
    if isinstance(join, ops.Interleave):
        starts = (_at(join, number) for number in range(len(join.sources)))
    else:
        starts = starts_of(join.sources, join.axis)
    for source, start in zip(join.sources, starts):
        yield _place(join, source, start)


def _place(join: Join, source: Value, start: Sequence[int]) -> StridedView:
    buffer = whole(sizes_of(join.result))
    if isinstance(join, ops.Interleave):
        return sliced(buffer, start, buffer.shape, _at(join, len(join.sources), 1))
    stops = [first + size for first, size in zip(start, sizes_of(source))]
    return sliced(buffer, start, stops, [1] * len(start))


def _at(join: Join, number: int, otherwise: int = 0) -> tuple[int, ...]:
    """A number for the axis of a join, and another for all others."""
    return tuple(number if axis == join.axis else otherwise for axis in range(len(sizes_of(join.result))))


def within(outer: StridedView, inner: StridedView) -> StridedView:
    """A view of a row-major tensor, axis by axis, as one of the buffer that the tensor is a view of."""
    rows = row_major(outer.shape)
    strides = [n // row * stride if row else stride for n, row, stride in zip(inner.strides, rows, outer.strides)]
    offset, left = outer.offset, inner.offset
    for row, stride in zip(rows, outer.strides):
        offset, left = offset + left // max(row, 1) * stride, left % max(row, 1)
    return strided_view(offset, inner.shape, strides)


def _part(value: Value) -> Part | None:
    users = dict.fromkeys(value.users)
    if len(users) != 1:
        return None
    (user,) = users
    if isinstance(user, JOINS):
        if value.users[user] > 1:
            return None
        first = user.sources.index(value)
        if isinstance(user, ops.Concat):
            first = sum(sizes_of(source)[user.axis] for source in user.sources[:first])
        place = _place(user, value, _at(user, first))
        outer = part_of(user.result)
        return Part(user, place) if outer is None else Part(outer.join, within(outer.place, place))
    if not isinstance(user, (ops.Reshape, ops.Transpose)):
        return None
    after = _part(user.result)
    if after is None:
        return None
    if isinstance(user, ops.Transpose):
        back = [user.permutation.index(axis) for axis in range(len(user.permutation))]
        return Part(after.join, transposed(after.place, back))
    place = reshaped(after.place, sizes_of(value))
    return None if place is None else Part(after.join, place)


def _last(shape: tuple[int, ...]) -> int:
    """The last axis of more than one element."""
    return max(axis for axis, n in enumerate(shape) if n > 1)


# Records


def record_call(join: Join, callee: Callable[[str], Function] | None = None) -> ops.Call | None:
    """The call of a group whose results are the fields of what a join makes, if all of them are, and nothing else reads
    them. `callee`: the function of a name."""
    if not makes_short_rows(join):
        return None
    parts = [unreshaped(source) for source in join.sources]
    calls = {part.op for part in parts}
    (call, *others) = calls
    if others or not isinstance(call, ops.Call) or len({*parts}) < len(parts):
        return None
    if any(join_of(part) is not join for part in parts):
        return None
    return None if callee is not None and is_tile_function(callee(call.callee)) else call


def makes_short_rows(join: Join) -> bool:
    """Whether a join puts single elements side by side, into rows of a few."""
    last = len(sizes_of(join.result)) - 1
    if join.axis != last or not 1 < len(join.sources) <= MOST_FIELDS:
        return False
    return isinstance(join, ops.Interleave) or all(sizes_of(source)[last] == 1 for source in join.sources)


def unreshaped(value: Value) -> Value:
    """What a value was before it was reshaped."""
    while isinstance(value.op, ops.Reshape):
        value = value.op.source
    return value


def join_of(result: Value) -> Join | None:
    """The join that alone reads a value, perhaps reshaped."""
    while True:
        users = dict(result.users)
        if len(users) != 1:
            return None
        ((user, times),) = users.items()
        if isinstance(user, JOINS):
            return user if times == 1 else None
        if not isinstance(user, ops.Reshape):
            return None
        result = user.result
