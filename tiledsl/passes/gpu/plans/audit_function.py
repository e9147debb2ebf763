"""What a program for a GPU moves, and how long it is predicted to take, beside the least that it could.

softmax 8192x4096 f16    must 128 MiB, moves 128 MiB, memory; predicted 34.9 us, floor 31.8 us: 1.1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tiledsl.ir.core import Function, Value
from tiledsl.ir.types import AxisType
from tiledsl.passes.analysis.sizes import UNKNOWN_SIZE, symbols_in
from tiledsl.passes.gpu.plan import Plan
from tiledsl.passes.gpu.plans.choose_plans import ranked_plans
from tiledsl.passes.gpu.plans.costs.grid_cost import GridCost
from tiledsl.passes.gpu.plans.split_candidates import costs_of, predicted_seconds, program_of
from tiledsl.passes.gpu_machine import GpuMachine
from tiledsl.support.location import Location


@dataclass(frozen=True)
class KernelAudit:
    """One program, in one run. Bytes are those of tensors in global memory; times are seconds.

    `must_bytes`: each element that is read or written once. `moved_bytes`: as often as the program asks for them, from
    memory or L2. `memory_bytes`: those that memory moves, by the model. `multiply_adds`: of products;
    `tensor_core_share` of them by matrix instructions. `exact`: whether nothing was guessed (trip counts that are data,
    sampled blocks).
    """

    name: str
    location: Location
    plan: str
    must_bytes: float
    moved_bytes: float
    memory_bytes: float
    multiply_adds: float
    tensor_core_share: float | None
    predicted: float
    floor: float
    products_floor: float
    """The part of the floor that products take."""
    bound: str
    exact: bool
    by_warpgroups: bool
    """Whether its products go by `wgmma`."""

    @property
    def ratio(self) -> float:
        """Predicted time over the floor."""
        return self.predicted / self.floor


def audit_function(
    function: Function,
    machine: GpuMachine,
    sizes: Mapping[str, int],
    alignment: Sequence[int] = (),
    lying: Sequence[int] = (),
) -> KernelAudit:
    """The audit of a function in form `tile-placed` under its best plan. Sizes that are not given are guessed."""
    plan, seconds = ranked_plans(function, machine, sizes, alignment, 1, lying, most=1)[0]
    known = {**_guessed(function), **sizes}
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
    must = _must_bytes(program, costs)
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


def _must_bytes(function: Function, costs: Sequence[GridCost]) -> float:
    """Each element that is read or written once; what the function makes for itself does not count."""
    returned = {value for op in function.body.ops if op.effect == "terminator" for value in op.operands}
    outside = {*function.parameters, *returned}
    once: dict[tuple[Value, bool], float] = {}
    made: set[Value] = set()
    for cost in costs:
        for access in cost.nest.accesses:
            tensor = access.op.tensor
            if tensor in outside and not (access.is_read and tensor in made):
                key = (tensor, access.is_read)
                once[key] = max(once.get(key, 0.0), cost.touched_bytes(access))
        made.update(access.op.tensor for access in cost.nest.accesses if not access.is_read)
    return sum(once.values())


def _guessed(function: Function) -> dict[str, int]:
    """A size for every symbol that is not a block."""
    blocks = {
        str(argument.type.extent)
        for op in function.walk()
        for body in op.bodies.values()
        for argument in body.arguments
        if isinstance(argument.type, AxisType)
    }
    names = frozenset[str]().union(*(symbols_in(op) for op in function.walk()))
    return dict.fromkeys(sorted(names - blocks), UNKNOWN_SIZE)
