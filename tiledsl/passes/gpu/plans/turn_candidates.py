"""Plans in which operands are turned before a product: where warpgroups multiply them only from rows along the axis
that is added up, and these rows lie across it.

    a[4096, 4096] @ b[4096, 4096] in tf32, b row by row        560 us by `mma.sync`
    b turned before                                            33 us and 403 us

The program that `turn-operands` makes is planned as any other is, and its price is that of both grids.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tiledsl.ir.core import Function
from tiledsl.ir.symbolic import symbols_of
from tiledsl.ir.types import AxisType
from tiledsl.passes.analysis.effects import tensors_in_order
from tiledsl.passes.gpu.plan import Plan, RankedPlan
from tiledsl.passes.gpu.plans.split_candidates import program_of, seconds_of_plan
from tiledsl.passes.gpu_machine import GpuMachine
from tiledsl.passes.tile.turn_operands import operands_to_turn

GAIN = 0.9
"""Another grid is worth it if both take no more than this share of the time."""


def turned_plans(
    function: Function,
    machine: GpuMachine,
    known: Mapping[str, int],
    sizes: Mapping[str, int],
    whole: RankedPlan,
    plans_of: Callable[[Function], list[RankedPlan]],
) -> list[RankedPlan]:
    """Plans by warpgroups with operands turned; none where they gain nothing over `whole`, the best plan without.

    `known`: the sizes of a call, and `sizes` has a guess for the others. `plans_of`: the plans of a program.
    """
    if not machine.has_warpgroups:
        return []
    tensors = {found.load.tensor for found in operands_to_turn(function)}
    numbers = tuple(number for number, one in enumerate(tensors_in_order(function.body)) if one in tensors)
    shapes = [one.type.shape for one in tensors if not isinstance(one.type, AxisType)]
    if not numbers or any(symbols_of(dim) - known.keys() for shape in shapes for dim in shape):
        return []
    program = program_of(function, Plan((), turned=numbers))
    found = [RankedPlan(replace(plan, turned=numbers), seconds) for plan, seconds in plans_of(program)]
    found = [one for one in found if any(grid.roles for grid in one.plan.grids)]
    if not found:
        return []

    before, after = (seconds_of_plan(*one, sizes, machine) for one in ((function, whole), (program, found[0])))
    return found if after <= GAIN * before else []
