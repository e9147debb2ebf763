"""How often the work of a nest is done, for sizes and block sizes: elements moved, multiplied, computed.

What is counted is what runs: blocks at an edge are short, what lies outside of a tensor is not moved, a causal loop has
as many turns as its block needs. Most axes only multiply a count; those that bounds of loops or computed subscripts
depend on are gone through block by block.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Index, Value
from tiledsl.ir.symbolic import Dim, Expr, evaluate, symbol_name, symbols_of
from tiledsl.ir.type_rules import broadcast_shapes
from tiledsl.ir.types import AxisType, Shape, Slice, TileType, Whole
from tiledsl.passes.analysis.far_blocks import blocks_inside, is_far
from tiledsl.passes.nest.evaluate_scalars import GuessedScalars, Place, ScalarValues
from tiledsl.passes.nest.loop_nest import Access, Elementwise, LoopNest, NestDot, NestLoop

LOOKED_AT = 2048
"""Blocks that are gone through one by one, for one count; of more an even sample is taken."""
GUESSED_TURNS = 64
"""Of a loop whose bounds are data, where nothing says how long all its turns are together."""


@dataclass(frozen=True)
class Amount:
    """A count over all programs; `exact` where nothing was guessed or sampled."""

    number: float
    exact: bool = True


@dataclass(frozen=True)
class _Term:
    """A place of the nest, with the dims that multiply there: lengths of tile axes, or clipped subscripts."""

    loops: tuple[NestLoop, ...]
    lengths: tuple[_Length, ...]


@dataclass(frozen=True)
class _Length:
    """One factor of a count: `dim`, or how much of what a subscript selects lies in a tensor's axis of `size`: of the
    block or the coordinate `index`, or of the slice that begins at `start`."""

    dim: Dim
    index: Value | None = None
    size: Dim = 0
    start: Dim | None = None


class WorkCounts:
    """Counts for one nest at given sizes (all symbols but those of blocks) and block sizes (by symbol). `looked_at`:
    how many blocks are gone through one by one at most."""

    def __init__(
        self, nest: LoopNest, sizes: Mapping[str, int], blocks: Mapping[str, int], looked_at: int = LOOKED_AT
    ) -> None:
        self.nest, self._most = nest, looked_at
        self.sizes = dict(sizes)
        self._dependence = nest.dependence
        self._sums: dict[_Term, tuple[Amount, Sequence[Value]]] = {}
        of_sizes = looked_at, tuple(sorted(sizes.items()))
        self._parts: dict[object, Amount] = nest.sums.setdefault(("parts", of_sizes), {})
        self._factors_of: dict[Access, tuple[_Length, ...]] = nest.sums.setdefault(("factors", of_sizes), {})
        self._moved: dict[Access, Amount] = {}
        self._computed: dict[tuple[tuple[NestLoop, ...], Shape], Amount] = {}
        self._multiplied: dict[NestDot, Amount] = {}
        self._turns: dict[NestLoop, Amount] = {}
        self._guesses: dict[NestLoop, int] = {}
        self._bounds: dict[tuple[NestLoop | Place | None, ...], tuple[int, int, int] | None] = {}
        self._distinct: dict[Access, int] = {}
        self._numbers: dict[Expr, int] = {}
        self.rooms: dict[Dim, int] = {}
        """The elements that tiles have along a size, with what pads them, for those who ask often (`GridCost`)."""
        self._totals: dict[Value, int] = {}
        self._scalars: dict[tuple[tuple[Value, Place], ...], ScalarValues] = {}
        self._gone_through: dict[object, list[tuple[ScalarValues, float]]] = {}
        """The blocks that were gone through one by one, of axes within loops, and how many each stands for."""
        self._guessed: set[Value] = set()
        self.block_sizes: dict[Value, int] = {}
        self.axis_of: dict[str, Value] = {}
        ranges = [loop.definition for loop in nest.loops]
        for block in (*nest.axes, *(r for r in ranges if r is not None)):
            chosen = block.block.size if block.block.kind == "fixed" else blocks.get(block.extent or "", 1)
            self.block_sizes[block.argument] = chosen if isinstance(block.argument.type, AxisType) else 1
            if block.extent is not None:
                self.axis_of[block.extent] = block.argument

    @cached_property
    def programs(self) -> int:
        """Programs of the grid."""
        return math.prod(-(-self.total(axis.argument) // self.block_sizes[axis.argument]) for axis in self.nest.axes)

    def moved(self, access: Access) -> Amount:
        """Elements that an access moves, each time that it does."""
        if access not in self._moved:
            amount = self._sum(_Term(access.loops, self._factors(access)))
            self._moved[access] = Amount(amount.number / access.repeats, amount.exact)
        return self._moved[access]

    def blocks_inside(self, access: Access) -> float:
        """The share of blocks of the grid for which a load is made: of those that are shifted far others lie wholly
        outside of the tensor."""
        share = 1.0
        for index, dim in zip(access.op.indices, access.tensor.shape):
            if not access.is_read or not isinstance(index, Value) or not isinstance(index.type, AxisType):
                continue
            axis, offset = _unshifted(index)
            if axis in self.nest.axis_values and offset and is_far(offset, self.block_sizes[axis]):
                share *= blocks_inside(offset, self.block_sizes[axis], self.total(axis), self.number(dim))
        return share

    def distinct(self, access: Access) -> int:
        """Elements of the tensor that an access touches, at most: each counts once."""
        if access not in self._distinct:
            tensor = [max(0, self.number(dim)) for dim in access.tensor.shape]
            covered = (min(size, self._covered(index, size)) for index, size in zip(access.op.indices, tensor))
            self._distinct[access] = math.prod(covered)
        return self._distinct[access]

    def multiplied(self, dot: NestDot) -> Amount:
        """Multiply-adds of a product."""
        if dot not in self._multiplied:
            *batch, rows, depth = dot.op.a.shape
            if dot.op.precision == "planes":
                batch = []
            dims = (*batch, ops.products_for_one(dot.op), rows, depth, dot.op.b.shape[-1])
            self._multiplied[dot] = self._sum(_Term(dot.loops, tuple(_Length(dim) for dim in dims)))
        return self._multiplied[dot]

    def computed(self, work: Elementwise) -> Amount:
        """Elements that are gone through."""
        key = (work.loops, work.shape)
        if key not in self._computed:
            self._computed[key] = self._sum(_Term(work.loops, tuple(_Length(dim) for dim in work.shape)))
        return self._computed[key]

    def turns(self, loop: NestLoop) -> Amount:
        """Turns of a loop, of all programs together."""
        if loop not in self._turns:
            self._turns[loop] = self._sum(_Term((*loop.outer, loop), ()))
        return self._turns[loop]

    def number(self, dim: Dim) -> int:
        """A size; the blocks in it as large as they get."""
        if isinstance(dim, int):
            return dim
        if dim not in self._numbers:
            self._numbers[dim] = evaluate(dim, self._largest)
        return self._numbers[dim]

    @cached_property
    def _largest(self) -> dict[str, int]:
        """All sizes, with blocks as large as they get."""
        return {**{name: self.block_sizes[axis] for name, axis in self.axis_of.items()}, **self.sizes}

    def scalars(self, places: Mapping[Value, Place]) -> ScalarValues:
        """The scalars of blocks at these places, which many counts ask for."""
        key = tuple(places.items())
        if key not in self._scalars:
            self._scalars[key] = ScalarValues(self.sizes, places)
        return self._scalars[key]

    def total(self, axis: Value) -> int:
        """Coordinates of an axis of the grid, all blocks together."""
        if axis not in self._totals:
            (block,) = [a for a in self.nest.axes if a.argument is axis]
            self._totals[axis] = max(0, ScalarValues(self.sizes, {}).of(block.stop) or 0)
        return self._totals[axis]

    def _covered(self, index: Index, size: int) -> int:
        """Coordinates of a tensor's axis that a subscript reaches in any program, as far as is known."""
        if isinstance(index, Whole):
            return size
        if isinstance(index, Slice):
            return max(0, self.number(index.stop) - self.number(index.start))
        if isinstance(index.type, AxisType):
            axis, offset = _unshifted(index)
            if axis in self.nest.axis_values:
                return self.total(axis) if offset is None else _overlap(offset, self.total(axis), size)
            return size
        if isinstance(index.type, TileType) and index.type.shape:
            return size
        found = self._dependence.of(index)
        if found.on_data:
            return size
        turns = 1
        for axis in found.axes:
            turns *= self.total(axis) if axis in self.nest.axis_values else size
        return turns

    # Sums over programs and turns

    def _sum(self, term: _Term) -> Amount:
        """Many accesses are alike, and so have one term: it is added up once."""
        if term not in self._sums:
            self._sums[term] = self._added(term)
        amount, around = self._sums[term]
        guessed = any(axis in self._guessed for axis in around)
        return Amount(amount.number, False) if guessed else amount

    def _factors(self, access: Access) -> tuple[_Length, ...]:
        """Those of what an access moves, but for coordinates that are known to lie inside: accesses that differ in
        these alone are alike."""
        if access not in self._factors_of:
            scalars = self.scalars({})
            factors = [one for one in _selected(access) if not self._is_inside(one, scalars)]
            self._factors_of[access] = tuple(factors)
        return self._factors_of[access]

    def _is_inside(self, length: _Length, scalars: ScalarValues) -> bool:
        if length.index is None or isinstance(length.index.type, AxisType):
            return False
        at = scalars.of(length.index)
        return at is not None and 0 <= at < self.number(length.size)

    def _added(self, term: _Term) -> tuple[Amount, Sequence[Value]]:
        """The sum of a term, and the axes around it."""
        around = [*self.nest.axis_values, *(loop.axis for loop in term.loops if loop.axis is not None)]
        apart = self._looked_at(term, around)
        counted = _Counted(self, term, apart, [axis for axis in around if axis not in apart])
        total, exact = float(counted.alike), counted.is_known
        for axes in ([], *counted.groups()):
            part = counted.part(axes)
            found = self._known_part(term, axes, part)
            total *= found.number
            exact = exact and found.exact
        return Amount(total, exact), around

    def _known_part(self, term: _Term, axes: Sequence[Value], part: _Part) -> Amount:
        """The sum of the factors of a group of axes: other blocks than theirs change nothing. Where data say how far a
        loop goes, it is added up again."""
        mentioned = part.mentioned | {*axes, *(loop.axis for loop in term.loops)}
        sizes = tuple([size for axis, size in self.block_sizes.items() if axis in mentioned])
        key = (term.loops, tuple(axes), part.factors, sizes)
        if key in self._parts:
            return self._parts[key]
        found = self._added_part(term, axes, part)
        if not self._guessed:
            self._parts[key] = found
        return found

    def _added_part(self, term: _Term, axes: Sequence[Value], part: _Part) -> Amount:
        """The sum of the factors of a group of axes."""
        key = (term.loops, tuple(axes))
        if key not in self._gone_through:
            placed = self._places(term, axes, {})
            self._gone_through[key] = [(self.scalars(places), weight) for places, weight in placed]
        total, exact = 0.0, not self._is_sampled(axes)
        for values, weight in self._gone_through[key]:
            number, is_known = part.at(values)
            total += weight * number
            exact = exact and is_known
        return Amount(total, exact)

    def stepped_by(self, axis: Value, term: _Term) -> frozenset[Value]:
        """The axes that the bounds and the step of a loop depend on."""
        loop = next((loop for loop in term.loops if loop.axis is axis), None)
        if loop is None:
            return frozenset()
        return loop.depends | self._dependence.of(loop.op.step).axes if isinstance(loop.op, ops.For) else loop.depends

    def depends(self, length: _Length) -> frozenset[Value]:
        """The axes that a factor depends on."""
        named = frozenset(self.axis_of[name] for name in symbols_of(length.dim) if name in self.axis_of)
        if length.index is None:
            return named
        return frozenset({_unshifted(length.index)[0]}) | self._dependence.of(length.index).axes

    def _looked_at(self, term: _Term, around: Sequence[Value]) -> list[Value]:
        """The axes that are gone through block by block."""
        key = ("gone through", term)
        if key not in self.nest.sums:
            self.nest.sums[key] = self._needed(term, around)
        return self.nest.sums[key]

    def _needed(self, term: _Term, around: Sequence[Value]) -> list[Value]:
        needed: set[Value] = set()
        for loop in term.loops:
            needed |= loop.depends
        seen: set[str] = set()
        for length in term.lengths:
            if length.index in around:
                pass  # a block, or the coordinate that it is
            elif length.index is not None and not isinstance(length.index.type, AxisType):
                needed |= self._dependence.of(length.index).axes  # a scalar: outside for some blocks, perhaps
            elif length.index is not None and _unshifted(length.index)[1] is None:
                needed |= self._dependence.of(length.index).axes
            for name in symbols_of(length.dim):
                if name in self.axis_of and (name in seen or symbol_name(length.dim) is None):
                    needed.add(self.axis_of[name])  # it does not count in proportion
                seen.add(name)
        return [axis for axis in around if axis in needed]

    def _is_sampled(self, axes: Sequence[Value]) -> bool:
        """Whether `_places` leaves out blocks of a group's axes."""
        return any(
            -(-self.total(axis) // self.block_sizes[axis]) > self._limit(len(axes) - number)
            for number, axis in enumerate(axes)
            if axis in self.nest.axis_values
        )

    def _limit(self, axes: int) -> int:
        return max(2, int(self._most ** (1 / max(1, axes))))

    def _places(
        self, term: _Term, apart: Sequence[Value], places: dict[Value, Place]
    ) -> Iterator[tuple[dict[Value, Place], float]]:
        """The places of the blocks of these axes, outer ones first, and how many blocks each stands for."""
        if not apart:
            yield places, 1.0
            return
        axis, *rest = apart
        found = self.bounds(axis, term, places)
        if found is None:
            loop = next(loop for loop in term.loops if loop.axis is axis)
            turns = -(-self.guessed_turns(loop) // self.block_sizes.get(axis, 1))
            for inner, weight in self._places(term, rest, places):
                yield inner, weight * turns
            return
        start, stop, step = found
        size = self.block_sizes.get(axis, 1)
        count = max(0, -(-(stop - start) // step))
        limit = self._limit(len(apart))
        numbers = (
            range(count) if count <= limit else sorted({round(i * (count - 1) / (limit - 1)) for i in range(limit)})
        )
        weight = count / max(1, len(numbers))
        for number in numbers:
            first = start + number * step
            place = Place(first, min(size, stop - first))
            for inner, inner_weight in self._places(term, rest, {**places, axis: place}):
                yield inner, weight * inner_weight

    def bounds(self, axis: Value, term: _Term, places: Mapping[Value, Place]) -> tuple[int, int, int] | None:
        """Where the blocks of an axis begin, end, and how far apart they are; None where unbounded data say so."""
        if axis in self.nest.axis_values:
            return 0, self.total(axis), self.block_sizes[axis]
        loop = next(loop for loop in term.loops if loop.axis is axis)
        if isinstance(loop.op, ops.For):
            return self._bounds_of(loop, places)  # its step may depend on others
        at = (loop, *map(places.get, loop.depends))
        if at not in self._bounds:
            self._bounds[at] = self._bounds_of(loop, places)
        return self._bounds[at]

    def _bounds_of(self, loop: NestLoop, places: Mapping[Value, Place]) -> tuple[int, int, int] | None:
        assert not isinstance(loop.op, ops.While)
        assert loop.axis is not None
        values = self.scalars(places)
        start, stop = values.of(loop.op.start), values.of(loop.op.stop)
        if start is None or stop is None:
            self._guessed.add(loop.axis)
            values = GuessedScalars(self.sizes, places)
            start, stop = values.of(loop.op.start), values.of(loop.op.stop)
        step = values.of(loop.op.step) if isinstance(loop.op, ops.For) else self.block_sizes[loop.axis]
        if start is None or stop is None or not step:
            return None
        if step < 0:
            return stop + 1, start + 1, -step  # as many turns, from the other end
        return start, max(start, stop), step

    def guessed_turns(self, loop: NestLoop) -> int:
        """Of a loop whose bounds are data: all turns of the blocks that they depend on make up the axis, perhaps; but
        for blocks that have a part of the tensor of their own."""
        if loop not in self._guesses:
            self._guesses[loop] = self._guess(loop)
        return self._guesses[loop]

    def _guess(self, loop: NestLoop) -> int:
        for access in self.nest.accesses:
            for index, size in zip(access.op.indices, access.tensor.shape):
                if isinstance(index, Value) and loop.axis is not None and _unshifted(index)[0] is loop.axis:
                    others = [one for one in access.op.indices if isinstance(one, Value) and one is not index]
                    own = frozenset[Value]().union(*(self._dependence.of(one).axes for one in others))
                    apart = math.prod(
                        -(-self.total(axis) // self.block_sizes[axis])
                        for axis in loop.depends - own
                        if axis in self.nest.axis_values
                    )
                    return max(1, self.number(size) // max(1, apart))
        return GUESSED_TURNS


class _Counted:
    """The factors of a term: those that are the same everywhere, and those of axes that are gone through."""

    def __init__(self, counts: WorkCounts, term: _Term, apart: Sequence[Value], free: Sequence[Value]) -> None:
        self.counts = counts
        self.term = term
        self.apart = apart
        self.free = free
        # the axes of a grid are the same wherever the others are: what belongs to them alone is counted once
        grid = counts.nest.axis_values
        pairs = [(length, self._free_axis(length)) for length in term.lengths]
        used = {axis for _, axis in pairs}
        alike = [self.along(axis, length, {}) for length, axis in pairs if axis is not None and axis in grid]
        alike += [self.blocks(axis, {}).number for axis in free if axis in grid and axis not in used]
        endless = sum(1 for loop in term.loops if loop.axis is None)
        self.alike = math.prod(alike) * GUESSED_TURNS**endless
        self.is_known = not endless
        self._lengths = [
            (length, axis, self._depends(length, axis)) for length, axis in pairs if axis is None or axis not in grid
        ]
        loops = [axis for axis in free if axis not in grid]
        self._loops = [(axis, axis in used, counts.stepped_by(axis, term).intersection(apart)) for axis in loops]

    def _depends(self, length: _Length, axis: Value | None) -> frozenset[Value]:
        """The axes gone through that a factor depends on."""
        found = self.counts.depends(length) if axis is None else self.counts.stepped_by(axis, self.term)
        return found.intersection(self.apart)

    def groups(self) -> list[list[Value]]:
        """The axes that are gone through, in groups: no factor and no bound depends on axes of two groups, so sums of
        groups multiply. Of windows of two axes: rows and the places in them; columns and the places in them."""
        together = [frozenset({axis}) | self.counts.stepped_by(axis, self.term) for axis in self.apart]
        together += [depends for *_, depends in (*self._lengths, *self._loops)]
        groups = [frozenset({axis}) for axis in self.apart]
        for axes in together:
            joined = [group for group in groups if group & axes]
            if len(joined) > 1:
                groups = [group for group in groups if group not in joined] + [frozenset[Value]().union(*joined)]
        return [[axis for axis in self.apart if axis in group] for group in groups]

    def part(self, axes: Sequence[Value]) -> _Part:
        """The factors of a group; of none, those that are the same in all."""

        def belongs(depends: frozenset[Value]) -> bool:
            return bool(depends.intersection(axes)) if axes else not depends

        lengths = [(length, axis) for length, axis, depends in self._lengths if belongs(depends)]
        return _Part(self, lengths, [(axis, used) for axis, used, depends in self._loops if belongs(depends)])

    def _free_axis(self, length: _Length) -> Value | None:
        """The axis of this factor, if its blocks make up the count together."""
        if length.index is not None:
            axis = _unshifted(length.index)[0]
            return axis if axis in self.free else None
        name = symbol_name(length.dim)
        axis = self.counts.axis_of.get(name) if name is not None else None
        return axis if axis is not None and axis in self.free else None

    def _range(self, axis: Value, places: Mapping[Value, Place]) -> tuple[int, int, int] | None:
        return self.counts.bounds(axis, self.term, places)

    def blocks(self, axis: Value, places: Mapping[Value, Place]) -> Amount:
        """How many blocks an axis has."""
        found = self._range(axis, places)
        if found is None:
            loop = next(loop for loop in self.term.loops if loop.axis is axis)
            size = self.counts.block_sizes.get(axis, 1)
            return Amount(-(-self.counts.guessed_turns(loop) // size), exact=False)
        start, stop, step = found
        return Amount(max(0, -(-(stop - start) // step)))

    def along(self, axis: Value, length: _Length, places: Mapping[Value, Place]) -> float:
        """The coordinates of all blocks of a free axis; those in the tensor, of a subscript."""
        found = self._range(axis, places)
        if found is None:
            loop = next(loop for loop in self.term.loops if loop.axis is axis)
            return self.counts.guessed_turns(loop)
        start, stop, _ = found
        if length.index is None:
            return max(0, stop - start)
        offset = _unshifted(length.index)[1] or 0
        return _overlap(start + offset, stop - start, self.counts.number(length.size))

    def placed(self, length: _Length, places: Mapping[Value, Place], values: ScalarValues) -> float:
        """A factor where every block that it speaks of has a place, or none does."""
        counts = self.counts
        if length.start is not None:
            return _overlap(counts.number(length.start), counts.number(length.dim), counts.number(length.size))
        if length.index is None:
            extents = {name: places[axis].extent for name, axis in counts.axis_of.items() if axis in places}
            return (
                max(0, evaluate(length.dim, {**counts.sizes, **extents}))
                if isinstance(length.dim, Expr)
                else length.dim
            )
        size = counts.number(length.size)
        if isinstance(length.index.type, AxisType):
            place = values.place(length.index)
            return counts.number(length.dim) if place is None else _overlap(place.start, place.extent, size)
        at = values.of(length.index)
        return 1.0 if at is None or 0 <= at < size else 0.0


_Factors: TypeAlias = (
    "tuple[tuple[tuple[_Length | tuple[object, ...], Value | None], ...], tuple[tuple[Value, bool], ...]]"
)


class _Part:
    """The factors of one group of axes."""

    def __init__(
        self, counted: _Counted, lengths: Sequence[tuple[_Length, Value | None]], loops: Sequence[tuple[Value, bool]]
    ) -> None:
        self._counted = counted
        self._lengths = lengths
        self._loops = loops
        self.factors: _Factors = (tuple((_alike(length), axis) for length, axis in lengths), tuple(loops))
        """What tells it from other parts of the same axes."""

    @property
    def mentioned(self) -> frozenset[Value]:
        """The axes whose blocks its factors speak of, besides those that are gone through."""
        axis_of = self._counted.counts.axis_of
        dims = [dim for one, _ in self._lengths for dim in (one.dim, one.size, one.start or 0)]
        named = {axis_of[name] for dim in dims for name in symbols_of(dim) if name in axis_of}
        return frozenset(named).union(axis for _, axis in self._lengths if axis is not None)

    def at(self, values: ScalarValues) -> tuple[float, bool]:
        """The product of the factors for blocks at the places of these scalars; whether it is exact."""
        counted, result, exact, places = self._counted, 1.0, True, values.places
        for length, axis in self._lengths:
            if axis is None:
                result *= counted.placed(length, places, values)
                exact = exact and _is_known(length, values)
            else:
                result *= counted.along(axis, length, places)
        for axis, is_used in self._loops:
            amount = counted.blocks(axis, places)
            exact = exact and amount.exact
            result *= 1 if is_used else amount.number
        return result, exact


def _is_known(length: _Length, values: ScalarValues) -> bool:
    """Whether a subscript is one that can be told to lie inside or outside: what data say is taken to be inside."""
    index = length.index
    return index is None or isinstance(index.type, AxisType) or values.of(index) is not None


def _alike(length: _Length) -> _Length | tuple[object, ...]:
    """What lengths have in common that are one number everywhere: a block that is shifted by one number in two places
    is two values."""
    if length.index is None or not isinstance(length.index.type, AxisType):
        return length
    axis, offset = _unshifted(length.index)
    return length if offset is None else (length.dim, axis, offset, length.size)


def _selected(access: Access) -> Iterator[_Length]:
    """The factors of what an access moves: a subscript each; int tiles together have one shape."""
    gathered: tuple[Dim, ...] | None = None
    for index, size in zip(access.op.indices, access.tensor.shape):
        match index:
            case Whole():
                yield _Length(size)
            case Slice():
                yield _Length(index.stop - index.start, size=size, start=index.start)
            case Value(type=AxisType(extent=extent)):
                yield _Length(extent, index, size)
            case Value(type=TileType(shape=shape)) if shape:
                gathered = broadcast_shapes(gathered or (), shape)
            case _:
                yield _Length(1, index, size)
    for dim in gathered or ():
        yield _Length(dim)


def _unshifted(index: Value) -> tuple[Value, int | None]:
    """The block that a subscript is, and by how much it is shifted; None where that is not known when compiling."""
    offset: int | None = 0
    while isinstance(index.op, ops.Shift):
        by = index.op.offset.op
        offset = offset + int(by.value) if isinstance(by, ops.Constant) and offset is not None else None
        index = index.op.axis
    return index, offset


def _overlap(start: int, length: int, size: int) -> int:
    """How much of [start, start + length) lies in [0, size)."""
    return max(0, min(start + length, size) - max(start, 0))
