"""Plans in which sums are added up in parts: where a grid has few blocks, and each a long loop.

    a[64, 16384] @ b[16384, 64]          1 block for 132 multiprocessors
    32 parts of 512                      32 blocks, and a grid that adds 32 x 64 x 64 numbers

The program that `split-sums` makes is planned as any other is, and its price is that of both grids.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Function, Module, Value
from tiledsl.ir.lying import step_and_phase
from tiledsl.ir.substitute import substitute_symbols
from tiledsl.ir.symbolic import Dim, evaluate, symbols_of
from tiledsl.passes.analysis.effects import tensors_in_order
from tiledsl.passes.analysis.sizes import size_of
from tiledsl.passes.gpu.plan import Plan, RankedPlan, split_grids, swapped_grids
from tiledsl.passes.gpu.plans.costs.grid_cost import GridCost
from tiledsl.passes.gpu_machine import GpuMachine
from tiledsl.passes.manager import PassContext
from tiledsl.passes.nest.loop_nest import loop_nests
from tiledsl.passes.tile.bounds import Bounds
from tiledsl.passes.tile.dce import EliminateDeadCode
from tiledsl.passes.tile.loops.forward_stores import ForwardStores
from tiledsl.passes.tile.loops.load_ahead import LoadAhead
from tiledsl.passes.tile.loops.split_sums import UNIT, SplitSums, sums_of
from tiledsl.passes.tile.loops.unroll_loops import UnrollLoops
from tiledsl.passes.tile.split_products import SplitProducts
from tiledsl.passes.tile.swap_sides import SwapSides
from tiledsl.passes.tile.turn_operands import TurnOperands

PARTS = (2, 4, 8, 16, 32, 64, 128)
BETWEEN = (0.75, 1.5)
"""Parts that are tried beside the best number of these: where a few tiles do not share the device out evenly."""
ROUNDS = (1, 2)
"""The same: as many parts as give each multiprocessor so many blocks of the best plan."""
REACHED = 1.1
"""Of the least time that a grid could take, what is reached at best."""
MANY_ROUNDS = 4
"""So many keep all multiprocessors busy, but for the last one: of blocks that a multiprocessor has at once; of single
ones where the plan has a price of its own, which knows that blocks beside each other share its matrix units."""
GAIN = 0.9
"""Parts are worth it if they take no more than this share of the time."""
EACH_PART = 0.007
"""Of the predicted time, what a sum takes longer for each of its parts: 141 plans for 20 deep products took 0.93 of
what was predicted with up to 16 parts, 1.03 with 24 to 33, 1.15 with more than 43 (on an H100). 60 products of six
seeds had 1.041 of cuBLAS's speed with this, the least 0.870, and 1.021 without, the least 0.741."""


def program_of(function: Function, plan: Plan) -> Function:
    """The program that a plan is for: the function, with operands turned, sums split, sides swapped, products made of
    planes and loops written out as it says."""
    swapped, split = swapped_grids(plan), split_grids(plan)
    if not (plan.parts or plan.turned or swapped or split or plan.forwarded):
        return function
    module, context = Module([function.clone()]), PassContext()
    if plan.forwarded:
        substitute_symbols(module.entry, dict(plan.sizes))
        for one in (UnrollLoops(), Bounds(), ForwardStores(), LoadAhead(), EliminateDeadCode()):
            module = one.run(module, context)
    if plan.turned:
        module = TurnOperands(plan.turned).run(module, context)
    if plan.parts:
        module = SplitSums(plan.parts).run(module, context)
    if swapped:
        module = SwapSides(swapped).run(module, context)
    return (SplitProducts(split).run(module, context) if split else module).entry


def costs_of(program: Function, plan: Plan, sizes: Mapping[str, int], machine: GpuMachine) -> list[GridCost]:
    """What each grid of the program that a plan is for costs. All sizes are known."""
    blocks, alignment = dict(plan.blocks), dict(zip(tensors_in_order(program.body), plan.alignment))
    steps = {t: step_and_phase(one)[0] for t, one in zip(tensors_in_order(program.body), plan.steps) if one}
    pairs = zip(loop_nests(program), plan.grids)
    return [GridCost(nest, grid, blocks, sizes, machine, alignment, steps) for nest, grid in pairs]


def predicted_seconds(costs: Sequence[GridCost], seconds: float | None, machine: GpuMachine) -> float:
    """The time of a program with these grids, for which a ranking may have predicted one too."""
    return max(seconds or 0.0, sum(machine.speeds.launch + cost.times.seconds for cost in costs))


def seconds_of_plan(function: Function, ranked: RankedPlan, sizes: Mapping[str, int], machine: GpuMachine) -> float:
    """The time of a program under one of its plans. All sizes are known."""
    return predicted_seconds(costs_of(function, ranked.plan, sizes, machine), ranked.seconds, machine)


