"""Plans for products by threads that are all alike: they copy operands, and multiply by `mma.sync` or one by one.

    tile -> depth -> stages

One decision after the other gives the options that a product leaves it and the machine has room for; what it refuses,
it refuses with a reason; `thread_cost.py` ranks what is left. Products that feed on each other, as in attention, keep
rows within warps, so that what is folded along rows and multiplied again never leaves registers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.gpu.matrix_instructions import INSTRUCTIONS
from tiledsl.ir.symbolic import Dim, symbol_name
from tiledsl.passes.analysis.folds import fold_of
from tiledsl.passes.analysis.sizes import BlockDefinition, blocks_of
from tiledsl.passes.gpu.layouts.capacities import ROOM_DEPTH, ROOM_DEPTH_OF_BYTES
from tiledsl.passes.gpu.layouts.select_mma import choose_instruction
from tiledsl.passes.gpu.plan import GridPlan, Plan
from tiledsl.passes.gpu.plans.product_plans.held_rows import whole_rows_held
from tiledsl.passes.gpu.plans.product_plans.thread_cost import (
    MOST_REGISTERS,
    ThreadNest,
    ThreadTiling,
    registers_of,
    resident_blocks,
    stage_bytes,
    sums_of,
    thread_seconds,
)
from tiledsl.passes.gpu.products.window_rows import window_rows
from tiledsl.passes.gpu_machine import GpuMachine
from tiledsl.support.powers_of_two import power_of_two_from, power_of_two_up_to

SizeOf = Callable[["Dim | None"], int]


FRAGMENT = 16
"""Rows and columns of a warp's part of a tile, at least."""
PARTS = ((16, 16), (16, 32), (16, 64), (32, 16), (32, 32), (32, 64), (64, 32), (64, 64))
"""Of a tile, that one warp multiplies by matrix instructions: more rows and columns read less for each product."""
WARPS = ((1, 2), (2, 1), (1, 4), (2, 2), (4, 1), (2, 4), (4, 2))
"""How warps share a tile."""
PLAIN_TILES = ((128, 128, (8, 1)), (64, 64, (4, 1)), (32, 32, (4, 1)), (16, 16, (2, 1)))
"""Tiles and warps without matrix instructions: what the layouts of threads for single multiply-adds divide."""
DEPTH_BYTES = (64, 128)
"""Of a row of a stage: a half or a whole of a row of the swizzle."""
WHOLE_DEPTH_BYTES = (32, 64, 128)
PLAIN_DEPTH = 16
STAGES = (2, 3, 4)
MOST_PLANS = 12
"""That are kept, each of another tile."""
WHOLE_ROWS = (16, 32, 64)
WHOLE_WARPS = ((1, 4), (1, 8), (1, 16), (2, 4))
"""How many whole rows a block has, and how warps share them."""
PLAIN_WHOLE_ROWS = (8, 16, 32)
PLAIN_WHOLE_WARPS = ((8, 1), (16, 1))
WHOLE_ROW_SUMS = 96
"""Registers of a thread that hold sums there; half as many without matrix instructions."""
WHOLE_ROW_UNIT = 16
HELD_UNIT = 256
"""What rows that warps hold have room for a multiple of: 8 elements for each thread."""


class Refusal(NamedTuple):
    """A tiling as far as it was decided, and why there is none like it."""

    tiling: ThreadTiling
    reason: str


@dataclass
class ThreadSearch:
    """What decisions know. `refused` lists what was refused, if anybody asks for it."""

    nest: ThreadNest
    machine: GpuMachine
    refused: list[Refusal] | None = field(default=None)

    def refuse(self, tiling: ThreadTiling, reason: str) -> None:
        """Notes why a tiling is left out."""
        if self.refused is not None:
            self.refused.append(Refusal(tiling, reason))

    def tilings(self) -> list[ThreadTiling]:
        """All that fit the machine, and may make sense for the sizes."""
        found: list[ThreadTiling] = [ThreadTiling(0, 0)]
        for decision in DECISIONS:
            found = [option for tiling in found for option in decision(self, tiling)]
        return found

    def ranked(self) -> Sequence[tuple[float, ThreadTiling]]:
        """The same with predicted seconds, the fastest first."""
        return _ranked(self.nest, self.machine) if self.refused is None else self.priced()

    def priced(self) -> tuple[tuple[float, ThreadTiling], ...]:
        """What `ranked` gives, made anew: what is refused is noted."""
        return tuple(sorted((thread_seconds(self.nest, one, self.machine), one) for one in self.tilings()))


