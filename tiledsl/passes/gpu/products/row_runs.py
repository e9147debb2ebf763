"""Loads whose rows lie in runs of one length, each anywhere in memory: pages of a table, what TMA brings box by box.

%number = floordiv(index(%j), 64)                     64 rows of a page
%page   = load(%table, [%b, %number])
%row    = mod(index(%j), 64)
tile.load(%keys, [%page, %row, %g, :])

Where a run lies may be computed of its number, of scalars, and of what is loaded at such places.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.types import TileType
from tiledsl.passes.analysis.splats import number_of
from tiledsl.passes.gpu.products.divisors import start_divisor

LEAST_RUN = 8
"""Rows after which a swizzle repeats: boxes of fewer rows would begin within one."""


@dataclass(frozen=True)
class RowRuns:
    """`axis`: the block that counts rows. `run`: how many rows lie one after the other, along the tensor's axis `rows`.
    `jumps`: its axes along which runs lie anywhere. `divisor`: what the first row of a block is known to be a multiple
    of, but for the block's own size; 0 for any number."""

    axis: Value
    run: int
    rows: int
    jumps: tuple[int, ...]
    divisor: int

    def together(self, block: int) -> int:
        """How many rows of a block of that size lie one after the other, wherever it begins."""
        return math.gcd(self.run, self.divisor, block)


def row_runs(load: ops.Load) -> RowRuns | None:
    """The runs of a load's rows; None for one whose rows lie otherwise."""
    tiles = {n: v for n, v in enumerate(load.indices) if isinstance(v, Value) and _is_tile(v)}
    if len(tiles) < 2 or len(load.result.shape) != 2:
        return None
    counted = [(number, *found) for number, index in tiles.items() if (found := _within_run(index)) is not None]
    if len(counted) != 1:
        return None
    ((rows, axis, run),) = counted
    jumps = tuple(number for number in tiles if number != rows)
    if not all(_is_of_run(tiles[number], axis, run) for number in jumps):
        return None
    found = RowRuns(axis, run, rows, jumps, start_divisor(axis))
    return found if math.gcd(run, found.divisor) % LEAST_RUN == 0 else None


def leaves_of(load: ops.Load, runs: RowRuns) -> Iterator[ops.Load | Value]:
    """What says where runs lie: loads at their numbers, and scalars."""
    for number in runs.jumps:
        index = load.indices[number]
        assert isinstance(index, Value)
        for value in _computed_of(index):
            if not value.shape:
                yield value
            elif isinstance(value.op, ops.Load):
                yield value.op


def says_where(op: Op, loads: frozenset[ops.Load]) -> bool:
    """Whether what an op gives is read by nothing but subscripts of these loads, and what these are computed of."""
    seen, work = {op}, [op]
    while work:
        one = work.pop()
        if not one.results or one.bodies or one.effect not in ("pure", "read"):
            return False
        users = {user for result in one.results for user in result.users if user not in loads} - seen
        seen |= users
        work += users
    return True


def _is_tile(value: Value) -> bool:
    return isinstance(value.type, TileType) and len(value.shape) == 1


def _within_run(index: Value) -> tuple[Value, int] | None:
    """The block and the length of runs, where a subscript counts the rows of each from 0 on."""
    while isinstance(index.op, ops.Cast):
        index = index.op.source
    return _counted(index, "mod")


def _counted(value: Value, fn: str) -> tuple[Value, int] | None:
    """The block and the number of `fn(index(block), number)`."""
    op = value.op
    if not (isinstance(op, ops.Map) and op.fn == fn):
        return None
    number, coordinates = number_of(op.inputs[1]), op.inputs[0].op
    if not isinstance(number, int) or number < 1 or not isinstance(coordinates, ops.Coordinates):
        return None
    return coordinates.axis, number


def _is_of_run(value: Value, axis: Value, run: int) -> bool:
    """Whether a tile of integers is the same for all rows of a run."""

    def counts_runs(one: Value) -> bool:
        return _counted(one, "floordiv") == (axis, run)

    return all(not one.shape or counts_runs(one) or _parts(one) is not None for one in _computed_of(value, counts_runs))


def _computed_of(value: Value, ends: Callable[[Value], bool] = lambda value: False) -> Iterator[Value]:
    """A tile of integers, and what it is computed of, each once; nothing behind scalars, and where it `ends`."""
    seen, work = {value}, [value]
    while work:
        one = work.pop()
        yield one
        if one.shape and not ends(one):
            new = [part for part in dict.fromkeys(_parts(one) or ()) if part not in seen]
            seen.update(new)
            work += new


def _parts(value: Value) -> Sequence[Value] | None:
    """What each element of a tile of integers is computed of, or loaded at; None where it is neither."""
    match value.op:
        case ops.Map() as op:
            return op.inputs
        case ops.Cast(source=source) | ops.Broadcast(source=source):
            return (source,)
        case ops.Load(other=None) as op:
            found = [one for one in op.indices if isinstance(one, Value) and isinstance(one.type, TileType)]
            return found if len(found) == len(op.indices) else None
        case _:
            return None
