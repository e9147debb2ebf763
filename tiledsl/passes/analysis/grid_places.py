"""Which elements programs of a grid touch, tried out on a few sizes: do two accesses meet in two programs?

Subscripts that are known are intervals for given sizes and a given program. So whether accesses of two programs meet
is a matter of a few comparisons; nothing is concluded but from what is so for every one of the sizes that are tried.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, Union

from tiledsl.ir.core import Function
from tiledsl.ir.symbolic import Dim, evaluate, symbols_of
from tiledsl.ir.tile_ops import Grid
from tiledsl.ir.types import BlockSize, Shape
from tiledsl.passes.analysis.grid_flow import Axes, Stretch
from tiledsl.passes.analysis.sizes import size_of

_SIZE = 48 << 20
"""What an unknown size is taken to be: several programs, whatever the blocks, and far above any offset."""
_PROGRAMS = 3
"""How many programs of each axis are looked at."""

Program: TypeAlias = "tuple[tuple[int, int], ...]"
"""For each axis of the grid the first coordinate of the program's block, and the last."""
Place: TypeAlias = "tuple[Union[Stretch, int], ...]"
"""For each axis of a tensor where an access lies; the number of a value, where only that is known."""


@dataclass(frozen=True)
class Sizes:
    """Numbers for all symbols, and some programs of the grid: `blocks` has those of each axis."""

    symbols: Mapping[str, int]
    blocks: tuple[tuple[tuple[int, int], ...], ...]


def sizes_to_try(function: Function, grid: Grid, dims: Sequence[Dim]) -> list[Sizes]:
    """Some sizes that the function may be run with; `dims` are all those that places speak of."""
    stops = [size_of(stop) for stop in grid.stops]
    names = sorted(frozenset[str]().union(*(symbols_of(dim) for dim in (*dims, *stops) if dim is not None)))
    found: list[Sizes] = []
    for factors in (
        [1] * len(names),
        list(range(1, len(names) + 1)),
        list(range(len(names), 0, -1)),
    ):
        symbols = {name: factor * _SIZE for name, factor in zip(names, factors)}
        facts = [fact for fact in function.facts if symbols_of(fact.dim) <= set(names)]
        if all(evaluate(fact.dim, symbols) % fact.divisor == 0 for fact in facts):
            ends = [_SIZE if stop is None else evaluate(stop, symbols) for stop in stops]
            found.append(Sizes(symbols, tuple(_blocks(*axis) for axis in zip(ends, grid.blocks))))
    return found


def _blocks(stop: int, block: BlockSize) -> tuple[tuple[int, int], ...]:
    size = block.size if block.kind == "fixed" else -(-stop // _PROGRAMS)
    starts = range(0, stop, max(size, 1))[:_PROGRAMS]
    return tuple((start, min(start + size, stop) - 1) for start in starts)


def pairs_of_programs(sizes: Sizes, free: Axes) -> Iterator[tuple[Axes, Program, Program]]:
    """Pairs of programs that differ along one or two axes of `free`, and which those are; the fewest first."""
    axes = [axis for axis in sorted(free) if len(sizes.blocks[axis]) > 1]
    for differing in (*((axis,) for axis in axes), *itertools.combinations(axes, 2)):
        for first in itertools.product(*sizes.blocks):
            others = [[b for b in sizes.blocks[axis] if b != first[axis]] for axis in differing]
            for blocks in itertools.product(*others):
                moved = dict(zip(differing, blocks))
                second = tuple(moved.get(axis, block) for axis, block in enumerate(first))
                yield frozenset(differing), first, second


@dataclass(frozen=True)
class Interval:
    """A stretch in numbers."""

    low: int
    high: int
    axis: int | None
    to_end: bool

    def of(self, program: Program) -> tuple[int, int]:
        """The first and the last coordinate in a program."""
        if self.axis is None:
            return self.low, self.high
        start, end = program[self.axis]
        return self.low + start, self.high + (end if self.to_end else start)


@dataclass(frozen=True)
class Extents:
    """Where an access lies for given sizes: along each axis that is known the interval, and the size of the tensor."""

    axes: tuple[tuple[Interval, int] | None, ...]

    @staticmethod
    def of(sizes: Sizes, shape: Shape, place: Place) -> Extents:
        """In numbers."""
        symbols = sizes.symbols
        axes: list[tuple[Interval, int] | None] = []
        for dim, part in zip(shape, place):
            if isinstance(part, int):
                axes.append(None)
                continue
            low, high = evaluate(part.low, symbols), evaluate(part.high, symbols)
            axes.append((Interval(low, high, part.axis, part.to_end), evaluate(dim, symbols)))
        return Extents(tuple(axes))


def meet(first: Extents, one: Program, second: Extents, other: Program) -> bool:
    """Whether two accesses to a tensor have an element in common, in two programs.

    Where of either only the number of its value is known, the two are equal there, and the same in both programs.
    """
    for left, right in zip(first.axes, second.axes):
        if left is not None and right is not None:
            lows, highs = zip(left[0].of(one), right[0].of(other))
            if max(0, *lows) > min(left[1] - 1, *highs):
                return False
    return True
