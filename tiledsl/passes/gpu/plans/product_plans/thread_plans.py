"""Plans for products by threads that are all alike, and why better ones were refused.

Each product for itself has the tilings of `thread_tilings.py`; products that feed on each other, as in attention, and
those whose results a loop folds, those of `back_to_back_threads.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.gpu.matrix_instructions import INSTRUCTIONS
from tiledsl.ir.symbolic import Dim, symbol_name
from tiledsl.passes.analysis.folds import fold_of
from tiledsl.passes.analysis.quotients import repeats
from tiledsl.passes.analysis.sizes import BlockDefinition, blocks_of
from tiledsl.passes.gpu.layouts.capacities import ROOM_DEPTH, ROOM_DEPTH_OF_BYTES
from tiledsl.passes.gpu.layouts.operand_sources import elementwise_inputs
from tiledsl.passes.gpu.layouts.select_mma import choose_instruction
from tiledsl.passes.gpu.plan import GridPlan, Plan, RankedPlan
from tiledsl.passes.gpu.plans.facts.grid_shape import GridShape, KnownSizes
from tiledsl.passes.gpu.plans.facts.loop_lengths import length_of_first_or_last
from tiledsl.passes.gpu.plans.facts.operation_units import units_of
from tiledsl.passes.gpu.plans.facts.whole_axes import with_whole_axes
from tiledsl.passes.gpu.plans.product_plans.back_to_back_threads import BackToBackSearch, best_tilings
from tiledsl.passes.gpu.plans.product_plans.held_rows import whole_rows_held
from tiledsl.passes.gpu.plans.product_plans.thread_cost import (
    FRAGMENT,
    WORD_BYTES,
    ComputedOperand,
    ThreadNest,
    ThreadTiling,
    thread_seconds,
)
from tiledsl.passes.gpu.plans.product_plans.thread_tilings import (
    HELD_UNIT,
    MOST_PLANS,
    WHOLE_ROW_UNIT,
    Refusal,
    ThreadSearch,
)
from tiledsl.passes.gpu.products.operand_runs import computed_side, run_of
from tiledsl.passes.gpu.products.plan_dot import may_be_grouped
from tiledsl.passes.gpu.products.streamed_loads import computed_sources
from tiledsl.passes.gpu.products.window_rows import window_rows
from tiledsl.passes.gpu_machine import GpuMachine
from tiledsl.support.powers_of_two import power_of_two_from

MOST_PRICED = 48
"""Tilings of which it is counted what their grids cost: the first ones of those of products of what threads compute."""
SPECIAL_INSTRUCTIONS = 8
"""That one on the unit of exponentials takes the time of."""
SizeOf = Callable[["Dim | None"], int]


class ThreadPlans(NamedTuple):
    """Those of one grid, the best first, with room for whole axes; there is one at least. They are made as they are
    asked for; those of products that feed on each other have their predicted times. `seconds`: of the first one, to
    compare with plans by warpgroups; infinity where that cannot be: products feed on each other (lengths that are data
    are guessed in two ways), rows are whole, or operands are windows or made in loops. `beside_others`: the same, to
    compare with other plans by threads for the same product."""

    plans: Iterator[RankedPlan]
    seconds: float = math.inf
    beside_others: float = math.inf


def thread_plans(
    grid: GridShape, machine: GpuMachine, sizes: KnownSizes, price: Callable[[Plan], float] | None = None
) -> ThreadPlans:
    """Plans for a grid with products. `price`: what the grid takes under a plan, by its resources."""
    if _is_back_to_back(grid):
        return ThreadPlans(_back_to_back_plans(grid, machine, sizes))
    dots, blocks = grid.dots, grid.blocks
    found = _best_tiling(grid, machine, sizes)
    if found is None and has_whole_rows(dots, blocks):
        found = _best_tiling(grid, machine, sizes, whole=False)
    main = _main(dots, sizes.of)
    nest = found.nest if found is not None else _nest_of(grid, machine, sizes, whole=False)
    if found is not None and nest.computed is not None and price is not None:
        found = found._replace(ranked=_priced_by_resources(grid, main, found, price))
        found = found._replace(best=next((p for p in found.ranked if _is_as_asked(p[1], found.asked)), found.ranked[0]))
    ranked = [tiling for _, tiling in found.ranked] if found is not None else [_smallest(nest)]
    plans = _product_plans(main, _behind_each_other(main, dots), blocks, nest, ranked)
    granule = (16, 1) if has_whole_rows(dots, blocks) else (8, 32)
    made_by = [op for dot in dots for op in _computed_of(dot)]
    windows = any(isinstance(op, ops.Load) and window_rows(op) is not None for op in made_by)
    in_loops = any(isinstance(op, ops.Range) for op in made_by)
    known = found is not None and not (windows or in_loops or has_whole_rows(dots, blocks))
    return ThreadPlans(
        (RankedPlan(with_whole_axes(grid, plan, sizes, *granule)) for plan in plans),
        found.best[0] if found is not None and known else math.inf,
        found.best[0] if found is not None else math.inf,
    )


def _priced_by_resources(
    grid: GridShape, main: ops.Dot, found: _Found, price: Callable[[Plan], float]
) -> Sequence[tuple[float, ThreadTiling]]:
    """The first tilings of a product of what threads compute in the order of what their grids cost too, which knows
    what is loaded how often, and what of it is on its way at a time."""
    again: list[tuple[float, ThreadTiling]] = []
    for seconds, tiling in found.ranked[:MOST_PRICED]:
        (plan,) = _product_plans(main, [main], grid.blocks, found.nest, [tiling])
        again.append((max(seconds, price(plan)), tiling))
    return [*sorted(again), *found.ranked[MOST_PRICED:]]


def _is_back_to_back(grid: GridShape) -> bool:
    """Whether a product is made of what another one gives, or folded where it is made."""
    return any(_feeds(dot, grid.dots) or fold_of(dot.result) for dot in grid.dots)


def _back_to_back_plans(grid: GridShape, machine: GpuMachine, sizes: KnownSizes) -> Iterator[RankedPlan]:
    search = _back_to_back(grid, machine, sizes)
    yield from (RankedPlan(search.plan(one.tiling), one.seconds) for one in best_tilings(search))


def _back_to_back(
    grid: GridShape, machine: GpuMachine, sizes: KnownSizes, refused: list[Refusal] | None = None
) -> BackToBackSearch:
    return BackToBackSearch(grid, machine, sizes, lambda plan: with_whole_axes(grid, plan, sizes, 8, 32), refused)


class _Found(NamedTuple):
    """The tilings of a product with their predicted seconds, the blocks that are asked for, and the best as asked."""

    nest: ThreadNest
    asked: tuple[int, int]
    ranked: Sequence[tuple[float, ThreadTiling]]
    best: tuple[float, ThreadTiling]


def _nest_of(grid: GridShape, machine: GpuMachine, sizes: KnownSizes, *, whole: bool) -> ThreadNest:
    main = _main(grid.dots, sizes.of)
    together = 1 if whole else matrices_at_once(main, grid.blocks, sizes.of)
    return read_thread_nest(main, grid, machine, sizes, 1 if whole else _beside(main, grid.dots), together, whole)


def _best_tiling(
    grid: GridShape,
    machine: GpuMachine,
    sizes: KnownSizes,
    refused: list[Refusal] | None = None,
    *,
    whole: bool = True,
) -> _Found | None:
    """None where nothing fits. `refused` gets what was refused. `whole`: whether rows are whole where that is asked."""
    dots, blocks = grid.dots, grid.blocks
    nest = _nest_of(grid, machine, sizes, whole=whole and has_whole_rows(dots, blocks))
    ranked = ThreadSearch(nest, machine, refused).ranked()
    if not ranked:
        return None
    asked = _asked(_main(dots, sizes.of), blocks, nest)
    return _Found(nest, asked, ranked, next((pair for pair in ranked if _is_as_asked(pair[1], asked)), ranked[0]))


def refused_thread_tilings(
    grid: GridShape, machine: GpuMachine, sizes: KnownSizes
) -> tuple[float, list[tuple[float, Refusal]]]:
    """The predicted seconds of the best tiling of a grid with products, and of those that were refused."""
    refused: list[Refusal] = []
    if _is_back_to_back(grid):
        search = _back_to_back(grid, machine, sizes, refused)
        first = best_tilings(search)[0]
        complete = [_completed(one.tiling, first.tiling) for one in refused]
        return first.seconds, [
            (search.seconds(tiling), Refusal(tiling, one.reason)) for tiling, one in zip(complete, refused)
        ]
    found = _best_tiling(grid, machine, sizes, refused)
    if found is None:
        return math.inf, []
    nest, asked, ranked, (best, of_best) = found
    if any(asked) and _is_as_asked(of_best, asked):
        reason = f"blocks of {' x '.join(str(size or 'any') for size in asked)} are asked for"
        refused += [Refusal(tiling, reason) for _, tiling in ranked if not _is_as_asked(tiling, asked)]
    complete = [_completed(one.tiling, of_best) for one in refused]
    return best, [
        (thread_seconds(nest, tiling, machine), Refusal(tiling, one.reason)) for tiling, one in zip(complete, refused)
    ]


def _completed(tiling: ThreadTiling, best: ThreadTiling) -> ThreadTiling:
    """With the choices of the best one, where a tiling was refused before it had any."""
    return tiling._replace(depth=tiling.depth or best.depth, stages=tiling.stages or best.stages)


def _main(dots: Sequence[ops.Dot], size_of: SizeOf) -> ops.Dot:
    return max(dots, key=lambda dot: size_of(dot.a.shape[-2]) * size_of(dot.b.shape[-1]))


def _beside(main: ops.Dot, dots: Sequence[ops.Dot]) -> int:
    """Products of one shape in one loop."""
    return sum(dot.parent is main.parent and dot.result.shape == main.result.shape for dot in dots)


def _behind_each_other(main: ops.Dot, dots: Sequence[ops.Dot]) -> list[ops.Dot]:
    """Products of one shape in loops of their own: of each loop one."""
    found = {id(dot.parent): dot for dot in dots if dot.result.shape == main.result.shape}
    return list({**found, id(main.parent): main}.values())


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
    return _computed_by(dot.a, dot.b)


def _computed_by(*values: Value) -> Iterator[Op]:
    seen: set[Value] = set()
    work = list(values)
    while work:
        value = work.pop()
        if value in seen or value.op is None:
            continue
        seen.add(value)
        yield value.op
        work += [v for v in value.op.operands if v is not value]


def _length(block: BlockDefinition, grid: GridShape, sizes: KnownSizes) -> int:
    """How many coordinates the blocks have together."""
    if block.total is None and _is_loop(block):
        length = length_of_first_or_last(grid.op, block, sizes.all_of(grid))
        if length is not None:
            return length
    return sizes.of(block.total)


def read_thread_nest(
    dot: ops.Dot,
    grid: GridShape,
    machine: GpuMachine,
    sizes: KnownSizes,
    beside: int,
    together: int,
    whole: bool,
) -> ThreadNest:
    """`beside`: products of that shape in one loop, each with a right operand and sums of its own. `together`: matrices
    that each of them multiplies at once, which share the depth of a stage. `whole`: blocks have whole rows."""
    (row, column, depth), blocks, size_of = _sides(dot), grid.blocks, sizes.of
    choice = choose_instruction(dot.a.dtype, dot.b.dtype, dot.dtype, dot.precision, machine.capability)
    instruction = INSTRUCTIONS[choice.instruction]

    named = {b.extent: b for b in blocks if b.extent is not None}

    def length(name: str, dim: Dim) -> int:
        return _length(named[name], grid, sizes) if name in named else size_of(dim)

    held, held_beside = _held_bytes(dot, row, size_of)
    others = (b for b in blocks if b.extent not in (row, column, depth) and not _is_loop(b))
    columns = length(column, dot.b.shape[-1])
    return ThreadNest(
        length(row, dot.a.shape[-2]),
        -(-columns // WHOLE_ROW_UNIT) * WHOLE_ROW_UNIT if whole else columns,
        sum(length(_sides(one)[2], one.a.shape[-1]) for one in _behind_each_other(dot, grid.dots)),
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
        split=dot.precision == "split",
        computed=_computed_operand(dot, machine) if len(grid.dots) == 1 and beside == together == 1 else None,
        alone=len(grid.dots) == 1 and column in named and not instruction.is_fma and _may_be_grouped(dot, machine),
        made_of=(_made_of(dot, dot.a, size_of), _made_of(dot, dot.b, size_of)),
    )


def _may_be_grouped(dot: ops.Dot, machine: GpuMachine) -> bool:
    """Whether groups of warps may share a product's loop; sums in f64 would meet in banks."""
    return dot.dtype.bytes <= WORD_BYTES and may_be_grouped(dot, machine)


