"""Groups of nothing but maps over one shape that read each other element by element.

Two of these are one kernel, whatever else they read, and a faster one: it starts once, and moves and computes no more
than both. So neither a plan nor a price has to be made for each step of a long chain of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Op
from tiledsl.passes.graph.analysis.outline import computed_of, is_repeated, is_widened, reads_padded_windows
from tiledsl.passes.graph.analysis.shapes import sizes_of


class MapGroups:
    """Which of the groups are such. `members`: the ops of each, as they are."""

    def __init__(self, members: Mapping[int, Sequence[Op]]) -> None:
        self._members = members
        self._shapes: dict[int, tuple[int, ...]] = {}
        self._reindexed: dict[int, set[Op]] = {}
        """What each group reads along other axes than those of its own values."""
        for group, (op,) in members.items():
            if isinstance(op, (ops.Map, ops.Cast)) and not is_repeated(op) and not reads_padded_windows(op):
                self._shapes[group] = sizes_of(op.result)
                self._reindexed[group] = _reindexed(op)

    def are_one(self, a: int, b: int) -> bool:
        """Whether two groups, of which one reads the other, are such, and one kernel."""
        shape = self._shapes.get(a)
        if shape is None or self._shapes.get(b) != shape:
            return False
        return self._reindexed[a].isdisjoint(self._members[b]) and self._reindexed[b].isdisjoint(self._members[a])

    def move(self, op: Op, source: int, target: int) -> None:
        """Notes that an op has gone from one group to another."""
        del source  # what is left of it is what it was
        if target in self._shapes:
            if isinstance(op, (ops.Map, ops.Cast)) and sizes_of(op.result) == self._shapes[target]:
                self._reindexed[target] |= _reindexed(op)
            else:
                del self._shapes[target], self._reindexed[target]

    def join(self, groups: Collection[int], joined: int) -> None:
        """Notes that groups are one now."""
        shapes = {self._shapes.pop(group, None) for group in groups}
        reindexed = [self._reindexed.pop(group, set[Op]()) for group in groups]
        shape = shapes.pop()
        if not shapes and shape is not None:
            self._shapes[joined] = shape
            self._reindexed[joined] = set[Op]().union(*reindexed)


def _reindexed(op: ops.Map | ops.Cast) -> set[Op]:
    found: set[Op] = set()
    for value in op.operands:
        source = computed_of(value)
        while is_widened(value.op) and isinstance(value.op, ops.Cast):
            value = value.op.source
        if source is not None and source is not value.op:
            found.add(source)
    return found
