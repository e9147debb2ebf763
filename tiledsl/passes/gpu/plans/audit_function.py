"""What a program for a GPU moves, and how long it is predicted to take, beside the least that it could.

softmax 8192x4096 f16    must 128 MiB, moves 128 MiB, memory; predicted 34.9 us, floor 31.8 us: 1.1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tiledsl.ir.core import Function
from tiledsl.passes.gpu.plan import Plan
from tiledsl.passes.gpu.plans.choose_plans import ranked_plans
from tiledsl.passes.gpu.plans.split_candidates import costs_of, predicted_seconds, program_of
from tiledsl.passes.gpu_machine import GpuMachine
from tiledsl.passes.nest.kernel_audit import KernelAudit, guessed_sizes, must_bytes


def audit_function(
    function: Function,
    machine: GpuMachine,
    sizes: Mapping[str, int],
    alignment: Sequence[int] = (),
    lying: Sequence[int] = (),
) -> KernelAudit:
    """The audit of a function in form `tile-placed` under its best plan. Sizes that are not given are guessed."""
    plan, seconds = ranked_plans(function, machine, sizes, alignment, 1, lying, most=1)[0]
    known = {**guessed_sizes(function), **sizes}
    return audit_plan(function, machine, known, plan, seconds)


def audit_plan(
    function: Function, machine: GpuMachine, sizes: Mapping[str, int], plan: Plan, seconds: float | None
) -> KernelAudit:
    """The same under a plan, whose time the ranking may have predicted. All sizes are known."""
    launch = machine.speeds.launch
    program = program_of(function, plan)
    costs = costs_of(program, plan, sizes, machine)
    counted = [cost.counts.moved(access) for cost in costs for access in cost.nest.accesses]
    of_products = [cost.products for cost in costs]
    shares = [(one.multiply_adds, one.tensor_core_share) for one in of_products if one.tensor_core_share is not None]
    multiplied = sum(number for number, _ in shares)
    slowest = max(costs, key=lambda cost: cost.times.seconds, default=None)
    must = must_bytes(program, [(cost.nest, cost.counts) for cost in costs])
    products = sum(one.floor for one in of_products)
    return KernelAudit(
        name=function.name,
        location=function.location,
        plan=str(plan),
        must_bytes=must,
        moved_bytes=sum(cost.read_bytes + cost.written_bytes for cost in costs),
        memory_bytes=sum(cost.memory_bytes for cost in costs),
        multiply_adds=multiplied,
        tensor_core_share=sum(number * share for number, share in shares) / multiplied if multiplied else None,
        predicted=predicted_seconds(costs, seconds, machine),
        floor=launch + max(products, must / machine.copied_bytes_per_second),
        products_floor=products,
        bound=slowest.times.bound if slowest is not None else "launch",
        exact=all(amount.exact for amount in counted),
        by_warpgroups=any(grid.roles for grid in plan.grids),
    )