def split_plans(
    function: Function,
    machine: GpuMachine,
    known: Mapping[str, int],
    sizes: Mapping[str, int],
    whole: RankedPlan,
    plans_of: Callable[[Function, int | None, Plan | None], list[RankedPlan]],
    most: int | None = None,
) -> list[RankedPlan]:
    """The plans of the best number of parts; none where `whole`, the best plan without, is about as good.

    `known`: the sizes of a call, and `sizes` has a guess for the others, for which nothing is split. `plans_of`: the
    plans of a program, sums as it says; how many are wanted of them, as of the result: `most`; and a plan whose last
    grid is taken over: the grid that adds the parts is searched for once, until a number of parts is chosen.
    """
    longest = _longest(function, known)
    if longest < PARTS[0] * UNIT or not _is_split(function):
        return []
    costs, launch = costs_of(function, whole.plan, sizes, machine), machine.speeds.launch
    alone = predicted_seconds(costs, whole.seconds, machine)
    if 2 * launch + _least_seconds(costs) > GAIN * alone:
        return []  # all multiprocessors together would not do it in less
    rounds = costs[0].waves * (costs[0].resident if whole.seconds is not None else 1)
    if rounds >= MANY_ROUNDS and rounds / math.ceil(rounds) > GAIN:
        return []  # parts would but even out the last one

    programs: dict[int, Function] = {}
    searched: list[Plan] = []

    def program_in(parts: int) -> Function:
        if parts not in programs:
            programs[parts] = program_of(function, Plan((), parts=(parts,)))
        return programs[parts]

    def plans_in(parts: int, most: int | None, like: Plan | None = None) -> list[RankedPlan]:
        return [RankedPlan(replace(plan, parts=(parts,)), s) for plan, s in plans_of(program_in(parts), most, like)]

    def in_parts(parts: int, limit: float) -> tuple[float, RankedPlan | None]:
        """The time and the best plan; none where it is known to take longer than the limit before it is planned."""
        adding = GridCost(loop_nests(program_in(parts))[-1], whole.plan.grids[0], {}, sizes, machine)
        floor = 2 * launch + (alone - launch) / parts + adding.least_seconds
        if floor > limit:
            return floor, None
        first = plans_in(parts, 1, searched[0] if searched else None)[0]
        searched.append(first.plan)
        return seconds_of_plan(programs[parts], first, sizes, machine), first

    least, best, found = math.inf, 0, None
    for parts in reversed([parts for parts in PARTS if longest >= parts * UNIT]):
        even = even_parts(parts, longest)
        limit = min(GAIN * alone, least / (1 + EACH_PART * even))
        if 2 * launch + (alone - launch) / parts > limit:
            break  # so few parts are too long
        seconds, first = in_parts(even, limit)
        if first is not None and seconds <= limit:
            least, best, found = seconds * (1 + EACH_PART * even), parts, first
        elif found:
            break
    if found is None:
        return []
    asked = [int(best * share) for share in BETWEEN] if best > PARTS[0] else []
    tried, is_new = set(found.plan.parts), best > PARTS[0]
    while is_new or asked:
        if is_new:  # its blocks may be others, and fill the device in other numbers
            program = programs[found.plan.parts[0]]
            asked += [_parts_of_rounds(program, found.plan, sizes, machine, rounds) for rounds in ROUNDS]
        parts, is_new = even_parts(max(1, asked.pop(0)), longest), False
        if parts > 1 and parts not in tried:
            tried.add(parts)
            limit = least / (1 + EACH_PART * parts)
            seconds, first = in_parts(parts, limit)
            if first is not None and seconds < limit:
                least, found, is_new = seconds * (1 + EACH_PART * parts), first, True
    first = found.plan.parts == searched[0].parts
    return [found] if most == 1 and first else plans_in(found.plan.parts[0], most)


def even_parts(parts: int, longest: int) -> int:
    """As many parts as have something of a sum of so many elements, if there are `parts` at most: each is a multiple of
    `UNIT`, and all are as long as the longest.

    >>> even_parts(64, 26880), even_parts(64, 16384)
    (53, 64)
    """
    units = -(-longest // UNIT)
    return -(-units // -(-units // min(parts, units)))


def _parts_of_rounds(program: Function, plan: Plan, sizes: Mapping[str, int], machine: GpuMachine, rounds: int) -> int:
    """How many parts have as many blocks as so many for each multiprocessor, if the first grid keeps its blocks."""
    cost, *_ = costs_of(program, plan, sizes, machine)
    (parts,) = plan.parts
    of_a_part = max(1, cost.programs // parts)
    cluster = plan.grids[0].cluster
    return machine.multiprocessors_in_clusters(cluster) // cluster * rounds // of_a_part


def _least_seconds(costs: Sequence[GridCost]) -> float:
    """What the grids take at least, however they are cut up."""
    return REACHED * sum(max(cost.least_seconds, cost.products.floor) for cost in costs)


def _is_split(function: Function) -> bool:
    """Whether a function is one grid, some of whose sums can be split."""
    grids = [op for op in function.body.ops if isinstance(op, ops.Grid)]
    return len(grids) == 1 and bool(sums_of(grids[0])[0])


def _longest(function: Function, sizes: Mapping[str, int]) -> int:
    """How many elements the longest loop goes through at most, of those of which that is known."""
    longest = 0
    for op in function.walk():
        if isinstance(op, ops.Range):
            start, stop = size_of(op.start), _most(op.stop)
            if start is not None and stop is not None and symbols_of(stop - start) <= sizes.keys():
                longest = max(longest, evaluate(stop - start, sizes))
    return longest


def _most(value: Value) -> Dim | None:
    """A size that an integer scalar is at most: itself, or one that it is the least of with another."""
    match value.op:
        case ops.Cast() as op:
            return _most(op.source)
        case ops.Map(fn="minimum") as op:
            return next((bound for bound in map(_most, op.inputs) if bound is not None), None)
        case _:
            return size_of(value)
