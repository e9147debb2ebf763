"""Makes one kernel of a loop whose rows do not need each other: all steps run within it.

    %last, %ys = graph.loop([%h], [%x], [%d]) {callee = step, count = 128}
 =>
    %last, %ys = graph.call([%h, %x, %d]) {callee = step_loop}      a tile program with a `tile.range` over the steps

The step has to be one kernel by the rules of groups, and a program of it may need no more of what is carried than it
computes; or, on GPUs, whole rows of its products and all of their weights have room in a program (`row_products`).
Other loops stay, and are launched step by step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Function, Module, Number, Op, Value, free_names
from tiledsl.ir.dtypes import bool_
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.types import TensorType
from tiledsl.ir.verifier import Form, is_tile_function
from tiledsl.passes.graph.analysis.limits import limits_of
from tiledsl.passes.graph.analysis.outline import is_repeated
from tiledsl.passes.graph.analysis.shapes import sizes_of
from tiledsl.passes.graph.analysis.views import view_of_value
from tiledsl.passes.graph.kernels.kernel_plan import KernelPlan, Refusal, plan_kernel
from tiledsl.passes.graph.kernels.loop_program import LoopProgram, Steps, inserted, reason_against
from tiledsl.passes.graph.kernels.merge_axes import merged_axes
from tiledsl.passes.graph.loops.elementwise_products import ElementwiseProducts
from tiledsl.passes.graph.loops.hoist_products import Hoisting, is_alone
from tiledsl.passes.graph.loops.lift_views import lifted, root_of
from tiledsl.passes.graph.loops.row_products import predicted, row_plan
from tiledsl.passes.graph.loops.split_gates import predicted_groups, split_products
from tiledsl.passes.graph.raising.raise_programs import RaisePrograms
from tiledsl.passes.graph.rewrites.canonicalise_graph import CanonicaliseGraph, tidy
from tiledsl.passes.graph.rewrites.widen_floats import WidenFloats
from tiledsl.passes.manager import Pass, PassContext

KERNELS = (ops.Map, ops.Cast, ops.Random, ops.Reduce, ops.Scan, ops.Gather, ops.Contract)
"""What a step may be made of, beside what is written again wherever it is read, and slices of elements."""

MOST_AHEAD = 8
"""Steps in a turn of a loop on a GPU: their elements are loaded together, so that threads wait once for all of them."""
OPS_AHEAD = 64
"""At most so many ops are in a turn because of that."""


@dataclass(frozen=True)
class LoopsInKernels:
    """Of the entry. `arch`: for what the kernels will be compiled."""

    name: ClassVar[str] = "loops-in-kernels"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "cpu"

    def run(self, module: Module, context: PassContext) -> Module:
        made: list[Function] = []
        loops = [op for op in module.entry.body.ops if isinstance(op, ops.Loop)]
        for loop in loops:
            assert isinstance(loop.count, int), "sizes are numbers"
            if not loop.count:
                _never(loop)
                continue
            found = self._planned(loop, module) if loop.initial else "nothing is carried"
            if isinstance(found, str) and is_alone(loop, module):
                # what does not read the carry may be what stands in the way
                rest = Hoisting(loop, module.function(loop.callee), context).results()
                if rest is not None and not rest.results:
                    rest.erase()
                    continue
                loop = rest or loop
                found = self._planned(loop, module)
            if isinstance(found, str):
                context.remark(self.name, loop.location, f"each step of @{loop.callee} is launched: {found}")
                continue
            taken = {function.name for function in (*module.functions, *made)}
            made.append(_replace(loop, *found, free_names(taken, f"{loop.callee}_loop")))
            context.remark(self.name, loop.location, f"all {loop.count} steps of @{loop.callee} run within one kernel")
        if loops:
            tidy(module.entry)
        functions = [*module.functions, *made]
        called = ops.called_by(functions)
        return Module([f for f in functions if f is module.entry or f.name in called])

    def _planned(self, loop: ops.Loop, module: Module) -> tuple[KernelPlan, Steps] | str:
        """The step as one kernel, on the tensors of the loop; or why it is none."""
        found = self._tried(loop, module, ties=False)
        if isinstance(found, str) and self.arch.startswith("sm_"):
            rows = self._by_rows(loop, module)
            found = found if rows is None else rows
        tied = self._tried(loop, module, ties=True) if isinstance(found, str) else found
        return found if isinstance(tied, str) else tied

    def _tried(self, loop: ops.Loop, module: Module, *, ties: bool) -> tuple[KernelPlan, Steps] | str:
        """The same; `ties`: the axes of what is carried are said to be those of what it becomes, even where that is not
        computed from it."""
        step = self._prepared(loop, module, len(loop.initial) if ties else 0)
        members = _members(step)
        for op in members:
            if not isinstance(op, KERNELS):
                return f"a step has a {op.name} ({op.location})"
        plan = plan_kernel(members, limits_of(self.arch), step.name)
        if isinstance(plan, Refusal):
            return f"a step is not one kernel: {plan.reason}"
        if [value.op for value in plan.outlined.outputs] != _returned(step):
            return "what a step gives is stored in another order"
        found = _of_loop(plan, step, loop)
        if isinstance(found, str) or not self.arch.startswith("sm_"):
            return found
        ahead = min(MOST_AHEAD, max(1, OPS_AHEAD // len(members)), found[1].count)
        return found[0], replace(found[1], ahead=ahead)

    def _by_rows(self, loop: ops.Loop, module: Module) -> tuple[KernelPlan, Steps] | None:
        """The step with whole rows of products in a program, if that is predicted to take less time than launches."""
        step = self._prepared(loop, module, 0, split=True)
        members = _members(step)
        kinds = {type(op) for op in members}
        if not kinds <= {*KERNELS} or ops.Contract not in kinds:
            return None
        weights = step.parameters[len(loop.initial) + len(loop.sequences) :]
        plan = row_plan(members, len(loop.initial), weights, step.name)
        if isinstance(plan, str) or [value.op for value in plan.outlined.outputs] != _returned(step):
            return None
        found = _of_loop(plan, step, loop)
        seconds = found if isinstance(found, str) else predicted(*found, self.arch)
        if isinstance(found, str) or isinstance(seconds, str):
            return None
        launched = Module([module.function(loop.callee).clone(), *(f for f in module.functions if is_tile_function(f))])
        context = PassContext()
        each = predicted_groups(CanonicaliseGraph().run(launched, context), self.arch, context.machine)
        return found if seconds < found[1].count * each else None

    def _prepared(self, loop: ops.Loop, module: Module, tied: int, *, split: bool = False) -> Function:
        """A copy of the step as groups want it, in which an op gives each result, and chooses between it and what it is
        carried as for the first `tied` ones. `split`: products that are read in parts are one for each."""
        step = module.function(loop.callee).clone()
        passes: list[Pass] = [
            CanonicaliseGraph(), RaisePrograms(arch=self.arch), ElementwiseProducts(), WidenFloats(),
            CanonicaliseGraph(),
        ]  # fmt: skip
        whole = Module([step, *(f.clone() for f in module.functions if is_tile_function(f))])
        for each in passes:
            whole = each.run(whole, PassContext())
        if split:
            split_products(step)
        last = step.body.terminator
        assert isinstance(last, ops.Return)
        results: list[Value] = []
        for number, value in enumerate(last.values):
            if number < tied:
                yes = ops.Constant(last.location, value=True, dtype=bool_)
                chosen = ops.Map(last.location, fn="where", inputs=[yes.result, value, step.parameters[number]])
                for op in (yes, chosen):
                    step.body.insert_before(last, op)
                value = chosen.result
            cast = ops.Cast(last.location, source=value, dtype=tensor_type(value).dtype, result_names=[value.name])
            step.body.insert_before(last, cast)
            results.append(cast.result)
        last.set_field("values", results)
        return step


def _members(step: Function) -> list[Op]:
    """What a step computes: all but what is written again wherever it is read, and views."""
    body = [op for op in step.body.ops if op.effect != "terminator"]
    computed = [op for op in body if not is_repeated(op) or op in _returned(step)]
    return [op for op in computed if not isinstance(op, (ops.Slice, ops.Reshape, ops.Transpose, ops.Broadcast))]


def _returned(step: Function) -> list[Op | None]:
    """The ops that give the results of a step."""
    last = step.body.terminator
    assert isinstance(last, ops.Return)
    return [value.op for value in last.values]


def _of_loop(plan: KernelPlan, step: Function, loop: ops.Loop) -> tuple[KernelPlan, Steps] | str:
    """The plan of a step with what the loop gives it as inputs, or why there is none."""
    carried, count = len(loop.initial), len(loop.initial) + len(loop.sequences)
    places = {parameter: number for number, parameter in enumerate(step.parameters)}
    parameters: list[list[Value]] = [[] for _ in range(carried)]
    elements: set[Value] = set()
    inputs: list[Value] = []
    for parameter, value in zip(plan.outlined.function.parameters, plan.outlined.inputs):
        root = root_of(value)
        if root not in places:
            return f"%{value.name} of a step has to be in memory"
        place = places[root]
        if place < carried:
            if value is not root:
                return f"a program needs more of %{root.name} than it computes"
            parameters[place].append(parameter)
            inputs.append(loop.initial[place])
        elif place < count:
            elements.add(parameter)
            inputs.append(lifted(value, root, loop.sequences[place - carried], loop, loop.count))
        else:
            inputs.append(lifted(value, root, loop.shared[place - count], loop, None))
    first = tuple(map(_number, loop.initial))
    assert isinstance(loop.count, int)
    places = tuple(map(_place_of_steps, loop.results[carried:]))
    steps = Steps(tuple(map(tuple, parameters)), frozenset(elements), first, loop.count, loop.reverse, places)
    reason = reason_against(plan, steps)
    if reason is not None:
        return reason
    return replace(plan, outlined=replace(plan.outlined, inputs=tuple(inputs))), steps


def _turned(result: Value) -> ops.Transpose | None:
    """The one op that reads what is stacked, if that moves the axis of steps and no other."""
    users = list(result.users)
    if len(users) != 1 or not isinstance(users[0], ops.Transpose):
        return None
    order = [axis for axis in users[0].permutation if axis]
    return users[0] if order == sorted(order) else None


def _place_of_steps(result: Value) -> int:
    """Where the axis of steps goes, among axes of more than one element."""
    turned = _turned(result)
    if turned is None:
        return 0
    before = turned.permutation[: turned.permutation.index(0)]
    return sum(sizes_of(result)[axis] != 1 for axis in before)


def _number(value: Value) -> Number | None:
    """The number that a tensor repeats, if it is known."""
    op = value.op
    while isinstance(op, (ops.Broadcast, ops.Reshape)):
        op = op.source.op
    return op.value if isinstance(op, ops.Constant) else None


def _never(loop: ops.Loop) -> None:
    """What a loop of no steps gives: what it starts with, and nothing stacked."""
    for before, after in zip(loop.initial, loop.results):
        after.replace_with(before)
    for result in loop.results[len(loop.initial) :]:
        zero = ops.Constant(loop.location, value=0, dtype=tensor_type(result).dtype)
        empty = ops.Broadcast(loop.location, source=zero.result, shape=tensor_type(result).shape)
        for op in (zero, empty):
            assert loop.parent is not None
            loop.parent.insert_before(loop, op)
        result.replace_with(empty.result)
    loop.erase()


def _has_one_way(plan: KernelPlan, steps: Steps) -> bool:
    """Whether what is carried is read along the axes that it is made along."""
    last = plan.outlined.function.body.terminator
    assert isinstance(last, ops.Return)
    return all(
        plan.axes.kept[before] == plan.axes.kept[after]
        for slot, after in zip(steps.carried, last.values)
        for before in slot
    )


def _replace(loop: ops.Loop, plan: KernelPlan, steps: Steps, name: str) -> Function:
    """Puts a call of the program in the place of a loop; gives the program."""
    if not any(steps.places) and _has_one_way(plan, steps):
        plan = _merged(loop, plan, steps)
    function = plan.outlined.function
    last = function.body.terminator
    assert isinstance(last, ops.Return)
    carried = len(steps.carried)
    given: list[Value] = []
    for value, initial, number in zip(last.values, loop.initial, steps.first):
        if number is None:
            given.append(_reshaped(loop, initial, _sizes(plan, value)))
    for parameter, value in zip(function.parameters, plan.outlined.inputs):
        if not any(parameter in slot for slot in steps.carried):
            front = (steps.count,) if parameter in steps.elements else ()
            given.append(_reshaped(loop, value, (*front, *_sizes(plan, parameter))))
    made = [tensor_type(value).dtype for value in last.values]
    shapes = [_sizes(plan, value) for value in last.values]
    shapes[carried:] = [inserted(*pair, steps.count) for pair in zip(shapes[carried:], steps.places)]
    program = LoopProgram(plan, [_unit_axis(value) for value in given], steps).build(name)
    types = [TensorType(dtype, shape) for dtype, shape in zip(made, shapes)]
    names = [value.name for value in loop.results]
    call = ops.Call(loop.location, inputs=given, callee=name, types=types, result_names=names)
    assert loop.parent is not None
    loop.parent.insert_before(loop, call)
    for number, (old, new) in enumerate(zip(loop.results, call.results)):
        turned = _turned(old) if number >= carried else None
        stands = old if turned is None else turned.result
        stands.replace_with(_reshaped(loop, new, sizes_of(stands)))
        if turned is not None:
            turned.erase()
    loop.erase()
    return program


def _merged(loop: ops.Loop, plan: KernelPlan, steps: Steps) -> KernelPlan:
    """The plan with as few axes as there can be, by where the elements of one step lie."""
    assert loop.parent is not None
    cut: list[Op] = []
    inputs: list[Value] = []
    for parameter, value in zip(plan.outlined.function.parameters, plan.outlined.inputs):
        if parameter in steps.elements:
            sizes = sizes_of(value)
            starts, stops = (0,) * len(sizes), (1, *sizes[1:])
            one = ops.Slice(loop.location, source=value, starts=starts, stops=stops, steps=(1,) * len(sizes))
            flat = ops.Reshape(loop.location, source=one.result, shape=sizes[1:])
            for op in (one, flat):
                loop.parent.insert_before(loop, op)
                cut.append(op)
            value = flat.result
        inputs.append(value)
    merged = merged_axes(replace(plan, outlined=replace(plan.outlined, inputs=tuple(inputs))))
    for op in reversed(cut):
        op.erase()
    return replace(merged, outlined=plan.outlined)


def _sizes(plan: KernelPlan, value: Value) -> tuple[int, ...]:
    return tuple(axis.size for axis in plan.axes.kept[value])


def _reshaped(loop: ops.Loop, value: Value, shape: Sequence[int]) -> Value:
    if tuple(shape) == sizes_of(value):
        return value
    op = ops.Reshape(loop.location, source=value, shape=tuple(shape), result_names=[value.name])
    assert loop.parent is not None
    loop.parent.insert_before(loop, op)
    return op.result


def _unit_axis(value: Value) -> int | None:
    """The axis whose elements lie side by side; the last one of what is no view, which will be copied."""
    view = view_of_value(value)
    rank = len(sizes_of(value))
    return view.place.unit if view is not None else rank - 1 if rank else None
