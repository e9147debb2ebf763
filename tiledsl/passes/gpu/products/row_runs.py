"""Loads whose rows lie in runs of one length, each anywhere in memory: pages of a table, what TMA brings box by box.

%number = floordiv(index(%j), 64)                     64 rows of a page
%page   = load(%table, [%b, %number])
%row    = mod(index(%j), 64)
tile.load(%keys, [%page, %row, %g, :])

Where a run lies may be computed of its number, of scalars, and of what is loaded at such places.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Op, Value
from tiledsl.ir.types import TileType
from tiledsl.passes.analysis.splats import number_of

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
    found = RowRuns(axis, run, rows, jumps, _start_divisor(axis))
    return found if math.gcd(run, found.divisor) % LEAST_RUN == 0 else None


def leaves_of(load: ops.Load, runs: RowRuns) -> Iterator[ops.Load | Value]:
    """What says where runs lie: loads at their numbers, and scalars."""
    for number in runs.jumps:
        index = load.indices[number]
        assert isinstance(index, Value)
        yield from _leaves(index)


def says_where(op: Op, loads: frozenset[ops.Load]) -> bool:
    """Whether what an op gives is read by nothing but subscripts of these loads, and what these are computed of."""
    return (
        bool(op.results)
        and not op.bodies
        and op.effect in ("pure", "read")
        and all(user in loads or says_where(user, loads) for result in op.results for user in result.users)
    )


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
    if not value.shape or _counted(value, "floordiv") == (axis, run):
        return True
    match value.op:
        case ops.Map() as op:
            return all(_is_of_run(one, axis, run) for one in op.inputs)
        case ops.Cast(source=source) | ops.Broadcast(source=source):
            return _is_of_run(source, axis, run)
        case ops.Load(other=None) as op:
            return all(
                isinstance(one, Value) and isinstance(one.type, TileType) and _is_of_run(one, axis, run)
                for one in op.indices
            )
        case _:
            return False


def _leaves(value: Value) -> Iterator[ops.Load | Value]:
    op = value.op
    if not value.shape:
        yield value
    elif isinstance(op, ops.Load):
        yield op
        for index in op.indices:
            if isinstance(index, Value):
                yield from _leaves(index)
    elif isinstance(op, (ops.Map, ops.Cast, ops.Broadcast)):
        for operand in op.operands:
            yield from _leaves(operand)


def _start_divisor(axis: Value) -> int:
    """What the start of an axis is a multiple of; 0 for 0."""
    owner = axis.owner.parent if isinstance(axis.owner, Block) else None
    return _divisor(owner.start) if isinstance(owner, ops.Range) else 0


def _divisor(value: Value) -> int:
    """A number that an integer scalar is known to be a multiple of; 0 for 0."""
    number = number_of(value)
    if isinstance(number, int):
        return abs(number)
    match value.op:
        case ops.Cast(source=source):
            return _divisor(source)
        case ops.Map(fn="mul") as op:
            return _divisor(op.inputs[0]) * _divisor(op.inputs[1])
        case ops.Map(fn="add" | "sub" | "minimum" | "maximum") as op:
            return math.gcd(_divisor(op.inputs[0]), _divisor(op.inputs[1]))
        case _:
            return 1
