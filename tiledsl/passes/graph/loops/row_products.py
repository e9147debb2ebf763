"""Steps that multiply what is carried, with whole rows of it in a program, and all of the weights.

    %p = contract(%h, %u)                   for m in tile.grid(M):
    %n = map(tanh, map(add, %p, %x))            for t in tile.range(T, block=1):
                                      =>            h = tanh(dot(h, u[:, :]) + x[t, m, :])

A program has all of a row that its product reads, and the weights stay in shared memory, if they have room there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Module, Op, Value
from tiledsl.ir.symbolic import symbol_name
from tiledsl.passes.gpu.plans.audit_function import audit_plan
from tiledsl.passes.gpu.plans.choose_plans import ranked_plans
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.passes.graph.analysis.axes import AxesError, GroupAxes, group_axes
from tiledsl.passes.graph.analysis.outline import Apart, Outlined, outline, results_of
from tiledsl.passes.graph.analysis.shapes import bytes_of
from tiledsl.passes.graph.kernels.kernel_plan import KernelPlan
from tiledsl.passes.graph.kernels.loop_program import LoopProgram, Steps
from tiledsl.passes.graph.kernels.treatments import Treatments
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.nest.kernel_audit import guessed_sizes
from tiledsl.passes.pipelines import gpu_front_pipeline, gpu_pipeline
from tiledsl.support.errors import TileError
from tiledsl.support.location import BUILTIN

MOST_WEIGHTS = 160 << 10
"""Bytes of weights that a program holds."""


def row_plan(members: Sequence[Op], carried: int, weights: Collection[Value], name: str) -> KernelPlan | str:
    """A plan for a step in which a program has whole rows, or why there is none. `weights`: the parameters of the step
    that are the same in all steps."""
    ways: tuple[Apart, ...] = ("products", "all")
    found: KernelPlan | str = ""
    for apart in ways:
        outlined = outline(name, members, results_of(members), apart)
        try:
            found = _by_rows(outlined, group_axes(outlined.function), carried, weights)
        except AxesError as error:
            found = error.reason
        if isinstance(found, KernelPlan):
            break
    return found


def _by_rows(outlined: Outlined, axes: GroupAxes, carried: int, weights: Collection[Value]) -> KernelPlan | str:
    function = outlined.function
    held = [parameter for parameter, value in zip(function.parameters, outlined.inputs) if _root(value) in weights]
    if sum(map(bytes_of, held)) > MOST_WEIGHTS:
        return f"weights of {sum(map(bytes_of, held)) >> 10} KiB, and {MOST_WEIGHTS >> 10} are the most"
    inner = {axis for parameter in held for axis in axes.kept[parameter]}
    inner |= {axis for reduced in axes.reduced.values() for axis in reduced}
    last = function.body.terminator
    assert isinstance(last, ops.Return)
    grid = tuple(axis for axis in axes.kept[last.values[0]] if axis not in inner) if carried else ()
    if not grid or any(set(grid) - set(axes.kept[value]) for value in last.values):
        return "its results have no rows in common"
    whole = frozenset(axis for axis in axes.all if axis not in grid)
    return KernelPlan(outlined, axes, Treatments(grid, frozenset(grid[:-1]), whole, frozenset()))


def _root(value: Value) -> Value:
    while isinstance(value.op, (ops.Slice, ops.Transpose, ops.Reshape, ops.Broadcast)):
        value = value.op.source
    return value


def predicted(plan: KernelPlan, steps: Steps, arch: str) -> float | str:
    """Seconds that all steps within one kernel are predicted to take, or why there is no plan for it."""
    units = [len(plan.axes.kept[p]) - 1 or None for p in _given(plan, steps)]
    program = LoopProgram(plan, units, steps)
    sizes = {name: axis.size for axis, size in program.sizes.items() if (name := symbol_name(size)) is not None}
    if (name := symbol_name(program.count)) is not None:
        sizes[name] = steps.count
    module, machine = Module([program.build("priced")]), gpu_machine(arch, BUILTIN)
    try:
        placed = PassManager(gpu_front_pipeline(), verify=False).run(module, PassContext())
        best, seconds = ranked_plans(placed.entry, machine, sizes, (), 1, (), most=1)[0]
        audit = audit_plan(placed.entry, machine, {**guessed_sizes(placed.entry), **sizes}, best, seconds)
        if audit.tensor_core_share != 1:
            return "its products are none of tensor cores"
        PassManager(gpu_pipeline(best, arch), verify=False).run(placed, PassContext())  # whether all of it has room
    except TileError as error:
        return error.message
    return audit.predicted


def _given(plan: KernelPlan, steps: Steps) -> list[Value]:
    """What a program has a parameter for, in order."""
    function = plan.outlined.function
    last = function.body.terminator
    assert isinstance(last, ops.Return)
    first = [value for value, number in zip(last.values, steps.first) if number is None]
    carried = {before for slot in steps.carried for before in slot}
    return [*first, *(p for p in function.parameters if p not in carried)]
