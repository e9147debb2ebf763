"""How much room GPU tiles have: for each size of a TILE program the number of elements that registers are made for.

A tile's extent is known only when the program runs (`m` of a block, `N` of a whole axis); registers and shared memory
are made for the most that it can be, its capacity. What lies between is padding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tiledsl.ir.core import Function
from tiledsl.ir.dtypes import DType
from tiledsl.ir.symbolic import Dim, evaluate, symbols_of
from tiledsl.ir.tile_ops import Dot, For, Grid, Load, Range, Reduce, Scan, Sort, Store, While
from tiledsl.ir.types import Shape
from tiledsl.passes.analysis.sizes import blocks_in
from tiledsl.passes.analysis.slid_axes import slid_axes
from tiledsl.passes.gpu.layouts.access_layouts import SHORT_RUN
from tiledsl.passes.gpu.plan import GridPlan, Plan
from tiledsl.support.powers_of_two import power_of_two_from, power_of_two_in, power_of_two_up_to

ROOM_SIDE = 16
"""Rows and columns of matrix products come in multiples of it: those of instructions divide it."""
ROOM_DEPTH = 16
"""What is multiplied and added up comes in multiples of it, and of `ROOM_DEPTH_OF_BYTES` for operands of 8 bits."""
ROOM_DEPTH_OF_BYTES = 32
MOST_SHARED_OUT = 128
"""Elements of an axis that is padded so that threads can share it out."""
WIDEST = 16
"""Bytes that a thread accesses at most."""
LARGE_PART = 2
"""Tiles of so small a part of the largest one, or more, are shared out too."""


def rounded(size: int) -> int:
    """Room for `size` elements that threads can share: a multiple of a power of two of about a quarter of it.

    From 256 on it is an eighth, so that many threads can share a long row, and no more than a ninth is padding.

    >>> rounded(5), rounded(80), rounded(100), rounded(1000), rounded(3000)
    (5, 80, 112, 1024, 3072)
    """
    if size <= 2:
        return max(1, size)
    power = power_of_two_up_to(size)
    granule = max(1, min(power // 4, max(32, power // 8)))
    return -(-size // granule) * granule


def rows_of_warpgroups(grid: GridPlan) -> int:
    """What rows of a product come in multiples of, where warps are specialised."""
    return ROOM_SIDE * grid.warps[0] * max(1, grid.cluster // (grid.splits * grid.across))


class Capacities:
    """The capacity of every size in a function, or in one grid of it, under a plan, which may have been applied."""

    def __init__(self, function: Function | Grid, plan: Plan) -> None:
        self._whole = dict(plan.capacities)
        chosen = dict(plan.blocks)
        self._blocks: dict[str, int] = {
            block.extent: block.block.size if block.block.kind == "fixed" else chosen.get(block.extent, 1)
            for block in blocks_in(function).values()
            if block.extent is not None
        }
        self._multiples: dict[str, int] = {}
        self._known: dict[Dim, int] = {}
        # warpgroups multiply blocks of any multiple of 8 columns, and nobody else shares them out
        specialised = [grid for grid in plan.grids if grid.roles]
        self._exact = bool(specialised)
        self._flat_lanes = max((grid.row_threads for grid in plan.grids if grid.flat), default=0)
        # a block that is as large as the size of its axis is that size, which their instructions may not divide
        self._rows = math.lcm(ROOM_SIDE, *(rows_of_warpgroups(grid) for grid in specialised))
        for op in function.walk():
            if isinstance(op, Dot):
                self._round_for(op)
            elif isinstance(op, Sort):
                dim = op.source.shape[op.axis]
                self._multiples[str(dim)] = power_of_two_from(self._plain(dim))
        if not self._flat_lanes:
            threads = min((grid.threads_of_tile * grid.cluster for grid in plan.grids), default=1)
            for op in [function] if isinstance(function, Grid) else function.body.ops:
                if isinstance(op, Grid):
                    self._share_out(op, threads)

    def _round_for(self, dot: Dot) -> None:
        """Axes of matrix products have room for whole matrix instructions, whichever is taken."""
        rows, depth, columns = dot.a.shape[-2], dot.a.shape[-1], dot.b.shape[-1]
        deep = ROOM_DEPTH if dot.a.dtype.bits >= 16 else ROOM_DEPTH_OF_BYTES
        high = self._rows if isinstance(rows, int) else ROOM_SIDE
        for dim, multiple in ((rows, high), (columns, ROOM_SIDE), (depth, deep)):
            if dim != 1:
                text = str(dim)
                self._multiples[text] = math.lcm(multiple, self._multiples.get(text, 1))

    def _share_out(self, grid: Grid, threads: int) -> None:
        """Short axes whose sizes are known (13 x 13) have room for a power of two, where threads could not share out
        what a grid moves otherwise: 14 x 14 are 4 parts. Where windows slide, threads have runs, and what they share
        out are these. Not where tiles are folded, each thread some of its own."""
        if any(isinstance(op, (Dot, Reduce, Scan, Sort)) for op in grid.walk()):
            return
        tiles = [(op.result.shape, op.result.dtype) for op in grid.walk() if isinstance(op, Load)]
        tiles += [(op.value.shape, op.value.dtype) for op in grid.walk() if isinstance(op, Store)]
        if not tiles:
            return
        largest = max(math.prod(self.shape(shape)) for shape, _ in tiles)
        for shape, dtype in dict.fromkeys(tiles):
            if LARGE_PART * math.prod(self.shape(shape)) >= largest:
                self._share_out_tile(grid, shape, dtype, threads)

    def _share_out_tile(self, grid: Grid, shape: Shape, dtype: DType, threads: int) -> None:
        known = {dim for dim in shape if isinstance(dim, int) and 2 < dim <= MOST_SHARED_OUT}
        loops = any(isinstance(op, (Range, For, While)) for op in grid.walk())
        parts = threads * (1 if loops else max(1, WIDEST // dtype.bytes))
        slid = slid_axes(grid.walk()) if loops else frozenset[str]()
        run = WIDEST // dtype.bytes

        def shared_out() -> int:
            found = 1
            for axis, dim in enumerate(shape):
                pieces = power_of_two_in(self.of(dim))
                if str(dim) in slid:
                    pieces //= min(pieces, run if axis == len(shape) - 1 else SHORT_RUN)
                found *= pieces
            return found

        for dim in sorted(known, key=lambda dim: (power_of_two_from(dim) / dim, dim)):
            if shared_out() < parts:
                self._multiples[str(dim)] = power_of_two_from(self.of(dim))
                self._known.clear()

    def of(self, dim: Dim) -> int:
        """The capacity of a size. Of an expression, what it comes to for the capacities of its symbols."""
        if dim not in self._known:
            multiple = self._multiples.get(str(dim), 1)
            self._known[dim] = -(-self._plain(dim) // multiple) * multiple
        return self._known[dim]

    def _plain(self, dim: Dim) -> int:
        if isinstance(dim, int) and self._flat_lanes and dim >= self._flat_lanes:
            return -(-dim // self._flat_lanes) * self._flat_lanes  # rows have as many elements as they have
        text = str(dim)
        if isinstance(dim, int):  # a block too, where blocks divide the size of their axis
            return dim if self._exact and text in self._multiples else rounded(dim)
        if text in self._whole:
            return self._whole[text]
        if text in self._blocks:
            block = self._blocks[text]
            return block if self._exact and text in self._multiples else rounded(block)
        return rounded(max(1, evaluate(dim, self._symbols(symbols_of(dim)))))

    def _symbols(self, names: frozenset[str]) -> Mapping[str, int]:
        return {name: self._whole.get(name, self._blocks.get(name, 1)) for name in names}

    def shape(self, dims: tuple[Dim, ...]) -> tuple[int, ...]:
        """The capacities of a shape."""
        return tuple(self.of(dim) for dim in dims)
