"""What threads load of windows that overlap: each element once for all places that its thread has it in.

    3 x 3 places, 2 x 4 neighbours in each thread       4 * 6 = 24 elements loaded and converted, not 9 * 8 = 72

The same rules as those of `share-loads`, on the loops of a nest: from the inside out, as long as what is loaded
overlaps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Index, Value
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.types import AxisType
from tiledsl.passes.gpu.layouts.access_layouts import access_layout, run_along
from tiledsl.passes.gpu.layouts.infer_layouts import access_order
from tiledsl.passes.gpu.layouts.linear_indices import linear_coordinates, linear_index
from tiledsl.passes.gpu.plan import WRITTEN_OUT, WRITTEN_OUT_WORDS, GridPlan
from tiledsl.passes.nest.loop_nest import Access, LoopNest, NestLoop

WIDEST = 16
"""Bytes that a thread accesses at most."""
WORTH = 0.8
"""Of the elements that loads have together, what one for all of them has at most; `share-loads` goes by it."""


@dataclass(frozen=True)
class Slide:
    """How a window moves with a loop: by `by` coordinates in each turn, along a tile axis whose neighbours are `step`
    coordinates apart."""

    axis: int
    by: int
    step: int


@dataclass(frozen=True)
class SharedLoads:
    """Of one access: elements that a thread loads at once for `turns` turns, in `held` places each, and the loops.
    `of_block`: what a block has of its tensor by then, each element once, of what all turns together use."""

    loops: tuple[NestLoop, ...]
    turns: float
    held: int
    loaded: int
    of_block: float

    @property
    def share(self) -> float:
        """What is loaded of what all turns together use."""
        return self.loaded / (self.turns * self.held)


class SharedWindows:
    """What is shared in one grid under one plan."""

    def __init__(
        self,
        nest: LoopNest,
        grid: GridPlan,
        room: Callable[[Dim], int],
        turns_of: Callable[[NestLoop], float],
        width: Callable[[Access], float],
    ) -> None:
        """`room`: the elements of a tile's axis; `turns_of`: turns of a loop each time that it is come to; `width`: the
        bytes that a thread accesses at once."""
        self.nest, self.grid = nest, grid
        self._room, self._turns_of, self._width = room, turns_of, width
        self._found: dict[Access, SharedLoads | None] = {}

    @cached_property
    def slid(self) -> frozenset[str]:
        """The extents along which windows slide; none where products or roles decide about layouts."""
        if self.nest.dots or self.grid.roles or not self.nest.loops:
            return frozenset()
        return self.nest.slid

    def of(self, access: Access) -> SharedLoads | None:
        """What is shared of an access; None where each turn loads all anew."""
        if not self.slid or not access.is_read or not access.shape or not access.loops:
            return None
        if access not in self._found:
            self._found[access] = self._shared(access)
        return self._found[access]

    def share(self, access: Access) -> float:
        """What is loaded of what an access asks for in all turns."""
        shared = self.of(access)
        return 1.0 if shared is None else shared.share

    def of_block(self, access: Access) -> float:
        """What of that comes to the block; all else it has itself by then."""
        shared = self.of(access)
        return 1.0 if shared is None else shared.of_block

    def together(self, loop: NestLoop) -> bool:
        """Whether all turns of a loop are written out, since what they load overlaps."""
        return any(shared is not None and loop in shared.loops for shared in map(self.of, self.nest.accesses))

    @cached_property
    def any(self) -> bool:
        """Whether anything is shared."""
        return any(self.of(access) is not None for access in self.nest.accesses)

    @cached_property
    def repeated(self) -> float:
        """How many threads compute the same: where fewer have runs of a tile than a block has threads."""
        shared = [access for access in self.nest.accesses if self.of(access) is not None]
        return max((float(self._layout(access).replicas) for access in shared), default=1.0)

    def share_of(self, work: ops.Map | ops.Cast | ops.Reduce | ops.Scan | ops.Sort | ops.Random) -> float:
        """What is computed of an op, for all of its elements: what is converted as it is loaded is so once, and a
        product that is added to a sum is part of that instruction."""
        if isinstance(work, ops.Cast):
            access = self._access_of.get(work.source)
            return 1.0 if access is None else self.share(access)
        if isinstance(work, ops.Map) and work.fn == "mul" and self.any:
            (user, *others) = work.result.users or (None,)
            return 0.0 if not others and isinstance(user, ops.Map) and user.fn == "add" else 1.0
        return 1.0

    @cached_property
    def _access_of(self) -> dict[Value, Access]:
        return {access.op.result: access for access in self.nest.accesses if isinstance(access.op, ops.Load)}

    def words(self, access: Access) -> float:
        """Registers of 32 bits that a thread has of what is loaded at once."""
        shared = self.of(access)
        return 0.0 if shared is None else shared.loaded * access.tensor.dtype.bytes / 4

    def _shared(self, access: Access) -> SharedLoads | None:
        """Loops from the inside out: the first one whose turns do not overlap ends it."""
        runs, apart = self._runs(access)
        if not runs:
            return None
        slides = dict[NestLoop, Slide]()
        further = dict[int, int]()
        turns, loaded = 1.0, 1
        for loop in reversed(access.loops):
            slide, rounds = _slide_of(access, loop), self._turns_of(loop)
            run = 0 if slide is None else slide.step * (runs.get(slide.axis, 0) - 1) + 1
            run = 0 if slide is not None and slide.axis in apart else run
            if slide is None or not 2 <= rounds <= WRITTEN_OUT or slide.by >= run or run < 2:
                break
            reach = {**further, slide.axis: further.get(slide.axis, 0) + round(rounds - 1) * slide.by}
            steps = {s.axis: s.step for s in (*slides.values(), slide)}
            needed = math.prod(_needed(runs[axis], steps.get(axis, 1), reach.get(axis)) for axis in runs)
            if needed * access.tensor.dtype.bytes / 4 > WRITTEN_OUT_WORDS:
                break
            slides[loop], further, loaded = slide, reach, needed
            turns *= rounds
        of_block = math.prod(1 + more / self._room(access.shape[axis]) for axis, more in further.items()) / turns
        shared = SharedLoads(tuple(slides), turns, math.prod(runs.values()), loaded, of_block)
        worth = 1.0 if self._by_pieces(access) else WORTH
        return shared if slides and loaded < worth * turns * shared.held else None

    def _by_pieces(self, access: Access) -> bool:
        """Whether windows slide along rows, of which threads load whole pieces: fewer accesses whatever overlaps."""
        along = str(access.shape[access_order(access.op)[-1]])
        return along in self.slid and self._width(access) > access.tensor.dtype.bytes

    def _runs(self, access: Access) -> tuple[dict[int, int], set[int]]:
        """How many elements each thread has along each axis of a tile, and the axes along which they are no one run:
        stores that are narrow leave the threads of a row several short ones."""
        if not self._slid_axes(access):
            return {}, set()
        layout = self._layout(access)
        found: dict[int, int] = {}
        for digit in layout.slot_digits:
            if digit.axis is not None:
                found[digit.axis] = found.get(digit.axis, 1) * digit.size
        return found, {axis for axis in found if not run_along(layout, axis)}

    def _slid_axes(self, access: Access) -> list[int]:
        return [axis for axis, dim in enumerate(access.shape) if str(dim) in self.slid]

    def _layout(self, access: Access) -> RegisterLayout:
        """How threads hold what an access gives."""
        sizes, order = [self._room(dim) for dim in access.shape], access_order(access.op)
        vector, threads = self._vector(str(access.shape[order[-1]])), self.grid.threads * self.grid.cluster
        width, runs = access.tensor.dtype.bytes, self._slid_axes(access)
        return access_layout(sizes, order, threads, vector, width, self.grid.row_threads, runs)

    def _vector(self, along: str) -> int:
        """How many neighbours of a row threads have: as many as they store at once, but where windows slide along rows
        16 bytes, which are turned for a store of rows that begin anywhere."""
        stores = [a for a in self.nest.accesses if not a.is_read and a.shape]
        bytes_ = [WIDEST if along in self.slid else self._width(a) for a in stores]
        return max(1, int(min((b // a.tensor.dtype.bytes for a, b in zip(stores, bytes_)), default=4)))


def _needed(run: int, step: int, reach: int | None) -> int:
    """Neighbours in memory that a thread needs along an axis, for `run` windows that reach so far on."""
    return run if reach is None else step * (run - 1) + 1 + reach


def _slide_of(access: Access, loop: NestLoop) -> Slide | None:
    """The one axis along which a loop that goes one by one moves a window; None where it moves it otherwise."""
    definition = loop.definition
    if definition is None or definition.block.kind != "fixed" or definition.block.size != 1:
        return None
    found: list[Slide] = []
    axis = 0
    for index in access.op.indices:
        slide = _along(index, loop, axis)
        if slide is not None:
            found.append(slide)
        elif isinstance(index, Value) and loop.axis in _terms(index):
            return None  # another coordinate of the tensor in each turn
        axis += not (isinstance(index, Value) and not isinstance(index.type, AxisType) and not index.shape)
    return found[0] if len(found) == 1 else None


def _along(index: Index, loop: NestLoop, axis: int) -> Slide | None:
    if not isinstance(index, Value) or loop.axis is None:
        return None
    if isinstance(index.type, AxisType):
        offset = index.op.offset if isinstance(index.op, ops.Shift) else None
        by = 0 if offset is None else dict(linear_index(offset).terms).get(loop.axis, 0)
        return Slide(axis, abs(by), 1) if by else None
    if not index.shape:
        return None
    sum_ = linear_coordinates(index)
    by = 0 if sum_ is None else dict(sum_.sum.terms).get(loop.axis, 0)
    return Slide(axis, abs(by), sum_.step) if sum_ is not None and by and sum_.axis >= 0 else None


def _terms(index: Value) -> frozenset[Value]:
    """The values that a scalar subscript is a sum of."""
    if isinstance(index.type, AxisType) or index.shape:
        return frozenset()
    return frozenset(value for value, _ in linear_index(index).terms)
