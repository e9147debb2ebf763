"""Which results of calls are written where a join has them, so that the join itself costs nothing.

%a = graph.call(%x) {callee = left}              the first half of each row of %j
%b = graph.call(%x) {callee = right}             the other half
%j = graph.concat([%a, %b]) {axis = 1}           a buffer, and nothing to do
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.strided_views import StridedView, reshaped, sliced, transposed, whole
from tiledsl.passes.graph.analysis.shapes import sizes_of


class Part(NamedTuple):
    """A part of a join, and where in its buffer the elements of a value lie."""

    join: ops.Concat
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


def places_of(join: ops.Concat) -> Iterator[StridedView]:
    """Where each source of a join lies in its buffer."""
    buffer = whole(sizes_of(join.result))
    for source, start in zip(join.sources, starts_of(join.sources, join.axis)):
        stops = [first + size for first, size in zip(start, sizes_of(source))]
        yield sliced(buffer, start, stops, [1] * len(start))


def _part(value: Value) -> Part | None:
    users = dict.fromkeys(value.users)
    if len(users) != 1:
        return None
    (user,) = users
    if isinstance(user, ops.Concat):
        sources = list(user.sources)
        if sources.count(value) > 1:
            return None
        return Part(user, next(islice(places_of(user), sources.index(value), None)))
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
