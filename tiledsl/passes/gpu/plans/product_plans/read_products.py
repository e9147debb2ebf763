"""Reads the `ProductNest` of a grid: which blocks are rows and columns of its products, what is loaded for them, and
what else a block does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.dtypes import bool_
from tiledsl.ir.gpu.tensor_maps import LINE_BYTES, UNIT_BYTES
from tiledsl.ir.symbolic import Dim, symbols_of
from tiledsl.ir.types import AxisType, Shape, TileType
from tiledsl.passes.analysis.quotients import repeats
from tiledsl.passes.analysis.sizes import BlockDefinition, size_of
from tiledsl.passes.analysis.splats import number_of
from tiledsl.passes.gpu.layouts.infer_layouts import access_order, tensor_of, tile_axes
from tiledsl.passes.gpu.layouts.operand_sources import are_independent
from tiledsl.passes.gpu.layouts.select_wgmma import multiplied_dtype
from tiledsl.passes.gpu.plans.facts.call_sizes import Sizes
from tiledsl.passes.gpu.plans.facts.cluster_moves import moved_between_blocks
from tiledsl.passes.gpu.plans.facts.loop_lengths import length_between_ends
from tiledsl.passes.gpu.plans.facts.operation_units import UnitCounts, units_of
from tiledsl.passes.gpu.plans.product_plans.held_rows import whole_rows_held
from tiledsl.passes.gpu.plans.product_plans.product_nest import (
    Epilogue,
    Held,
    LoopLengths,
    ProductDot,
    ProductNest,
    Result,
    Side,
    Stream,
    Work,
)
from tiledsl.passes.gpu.products.parallel_products import products_of
from tiledsl.passes.gpu.products.promoted_sums import is_promoted
from tiledsl.passes.gpu.products.row_runs import row_runs
from tiledsl.passes.gpu.products.streamed_loads import Feed, Use, axis_to_clear, goes_to_products_alone, source_load
from tiledsl.passes.gpu.products.window_rows import window_rows
from tiledsl.passes.nest.evaluate_scalars import GuessedScalars, Place
from tiledsl.passes.nest.loop_nest import loop_nest

BLOCKS_OF_ROWS = (64, 128, 192, 256)
"""Those of one block that a tiling may have, where loops depend on them."""
MOST_LENGTHS = 256
"""Blocks whose loops are looked at one by one; of more an even sample is taken."""


LOAD_INSTRUCTIONS = 100
"""Of a thread, for each element that it loads by itself in a loop within a turn of the loop of products: each waits for
memory, and nothing else goes on. Measured: a depthwise convolution within a pointwise one."""


class NotPlannedError(Exception):
    """Why a grid has no plan by warpgroups, in words that follow "because"."""


def read_products(
    grid: ops.Grid, blocks: Sequence[BlockDefinition], feeds: Sequence[Feed], sizes: Sizes
) -> tuple[ProductNest, Axes]:
    """The nest of a grid whose operands can be loaded ahead, as `feeds` says, and the blocks that a tiling is about.

    Raises NotPlannedError where products do not share rows, or do not stand in loops of the grid itself.
    """
    return _Reader(grid, blocks, feeds, sizes).read()


class Axes(NamedTuple):
    """The blocks along the rows and the columns of products, None where there are none or they are whole, and those of
    the loops that products stand in."""

    row: BlockDefinition | None
    column: BlockDefinition | None
    loops: tuple[BlockDefinition, ...]


class _Reader:
    def __init__(self, grid: ops.Grid, blocks: Sequence[BlockDefinition], feeds: Sequence[Feed], sizes: Sizes) -> None:
        self.grid, self.feeds, self.sizes, self.nest = grid, feeds, sizes, loop_nest(grid)
        self.blocks = blocks
        self.by_extent = {b.argument.type.extent: b for b in blocks if isinstance(b.argument.type, AxisType)}
        self.dots = [op for op in grid.body.walk() if isinstance(op, ops.Dot)]
        self.loops = self._loops()
        self.row = self._block_of_grid([dot.a.shape[-2] for dot in self.dots], "rows")
        self.only = products_of(self.loops[0]) if len(self.loops) == 1 else ()
        one_feed = len(feeds) == 1 and (len(self.dots) == 1 or not any(map(is_promoted, self.dots)))
        self.is_plain = bool(self.only) and set(self.only) == set(self.dots) and one_feed
        self.is_back_to_back = len(self.loops) != 1 or not are_independent(self.dots, self.loops[0].body)
        self.column = self._block_of_grid([dot.b.shape[-1] for dot in self.dots], "columns")

    def read(self) -> tuple[ProductNest, Axes]:
        """All of it."""
        for dot in self.dots:
            if self._at_once(dot) > 1:
                raise NotPlannedError("a program multiplies several matrices at once")
        dots = tuple(self._dot(dot) for dot in self.dots)
        results = tuple(self._results())
        loops = tuple(block for block in self.blocks if block.op in self.loops)
        lengths = tuple(self._lengths())
        nest = ProductNest(
            axes=tuple(self._axis(block) for block in self.blocks if block.op is self.grid),
            dots=dots,
            streams=tuple(self._streams()),
            loop=Side("loop", max(map(self._length, loops))) if loops else None,
            lengths=lengths,
            work=tuple(self._work()),
            results=results,
            back_to_back=self.is_back_to_back,
            loops=len(loops),
            computes=not self.is_plain or any(dot.split for dot in dots),
            parallel_products=1 if self.is_back_to_back else sum(dot.columns.kind == "columns" for dot in dots) or 1,
            whole_rows=self.is_plain and self.column is None,
            tma_store=bool(results) and all(self._may_go_by_tma(op) for op in self._stores()),
            grows=any(len(one.lengths) > 1 and one.lengths[-1] > one.lengths[0] for one in lengths),
            masked=self._masked(),
            epilogue=self._epilogue(),
            held=tuple(self._held_rows()),
            rows_apart=self._apart([dot.a.shape[-2] for dot in self.dots], folds=False) or self._turned_results(),
            columns_apart=self._apart([dot.b.shape[-1] for dot in self.dots], folds=True),
            asked=max(self._asked(), default=0.0),
        )
        return nest, Axes(self.row, self.column, loops)

    def _turned_results(self) -> str:
        """Why blocks of a cluster cannot have rows of a product each, where these are columns of what is stored."""
        rows = {dot.a.shape[-2] for dot in self.dots}
        stored = [op.value.shape[-1] for op in self._stores() if len(op.value.shape) > 1]
        turned = bool(stored) and all(side in rows for side in stored)
        return "each block would have columns of what is stored, and TMA stores whole rows" if turned else ""

    def _apart(self, dims: Sequence[Dim], *, folds: bool) -> str:
        """Why blocks of a cluster cannot share one of these sides."""
        reasons = (moved_between_blocks(self.grid, dim, folds=folds) for dim in dict.fromkeys(dims))
        return next(filter(None, reasons), "")

    # Axes

    def _loops(self) -> tuple[ops.Range, ...]:
        """The loops that products stand in, one after the other."""
        found: list[ops.Range] = []
        for dot in self.dots:
            loop = None if dot.parent is None else dot.parent.parent
            if loop is self.grid or loop in found:
                continue
            if not (isinstance(loop, ops.Range) and loop.parent is self.grid.body):
                raise NotPlannedError("a product stands in a branch, or in a loop within another")
            found.append(loop)
        return tuple(found)

    def _block_of_grid(self, dims: Sequence[Dim], what: str) -> BlockDefinition | None:
        """The block of the grid that is this side of products."""
        found = {block.argument: block for dim in dims if (block := self.by_extent.get(dim))}
        of_grid = [block for block in found.values() if block.op is self.grid]
        if len(of_grid) > 1:
            raise NotPlannedError(f"products have different blocks as their {what}")
        return of_grid[0] if of_grid else None

    def _at_once(self, dot: ops.Dot) -> int:
        """How many matrices a product is of: along leading axes that are whole, or cut as the program says."""
        return math.prod(self._said(dim) for dim in dot.result.shape[:-2])

    def _said(self, dim: Dim) -> int:
        block = self.by_extent.get(dim)
        return self.sizes.of(dim) if block is None else _size_said(block)

    def _side(self, dim: Dim, *, of_columns: bool = False) -> Side:
        block = self.by_extent.get(dim)
        if block is None:
            names = {b.extent for b in self.blocks}
            if symbols_of(dim) & names:
                raise NotPlannedError("a side of a tile is computed of the size of a block")
            if of_columns and self.is_plain:
                return Side("columns", self.sizes.of(dim))
            return Side("whole", self.sizes.of(dim))
        if block.op in self.loops:
            return Side("loop", self._length(block))
        return self._cut_up(block) or Side("whole", _size_said(block))

    def _cut_up(self, block: BlockDefinition) -> Side | None:
        """The side of products that a block of the grid is."""
        kind = "rows" if block is self.row else "columns" if block is self.column else None
        return None if kind is None else Side(kind, self.sizes.of(block.total))

    def _sides(self, shape: Shape) -> tuple[Side, ...]:
        columns = {dot.b.shape[-1] for dot in self.dots} if self.is_plain else set[Dim]()
        return tuple(self._side(dim, of_columns=dim in columns) for dim in shape)

    def _axis(self, block: BlockDefinition) -> Side:
        return self._cut_up(block) or Side("whole", -(-self.sizes.of(block.total) // _size_said(block)))

    def _length(self, block: BlockDefinition) -> int:
        """How long a loop is at most: to its end, or that of the tensors that it subscripts."""
        if block.total is not None:
            return self.sizes.of(block.total)
        if self.row is None or not self._depends():  # then all blocks of rows have what the first one has
            places = {b.argument: Place(0, 1) for b in self.blocks if b.op is self.grid}
            length = length_between_ends(block, GuessedScalars(self.sizes.symbols, places))
            if length is not None:
                return max(1, length)
        ends = [
            self.sizes.of(tensor_of(load).shape[axis])
            for feed in self.feeds
            for load in feed.loads
            for axis, index in enumerate(load.indices)
            if index is block.argument
        ]
        return max(ends, default=self.sizes.of(None))

    # Products, what is loaded for them, what is computed beside

    def _dot(self, dot: ops.Dot) -> ProductDot:
        split = dot.precision == "split"
        return ProductDot(
            rows=self._side(dot.a.shape[-2]),
            columns=self._side(dot.b.shape[-1], of_columns=True),
            depth=self._side(dot.a.shape[-1]),
            bytes=max(multiplied_dtype(dot).bytes, 0 if split else dot.b.dtype.bytes),
            in_loop=dot.parent is not self.grid.body,
            left_loaded=source_load(dot.a) is not None,
            right_loaded=source_load(dot.b) is not None,
            adds_to_other=dot.acc is not None and isinstance(dot.acc.op, ops.Dot),
            promoted=is_promoted(dot),
            times=ops.products_for_one(dot),
            split=split,
        )

    def _streams(self) -> Iterator[Stream]:
        seen: set[object] = set()
        for feed in self.feeds:
            for load, use in zip(feed.loads, feed.uses):
                same = (load.tensor, tuple(load.indices), load.parent)  # such loads become one
                if same not in seen:
                    seen.add(same)
                    yield self._stream(load, use)

    def _stream(self, load: ops.Load, use: Use) -> Stream:
        along = use.axes[-1 if use.is_left else -2]
        places = [*(self._grid_axis(index) for index in load.indices), *self._starts_along(load)]
        alignment = self.sizes.alignment_of(load.tensor)
        start = self.sizes.row_start_of(load)
        planes = load.result.shape[0] if use.dot.precision == "planes" else 1
        runs = row_runs(load)
        return Stream(
            sides=self._sides(load.result.shape[1 if planes != 1 else 0 :]),
            bytes=load.result.dtype.bytes,
            in_loop=load.parent is not self.grid.body,
            is_left=use.is_left,
            counts_along_depth=bool(load.result.shape) and access_order(load)[-1] == along,
            row_start=self._row_start(load, alignment),
            moved_by=tuple(sorted({place for place in places if place is not None})),
            copied=start % UNIT_BYTES,
            held=self._held(load),
            only_multiplied=goes_to_products_alone(load),
            windows=self._pixel_bytes(load),
            planes=self.sizes.of(planes),
            run=0 if runs is None else math.gcd(runs.run, runs.divisor),
            cleared=axis_to_clear(load) is not None,
            among=self._among(load),
        )

    def _among(self, load: ops.Load) -> int:
        (access,) = [access for access in self.nest.accesses if access.op is load]
        chosen = dict(access.chosen)
        second = self.grid.body.arguments[-2] if len(self.grid.body.arguments) > 1 else None
        return self.sizes.of(chosen[second]) if second in chosen else 0

    def _row_start(self, load: ops.Load, alignment: int) -> int:
        """The bytes that rows start at a multiple of, as their length says; or those of a copy."""
        type_ = tensor_of(load)
        row = self.sizes.of(type_.shape[type_.unit]) * type_.dtype.bytes if type_.unit is not None else 1
        return LINE_BYTES if alignment >= LINE_BYTES else math.gcd(-(-row // alignment) * alignment, LINE_BYTES)

    def _pixel_bytes(self, load: ops.Load) -> int:
        """Of the channels of a pixel, where rows are positions of windows; 0 where they are not."""
        windows, type_ = window_rows(load), tensor_of(load)
        return 0 if windows is None else self.sizes.of(type_.shape[windows.channels]) * type_.dtype.bytes

    def _starts_along(self, load: ops.Load) -> Iterator[int]:
        """The axes of the grid, neither rows nor columns, each of whose blocks loops over a part of its own."""
        loop = None if load.parent is None else load.parent.parent
        of_grid = [block for block in self.blocks if block.op is self.grid]
        for number, block in enumerate(of_grid):
            others = block not in (self.row, self.column)
            if others and isinstance(loop, ops.Range) and _follows(loop.start, block.argument):
                yield number

    def _held(self, load: ops.Load) -> int:
        """Elements of the tensor that the grid reads: along what a loop goes through, those that it comes to."""
        sizes = [self.sizes.of(dim) for dim in tensor_of(load).shape]
        loop = next((block for block in self.blocks if block.op in self.loops and load.parent is block.op.body), None)
        if loop is None or (self.row is not None and self._depends()):
            return math.prod(sizes)
        runs = row_runs(load)
        through = [n for n, index in enumerate(load.indices) if index is loop.argument]
        moved = set(self._starts_along(load))
        if runs is not None and runs.axis is loop.argument:
            through = [runs.rows, *runs.jumps]
            moved |= {axis for n in runs.jumps if (axis := self._grid_axis(load.indices[n])) is not None}
        of_grid = [block for block in self.blocks if block.op is self.grid]
        reached = self._length(loop) * math.prod(self._axis(of_grid[axis]).size for axis in moved)
        whole = math.prod(sizes[axis] for axis in through)
        return math.prod(n for axis, n in enumerate(sizes) if axis not in through) * min(whole, reached)

    def _grid_axis(self, index: object) -> int | None:
        """Which axis of the grid a subscript follows."""
        while isinstance(index, Value) and isinstance(index.op, ops.Shift):
            index = index.op.axis
        arguments = self.grid.body.arguments
        if isinstance(index, Value) and isinstance(index.type, TileType) and index.type.shape:  # positions of windows
            return next((n for n, a in enumerate(arguments) if _follows(index, a)), None)
        if isinstance(index, Value) and index in arguments:
            return arguments.index(index)
        if isinstance(index, Value) and isinstance(index.type, TileType) and not index.type.shape:
            return next((n for n, a in enumerate(arguments) if _follows(index, a)), None)
        return None

    def _work(self) -> Iterator[Work]:
        """What threads compute in a turn of the loop, but for masks where they bound the loop: clean turns have none.
        Where all turns are made whatever a mask says, it is a comparison and a choice in most of them. What stands in
        loops of the turn comes as often as these go round, and is loaded there by threads themselves."""
        is_bounded = any(
            not isinstance(bound.op, (ops.Size, ops.Constant))
            for loop in self.loops
            for bound in (loop.start, loop.stop)
        )
        found: dict[tuple[Side, ...], UnitCounts] = {}
        for work in self.nest.elementwise:
            times = self._times_in_a_turn(work.op)
            if (
                not times
                or len(work.shape) < 2
                or (_is_mask(work.op) and (is_bounded or not _is_made_in_turns(work.op)))
            ):
                continue
            try:
                sides = self._sides(work.shape)
            except NotPlannedError:
                continue
            units = units_of(work.op, accurate=work.is_accurate)
            found[sides] = found.get(sides, UnitCounts()) + units.times(times)
        for load in (op for loop in self.loops for op in loop.body.walk() if isinstance(op, ops.Load)):
            times = self._times_in_a_turn(load)
            if times > 1 and len(load.result.shape) == 2:
                sides = self._sides(load.result.shape)
                found[sides] = found.get(sides, UnitCounts()) + UnitCounts(arithmetic=times * LOAD_INSTRUCTIONS)
        for dot in self.dots:
            for value in (dot.a, dot.b) if dot.precision == "split" else ():
                sides = self._sides(value.shape)
                found[sides] = found.get(sides, UnitCounts()) + UnitCounts(arithmetic=ops.SPLIT_INSTRUCTIONS)
        for sides, units in found.items():
            yield Work(sides, units.arithmetic + units.doubles, units.special)

    def _asked(self) -> Iterator[float]:
        """Bytes of a row for each element of the loop, of what threads load for operands that they compute."""
        for feed in self.feeds:
            for load, _ in feed.left_out:
                if load.parent is not self.grid.body and len(load.result.shape) == 2:
                    yield load.result.dtype.bytes / repeats(load)

    def _times_in_a_turn(self, op: Op) -> int:
        """How often an op comes in a turn of a loop of products; 0 outside of these."""
        times, block = 1, op.parent
        while block is not None and block not in [loop.body for loop in self.loops]:
            loop = block.parent
            if not isinstance(loop, ops.Range) or loop.blocks[0].kind != "fixed":
                return 0
            times *= -(-self.sizes.of(size_of(loop.stop)) // loop.blocks[0].size)
            block = loop.parent
        return times if block is not None else 0

    def _masked(self) -> bool:
        inside = (op for loop in self.loops for op in loop.body.ops)
        return any(isinstance(op, ops.Map) and op.fn == "where" and _is_mask(op) for op in inside)

    # Around the loop

    def _stores(self) -> list[ops.Store]:
        return [op for op in self.grid.body.walk() if isinstance(op, ops.Store) and len(op.value.shape) >= 2]

    def _results(self) -> Iterator[Result]:
        for op in self._stores():
            if number_of(op.value) is None:  # else every thread has it
                yield Result(self._sides(op.value.shape[-2:]), tensor_of(op).dtype.bytes)

    def _may_go_by_tma(self, op: ops.Store) -> bool:
        unit = tensor_of(op).unit
        last = len(op.value.shape) - 1
        return unit is not None and tile_axes(op)[unit] == last and self.sizes.alignment_of(op.tensor) >= UNIT_BYTES

    def _held_rows(self) -> Iterator[Held]:
        """Tiles with a whole axis that threads load outside of the loops; what rings bring waits in shared memory."""
        fed = {load for feed in self.feeds for load in feed.loads}
        for load, beside_sums in whole_rows_held(self.grid, self.dots):
            if load not in fed:
                try:
                    sides = self._sides(load.result.shape)
                except NotPlannedError:
                    continue
                if any(side.kind == "whole" and side.size > 1 for side in sides):
                    yield Held(sides, load.result.dtype.bytes, beside_sums)

    def _epilogue(self) -> Epilogue:
        """What stands in the body of the grid beside the loop."""
        body = self.grid.body.ops
        if self.is_back_to_back:
            return Epilogue(instructions=sum(_instructions(op) for op in body if self._is_of_result(op)))
        shape = self.dots[0].result.shape[-2:]
        loads = [op for op in body if isinstance(op, ops.Load)]
        of_rows = [op.result.dtype.bytes for op in loads if op.result.shape == shape[-1:]]
        folds = [op for op in body if isinstance(op, ops.Reduce) and op.sources[0].shape[-2:] == shape]
        maps = [op for op in body if isinstance(op, ops.Map) and op.result.shape[-2:] == shape]
        return Epilogue(
            beside_bytes=sum(op.result.dtype.bytes for op in loads if op.result.shape[-2:] == shape),
            row_bytes=max(of_rows, default=0),
            row_loaded=sum(of_rows),
            instructions=sum(map(_instructions, maps)) + len(folds),
            folds=len(folds),
            number_of_a_row=any(op.result.shape == shape[:1] for op in loads),
        )

    def _is_of_result(self, op: Op) -> bool:
        return isinstance(op, ops.Map) and len(op.result.shape) >= 2

    # How long the loops of blocks are

    def _lengths(self) -> Iterator[LoopLengths]:
        if not self.loops:
            return
        if self.row is None or not self._depends():
            yield LoopLengths(0, (self._length_of(0, 1),), 1.0)
            return
        block = self.row.block
        total = self.sizes.of(self.row.total)
        for rows in (block.size,) if block.kind == "fixed" else BLOCKS_OF_ROWS:
            starts = list(range(0, max(1, total), max(1, rows)))
            weight = max(1.0, len(starts) / MOST_LENGTHS)
            if weight > 1:
                starts = [starts[round(n * (len(starts) - 1) / (MOST_LENGTHS - 1))] for n in range(MOST_LENGTHS)]
            yield LoopLengths(rows, tuple(self._length_of(s, min(rows, total - s)) for s in starts), weight)

    def _depends(self) -> bool:
        assert self.row is not None
        row = self.row.argument
        return any(_follows(bound, row) for loop in self.loops for bound in (loop.start, loop.stop))

    def _length_of(self, start: int, extent: int) -> int:
        """The length of the longest loop of a block of rows."""
        places = {b.argument: Place(0, 1) for b in self.blocks if b.op is self.grid}
        if self.row is not None:
            places[self.row.argument] = Place(start, extent)
        values = GuessedScalars(self.sizes.symbols, places)
        longest = 0
        for block in self.blocks:
            if isinstance(block.op, ops.Range) and block.op in self.loops:
                length = length_between_ends(block, values)
                longest = max(longest, self._length(block) if length is None else length)
        return longest


def _size_said(block: BlockDefinition) -> int:
    """Of a block that is no side of products: as the program says, or 1."""
    return block.block.size if block.block.kind == "fixed" else 1


def _follows(value: Value, axis: Value) -> bool:
    """Whether a scalar is computed of where a block lies."""
    seen, work = {value}, [value]
    while work:
        here = work.pop()
        if here is axis:
            return True
        for operand in here.op.operands if here.op is not None else ():
            if operand not in seen:
                seen.add(operand)
                work.append(operand)
    return False


def _is_mask(op: Op) -> bool:
    """Whether an op compares coordinates, or chooses by such a comparison."""
    if isinstance(op, ops.Map) and op.fn == "where":
        return _is_of_coordinates(op.inputs[0])
    return any(_is_of_coordinates(result) for result in op.results)


def _is_made_in_turns(op: Op) -> bool:
    """Whether an op of a mask is made for each element, not for each row and column: a choice, or a comparison."""
    return isinstance(op, ops.Map) and (op.fn == "where" or op.result.dtype == bool_)


def _is_of_coordinates(value: Value) -> bool:
    """Whether a truth value or an integer is computed of coordinates and scalars alone."""
    if value.dtype != bool_ and not value.dtype.is_integer:
        return False
    seen, work = {value}, [value]
    while work:
        here = work.pop()
        if not here.shape or isinstance(here.op, ops.Coordinates):
            continue
        if not isinstance(here.op, (ops.Map, ops.Cast, ops.Broadcast, ops.Reshape, ops.Transpose)):
            return False
        for operand in here.op.operands:
            if operand not in seen:
                seen.add(operand)
                work.append(operand)
    return True


def _instructions(op: Op) -> float:
    """Of threads, for each element; of the slow unit one counts once more."""
    if not isinstance(op, ops.Map):
        return 0.0
    units = units_of(op)
    return units.arithmetic + units.doubles + units.special
