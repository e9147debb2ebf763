"""Chooses plans for a function from the sizes of a call: the best first, then what to fall back to.

What a grid does decides: matrix products want large tiles and stages of shared memory; rows that are folded want to be
held in registers, by as few threads as their length allows; all else streams, a few vectors of 16 bytes per thread.
Rules and figures are in docs/performance-notes.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Function, Value
from tiledsl.ir.lying import packed_bytes, step_and_phase
from tiledsl.ir.symbolic import symbol_name
from tiledsl.passes.analysis.effects import tensors_in_order
from tiledsl.passes.analysis.fields import field_of
from tiledsl.passes.gpu.layouts.infer_layouts import tensor_of
from tiledsl.passes.gpu.plan import GridPlan, Plan, RankedPlan
from tiledsl.passes.gpu.plans.costs.grid_cost import GridCost
from tiledsl.passes.gpu.plans.costs.held_tiles import MOST_LIVE_WORDS, live_words
from tiledsl.passes.gpu.plans.facts.grid_likeness import grid_likeness
from tiledsl.passes.gpu.plans.facts.grid_shape import GridShape, KnownSizes, grids_of, sizes_of_call
from tiledsl.passes.gpu.plans.facts.whole_axes import with_whole_axes
from tiledsl.passes.gpu.plans.flat_rows import flat_rows
from tiledsl.passes.gpu.plans.forward_candidates import forwarded_plans
from tiledsl.passes.gpu.plans.improve_plan import improved, with_ring
from tiledsl.passes.gpu.plans.plane_candidates import THREADS_GAIN, plans_by_planes, split_grid
from tiledsl.passes.gpu.plans.plans_on_demand import PlansOnDemand
from tiledsl.passes.gpu.plans.private_updates import private_plan
from tiledsl.passes.gpu.plans.product_plans.thread_plans import thread_plans
from tiledsl.passes.gpu.plans.rule_plans import (
    SMALLEST_ROW,
    fixed_elements,
    has_whole_axes,
    row_plans,
    stacked_plans,
    stream_plans,
    times_of_plan,
)
from tiledsl.passes.gpu.plans.split_candidates import split_plans
from tiledsl.passes.gpu.plans.swap_candidates import with_swapped_sides
from tiledsl.passes.gpu.plans.turn_candidates import turned_plans
from tiledsl.passes.gpu_machine import GpuMachine
from tiledsl.support.latest_found import LatestFound
from tiledsl.support.powers_of_two import power_of_two_in, power_of_two_up_to

WARPGROUP_DEPTH = 16
"""What a whole axis of a product comes in multiples of, where warpgroups multiply."""
WHOLE_VECTORS = 16
"""Bytes that rows start at a multiple of where threads copy as fast as their prediction says."""
FIRST_PLANS = 4
"""Plans with specialised warps that are tried before others."""

SEARCHED: LatestFound[object, tuple[GridPlan, dict[str, int]]] = LatestFound(1024)
"""What searches have come to, for grids that are alike."""


def choose_plans(
    function: Function,
    machine: GpuMachine,
    sizes: Mapping[str, int],
    alignment: Sequence[int],
    laid: Sequence[int] = (),
) -> PlansOnDemand:
    """Plans for these sizes (unknown ones may be left out), the best first. There is at least one.

    `alignment` as a `Plan` has it; `laid`: how each tensor lies (`ir/lying.py`).
    """

    def ranked(most: int | None = None) -> list[Plan]:
        return [one.plan for one in ranked_plans(function, machine, sizes, alignment, laid=laid, most=most)]

    return PlansOnDemand(ranked(most=1)[0], ranked)


def ranked_plans(
    function: Function,
    machine: GpuMachine,
    sizes: Mapping[str, int],
    alignment: Sequence[int],
    specialised: int = FIRST_PLANS,
    laid: Sequence[int] = (),
    most: int | None = None,
) -> list[RankedPlan]:
    """The same with the times that were predicted. `specialised`: how many plans with specialised warps there are at
    most, for each grid. `most`: how many plans are wanted, if not all: the first ones of those, at least."""

    def plans_of(program: Function, most: int | None = None, like: Plan | None = None) -> list[RankedPlan]:
        return _plans_as_written(program, machine, sizes, alignment, specialised, laid, most, like)

    whole = plans_of(function, most)
    guessed = KnownSizes(function, sizes).every
    found = split_plans(function, machine, sizes, guessed, whole[0], plans_of, most)
    found = found or turned_plans(function, machine, sizes, guessed, whole[0], plans_of)
    found = found or forwarded_plans(function, machine, sizes, guessed, whole[0], plans_of)
    return [*found, *whole]


def _plans_as_written(
    function: Function,
    machine: GpuMachine,
    sizes: Mapping[str, int],
    alignment: Sequence[int],
    specialised: int,
    laid: Sequence[int],
    most: int | None,
    like: Plan | None = None,
) -> list[RankedPlan]:
    """Those in which no sum is split; the first ones alone if no more than `most` are wanted. `like`: a plan of the
    same program at other sizes, whose threads and blocks the last grid takes, if it has no products, unsearched.
    """
    known = KnownSizes(function, sizes, alignment)
    grids, tensors = list(grids_of(function)), tensors_in_order(function.body)
    options: list[list[RankedPlan]] = []
    has_fields = any(field_of(op) is not None for grid in grids for op in grid.accesses)

    def by_warpgroups(program: Function, grid: GridShape) -> list[RankedPlan]:
        from tiledsl.passes.gpu.plans.product_plans.specialised_plans import specialised_plans  # costs start-up time

        of_call = sizes_of_call(program, grid, sizes, alignment)
        return list(specialised_plans(grid.op, grid.blocks, machine, of_call).plans)

    for number, grid in enumerate(grids):
        found: list[RankedPlan] = []
        if grid.dots:
            found = with_swapped_sides(
                function, number, by_warpgroups(function, grid), machine, known.of, by_warpgroups
            )
        first = [
            RankedPlan(with_whole_axes(grid, plan, known, WARPGROUP_DEPTH, 1), seconds)
            for plan, seconds in found[:specialised]
        ]
        lying = dict(zip(tensors, alignment)), dict(zip(tensors, map(packed_bytes, laid)))
        if grid.dots:
            by_threads = thread_plans(grid, machine, known, _price_of(grid, machine, known))
            split = split_grid(function, number, grid)
            if split is not None:
                of_warpgroups = by_warpgroups(split.function, split.grid)[:specialised]
                of_warpgroups = [
                    RankedPlan(with_whole_axes(split.grid, plan, known, WARPGROUP_DEPTH, 1), seconds)
                    for plan, seconds in of_warpgroups
                ]
                of_planes = plans_by_planes(
                    split, by_threads, lambda one: thread_plans(one, machine, known), of_warpgroups
                )
                first = [*of_planes, *first]
            others, seconds = by_threads.plans, first[0].seconds if first else None
            aligned = min(alignment, default=WHOLE_VECTORS) >= WHOLE_VECTORS
            if split is None and seconds is not None and aligned and by_threads.seconds < THREADS_GAIN * seconds:
                best = next(others)
                others = chain([best], others)
                first = [best, *first]
        elif like is not None and number == len(grids) - 1 and not like.grids[-1].flat:
            others = iter([RankedPlan(_alike(grid, like, machine, known))])
        else:
            flat = flat_rows(grid.op, grid.accesses, known.known, *lying, machine)
            others = map(RankedPlan, chain([flat] if flat is not None else [], _grid_options(grid, machine, known)))
        options.append(list(islice(chain(first, others), most)))
    ranked: dict[Plan, float | None] = {}
    for rank in range(max((len(o) for o in options), default=1)):
        choices = [plans[min(rank, len(plans) - 1)] for plans in options]
        plan = _joined([choice.plan for choice in choices], grids, known, tuple(alignment))
        if any(one.flat for one in plan.grids) or has_fields:
            plan = replace(plan, packed=tuple(map(packed_bytes, laid)))
        if any(step_and_phase(one)[0] > 1 for one in laid):
            plan = replace(plan, steps=tuple(one if step_and_phase(one)[0] > 1 else 0 for one in laid))
        ranked.setdefault(plan, _seconds(choices, grids, known, machine))
    return [RankedPlan(plan, seconds) for plan, seconds in ranked.items()]


def _price_of(grid: GridShape, machine: GpuMachine, sizes: KnownSizes) -> Callable[[Plan], float]:
    """What a grid takes under a plan, by its resources."""
    every = sizes.all_of(grid)

    def price(plan: Plan) -> float:
        cost = GridCost(grid.nest, plan.grids[0], dict(plan.blocks), every, machine, sizes.alignment)
        return machine.speeds.launch + cost.times.seconds

    return price


def _seconds(
    choices: Sequence[RankedPlan], grids: Sequence[GridShape], sizes: KnownSizes, machine: GpuMachine
) -> float | None:
    """The time of all grids, where that of any was predicted: others take what the model of the machine says."""
    if all(choice.seconds is None for choice in choices):
        return None
    total = 0.0
    for (plan, seconds), grid in zip(choices, grids):
        if seconds is None:
            blocks = dict(plan.blocks)
            cost = GridCost(
                grid.nest, plan.grids[0], blocks, sizes.all_of(grid), machine, sizes.alignment
            )  # fmt: skip
            seconds = machine.speeds.launch + cost.times.seconds
        total += seconds
    return total


def _joined(choices: Sequence[Plan], grids: Sequence[GridShape], sizes: KnownSizes, alignment: tuple[int, ...]) -> Plan:
    """The plans of the grids as one, with what is known of its sizes."""
    blocks = dict(pair for plan in choices for pair in plan.blocks)
    capacities = _capacities(choices, grids)
    exact = {name: size for plan in choices for name, size in plan.sizes}
    exact.update({name: room for name, room in capacities.items() if sizes.known.get(name) == room})
    divisors: dict[str, int] = {}
    for grid in grids:
        for block in grid.blocks:
            size = block.block.size if block.block.kind == "fixed" else blocks.get(block.extent or "", 0)
            name = symbol_name(block.total) if block.total is not None else None
            names = _symbols_of_end(block.stop) if name is None else [name]
            for name in names:
                if name not in exact and size > 1 and sizes.known.get(name, 1) % size == 0:
                    divisors[name] = math.lcm(size, divisors.get(name, 1))
    capacities = {name: room for name, room in capacities.items() if name not in exact}
    for name, size in sizes.known.items():  # how wide accesses can be; multiples of 16 are known already
        if size > 0 and size % 16 != 0 and size % 2 == 0 and name not in exact:
            divisors[name] = math.lcm(power_of_two_in(size), divisors.get(name, 1))
    return Plan(
        grids=tuple(plan.grids[0] for plan in choices),
        blocks=tuple(blocks.items()),
        capacities=tuple(capacities.items()),
        sizes=tuple(exact.items()),
        divisors=tuple(d for d in divisors.items() if sizes.known[d[0]] % d[1] == 0 and sizes.known[d[0]] > 0),
        alignment=alignment,
    )


def _symbols_of_end(value: Value) -> list[str]:
    """The sizes that the end of a loop is computed of, which a part of it may be a multiple of if they are."""
    op = value.op
    if isinstance(op, ops.Size):
        name = symbol_name(op.value)
        return [] if name is None else [name]
    return [name for one in op.inputs for name in _symbols_of_end(one)] if isinstance(op, ops.Map) else []


def _capacities(choices: Sequence[Plan], grids: Iterable[GridShape]) -> dict[str, int]:
    """The room of whole axes: that of products, for which tiles are made, or of the grid that wants most."""
    of_products, of_others = dict[str, int](), dict[str, int]()
    for plan, grid in zip(choices, grids):
        found = of_products if grid.dots else of_others
        for name, room in plan.capacities:
            found[name] = max(room, found.get(name, 0))
    return {**of_others, **of_products}


def _grid_options(grid: GridShape, machine: GpuMachine, sizes: KnownSizes) -> Iterator[Plan]:
    """Plans for one grid alone that multiplies nothing, made as they are asked for."""
    row = max((fixed_elements(grid, shape, sizes) for shape in grid.shapes), default=1)
    vector = _with_registers(grid, _vector_of(grid))
    if grid.nest.stacked:
        found = stacked_plans(grid, sizes)
    elif row >= SMALLEST_ROW * vector // 4 and any(has_whole_axes(grid, shape) for shape in grid.shapes):
        found = row_plans(grid, machine, sizes, row, vector)
    else:
        found = stream_plans(grid, machine, sizes, row, vector)
    first = _improved(grid, found[0], machine, sizes)
    near = [] if first == found[0] else [_smaller(grid, first, sizes, vector)]
    private = private_plan(grid, machine, sizes, vector)
    if private is not None:
        with_tables, without = (times_of_plan(grid, machine, sizes, plan) for plan in (private, first))
        if with_tables.seconds < without.seconds:
            near, first = [first, *near], private
    made: set[Plan] = set()
    for plan in (first, *near, *found):
        ringed = _with_ring(grid, plan, machine, sizes)
        if ringed not in made:
            made.add(ringed)
            yield ringed


def _alike(grid: GridShape, like: Plan, machine: GpuMachine, sizes: KnownSizes) -> Plan:
    """The plan of the last grid of a program, as another plan of that program has it for other sizes."""
    blocks = {name: size for name, size in like.blocks if name in grid.block_symbols}
    return _with_ring(grid, _with_threads(grid, replace(like.grids[-1], stages=1), blocks, sizes), machine, sizes)


def _vector_of(grid: GridShape) -> int:
    """How many elements of the narrowest tensor are 16 bytes."""
    return max(1, 16 // min((tensor_of(op).dtype.bytes for op in grid.accesses), default=4))


def _with_registers(grid: GridShape, vector: int) -> int:
    """How many elements of each tile a thread is to have, if all tiles that are there at once are to have registers."""
    live = live_words(grid.nest, GridPlan(1), lambda shape: 1)
    return max(1, min(vector, power_of_two_up_to(max(1, int(MOST_LIVE_WORDS // live))))) if live else vector


def _with_ring(grid: GridShape, plan: Plan, machine: GpuMachine, sizes: KnownSizes) -> Plan:
    """The plan, with loads that run ahead of its loops where they can."""
    if not any(isinstance(op, ops.Range) for op in grid.op.body.ops):
        return plan
    ring = with_ring(grid.nest, plan.grids[0], dict(plan.blocks), sizes.all_of(grid), machine)
    return replace(plan, grids=(ring,))


def _smaller(grid: GridShape, plan: Plan, sizes: KnownSizes, vector: int) -> Plan:
    """The same with half of its largest block: threads hold less of it. To fall back to, if the plan is refused."""
    blocks = dict(plan.blocks)
    largest = max(blocks, key=blocks.__getitem__)
    blocks[largest] = max(1, blocks[largest] // 2)
    (own,) = plan.grids
    return with_whole_axes(grid, Plan((own,), blocks=tuple(blocks.items())), sizes, vector, own.threads)


def _improved(grid: GridShape, plan: Plan, machine: GpuMachine, sizes: KnownSizes) -> Plan:
    """The plan, or what the model of the machine finds near it that costs clearly less. Grids that are alike are
    searched for once: a graph has many."""
    (before,), blocks, every = plan.grids, dict(plan.blocks), sizes.all_of(grid)
    likeness = grid_likeness(grid.op, every, sizes.alignment)
    key = (likeness, plan, machine)
    found = None if likeness is None else SEARCHED.get(key)
    if found is None:
        found = improved(grid.nest, before, blocks, every, machine, sizes.alignment)
        if likeness is not None:
            SEARCHED.put(key, found)
    better, changed = found
    if (better, changed) == (before, blocks):
        return plan
    return _with_threads(grid, better, changed, sizes)


def _with_threads(grid: GridShape, own: GridPlan, blocks: Mapping[str, int], sizes: KnownSizes) -> Plan:
    """The plan of a grid that has these threads and blocks."""
    along = max(own.threads, own.threads * own.cluster // math.prod(blocks.values()))  # of a row
    return with_whole_axes(grid, Plan((own,), blocks=tuple(blocks.items())), sizes, _vector_of(grid), along)
