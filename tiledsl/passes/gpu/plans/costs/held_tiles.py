"""Registers that threads of a grid without loops hold while they meet for its folds: what is wanted behind a fold.

    p = exp2(x - max(x)); p / sum(p)     x of f16, 64 elements of each thread: behind the first fold 32 registers of x,
                                         behind the second 64 of p

What takes a few instructions from the elements that were loaded is computed again (as `written_again.py` of the CUDA
back end does), so those are held instead, as narrow as they came.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Set
from functools import cached_property

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.symbolic import Dim, symbol_name
from tiledsl.ir.types import Shape, TileType
from tiledsl.passes.gpu.plan import GridPlan
from tiledsl.passes.gpu_machine import GpuMachine
from tiledsl.passes.nest.count_work import WorkCounts
from tiledsl.passes.nest.loop_nest import Access, LoopNest

BESIDE = 32
"""Registers of a thread for addresses, sums and what is computed at a time."""
FEW = 4
"""Elements of a thread that count among these."""
LIGHT = ("add", "sub", "mul", "neg")
"""Functions of one instruction."""
MOST_OPS = 4
"""From the elements that were loaded."""
MOST_FOLDS = 8
"""That are looked at, of a program with more."""
LEAST_HELD = 48
"""Elements of a thread: smaller tiles are not computed again."""

MOST_LIVE_WORDS = 220
"""Registers of a thread for tiles that are there at once: all that it may have, less those of addresses."""


def live_words(nest: LoopNest, grid: GridPlan, elements: Callable[[Shape], float]) -> float:
    """Registers of a thread of a long program without loops, for the tiles that are there at once (`LoopNest.live`).
    `elements`: of a tile of a shape. A thread has one element of each at least."""
    threads = grid.threads_of_tile * grid.cluster
    return sum(count * max(1.0, elements(shape) / threads) * max(4, each) / 4 for shape, each, count in nest.live)


class HeldTiles:
    """Of a grid with given blocks. `room`: the elements of a tile's axis, with what pads them; `width`: bytes that a
    thread accesses at a time."""

    def __init__(
        self,
        nest: LoopNest,
        grid: GridPlan,
        counts: WorkCounts,
        room: Callable[[Dim], int],
        width: Callable[[Access], float],
    ) -> None:
        self.nest, self.grid, self.counts = nest, grid, counts
        self._room, self._width = room, width
        self._threads = grid.threads_of_tile * grid.cluster
        self._holds = not (grid.roles or grid.programs or grid.flat or nest.loops or nest.dots)

    def blocks(self, machine: GpuMachine) -> int:
        """Blocks that a multiprocessor has registers for, by what is held."""
        if not self.words:
            return machine.max_blocks_per_multiprocessor
        return max(1, int(machine.registers / (self.grid.threads_of_tile * (BESIDE + self.words))))

    @cached_property
    def words(self) -> float:
        """Registers of a thread for what is held; 0 where nothing is."""

        def elements(tile: Value) -> float:
            return math.prod(map(self._room, tile.shape)) / self._threads

        return held_words(self.nest, elements, self._by_elements) if self._holds else 0.0

    @cached_property
    def _by_elements(self) -> set[Value]:
        """What is loaded element by element: each comes in a register of its own, before it has its place in a word."""
        loads = [(access, access.op) for access in self.nest.accesses if access.is_read and access.shape]
        return {
            op.result
            for access, op in loads
            if isinstance(op, ops.Load) and self._width(access) <= op.result.dtype.bytes
        }

    @cached_property
    def padding(self) -> float:
        """Threads beyond the end of a long row compute as others do: each has as many whole vectors as any other."""
        found = 1.0
        for access in self.nest.accesses if self._holds else ():
            if access.shape and self.counts.axis_of.get(symbol_name(access.shape[-1]) or "") is None:
                size = self.counts.number(access.shape[-1])
                along = self._threads / math.prod(self.counts.block_sizes.values())
                granule = along * self._width(access) / access.tensor.dtype.bytes
                if size > granule >= 1:
                    found = max(found, math.ceil(size / granule) * granule / size)
        return found


def held_words(
    nest: LoopNest, elements: Callable[[Value], float], by_elements: Set[Value] = frozenset[Value]()
) -> float:
    """Registers of a thread, of what is wanted behind the fold where that is most; 0 without folds. `elements`: how
    many of a tile a thread has; `by_elements`: tiles each of whose elements takes a whole register."""
    if "wanted behind folds" not in nest.sums:
        nest.sums["wanted behind folds"] = _wanted_behind_folds(nest)
    folds: list[list[Value]] = nest.sums["wanted behind folds"]
    most = 0.0
    for wanted in folds:
        held = set[Value]().union(*(_bases(value, elements) for value in wanted if elements(value) > FEW))
        most = max(
            most, sum(elements(value) * (1 if value in by_elements else value.dtype.bytes / 4) for value in held)
        )
    return most


def _wanted_behind_folds(nest: LoopNest) -> list[list[Value]]:
    """The tiles that are wanted behind each fold that is looked at, and were made before."""
    body, every = list(nest.grid.body.ops), [*reversed(list(nest.grid.body.walk()))]
    places = {op: number for number, op in enumerate(body)}
    folds = [number for op, number in places.items() if isinstance(op, (ops.Reduce, ops.Scan, ops.Sort))]
    found: list[list[Value]] = []
    for fold in folds[:: -(-len(folds) // MOST_FOLDS) or 1]:
        meeting = _meeting(every, _made_of(body[fold]))
        made = [op for op in body[: fold + 1] if not _goes_behind(op, fold, places)]
        tiles = [value for op in made for value in op.results if value in meeting and _is_tile(value)]
        found.append([value for value in tiles if _is_wanted(value, fold, places)])
    return found


def _is_tile(value: Value) -> bool:
    return isinstance(value.type, TileType) and bool(value.shape)


def _made_of(fold: Op) -> set[Op]:
    """All that needs the results of a fold."""
    found, work = set[Op](), [fold]
    while work:
        fresh = [user for value in work.pop().results for user in value.users if user not in found]
        found.update(fresh)
        work += fresh
    return found


def _meeting(backwards: Iterable[Op], made_of: Set[Op]) -> set[Value]:
    """The values that, or what is computed of them element by element, are wanted together with some of these: what is
    only folded by itself is folded before threads meet. `backwards`: all ops, the last first."""
    found = set[Value]()

    def meets(user: Op) -> bool:
        if user in made_of:
            return True
        return not isinstance(user, (ops.Reduce, ops.Scan, ops.Sort)) and any(value in found for value in user.results)

    for op in backwards:
        found.update(value for value in op.results if any(map(meets, value.users)))
    return found


def _is_wanted(value: Value, fold: int, places: Mapping[Op, int], but: Op | None = None) -> bool:
    """Whether something behind a fold reads a value; what stands in loops and branches counts as behind it."""
    return any(places.get(user, fold + 1) > fold for user in value.users if user is not but)


def _goes_behind(op: Op, fold: int, places: Mapping[Op, int]) -> bool:
    """Whether an op is done behind the fold (`sink-tiles`): nobody wants it before, and its operands are there."""
    if not isinstance(op, (ops.Map, ops.Cast)) or any(places.get(user, 0) <= fold for user in op.result.users):
        return False
    return all(_is_wanted(value, fold, places, op) for value in op.operands if _is_tile(value))


def _bases(value: Value, elements: Callable[[Value], float]) -> set[Value]:
    """The tiles that are held for one: what it is computed of in few instructions, or itself."""
    found = _light(value, MOST_OPS) if elements(value) >= LEAST_HELD or value.dtype.bytes < 4 else None
    return {value} if found is None else found


def _light(value: Value, most: int) -> set[Value] | None:
    op = value.op
    match op:
        case ops.Load() if value.dtype.bytes < 4:
            return {value}
        case ops.Broadcast() | ops.Reshape():
            return set()  # of a few numbers
        case ops.Cast() | ops.Map() if most > 0 and (isinstance(op, ops.Cast) or op.fn in LIGHT):
            found = set[Value]()
            for operand in filter(_is_tile, op.operands):
                made = _light(operand, most - 1)
                if made is None:
                    return None
                found |= made
            return found
        case _:
            return None
