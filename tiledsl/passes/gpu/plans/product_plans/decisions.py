"""What a plan with specialised warps decides, one decision after the other: each goes on from what was decided before.

    consumers -> columns -> depth -> ring -> cluster -> walk -> counter

A decision gives the options that a grid leaves it and the machine has room for; what it refuses, it refuses with a
reason. To add one: a class with `options`, here or in a file of its own, its place in DECISIONS, and the lowering of
what it says.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from tiledsl.passes.gpu.plan import APART
from tiledsl.passes.gpu.plans.product_plans.footprint import (
    fits_memory,
    instruction_fits,
    lends_room,
    registers_of,
    stages_that_fit,
)
from tiledsl.passes.gpu.plans.product_plans.product_nest import ProductNest
from tiledsl.passes.gpu.plans.product_plans.search import Decision, Search, programs_of
from tiledsl.passes.gpu.plans.product_plans.tile_counter import TileCounter
from tiledsl.passes.gpu.plans.product_plans.tilings import STEP_BYTES, WARPGROUP, WARPGROUP_ROWS, WHOLE_UNIT, Tiling

SHAPES = (
    ("cooperative", 64, 1, 1), ("cooperative", 128, 2, 1), ("cooperative", 128, 1, 1), ("cooperative", 192, 3, 1),
    ("cooperative", 256, 2, 1), ("cooperative", 64, 1, 2),
    ("pingpong", 64, 1, 1), ("pingpong", 128, 1, 1), ("pingpong", 192, 1, 1),
)  # fmt: skip
"""How consumers share a tile: roles, rows, and how many of them along rows and columns."""
WHOLE_ROWS = (*SHAPES, ("cooperative", 64, 1, 3))
"""The same where a tile has whole rows."""
BACK_TO_BACK = (
    ("cooperative", 64, 1, 1), ("cooperative", 128, 2, 1), ("cooperative", 192, 3, 1), ("cooperative", 64, 1, 2),
    (APART, 64, 1, 2),
)  # fmt: skip
"""The same where products feed on each other: each warpgroup keeps 64 rows to itself, or two have the same rows, and
half of the columns of every product each, or of sums alone, and a third one makes the scores."""
COMPUTING = tuple(shape for shape in SHAPES if shape[3] == 1)
"""The same where operands are computed: warpgroups that shared rows would compute the same left ones each."""
COLUMNS = tuple(range(16, 257, 16))
"""Multiples of 16: an instruction for 8 columns more is never worth it."""
COLUMNS_IN_SPANS = (16, 32, 64, 128, 192, 256)
"""Where the right operand counts fastest along its columns: whole rows of a swizzle, of 16-bit elements."""
COLUMN_STEP = 8
MOST_COLUMNS = 256
"""Of an instruction, and of a box that TMA copies."""
FEWEST_IN_LOOP = 32
"""Columns of a product that a loop goes through in blocks."""
SPAN_BYTES = 128
"""A row of a stage, as the widest swizzle has it; steps of loops that only sum are one or two of them deep."""
SPANS = (1, 2)
SIDES = (1, 2)
"""Blocks of a cluster side by side."""
ACROSS = (1, 2, 4, 8)
"""Blocks of a cluster that share whole rows."""
SPLITS = (2, 4, 8)
SECTOR_BYTES = 32
"""What memory is written in."""
MOST_RESIDENT = 4
MOST_TILES, LARGE = 48, 128 * 128
"""With more tiles for each multiprocessor, those of fewer elements are not looked at."""
LARGE_ROWS = 192
"""Of tiles that are as large as they get where there are few columns."""
FEWEST_STAGES = 3
"""Of a ring: with two, every copy is waited for (measured: a tenth slower, and more)."""
COMPUTING_STAGES = 2
"""Of a ring whose stages are blocks that a loop computes with: that takes long enough to hide a copy."""
FEWEST_STEPS = 4
"""Of a split."""
TOGETHER = (8, 16, 32, 64)
"""Blocks of the last axis but one that are walked side by side, where loops are longer for some blocks of the last."""


class Consumers:
    """Who multiplies: warpgroups, the rows of their tile, and how they share it."""

    name = "consumers"

    def options(self, search: Search, tiling: Tiling) -> Iterator[Tiling]:
        """Shapes whose last warpgroup has rows."""
        nest, contract = search.nest, search.contract
        shapes = WHOLE_ROWS if nest.whole_rows else SHAPES
        if nest.computes:
            shapes = BACK_TO_BACK if nest.back_to_back else COMPUTING
        for roles, rows, row_groups, column_groups in shapes:
            option = tiling._replace(rows=rows, roles=roles, row_groups=row_groups, column_groups=column_groups)
            if roles == "pingpong" and not search.families.pingpong:
                continue
            if column_groups > 1 and nest.back_to_back and not _need_sharing(search, option):
                continue
            if roles == APART and nest.apart:
                search.refuse(option, nest.apart)
                continue
            if contract.rows is None and rows > WARPGROUP_ROWS and rows - WARPGROUP_ROWS >= nest.rows:
                continue  # the last warpgroup would have nothing
            if contract.rows is not None and contract.rows % rows:
                search.refuse(option, f"blocks of {contract.rows} rows are asked for")
                continue
            if any(dot.split for dot in nest.dots) and row_groups & (row_groups - 1):
                search.refuse(option, f"{row_groups} warpgroups do not share the planes of right operands evenly")
                continue
            whole = [dot.rows.size for dot in nest.dots if dot.rows.kind == "whole"]
            if any(size % (WARPGROUP_ROWS * row_groups) for size in whole):
                search.refuse(option, f"{row_groups} warpgroups do not share products of {whole} rows in whole 64s")
                continue
            yield option


def _need_sharing(search: Search, tiling: Tiling) -> bool:
    """Whether warpgroups share the columns of products back to back: one alone has no registers for the sums of all.
    Else it would cost exchanges in each turn, and gain nothing. Right operands that are computed are not shared."""
    nest = search.nest
    alone = tiling._replace(column_groups=1, depth=FEWEST_IN_LOOP)
    return all(dot.right_loaded for dot in nest.dots) and not registers_of(nest, alone, search.machine).fit


class Columns:
    """How many columns of each product a block makes, where the grid cuts them up or a cluster shares them."""

    name = "columns"

    def options(self, search: Search, tiling: Tiling) -> Iterator[Tiling]:
        """The fewest for each number of tiles."""
        nest, contract, machine = search.nest, search.contract, search.machine
        if not nest.columns:
            yield tiling
            return
        before = 0
        for columns in self._sizes(search):
            option = tiling._replace(columns=columns)
            across = -(-nest.columns // columns)
            if across == before:
                continue  # as many tiles, only larger
            if not self._divides(search, option):
                search.refuse(option, f"{columns} columns are not shared evenly by {tiling.column_groups} warpgroups")
                continue
            before = across
            if nest.whole_rows:
                option = option._replace(across=across)
            held = 2 if any(dot.promoted for dot in nest.dots) else 1  # with the parts that are added to sums
            large = min(LARGE, LARGE_ROWS * nest.columns) // held
            small = option.tiles(nest) > MOST_TILES * machine.multiprocessors and tiling.rows * columns < large
            if small and not nest.back_to_back and contract.rows is None and contract.columns is None:
                continue
            yield option

    @staticmethod
    def _sizes(search: Search) -> Sequence[int]:
        nest, contract = search.nest, search.contract
        if nest.whole_rows:
            whole = -(-nest.columns // WHOLE_UNIT) * WHOLE_UNIT
            every = [across for across in ACROSS if across == 1 or _is_shared(nest, across)]
            if nest.columns_apart and len(every) > 1:
                search.refuse(Tiling(0, whole // every[1], 0, across=every[1]), nest.columns_apart)
                every = every[:1]
            return [whole // across for across in every]
        if contract.columns is not None:
            return (contract.columns,) if contract.columns <= MOST_COLUMNS else ()
        rights = [stream for stream in nest.streams if not stream.is_left]
        every = COLUMNS if all(stream.counts_along_depth for stream in rights) else COLUMNS_IN_SPANS
        return [columns for columns in every if columns * nest.parallel_products <= MOST_COLUMNS]

    @staticmethod
    def _divides(search: Search, tiling: Tiling) -> bool:
        """Whether consumers can share these columns: no instruction ends within a row of a swizzle."""
        nest, columns, groups = search.nest, tiling.columns, tiling.column_groups
        if columns % (groups * COLUMN_STEP) != 0:
            return False
        rights = [stream for stream in nest.streams if not stream.is_left]
        return all(stream.counts_along_depth for stream in rights) or _ends_with_spans(columns * nest.bytes, groups)


def _ends_with_spans(row_bytes: int, groups: int) -> bool:
    """Whether parts of a row, one for each of the groups, are of whole rows of a swizzle, as wide as it can be."""
    return row_bytes // groups % math.gcd(row_bytes, SPAN_BYTES) == 0


def _is_shared(nest: ProductNest, across: int) -> bool:
    """Whether blocks of a cluster can share whole rows."""
    alone = nest.by_threads or nest.reads_alone or nest.epilogue.number_of_a_row
    return nest.columns % (across * WHOLE_UNIT) == 0 and nest.tma_store and not alone


class Depth:
    """The block of the loop: what a turn sums up, or the columns of a product that a turn computes with."""

    name = "depth"

    def options(self, search: Search, tiling: Tiling) -> Iterator[Tiling]:
        """Steps that instructions divide, as long as threads have registers for what comes of them."""
        nest, contract = search.nest, search.contract
        if nest.loop is None:
            yield from self._that_fit(search, [tiling])
            return
        step = STEP_BYTES // nest.bytes
        if any(dot.columns.kind == "loop" for dot in nest.dots):
            sizes = range(FEWEST_IN_LOOP, MOST_COLUMNS + 1, WHOLE_UNIT)
            unit = WARPGROUP_ROWS * tiling.row_groups if any(dot.rows.kind == "loop" for dot in nest.dots) else 1
            longest = max(nest.loop.size, FEWEST_IN_LOOP, unit)
            every = [size for size in sizes if size % unit == 0 and size - max(unit, WHOLE_UNIT) < longest]
            if contract.depth is not None:
                every = [contract.depth] if contract.depth % WHOLE_UNIT == 0 and contract.depth <= MOST_COLUMNS else []
        else:
            span = SPAN_BYTES // nest.bytes
            every = [span * spans for spans in SPANS if spans == 1 or nest.loop.size > span]
            if nest.by_planes:
                every = [span // 2, span]
            if contract.depth is not None:
                every = [contract.depth] if contract.depth % step == 0 else []
        every = _of_whole_runs(nest, every) or every
        if not every:
            search.refuse(tiling, f"steps of {contract.depth} are asked for, which instructions do not divide")
        every = [depth for depth in every if self._is_shared_evenly(search, tiling._replace(depth=depth))]
        yield from self._that_fit(search, [tiling._replace(depth=depth) for depth in every])

    @staticmethod
    def _is_shared_evenly(search: Search, tiling: Tiling) -> bool:
        """Whether warpgroups that share products back to back can share the columns of each: no instruction ends within
        a row of a swizzle."""
        groups = tiling.column_groups
        if groups == 1 or not search.nest.back_to_back:
            return True
        for stream in search.nest.streams:
            columns = tiling.length(stream.sides[-1])
            by_rows = not stream.is_left and not stream.counts_along_depth
            if by_rows and not _ends_with_spans(columns * stream.bytes, groups):
                search.refuse(tiling, f"{columns} columns are not shared evenly by {groups} warpgroups")
                return False
        return all(tiling.length(dot.columns) % (groups * COLUMN_STEP) == 0 for dot in search.nest.dots)

    @staticmethod
    def _that_fit(search: Search, options: Sequence[Tiling]) -> Iterator[Tiling]:
        for option in options:
            held, room = registers_of(search.nest, option, search.machine)
            if held > room:
                reason = f"a thread would hold {held} registers of tiles, and has room for {room}"
                search.refuse(option, reason)
                if not search.nest.back_to_back:
                    return
                break
            yield option


def _of_whole_runs(nest: ProductNest, sizes: Sequence[int]) -> list[int]:
    """The blocks of the loop that have whole runs of rows, or that such are cut into: others take many small boxes."""
    runs = {stream.run for stream in nest.streams if stream.run and stream.in_loop}
    return [size for size in sizes if all(size % run == 0 or run % size == 0 for run in runs)]


class Ring:
    """How many stages loads run ahead, and how many blocks share a multiprocessor."""

    name = "ring"

    def options(self, search: Search, tiling: Tiling) -> Iterator[Tiling]:
        """As many stages as fit."""
        nest, machine, asked = search.nest, search.machine, search.contract.stages
        tiles = tiling.tiles(nest)
        several = search.families.resident and not nest.computes and not nest.by_threads and tiling.across == 1
        computes = any(dot.columns.kind == "loop" for dot in nest.dots)
        fewest = COMPUTING_STAGES if computes or nest.by_planes else FEWEST_STAGES
        for resident in range(1, MOST_RESIDENT + 1 if several else 2):
            option = tiling._replace(resident=resident)
            # how many programs there are is decided later, but those that go on have no stages to lend to a result
            walked = option._replace(programs=int(tiles > programs_of(machine, option)))
            if resident > 1 and tiles <= (resident - 1) * machine.multiprocessors:
                break
            if not registers_of(nest, option, machine).fit or not instruction_fits(nest, option, machine):
                search.refuse(option, f"threads have no registers for it where {resident} blocks share them")
                break
            if nest.loop is None:
                yield option._replace(stages=2)
                return
            stages = stages_that_fit(nest, walked, machine)
            if stages < (asked or fewest):
                search.refuse(option, f"shared memory has room for {max(0, stages)} stages, of {asked or fewest}")
                break
            stages = asked or (min(stages, COMPUTING_STAGES) if computes else stages)
            if stages > 1 and fits_memory(nest, walked._replace(stages=stages), machine):
                yield option._replace(stages=stages)


class Cluster:
    """Blocks that share operands, rows or a loop."""

    name = "cluster"

    def options(self, search: Search, tiling: Tiling) -> Iterator[Tiling]:
        """Alone, side by side, or sharing the loop."""
        nest, wanted = search.nest, search.contract.rows or 0
        if nest.back_to_back or tiling.across > 1:
            if wanted in (0, tiling.rows):
                yield tiling
            return
        for side in SIDES:
            moved = nest.staged and not nest.tma_store
            if side > 1 and (moved or nest.by_threads or nest.reads_alone):
                continue  # what moves between threads, what they copy, windows and runs stay in one block
            if wanted not in (0, tiling.rows * side) or (side > 1 and nest.rows <= tiling.rows):
                continue
            if side > 1 and nest.rows_apart:
                search.refuse(tiling._replace(side=side), nest.rows_apart)
                continue
            yield tiling._replace(side=side)
        if wanted in (0, tiling.rows):
            yield from self._splits(search, tiling)

    @staticmethod
    def _splits(search: Search, tiling: Tiling) -> Iterator[Tiling]:
        """Shared loops: blocks have whole sectors of columns each, and room for the sums of all."""
        nest, asked = search.nest, search.contract.stages
        if not (search.families.splits and nest.splittable) or nest.whole_rows or tiling.resident > 1:
            return
        alone = tiling.roles == "pingpong" or tiling.column_groups > 1 or nest.reads_alone
        if alone or search.contract.depth is not None or nest.by_threads or nest.loop is None:
            return
        tiles = tiling.tiles(nest)
        for splits in SPLITS:
            if tiles * splits > 2 * search.machine.multiprocessors:
                return
            if nest.loop.size < splits * FEWEST_STEPS * tiling.depth:
                return
            option = tiling._replace(splits=splits)
            stages = stages_that_fit(nest, option, search.machine)
            if stages < (asked or FEWEST_STAGES):
                return
            option = option._replace(stages=asked or stages)
            columns = tiling.columns // splits
            whole = tiling.columns % (splits * COLUMN_STEP) == 0 and columns * nest.out_bytes % SECTOR_BYTES == 0
            if not lends_room(nest, option):
                return
            if whole and tiling.rows * columns >= tiling.consumers * WARPGROUP:
                yield option


class Walk:
    """One program for each tile, or programs that go through all of them, and in which order."""

    name = "walk"

    def options(self, search: Search, tiling: Tiling) -> Iterator[Tiling]:
        """Programs that go on pay for one beginning; the hardware gives tiles to whoever is free."""
        nest, machine = search.nest, search.machine
        tiles = tiling.tiles(nest)
        if tiling.splits > 1:
            yield tiling
            return
        if nest.back_to_back:
            together = sorted({min(count, self._beside(nest)) for count in TOGETHER}) if nest.grows else [1]
            yield tiling._replace(raster=together[0])
            if tiles > machine.multiprocessors and not tiling.apart:
                for raster in together:
                    yield tiling._replace(programs=machine.multiprocessors, raster=raster)
            return
        programs = programs_of(machine, tiling)
        if tiling._replace(side=1).tiles(nest) > programs * tiling.side:
            option = tiling._replace(programs=programs)
            if fits_memory(nest, option, machine):
                yield option
            else:
                search.refuse(option, "results of programs that go on have no room beside the stages")
        elif tiling.roles == "pingpong":
            search.refuse(tiling, "consumers in turn need programs that go through several tiles")
        else:
            yield tiling

    @staticmethod
    def _beside(nest: ProductNest) -> int:
        """Blocks of the axes before the last one."""
        return max(1, math.prod(axis.size for axis in nest.axes if axis.kind == "whole"))


DECISIONS: tuple[Decision, ...] = (Consumers(), Columns(), Depth(), Ring(), Cluster(), Walk(), TileCounter())
"""In the order in which they are taken."""