def _computed_operand(dot: ops.Dot, machine: GpuMachine) -> ComputedOperand | None:
    """The operand that threads compute of what they load in the loop, if it is one of them."""
    is_left = computed_side(dot)
    if is_left is None or dot.parent is None:
        return None
    operand = dot.a if is_left else dot.b
    loads = [source.load for source in computed_sources(dot, is_left=is_left) if min(source.axes) >= 0]
    if not loads:
        return None
    if not isinstance(dot.parent.parent, ops.Range) or any(load.parent is not dot.parent for load in loads):
        return None
    units = [
        units_of(value.op, machine.capability)
        for value, axes in elementwise_inputs(operand)
        if isinstance(value.op, (ops.Map, ops.Cast)) and min(axes) >= 0
    ]
    instructions = sum(one.arithmetic + SPECIAL_INSTRUCTIONS * one.special for one in units)
    bytes_ = {load: load.result.dtype.bytes / repeats(load) for load in loads}
    in_ring = repeats(max(bytes_, key=bytes_.__getitem__)) == 1
    return ComputedOperand(is_left, sum(bytes_.values()), instructions, run_of(dot, is_left=is_left), in_ring)


def _made_of(dot: ops.Dot, operand: Value, size_of: SizeOf) -> int:
    """How many elements the loop around a product loads for each element of an operand, at most by one load."""
    loads = [op for op in _computed_by(operand) if isinstance(op, ops.Load) and op.parent is dot.parent]
    own = set(operand.shape)
    each = [[power_of_two_from(size_of(dim)) for dim in load.result.shape if dim not in own] for load in loads]
    return max(map(math.prod, each), default=1)


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
    dots: Sequence[ops.Dot],
    blocks: Sequence[BlockDefinition],
    nest: ThreadNest,
    ranked: Sequence[ThreadTiling],
) -> list[Plan]:
    """Those of the tilings that have the blocks that are asked for, each of another tile; of all, if none has. `dots`:
    the product, and those of other loops that are made with its tiles."""
    row, column, _ = _sides(dot)
    asked = _asked(dot, blocks, nest)
    open_ = [b.extent for b in blocks if b.extent is not None and b.block.kind != "fixed"]
    found: dict[tuple[int, int], Plan] = {}
    for tiling in [one for one in ranked if _is_as_asked(one, asked)] or ranked:
        sides = {row: tiling.rows, column: tiling.columns, **{_sides(one)[2]: tiling.depth for one in dots}}
        chosen = tuple((name, sides.get(name, 1)) for name in open_)
        grid = GridPlan(tiling.threads, 1, tiling.warps, tiling.stages, raster=8, groups=tiling.groups)
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