@lru_cache(maxsize=256)
def _ranked(nest: ThreadNest, machine: GpuMachine) -> tuple[tuple[float, ThreadTiling], ...]:
    """Kept, since one product is planned with this and that around it."""
    return ThreadSearch(nest, machine).priced()


def tiles(search: ThreadSearch, tiling: ThreadTiling) -> Iterator[ThreadTiling]:
    """Tiles that are no larger than the product, and whose sums and operands threads can hold."""
    nest = search.nest
    if nest.whole:
        yield from _whole_rows(search, tiling)
        return
    choices = [(down * rows, across * columns, (down, across)) for rows, columns in PARTS for down, across in WARPS]
    least = (FRAGMENT, FRAGMENT)
    for rows, columns, warps in PLAIN_TILES if nest.plain else choices:
        option = tiling._replace(rows=rows, columns=columns, warps=warps)
        most = (max(least[0], power_of_two_from(nest.rows)), max(least[1], power_of_two_from(nest.columns)))
        if not nest.plain and (rows > most[0] * warps[0] or columns > most[1]):
            continue  # warps would have nothing but padding
        held, sums = registers_of(nest, option), sums_of(nest, option)
        if held > MOST_REGISTERS:
            search.refuse(option, f"a thread would hold {held} registers, and has room for {MOST_REGISTERS}")
            continue
        if sums > MOST_SUMS:
            search.refuse(option, f"a thread would hold {sums} registers of sums, and has room for {MOST_SUMS}")
            continue
        yield option


def _whole_rows(search: ThreadSearch, tiling: ThreadTiling) -> Iterator[ThreadTiling]:
    """Rows that something is folded along: warps have parts of each, or threads without matrix instructions."""
    nest = search.nest
    most = WHOLE_ROW_SUMS // 2 if nest.plain else WHOLE_ROW_SUMS
    for rows in PLAIN_WHOLE_ROWS if nest.plain else WHOLE_ROWS:
        for warps in PLAIN_WHOLE_WARPS if nest.plain else WHOLE_WARPS:
            option = tiling._replace(rows=rows, columns=nest.columns, warps=warps)
            sums = sums_of(nest, option)
            if sums > most:
                search.refuse(option, f"a thread would hold {sums} registers of sums, and has room for {most}")
            elif nest.columns % (warps[1] * 8) or (not nest.plain and rows < FRAGMENT * warps[0]):
                search.refuse(option, f"{warps[1]} warps do not share {nest.columns} columns in eights")
            else:
                yield option


