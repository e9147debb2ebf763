"""How one kernel goes through the axes of a group.

| treatment | an axis that | in the program |
| --- | --- | --- |
| grid | every output has | `tile.grid`: a block of it, or one coordinate (`single`) |
| whole | is folded, and of the result of a product or of an output too | all of it at once, `x[m, :]` |
| streamed | is folded and of no result | `tile.range`: one block after the other |

An axis is streamed by products: k of `x @ w`. Where a product feeds another (attention), the axis between them is
streamed, and what the first one sums over is whole, and so are the columns of the result. A fold alone (softmax) takes
whole axes: how a row is kept, or read again, is then the business of tiling. One that is too long for that is streamed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Function, Op, Value
from tiledsl.ir.type_rules import tensor_type
from tiledsl.passes.graph.analysis.axes import Axis, GroupAxes
from tiledsl.passes.graph.analysis.limits import Limits
from tiledsl.passes.graph.analysis.outline import is_repeated, is_soft

ENOUGH = 4096
"""Elements of a program without products: axes go by blocks until it may have as many."""
PAIRS = 512
"""Elements that a fold over pairs is worth a loop for."""
ROWS = 64
"""Rows of a matrix instruction that warps share out: a product with fewer computes with rows that are not there."""


@dataclass(frozen=True)
class Treatments:
    """The treatment of each axis. `grid` is in order; those of it in `single` go one coordinate at a time."""

    grid: tuple[Axis, ...]
    single: frozenset[Axis]
    whole: frozenset[Axis]
    streamed: frozenset[Axis]
    fed: tuple[ops.Contract, ...] = ()
    """The products that others feed."""


class TreatmentError(Exception):
    """Why a group cannot be one kernel, with the op that stands in the way."""

    def __init__(self, op: Op | None, reason: str) -> None:
        super().__init__(reason)
        self.op = op
        self.reason = reason


def treatments_of(
    function: Function, axes: GroupAxes, limits: Limits, nearest: Sequence[int | None] = ()
) -> Treatments:
    """The treatment of each axis of a GRAPH function. `nearest`: of the axes that are kept of each parameter the
    number of the one along which elements lie nearest to each other in memory, if known. Raises TreatmentError."""
    return _Treating(function, axes, limits, nearest).treatments()


def contracts_of(function: Function) -> list[ops.Contract]:
    """The products of a function, in order."""
    return [op for op in function.body.ops if isinstance(op, ops.Contract)]


def depends(value: Value, on: Value) -> bool:
    """Whether `value` is computed from `on` (or is it)."""
    pending, seen = [value], {value}
    while pending:
        current = pending.pop()
        if current is on:
            return True
        for operand in current.op.operands if current.op is not None else ():
            if operand not in seen:
                seen.add(operand)
                pending.append(operand)
    return False


def lookups_of(value: Value) -> list[ops.Gather]:
    """The lookups, one of what another gives, that a value is but for plain reindexing, the last one first."""
    found: list[ops.Gather] = []
    while value.op is not None and (isinstance(value.op, ops.Gather) or is_soft(value.op)):
        if isinstance(value.op, ops.Gather):
            found.append(value.op)
        value = value.op.operands[0]
    return found


def is_read_of_memory(op: ops.Gather, axes: GroupAxes) -> bool:
    """Whether a tensor in memory is looked up, or what lookups along others of its axes give: that is one load."""
    if op.source.op is None:
        return True
    chain = lookups_of(op.result)
    base = chain[-1].source
    read = [axes.indexed[one] for one in chain]
    kept = {} if base.op is not None else dict.fromkeys(axes.kept[base])
    return len(chain) > 1 and len({*read}) == len(read) and all(axis in kept for axis in read)


class _Treating:
    def __init__(self, function: Function, axes: GroupAxes, limits: Limits, nearest: Sequence[int | None]) -> None:
        self.nearest = nearest
        self.function = function
        self.axes = axes
        self.limits = limits
        last = function.body.terminator
        assert isinstance(last, ops.Return)
        self.outputs = last.values
        self.contracts = [op for op in contracts_of(function) if not self.is_weighted_fold(op)]
        self.reduces = [op for op in function.body.ops if isinstance(op, (ops.Reduce, ops.Scan))]
        chains = (lookups_of(op.result) for op in function.body.ops if isinstance(op, ops.Gather))
        pairs = [(axes.indexed[op], axes.kept[op.indices]) for chain in chains if len(chain) > 1 for op in chain]
        self.looked_up = {axis: kept[-1] for axis, kept in pairs if axis is not None and kept}

    def treatments(self) -> Treatments:
        folded = {axis for op in self.reduces for axis in self.axes.reduced[op]}
        fed = self.fed()
        if fed:
            if self.axes.windows:
                raise TreatmentError(fed[0], "of two products in a row one reads windows")
            streamed, whole = self.back_to_back(fed)
        else:
            streamed = {axis for op in self.contracts for axis in self.axes.reduced[op]}
            whole = set(folded)
            for op in self.reduces:
                if streamed & set(self.axes.reduced[op]):
                    raise TreatmentError(op, "it folds over an axis that a product of the group sums over")
            slides = self.slides()
            streamed, whole = streamed | slides, whole - slides
            if self.contracts:
                self.within(sorted(whole, key=lambda a: a.name), self.limits.columns, "a fold of a product's row")
            elif not self.axes.windows and (self.row(whole) > self.most(whole) or self.is_of_pairs(whole)):
                streamed, whole = self.long(whole)
        for op in self.function.body.ops:
            self.check_streams(op, streamed)
            if isinstance(op, ops.Gather) and not is_read_of_memory(op, self.axes):
                raise TreatmentError(op, "what is read at computed coordinates has to be in memory")
        whole |= self.axes.planes
        grid = self.grid(streamed | whole)
        single = self.single(grid, whole, streamed - self.axes.inner)
        single |= self.of_windows(grid, single, whole)
        # neighbours in memory last: one coordinate at a time goes slowest
        grid = (*(a for a in grid if a in single), *(a for a in grid if a not in single))
        return Treatments(grid, single, frozenset(whole), frozenset(streamed), fed)

    def is_weighted_fold(self, op: ops.Contract) -> bool:
        """Whether a product only adds up the elements of windows, each times a weight: no matrix (depthwise)."""
        kept = [set(self.axes.kept[v]) for v in (op.a, op.b)]
        reduced = set(self.axes.reduced[op])
        return bool(reduced) and reduced <= self.axes.inner and any(mine <= other for mine, other in (kept, kept[::-1]))

    def fed(self) -> tuple[ops.Contract, ...]:
        """The products that others feed."""
        found = tuple(
            op
            for op in self.contracts
            if any(before is not op and depends(op.result, before.result) for before in self.contracts)
        )
        for op in found:
            if any(before is not op and depends(op.result, before.result) for before in found):
                raise TreatmentError(op, "a third product in a row")
        return found

    def back_to_back(self, seconds: Sequence[ops.Contract]) -> tuple[set[Axis], set[Axis]]:
        """What is streamed and what is whole where products feed `seconds`."""
        second = seconds[0]
        streamed = set(self.axes.reduced[second])
        if len(streamed) != 1:
            raise TreatmentError(second, "two products in a row meet in more than one axis")
        for other in seconds[1:]:
            if set(self.axes.reduced[other]) != streamed:
                raise TreatmentError(other, "products that others feed sum over different axes")
        for op in self.reduces:
            if set(self.axes.reduced[op]) != streamed or isinstance(op, ops.Scan):
                raise TreatmentError(op, "between two products it folds over another axis than they share")
        firsts = [op for op in self.contracts if op not in seconds]
        whole: set[Axis] = set()
        for first in firsts:
            if not streamed <= set(self.axes.kept[first.result]):
                raise TreatmentError(
                    second, "two products in a row do not share the axis that the second one sums over"
                )
            if not any(depends(after.result, first.result) for after in seconds):
                raise TreatmentError(first, "beside two products in a row another one feeds neither")
            if any(depends(after.b, first.result) for after in seconds):
                raise TreatmentError(second, "the first product is the right operand of the second one")
            whole |= self.side(second, set(self.axes.reduced[first]), "the first product's sums")
        between = set[Axis]().union(*(self.axes.kept[first.result] for first in firsts))
        for after in seconds:
            whole |= self.side(after, set(self.axes.kept[after.result]) - between, "the second product's columns")
        return streamed, whole

    def side(self, op: Op, axes: set[Axis], what: str) -> set[Axis]:
        """The axes, of which there is one at most, that is whole."""
        if len(axes) > 1:
            raise TreatmentError(op, f"{what} have more than one axis")
        self.within(list(axes), self.limits.head, what)
        return axes

    def slides(self) -> set[Axis]:
        """The axes within windows that are folded: one coordinate after the other, all of a window in one loop."""
        found: set[Axis] = set()
        before: list[Op] = []
        for op, reduced in self.axes.reduced.items():
            mine = self.axes.inner & set(reduced)
            for window in self.axes.windows.values():
                its = {axis for axis in window.inner if axis is not None}
                if mine & its and (isinstance(op, ops.Scan) or not its <= mine):
                    raise TreatmentError(op, "it folds over a part of the axes of a window")
            if mine and any(depends(op.results[0], other.results[0]) for other in before):
                raise TreatmentError(op, "it folds over a window, and depends on another fold over windows")
            before += [op] if mine else []
            found |= mine
        return found

    def long(self, folded: set[Axis]) -> tuple[set[Axis], set[Axis]]:
        """What is streamed and what is whole where what is folded is too long to be whole."""
        kept = {axis for value in self.outputs for axis in self.axes.kept[value]}
        first = self.reduces[0]
        streams = [axis for axis in self.axes.reduced[first] if axis not in kept]
        whole = folded - set(streams)
        if (
            streams
            and self.row(whole) <= self.most(whole)
            and all(self.streams(op, streams, kept) for op in self.reduces)
        ):
            return set(streams), whole
        computed = [op for op in self.function.body.ops if not is_repeated(op) and not isinstance(op, ops.Cast)]
        if computed[:-1] == [first]:  # and the return
            return set(), folded
        raise TreatmentError(
            first, f"a row of {self.row(folded)} elements at once, and {self.most(folded)} is the most"
        )

    def is_of_pairs(self, folded: set[Axis]) -> bool:
        """Whether one fold goes over pairs of what two tensors have: every program reads all of one of them, and had
        better have many of the other at a time."""
        if len(self.reduces) != 1 or self.row(folded) < PAIRS:
            return False
        (fold,) = self.reduces
        kept = {axis for value in self.outputs for axis in self.axes.kept[value]}
        others = set(self.axes.kept[fold.results[0]])
        read = [set(self.axes.kept[parameter]) for parameter in self.function.parameters]
        apart = all(not (mine & folded and others <= mine) for mine in read)
        return bool(others) and apart and not folded & kept and self.streams(fold, list(self.axes.reduced[fold]), kept)

    def streams(self, op: ops.Reduce | ops.Scan, streams: Sequence[Axis], kept: set[Axis]) -> bool:
        """Whether a fold can go through these axes block by block, in every program for what it alone gives."""
        if isinstance(op, ops.Scan) or op.fn in ("argmax", "argmin"):
            return False
        mine = [axis for axis in self.axes.reduced[op] if axis in streams]
        return mine == streams and kept <= set(self.axes.kept[op.source])

    def row(self, whole: set[Axis]) -> int:
        """How many elements of one tensor have these axes."""
        return max(math.prod(a.size for a in kept if a in whole) for kept in self.axes.kept.values())

    def most(self, folded: set[Axis]) -> int:
        """How many elements of folded axes a program may have at once: fewer of those across memory, where it reads
        lines of neighbours that count faster."""
        read = [kept for p in self.function.parameters if folded & set(kept := self.axes.kept[p])]
        return self.limits.across if read and all(kept[-1] not in folded for kept in read) else self.limits.row

    def within(self, axes: Sequence[Axis], limit: int, what: str) -> None:
        """Raises TreatmentError unless the axes have at most `limit` elements together."""
        size = 1
        for axis in axes:
            size *= axis.size
        if size > limit:
            raise TreatmentError(None, f"{what}: {size} elements at once, and {limit} is the most")

    def check_streams(self, op: Op, streamed: set[Axis]) -> None:
        """Nothing that comes out of a stream still has its axis."""
        if isinstance(op, ops.Return):
            for value in op.values:
                left = streamed & set(self.axes.kept[value])
                if left:
                    raise TreatmentError(op, f"the result %{value.name} has an axis that is summed in a stream")

    def grid(self, inner: set[Axis]) -> tuple[Axis, ...]:
        outputs = [[a for a in self.axes.kept[value] if a not in inner] for value in self.outputs]
        largest = max(outputs, key=len)
        for value, mine in zip(self.outputs, outputs):
            if set(mine) != set(largest):
                raise TreatmentError(value.op, f"results of different axes: {_names(mine)} and {_names(largest)}")
        for value, kept in self.axes.kept.items():
            for axis in kept:
                if axis in self.axes.slid or axis in self.axes.indexed.values() or not value.users:
                    continue
                if axis not in inner and axis not in largest:
                    raise TreatmentError(value.op, f"%{value.name} has an axis that the results lack")
        return tuple(largest)

    def single(self, grid: tuple[Axis, ...], whole: set[Axis], streamed: set[Axis]) -> frozenset[Axis]:
        if not self.contracts:
            count = 1 if whole or streamed else 2
            read = [self.axes.kept[parameter] for parameter in self.function.parameters]
            if any(kept and kept[-1] in streamed and set(grid) <= set(kept) for kept in read):
                count = 0  # a row for each program, whose elements lie side by side
            ordered = self.blocked_of_maps(grid)
            blocked = ordered[:count]
            if count:  # what one program has of a few short axes is too little
                for axis in ordered[count:]:
                    if math.prod(a.size for a in (*blocked, *whole)) >= ENOUGH:
                        break
                    blocked.append(axis)
                blocked += self.slid_by_one(grid)
            return frozenset(axis for axis in grid if axis not in blocked)
        single: set[Axis] = set()
        for op in self.contracts:
            a, b, out = (set(self.axes.kept[v]) for v in (op.a, op.b, op.result))
            single |= a & b & out
        for op in self.contracts:
            for operand in (op.a, op.b):
                kept = self.axes.kept[operand]
                free = [x for x in kept if x in grid and x not in single]
                blocked = free[-1:] if kept[-1:] == tuple(free[-1:]) else _blocked_rows(free)
                single |= set(free).difference(blocked)
        return frozenset(single & set(grid))

    def slid_by_one(self, grid: tuple[Axis, ...]) -> list[Axis]:
        """The axes of the last two positions of windows, where neighbours have most of a window in common: a program
        may have some of both, and load what they share once."""
        found: list[Axis] = []
        for op, window in self.axes.windows.items():
            pairs = [(axis, stride) for axis, stride in zip(window.positions, op.strides) if axis is not None]
            found += [axis for axis, stride in pairs[-2:] if stride == 1 and axis in grid and axis not in found]
        return found

    def of_windows(self, grid: tuple[Axis, ...], single: frozenset[Axis], whole: set[Axis]) -> frozenset[Axis]:
        """What goes one coordinate at a time as windows are read: of the axes whose positions are computed, one element
        for each, at most one goes by blocks. Positions that follow each other are blocks that are shifted."""
        found = self.axes.inner & set(grid)
        if self.axes.inner & whole:
            raise TreatmentError(None, "an axis within windows is read as a whole")
        for op, window in self.axes.windows.items():
            positions = [
                axis
                for axis, stride in zip(window.positions, op.strides)
                if axis is not None and (stride > 1 or self.contracts or axis in whole)
            ]
            kept = [axis for axis in positions if axis in whole]
            blocked = [axis for axis in positions if axis in grid and axis not in single]
            if len(kept) > 1:
                raise TreatmentError(op, "two axes of windows' positions are read as a whole")
            found.update(blocked if kept else blocked[:-1])
        return frozenset(found)

    def blocked_of_maps(self, grid: tuple[Axis, ...]) -> list[Axis]:
        """The axes that matter most to memory: the last one of the results, then those along which neighbours of other
        operands lie side by side. Where the results' own last axis is no axis of the grid, but whole, that of the
        largest operand comes first: it is stored along rows, and had better be loaded along lines."""
        found = [*self.nearest_of_largest(grid), *grid[-1:]]
        for number, parameter in enumerate(self.function.parameters):
            kept = [axis for one in self.axes.kept[parameter] if (axis := self.stands_for(one)) in grid]
            if kept and tensor_type(parameter).shape:
                place = self.nearest[number] if number < len(self.nearest) else None
                axis = None if place is None else self.stands_for(self.axes.kept[parameter][place])
                found.append(kept[-1] if axis is None or axis not in grid else axis)
        found += reversed(grid)
        return list(dict.fromkeys(found))

    def stands_for(self, axis: Axis) -> Axis:
        """The axis itself; of one of several that a tensor is looked up along, that of the coordinates."""
        return self.looked_up.get(axis, axis)

    def nearest_of_largest(self, grid: tuple[Axis, ...]) -> list[Axis]:
        """The axis of the grid along which neighbours of the largest operand lie side by side, if there is one, and
        the results have none there."""
        ends = [self.axes.kept[value][-1:] for value in self.outputs]
        if any(axis in grid for end in ends for axis in end):
            return []
        sizes = [math.prod(axis.size for axis in self.axes.kept[parameter]) for parameter in self.function.parameters]
        largest = sizes.index(max(sizes)) if sizes else len(self.nearest)
        place = self.nearest[largest] if largest < len(self.nearest) else None
        axis = None if place is None else self.axes.kept[self.function.parameters[largest]][place]
        return [axis] if axis is not None and axis in grid else []


def _blocked_rows(free: Sequence[Axis]) -> list[Axis]:
    """Of several axes of rows, the one that goes by blocks: the last, unless another fills a block and it does not."""
    longest = max(free, key=lambda axis: axis.size, default=None)
    long = longest is not None and free[-1].size < ROWS <= longest.size
    return [longest] if longest is not None and long else list(free[-1:])


def _names(axes: Sequence[Axis]) -> str:
    return "[" + ", ".join(str(axis) for axis in axes) + "]"
