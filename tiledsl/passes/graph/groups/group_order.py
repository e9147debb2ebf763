"""The groups of a graph in an order in which each comes after what it reads, kept as groups become one.

Whether two groups may be one is whether a way leads out of them and back: a kernel cannot wait for what it gives. Such
a way leads through what stands between them in the order, so nothing else is looked at. Joining them moves what they
read in front of them and what reads them behind, among the places that all of these have (as Pearce and Kelly keep the
order of a graph that gets a new edge).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tiledsl.ir.core import Op
from tiledsl.passes.graph.analysis.outline import is_repeated

FAR = 1000
"""At most so many groups between two are looked at: with more, they are not joined."""


@dataclass(frozen=True)
class Between:
    """The groups between some that may be one: those that these read, and those that read them."""

    read: Collection[int]
    reading: Collection[int]


class GroupOrder:
    """The order of groups. A group is a number; an op that is of none has its place in the graph for one."""

    def __init__(self, order: Sequence[Op], of: Mapping[Op, int], members: Mapping[int, Sequence[Op]]) -> None:
        self._order = order
        self._of = of
        self._members = members
        self._readers = _readers(order, of)
        self._read: dict[Op, list[Op]] = {}
        for op, readers in self._readers.items():
            for reader in readers:
                self._read.setdefault(reader, []).append(op)
        self._numbers = {op: number for number, op in enumerate(order)}
        self._places = dict(enumerate(range(len(order))))

    def readers(self, op: Op) -> tuple[Op, ...]:
        """What reads the results of an op, by ops too that are written again in every function."""
        return self._readers[op]

    def between(self, groups: Collection[int]) -> Between | Literal["circle", "far"]:
        """What stands between groups, if no way leads out of them and back."""
        first, last = (end(self._places[group] for group in groups) for end in (min, max))
        reading = self._reached(groups, lambda op: self._readers.get(op, ()), lambda place: place < last)
        if isinstance(reading, str):
            return reading
        read = self._reached(groups, lambda op: self._read.get(op, ()), lambda place: place > first)
        return read if isinstance(read, str) else Between(read, reading)

    def join(self, groups: Collection[int], between: Between, joined: int) -> None:
        """Puts one group in the place of some, with what stands between them before it and behind it."""
        read, reading = (sorted(some, key=self._places.__getitem__) for some in (between.read, between.reading))
        free = sorted(self._places.pop(group) for group in (*groups, *read, *reading))
        self._places.update(zip(read, free))
        self._places[joined] = free[len(read)]
        self._places.update(zip(reversed(reading), reversed(free)))

    def _reached(
        self, groups: Collection[int], neighbours: Callable[[Op], Iterable[Op]], within: Callable[[int], bool]
    ) -> set[int] | Literal["circle", "far"]:
        """The groups that ways out of some lead to, as long as they stand `within`."""
        found: set[int] = set()
        pending = [other for group in groups for other in self._next(group, neighbours) if other not in groups]
        while pending:
            group = pending.pop()
            if group in found or not within(self._places[group]):
                continue
            found.add(group)
            if len(found) > FAR:
                return "far"
            for other in self._next(group, neighbours):
                if other in groups:
                    return "circle"
                pending.append(other)
        return found

    def _next(self, group: int, neighbours: Callable[[Op], Iterable[Op]]) -> Iterable[int]:
        for op in self._members.get(group) or (self._order[group],):
            for other in neighbours(op):
                yield self._of.get(other, self._numbers[other])


def _readers(order: Sequence[Op], of: Mapping[Op, int]) -> dict[Op, tuple[Op, ...]]:
    """What reads the results of each op that is not written again in every function; by such ops too."""
    repeated = {op for op in order if op not in of and is_repeated(op)}
    known = set(order)
    found: dict[Op, tuple[Op, ...]] = {}
    for op in reversed(order):
        users = (user for value in op.results for user in value.users if user in known)
        through = (found[user] if user in repeated else (user,) for user in users)
        found[op] = tuple(dict.fromkeys(reader for readers in through for reader in readers))
    return {op: readers for op, readers in found.items() if op not in repeated}