def depths(search: ThreadSearch, tiling: ThreadTiling) -> Iterator[ThreadTiling]:
    """How much of the sum a turn brings."""
    nest = search.nest
    least = ROOM_DEPTH if nest.bytes > 1 else ROOM_DEPTH_OF_BYTES
    longest = max(least, power_of_two_from(nest.depth))
    rows = WHOLE_DEPTH_BYTES if nest.whole else DEPTH_BYTES
    each = [power_of_two_up_to(max(1, row // nest.bytes // nest.together)) for row in rows]
    every = [PLAIN_DEPTH] if nest.plain and not nest.whole else [min(longest, max(least, one)) for one in each]
    for depth in dict.fromkeys(every):
        yield tiling._replace(depth=depth)


def stages(search: ThreadSearch, tiling: ThreadTiling) -> Iterator[ThreadTiling]:
    """How many turns are under way, as far as shared memory has room."""
    nest, machine = search.nest, search.machine
    turns = -(-nest.depth // tiling.depth)
    for count in (1,) if turns == 1 else STAGES:
        option = tiling._replace(stages=count)
        asked = stage_bytes(nest, option) * count + OTHER_SHARED
        if asked > machine.shared_bytes_per_block:
            search.refuse(option, f"it asks for {asked} bytes of shared memory, of {machine.shared_bytes_per_block}")
        elif count <= max(2, turns):
            if resident_blocks(nest, option, machine):
                yield option
            else:
                search.refuse(option, "a multiprocessor has no registers for a block")


DECISIONS = (tiles, depths, stages)
"""In the order in which they are made."""
MOST_SUMS = 128
"""Registers of a thread."""
OTHER_SHARED = 2048
"""Bytes of shared memory for what is folded and for barriers."""


def thread_plans(
    dots: Sequence[ops.Dot], blocks: Sequence[BlockDefinition], machine: GpuMachine, size_of: SizeOf
) -> list[Plan]:
    """Plans for a grid with these products, the best first."""
    main = _main(dots, size_of)
    if any(_feeds(dot, dots) for dot in dots) or any(fold_of(dot.result) for dot in dots):
        open_ = {b.extent: b for b in blocks if b.extent is not None and b.block.kind != "fixed"}
        return _back_to_back_plans(dots, open_, machine, size_of)
    if has_whole_rows(dots, blocks):
        whole = _product_plans(main, blocks, machine, size_of, 1, 1, whole=True)
        if whole:
            return whole
    beside = _beside(main, dots)
    return _product_plans(main, blocks, machine, size_of, beside, matrices_at_once(main, blocks, size_of))


def thread_plan_seconds(
    dots: Sequence[ops.Dot], blocks: Sequence[BlockDefinition], machine: GpuMachine, size_of: SizeOf
) -> float:
    """The predicted time of the first of these plans. Infinity where products feed on each other, rows are whole or
    operands are windows or made in loops: what these take is not part of the prediction."""
    made_by = [op for dot in dots for op in _computed_of(dot)]
    windows = any(isinstance(op, ops.Load) and window_rows(op) is not None for op in made_by)
    if windows or has_whole_rows(dots, blocks) or any(isinstance(op, ops.Range) for op in made_by):
        return math.inf
    found = _best_tiling(dots, blocks, machine, size_of)
    return math.inf if found is None else found[-1][0]


def _best_tiling(
    dots: Sequence[ops.Dot],
    blocks: Sequence[BlockDefinition],
    machine: GpuMachine,
    size_of: SizeOf,
    refused: list[Refusal] | None = None,
) -> tuple[ThreadNest, tuple[int, int], Sequence[tuple[float, ThreadTiling]], tuple[float, ThreadTiling]] | None:
    """A product's sides, the blocks that are asked for, all tilings with their predicted seconds, and the best of them
    as asked; None where products feed on each other, or nothing fits. `refused` gets what was refused."""
    main = _main(dots, size_of)
    if any(_feeds(dot, dots) for dot in dots) or any(fold_of(dot.result) for dot in dots):
        return None
    whole = has_whole_rows(dots, blocks)
    together = 1 if whole else matrices_at_once(main, blocks, size_of)
    nest = read_thread_nest(main, blocks, machine, size_of, 1 if whole else _beside(main, dots), together, whole)
    ranked = ThreadSearch(nest, machine, refused).ranked()
    if not ranked:
        return None
    asked = _asked(main, blocks, nest)
    return nest, asked, ranked, next((pair for pair in ranked if _is_as_asked(pair[1], asked)), ranked[0])


def refused_thread_tilings(
    dots: Sequence[ops.Dot], blocks: Sequence[BlockDefinition], machine: GpuMachine, size_of: SizeOf
) -> tuple[float, list[tuple[float, Refusal]]]:
    """The predicted seconds of the best tiling of a grid with these products, and of those that were refused. Infinity
    and none where products feed on each other."""
    refused: list[Refusal] = []
    found = _best_tiling(dots, blocks, machine, size_of, refused)
    if found is None:
        return math.inf, []
    nest, asked, ranked, (best, of_best) = found
    if any(asked) and _is_as_asked(of_best, asked):
        reason = f"blocks of {' x '.join(str(size or 'any') for size in asked)} are asked for"
        refused += [Refusal(tiling, reason) for _, tiling in ranked if not _is_as_asked(tiling, asked)]
    complete = [
        one.tiling._replace(depth=one.tiling.depth or of_best.depth, stages=one.tiling.stages or of_best.stages)
        for one in refused
    ]
    return best, [
        (thread_seconds(nest, tiling, machine), Refusal(tiling, one.reason)) for tiling, one in zip(complete, refused)
    ]


def _main(dots: Sequence[ops.Dot], size_of: SizeOf) -> ops.Dot:
    return max(dots, key=lambda dot: size_of(dot.a.shape[-2]) * size_of(dot.b.shape[-1]))


def _beside(main: ops.Dot, dots: Sequence[ops.Dot]) -> int:
    """Products of one shape in one loop."""
    return sum(dot.parent is main.parent and dot.result.shape == main.result.shape for dot in dots)


def matrices_at_once(dot: ops.Dot, blocks: Sequence[BlockDefinition], size_of: SizeOf) -> int:
    """How many matrices a program multiplies at once: along leading axes that are whole, or cut as the user says. Those
    that are open get blocks of 1."""
    said = {b.extent: b.block.size if b.block.kind == "fixed" else 1 for b in blocks if b.extent is not None}
    return math.prod(said.get(symbol_name(dim) or "") or size_of(dim) for dim in dot.result.shape[:-2])


def has_whole_rows(dots: Sequence[ops.Dot], blocks: Sequence[BlockDefinition]) -> bool:
    """Whether a grid makes whole rows of a product in a loop, as something is folded along them."""
    if len(dots) != 1 or any(_feeds(dot, dots) for dot in dots):
        return False
    extents = {block.extent: block for block in blocks}
    row, column, depth = (symbol_name(dim) for dim in (dots[0].a.shape[-2], dots[0].b.shape[-1], dots[0].a.shape[-1]))
    return row in extents and column not in extents and depth in extents and _is_loop(extents[depth])


def _feeds(dot: ops.Dot, dots: Sequence[ops.Dot]) -> bool:
    """Whether an operand of a product is computed from another product of the grid."""
    return any(isinstance(op, ops.Dot) and op in dots for op in _computed_of(dot))


def _computed_of(dot: ops.Dot) -> Iterator[Op]:
    """What operands of a product are computed by."""
    seen: set[Value] = set()
    work = [dot.a, dot.b]
    while work:
        value = work.pop()
        if value in seen or value.op is None:
            continue
        seen.add(value)
        yield value.op
        work += [v for v in value.op.operands if v is not value]


def _total(open_: dict[str, BlockDefinition], name: str, size_of: SizeOf) -> int:
    return size_of(open_[name].total)


def read_thread_nest(
    dot: ops.Dot,
    blocks: Sequence[BlockDefinition],
    machine: GpuMachine,
    size_of: SizeOf,
    beside: int,
    together: int,
    whole: bool,
) -> ThreadNest:
    """`beside`: products of that shape in one loop, each with a right operand and sums of its own. `together`: matrices
    that each of them multiplies at once, which share the depth of a stage. `whole`: blocks have whole rows."""
    row, column, depth = _sides(dot)
    choice = choose_instruction(dot.a.dtype, dot.b.dtype, dot.dtype, dot.precision, machine.capability)
    instruction = INSTRUCTIONS[choice.instruction]

    named = {b.extent: b for b in blocks if b.extent is not None}

    def length(name: str, dim: Dim) -> int:
        return _total(named, name, size_of) if name in named else size_of(dim)

    held, held_beside = _held_bytes(dot, row, size_of)
    others = (b for b in blocks if b.extent not in (row, column, depth) and not _is_loop(b))
    columns = length(column, dot.b.shape[-1])
    return ThreadNest(
        length(row, dot.a.shape[-2]),
        -(-columns // WHOLE_ROW_UNIT) * WHOLE_ROW_UNIT if whole else columns,
        length(depth, dot.a.shape[-1]),
        batches=math.prod(-(-size_of(b.total) // (b.block.size if b.block.kind == "fixed" else 1)) for b in others),
        together=together,
        beside=beside,
        bytes=dot.a.dtype.bytes,
        sum_bytes=dot.dtype.bytes,
        step_bytes=instruction.k * (instruction.a or dot.a.dtype).bytes,
        plain=instruction.is_fma,
        whole=whole,
        held=held,
        held_beside=held_beside,
        planes=ops.PLANES if dot.precision == "planes" else 1,
    )


def _sides(dot: ops.Dot) -> tuple[str, str, str]:
    """The symbols of a product's rows, columns and depth; empty ones where these are numbers."""
    row, column, depth = (symbol_name(dim) or "" for dim in (dot.a.shape[-2], dot.b.shape[-1], dot.a.shape[-1]))
    return row, column, depth


def _asked(dot: ops.Dot, blocks: Sequence[BlockDefinition], nest: ThreadNest) -> tuple[int, int]:
    """Rows and columns of a block that the program says, or that are whole; 0 where it leaves them open."""
    row, column, _ = _sides(dot)
    said = {b.extent: b.block.size if b.block.kind == "fixed" else 0 for b in blocks if b.extent is not None}
    return said.get(row, nest.rows), said.get(column, nest.columns)


def _is_as_asked(tiling: ThreadTiling, asked: tuple[int, int]) -> bool:
    return tiling.rows == (asked[0] or tiling.rows) and tiling.columns == (asked[1] or tiling.columns)


def _product_plans(
    dot: ops.Dot,
    blocks: Sequence[BlockDefinition],
    machine: GpuMachine,
    size_of: SizeOf,
    beside: int,
    batches: int,
    whole: bool = False,
) -> list[Plan]:
    """As `read_thread_nest` has it."""
    nest = read_thread_nest(dot, blocks, machine, size_of, beside, batches, whole)
    row, column, depth = _sides(dot)
    asked = _asked(dot, blocks, nest)
    open_ = {b.extent: b for b in blocks if b.extent is not None and b.block.kind != "fixed"}
    ranked = [tiling for _, tiling in ThreadSearch(nest, machine).ranked()] or ([] if whole else [_smallest(nest)])
    as_asked = [one for one in ranked if _is_as_asked(one, asked)]
    found: dict[tuple[int, int], Plan] = {}
    for tiling in as_asked or ranked:
        sides = {row: tiling.rows, column: tiling.columns, depth: tiling.depth}
        chosen = tuple((name, sides.get(name, 1)) for name in open_)
        grid = GridPlan(tiling.threads, 1, tiling.warps, tiling.stages, raster=8)
        found.setdefault((tiling.rows, tiling.columns), Plan((grid,), blocks=chosen))
    return list(found.values())[:MOST_PLANS]


def _held_bytes(dot: ops.Dot, row: str, size_of: SizeOf) -> tuple[int, int]:
    """Of each row, what threads hold of tiles that are loaded whole outside of the loops; and of that, what they hold
    beside sums."""
    grid: Op | None = dot
    while grid is not None and not isinstance(grid, ops.Grid):
        grid = None if grid.parent is None else grid.parent.parent
    assert grid is not None, "a product stands in a grid"
    blocks = {block.extent for block in blocks_of(grid)}
    held = {False: 0, True: 0}
    for load, beside in whole_rows_held(grid, [op for op in grid.body.walk() if isinstance(op, ops.Dot)]):
        others = [dim for dim in load.result.shape if symbol_name(dim) != row]
        if len(others) < len(load.result.shape) and not any(symbol_name(dim) in blocks for dim in others):
            elements = math.prod(-(-size_of(dim) // HELD_UNIT) * HELD_UNIT for dim in others)
            held[beside] += elements * load.result.dtype.bytes
    return sum(held.values()), held[True]


def _smallest(nest: ThreadNest) -> ThreadTiling:
    """What is tried where nothing fits."""
    depth = ROOM_DEPTH if nest.bytes > 1 else ROOM_DEPTH_OF_BYTES
    return ThreadTiling(FRAGMENT, FRAGMENT, depth, (1, 1), 1)


def _is_loop(block: BlockDefinition) -> bool:
    return isinstance(block.op, ops.Range)


def _back_to_back_plans(
    dots: Sequence[ops.Dot], open_: dict[str, BlockDefinition], machine: GpuMachine, size_of: SizeOf
) -> list[Plan]:
    rows = {symbol_name(dot.a.shape[-2]) for dot in dots} - {None}
    plans: list[Plan] = []
    for height, width, stages in _heights(dots, open_, machine, size_of):
        blocks = {
            name: height if name in rows and not _is_loop(block) else width if _is_loop(block) else 1
            for name, block in open_.items()
        }
        warps = max(1, height // 16)
        plans.append(Plan((GridPlan(32 * warps, 1, (warps, 1), stages),), blocks=tuple(blocks.items())))
    return plans


def _heights(
    dots: Sequence[ops.Dot], open_: dict[str, BlockDefinition], machine: GpuMachine, size_of: SizeOf
) -> Iterator[tuple[int, int, int]]:
    """Rows per program, columns per turn of the loop, stages."""
    wide = max(dot.a.dtype.bytes for dot in dots)
    longest = max((_total(open_, n, size_of) for n, b in open_.items() if not _is_loop(b)), default=64)
    if wide <= 2 and longest > 64 * machine.multiprocessors // 8:
        yield 128, 64, 2
    yield 64, 64 if wide <= 2 else 32, 2
    yield 64, 32, 1
    yield 32, 16, 1
