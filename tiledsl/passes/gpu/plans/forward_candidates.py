"""Plans in which loops that read what they stored are written out, and what is read again stays in registers.

    Cholesky factors of 8192 matrices of 16 x 16     a loop: 680 turns, each waits for what it stored     580 us
                                                     written out: waits once, 136 tiles in registers       10 us

The program that `unroll-loops` and `forward-stores` make for the sizes of a call is planned as any other is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tiledsl.ir.core import Function
from tiledsl.passes.gpu.plan import Plan, RankedPlan
from tiledsl.passes.gpu.plans.split_candidates import program_of, seconds_of_plan
from tiledsl.passes.gpu_machine import GpuMachine
from tiledsl.passes.tile.loops.unroll_loops import rereading_loops, sizes_to_know

GAIN = 0.9
"""Code of that length, for these sizes alone, is worth it if it takes no more than this share of the time."""


def forwarded_plans(
    function: Function,
    machine: GpuMachine,
    known: Mapping[str, int],
    sizes: Mapping[str, int],
    whole: RankedPlan,
    plans_of: Callable[[Function], list[RankedPlan]],
) -> list[RankedPlan]:
    """Plans for the program written out; none where they gain nothing over `whole`, the best plan without.

    `known`: the sizes of a call, and `sizes` has a guess for the others. `plans_of`: the plans of a program.
    """
    loops = len(list(rereading_loops(function)))
    names = sizes_to_know(function)
    if not loops or not names <= known.keys():
        return []
    exact = tuple(sorted((name, known[name]) for name in names))
    program = program_of(function, Plan((), sizes=exact, forwarded=True))
    if len(list(rereading_loops(program))) == loops:
        return []  # none is short enough

    def forwarded(plan: Plan) -> Plan:
        return replace(plan, sizes=tuple({**dict(exact), **dict(plan.sizes)}.items()), forwarded=True)

    found = [RankedPlan(forwarded(plan), seconds) for plan, seconds in plans_of(program)]

    before, after = (seconds_of_plan(*one, sizes, machine) for one in ((function, whole), (program, found[0])))
    return found if after <= GAIN * before else []
