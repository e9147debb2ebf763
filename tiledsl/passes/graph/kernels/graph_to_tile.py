"""Turns the groups of a graph into tile programs.

    %g = graph.call(%x, %w) {callee = linear_0}             func @linear_0(%x: tensor<f32, [4, 32, 64]>, ...) { ... }
 =>
    %x2 = graph.reshape(%x) {shape = [128, 64]}
    %g2 = graph.call(%x2, %w) {callee = linear_0}           func @linear_0(%x: tensor<f32, [M, K]>, ...) { tile... }
    %g = graph.reshape(%g2) {shape = [4, 32, 48]}

Axes of one element are left out, and axes that every tensor of the group has behind each other are made one; reshapes
around the call, which cost nothing, say so. Groups that come to the same program share it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Function, Module, Op, Value
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.types import TensorType
from tiledsl.ir.verifier import Form, is_tile_function
from tiledsl.passes.graph.analysis.joins import part_of
from tiledsl.passes.graph.analysis.limits import limits_of
from tiledsl.passes.graph.analysis.outline import Outlined
from tiledsl.passes.graph.analysis.shapes import sizes_of
from tiledsl.passes.graph.analysis.views import view_of_value
from tiledsl.passes.graph.kernels.call_parts import with_fewer_tensors
from tiledsl.passes.graph.kernels.edge_levels import edges_of
from tiledsl.passes.graph.kernels.flat_windows import flat_windows
from tiledsl.passes.graph.kernels.group_program import GroupProgram
from tiledsl.passes.graph.kernels.kernel_plan import KernelPlan, plan_function
from tiledsl.passes.graph.kernels.merge_axes import merged_axes
from tiledsl.passes.graph.kernels.records import NO_RECORDS, Records, record_join, records_of, whole_records
from tiledsl.passes.graph.kernels.view_parts import Parts, parts_of_parameters
from tiledsl.passes.graph.rewrites.canonicalise_graph import drop_unread
from tiledsl.passes.graph.rewrites.placed_copies import Place, is_copy, placed_copies
from tiledsl.passes.graph.rewrites.windows.copy_windows import most_blocked
from tiledsl.passes.manager import PassContext


@dataclass(frozen=True)
class GraphToTile:
    """Lowers every GRAPH function that the entry calls."""

    name: ClassVar[str] = "graph-to-tile"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "cpu"

    def run(self, module: Module, context: PassContext) -> Module:
        programs = _Programs()
        for op in list(module.entry.body.ops):
            if isinstance(op, ops.Call):
                callee = module.function(op.callee)
                if is_tile_function(callee):
                    self._keep(op, callee, programs)
                else:
                    self._lower(op, callee, programs, context)
        steps = [function for function in module.functions if function.name in _looped(module)]
        for function in module.functions:
            if function.name in ops.called_by(steps) and is_tile_function(function):
                programs.keep(function)
        return Module([module.entry, *steps, *programs.functions])

    def _keep(self, call: ops.Call, callee: Function, programs: _Programs) -> None:
        """Keeps a tile program; one that copies for where its source lies now that groups are made: what a group gives
        may lie in another order than the ops that it was written for."""
        if is_copy(callee):
            unit, sizes = _unit_axis(call.inputs[0]), sizes_of(call.inputs[0])
            if tensor_type(callee.parameters[0]).unit not in (None, unit):
                place = Place(sizes, unit, (0,) * len(sizes))
                dtype, most = tensor_type(call.inputs[0]).dtype, most_blocked(self.arch)
                name = programs.unused(callee.name)
                callee = placed_copies(name, dtype, [place], sizes, None, callee.location, most)
                types, names = [value.type for value in call.results], [value.name for value in call.results]
                _replace(
                    call, ops.Call(call.location, inputs=call.inputs, callee=name, types=types, result_names=names)
                )
        fewer = with_fewer_tensors(callee, call.inputs)
        if fewer is None:
            programs.keep(callee)
            return
        program, inputs = fewer
        program.name = programs.unused(callee.name)
        types, names = [value.type for value in call.results], [value.name for value in call.results]
        name = programs.add(program)
        _replace(call, ops.Call(call.location, inputs=inputs, callee=name, types=types, result_names=names))

    def _plan(self, call: ops.Call, function: Function) -> KernelPlan:
        plan = plan_function(Outlined(function, call.inputs, call.results), limits_of(self.arch))
        return flat_windows(merged_axes(plan), self.arch)

    def _lower(self, call: ops.Call, function: Function, programs: _Programs, context: PassContext) -> None:
        function.name, name = "group", function.name  # groups that differ in nothing else are planned once
        structure = Module([function]).structure(locations=False)
        function.name = name
        # which axes can be one is up to where tensors lie, too
        key = structure, tuple(map(_strides, call.inputs)), tuple(map(_strides_in_join, call.results))
        shaped = programs.shaped.get(key)
        if shaped is None:
            plan = self._plan(call, function)
            last = function.body.terminator
            assert isinstance(last, ops.Return)
            parameters = tuple(_sizes(plan, parameter) for parameter in function.parameters)
            made = tuple(TensorType(tensor_type(v).dtype, _sizes(plan, v)) for v in last.values)
            shaped = programs.shaped[key] = _Shaped(plan, parameters, made)
        on_gpu = self.arch.startswith("sm_")
        parts = parts_of_parameters(shaped.plan, call.inputs)
        records = records_of(shaped.plan, call.inputs, call.results) if on_gpu and not parts else NO_RECORDS
        inputs = [
            whole_records(value, shape, call) if number in records.inputs else _reshaped(call, value, shape)
            for number, (value, shape) in enumerate(zip(call.inputs, shaped.parameters))
        ]
        units = tuple(_unit_axis(value) for value in inputs)
        name = shaped.programs.get((units, parts, records.key))
        if name is None:
            plan = shaped.plan
            if plan.outlined.function is not function:
                plan = self._plan(call, function)
            program = GroupProgram(
                function, plan.axes, plan.treatments, units, plan.flat, parts, numbers=not on_gpu, records=records
            )  # fmt: skip
            name = shaped.programs[units, parts, records.key] = programs.add(program.build(function.name))
        context.remark(self.name, function.location, f"@{function.name}: {edges_of(function)}")
        inputs = [value for number, value in enumerate(inputs) if number not in dict(parts)]
        if records.inputs or records.outputs:
            _replace_with_records(call, name, inputs, shaped.made, records)
            return
        names = [value.name for value in call.results]
        new = ops.Call(call.location, inputs=inputs, callee=name, types=shaped.made, result_names=names)
        _replace(call, new)


def _looped(module: Module) -> set[str]:
    """The names of the steps of loops, which have not been lowered yet."""
    return {op.callee for op in module.walk() if isinstance(op, ops.Loop)}


def _replace(call: ops.Call, new: ops.Call) -> None:
    """Lets another call give what this one does, in its shapes."""
    assert call.parent is not None
    call.parent.insert_before(call, new)
    for old, value in zip(call.results, new.results):
        old.replace_with(_reshaped(call, value, sizes_of(old)))
    call.erase()


def _replace_with_records(
    call: ops.Call, callee: str, inputs: Sequence[Value], made: Sequence[TensorType], records: Records
) -> None:
    """Lets a call of a program that has records give what this one does, and what joins of its results make."""
    block = call.parent
    assert block is not None
    firsts = {field.record: number for number, field in reversed(list(records.inputs.items()))}
    given = [
        value
        for number, value in enumerate(inputs)
        if number not in records.inputs or firsts[records.inputs[number].record] == number
    ]
    old: list[Value] = []
    types: list[TensorType] = []
    joins: dict[int, Value] = {}
    for number, (result, type_) in enumerate(zip(call.results, made)):
        field = records.outputs.get(number)
        if field is None:
            old.append(result)
            types.append(type_)
        elif field.record not in joins:
            joins[field.record] = record_join(result).result
            old.append(joins[field.record])
            types.append(TensorType(type_.dtype, (*type_.shape, records.lengths[field.record])))
    names = [value.name for value in old]
    new = ops.Call(call.location, inputs=given, callee=callee, types=types, result_names=names)
    block.insert_before(call, new)
    for value, result in zip(old, new.results):
        value.replace_with(_reshaped(call, result, sizes_of(value)))
    for value in joins.values():
        if value.op is not None:
            value.op.erase()
    drop_unread(block)
    if call in block.ops:
        call.erase()


def _sizes(plan: KernelPlan, value: Value) -> tuple[int, ...]:
    return tuple(axis.size for axis in plan.axes.kept[value])


def _strides(value: Value) -> tuple[int, ...] | None:
    """How far apart the elements of a view lie; None if it is no view of memory."""
    view = view_of_value(value)
    return None if view is None else view.place.strides


def _reshaped(before: Op, value: Value, shape: Sequence[int]) -> Value:
    if tuple(shape) == sizes_of(value):
        return value
    assert before.parent is not None
    op = ops.Reshape(before.location, source=value, shape=tuple(shape), result_names=[value.name])
    before.parent.insert_before(before, op)
    return op.result


def _unit_axis(value: Value) -> int | None:
    """The axis whose elements lie side by side. Parameters of the entry are row by row: the runtime sees to it."""
    view = view_of_value(value)
    assert view is not None, f"%{value.name} is no view of memory"
    return view.place.unit


def _strides_in_join(value: Value) -> tuple[int, ...] | None:
    """The same of a part of a join; None for what has a buffer of its own."""
    part = part_of(value)
    return None if part is None else part.place.strides


@dataclass(frozen=True)
class _Shaped:
    """What calls of equal groups have in common."""

    plan: KernelPlan
    parameters: tuple[tuple[int, ...], ...]
    """The shapes that the program takes, of axes that were merged."""
    made: tuple[TensorType, ...]
    programs: dict[tuple[tuple[int | None, ...], Parts, object], str] = field(
        default_factory=dict[tuple[tuple["int | None", ...], Parts, object], str]
    )
    """The program by the axes of its inputs whose elements lie side by side, by what is a part of another one, and by
    its records."""


class _Programs:
    """The programs so far, each once."""

    def __init__(self) -> None:
        self.shaped: dict[object, _Shaped] = {}
        self.functions: list[Function] = []
        self.known: dict[object, str] = {}

    def keep(self, function: Function) -> None:
        if function not in self.functions:
            self.functions.append(function)

    def unused(self, name: str) -> str:
        """A name like that one."""
        while any(function.name == name for function in self.functions):
            name += "_"
        return name

    def add(self, function: Function) -> str:
        """The name of the program, or of the one that is the same."""
        name, function.name = function.name, "program"
        key = Module([function]).structure(locations=False)
        function.name = name
        if key not in self.known:
            self.known[key] = function.name
            self.functions.append(function)
        return self.known[key]
