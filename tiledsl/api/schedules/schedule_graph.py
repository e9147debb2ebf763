"""From a lowered graph to its schedule: views become strides and an offset, calls become steps, joins are buffers that
steps write to parts of.

%t = graph.transpose(%x) {permutation = [1, 0]}        step `block`: buffer x through strides (1, 4),
%y = graph.call(%t, %w) {callee = block}                             buffer w, and a new buffer y
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tiledsl.api.reports.source_lines import source_text
from tiledsl.api.schedules.loop_buffers import LoopBuffers
from tiledsl.ir import graph_ops
from tiledsl.ir.core import Function, Module, Number, Op, Value
from tiledsl.ir.dtypes import DType, to_numpy
from tiledsl.ir.strided_views import (
    StridedView,
    numbers,
    reshaped,
    simplest,
    strided_view,
    transposed,
    view_of,
    whole,
)
from tiledsl.ir.types import TensorType
from tiledsl.passes.graph.analysis.joins import Join, part_of, places_of, within
from tiledsl.passes.graph.analysis.step_traffic import ops_of, step_traffic
from tiledsl.passes.graph.kernels.copy_functions import copy_function
from tiledsl.passes.graph.rewrites.materialise import is_new
from tiledsl.runtime.arrays.arrays import Array
from tiledsl.runtime.calls.binding import bind_sizes, new_shape
from tiledsl.runtime.programs.interface import Interface, ScalarParameter, TensorParameter, interface_of
from tiledsl.runtime.programs.schedule import Buffer, Operand, Role, Schedule, Step
from tiledsl.runtime.programs.schedule import Number as StepNumber


@dataclass(frozen=True)
class Scheduled:
    """A schedule, the functions whose programs its steps run, and the constants that the graph itself has."""

    schedule: Schedule
    functions: tuple[Function, ...]
    literals: Mapping[str, Array]
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class _Known:
    """What a value of the entry is: a view of a buffer, or a number."""

    operand: Operand | None
    number: Number | None
    dtype: DType


def schedule_graph(module: Module, inputs: Sequence[str], constants: Collection[str]) -> Scheduled:
    """The schedule of a lowered module. `inputs` and `constants` are names of the entry's parameters, all of them."""
    return _Scheduler(module, inputs, constants).run()


class _Scheduler:
    def __init__(self, module: Module, inputs: Sequence[str], constants: Collection[str]) -> None:
        self._module = module
        self._inputs = tuple(inputs)
        self._constants = constants
        self._buffers: list[Buffer] = []
        self._steps: list[Step] = []
        self._functions: dict[object, tuple[int, Function]] = {}
        self._numbers: dict[Function, int] = {}
        """Of the functions met so far, the number of the program of each."""
        self._by_number: list[Function] = []
        self._interfaces: dict[int, Interface] = {}
        self._known: dict[Value, _Known] = {}
        self._joins: dict[Join, Operand] = {}
        """The buffers of joins."""
        self._literals: dict[str, Array] = {}
        self._literal_buffers: dict[tuple[str, DType], Operand] = {}
        self._remarks: list[str] = []
        self._sources: dict[Op, str] = {}
        self._ops_of: dict[int, tuple[str, ...]] = {}
        self._bytes: dict[object, tuple[int, int]] = {}
        self._loops: list[LoopBuffers] = []
        """The loops whose steps are being scheduled, the innermost last."""
        self._targets: dict[Value, Operand] = {}
        """Where calls of a loop's step write what is stacked."""

    def run(self) -> Scheduled:
        entry = self._module.entry
        numbered: dict[str, int] = {}
        for parameter in entry.parameters:
            type_ = _tensor(parameter)
            role: Role = "constant" if parameter.name in self._constants else "input"
            operand = self._buffer(parameter.name, role, type_.dtype, numbers(type_.shape))
            numbered[parameter.name] = operand.buffer
            self._known[parameter] = _Known(operand, None, type_.dtype)
        assert set(numbered) == {*self._inputs, *self._constants}, "parameters are inputs or constants"
        outputs = tuple(self._return(number, value) for number, value in enumerate(self._ops(entry)))
        schedule = Schedule(
            name=entry.name,
            buffers=tuple(self._buffers),
            inputs=tuple(numbered[name] for name in self._inputs),
            constants=tuple(n for n, b in enumerate(self._buffers) if b.role == "constant"),
            outputs=outputs,
            steps=tuple(self._steps),
        )
        functions = tuple(function for _, function in sorted(self._functions.values(), key=lambda pair: pair[0]))
        return Scheduled(schedule, functions, self._literals, tuple(self._remarks))

    def _ops(self, function: Function) -> tuple[Value, ...]:
        """Schedules the ops of a function of the graph; gives the values that it returns."""
        for op in function.body.ops:
            match op:
                case graph_ops.Call():
                    self._call(op)
                case graph_ops.Loop():
                    self._loop(op)
                case graph_ops.Constant():
                    self._known[op.result] = _Known(None, op.value, op.dtype)
                case graph_ops.Size():
                    assert isinstance(op.value, int), "sizes of a lowered graph are numbers"
                    self._known[op.result] = _Known(None, op.value, op.result.dtype)
                case graph_ops.Concat() | graph_ops.Interleave():
                    self._join(op)
                case graph_ops.Return():
                    return op.values
                case _:
                    self._view(op)
        raise AssertionError(f"@{function.name} returns nothing")

    def _buffer(self, name: str, role: Role, dtype: DType, shape: tuple[int, ...]) -> Operand:
        number = self._loops[-1].take(name, dtype, shape) if role == "inner" and self._loops else None
        if number is None:
            self._buffers.append(Buffer(name, role, dtype, shape))
            number = len(self._buffers) - 1
        return Operand(number, whole(shape))

    def _new_buffer(self, name: str, dtype: DType, shape: tuple[int, ...]) -> int:
        self._buffers.append(Buffer(name, "inner", dtype, shape))
        return len(self._buffers) - 1

    def _view(self, op: Any) -> None:
        source = self._known[op.operands[0]]
        dtype = source.dtype
        operand = source.operand if source.operand is not None else self._literal(source)
        view = view_of(op, operand.view)
        assert view is not None, f"{op.name} of a lowered graph is no view that strides can tell"
        self._known[op.result] = _Known(Operand(operand.buffer, view), None, dtype)

    def _literal(self, known: _Known) -> Operand:
        """A number of the graph as a tensor of rank 0."""
        assert known.number is not None
        key = repr(known.number), known.dtype
        if key not in self._literal_buffers:
            name = f"{known.number} of {known.dtype}"  # no parameter has such a name
            self._literals[name] = np.asarray(known.number, to_numpy(known.dtype))
            self._literal_buffers[key] = self._buffer(name, "constant", known.dtype, ())
        return self._literal_buffers[key]

    # Calls

    def _call(self, op: graph_ops.Call) -> None:
        program = self._program(self._module.function(op.callee))
        interface = self._interfaces[program]
        operands: list[Operand] = []
        scalars: list[StepNumber] = []
        for value, parameter in zip(op.inputs, interface.parameters):
            known = self._known[value]
            match parameter:
                case ScalarParameter():
                    scalars.append(_number(known))
                case TensorParameter():
                    operands.append(self._fitted(known, parameter, op.callee))
        source = self._source(op)
        parts = {number: part for number, value in enumerate(op.results) if (part := part_of(value)) is not None}
        targets = {
            interface.results[number].index: Operand(self._joined(part.join).buffer, part.place)
            for number, part in parts.items()
        }
        for number, value in enumerate(op.results):
            if value in self._targets and is_new(self._module.function(op.callee), number):
                targets[interface.results[number].index] = self._targets[value]
        returned = self._step(op.callee, program, operands, scalars, targets, source)
        for result, tensor in zip(op.results, returned):
            self._known[result] = _Known(tensor, None, _tensor(result).dtype)

    def _joined(self, op: Join) -> Operand:
        """The buffer of a join, or its part of another's, which those who make its parts write to."""
        if op not in self._joins:
            part = part_of(op.result)
            if part is not None:
                self._joins[op] = Operand(self._joined(part.join).buffer, part.place)
                return self._joins[op]
            type_ = _tensor(op.result)
            self._joins[op] = self._buffer(op.result.name or "joined", "inner", type_.dtype, numbers(type_.shape))
        return self._joins[op]

    def _join(self, op: Join) -> None:
        """All sources are in the buffer of a join, but for what had to be made elsewhere."""
        joined, dtype = self._joined(op), _tensor(op.result).dtype
        for source, place in zip(op.sources, places_of(op)):
            known = self._known[source]
            operand = known.operand if known.operand is not None else self._literal(known)
            if operand.buffer != joined.buffer and operand.view.count:
                program = self._program(copy_function(operand.view, dtype))
                self._step("copy", program, [operand], (), {0: Operand(joined.buffer, within(joined.view, place))})
        self._known[op.result] = _Known(joined, None, dtype)

    # Loops

    def _loop(self, op: graph_ops.Loop) -> None:
        """Every step of a loop: the same programs, on other parts of what it steps along."""
        step = self._module.function(op.callee)
        assert isinstance(op.count, int), "sizes of a lowered graph are numbers"
        carried, last = len(op.initial), len(op.initial) + len(op.sequences)
        values = (*op.initial, *op.sequences, *op.shared)
        given = [
            self._passed(value, parameter, n < carried)
            for n, (parameter, value) in enumerate(zip(step.parameters, values))
        ]
        stacked = [
            self._buffer(value.name or "stacked", "inner", _tensor(value).dtype, numbers(_tensor(value).shape))
            for value in op.results[carried:]
        ]
        buffers = LoopBuffers(self._new_buffer)
        self._loops.append(buffers)
        states = given[:carried]
        for t in reversed(range(op.count)) if op.reverse else range(op.count):
            buffers.begin(known.operand.buffer for known in states if known.operand is not None)
            elements = [_element(known, t) for known in given[carried:last]]
            self._known.update(zip(step.parameters, (*states, *elements, *given[last:])))
            states = self._one_step(step, carried, [_part_at(tensor, t) for tensor in stacked])
        self._loops.pop()
        ends = [_Known(operand, None, _tensor(value).dtype) for value, operand in zip(op.results[carried:], stacked)]
        self._known.update(zip(op.results, (*states, *ends)))

    def _passed(self, value: Value, parameter: Value, is_carried: bool) -> _Known:
        """What a loop is given: row-major where steps carry it on, or see it as another view."""
        known = self._known[value]
        viewed = any(not isinstance(user, graph_ops.Call) for user in parameter.users)
        if known.operand is None or not (is_carried or viewed) or known.operand.view.is_contiguous:
            return known
        return _Known(self._copied(known.operand, known.dtype, "inner"), None, known.dtype)

    def _one_step(self, step: Function, carried: int, outputs: Sequence[Operand]) -> list[_Known]:
        """One step, which writes what is stacked to `outputs`; gives what it carries on."""
        for join in [join for join in self._joins if join.parent is step.body]:
            del self._joins[join]  # each step has buffers of its own
        last = step.body.terminator
        assert last is not None
        around, self._targets = self._targets, {}
        for value, output in zip(last.operands[carried:], outputs):
            made = _unshaped(value)
            place = reshaped(output.view, numbers(_tensor(made).shape))
            assert place is not None, "an element of what is stacked is row-major"
            self._targets.setdefault(made, Operand(output.buffer, place))
        returned = self._ops(step)
        self._targets = around
        for value, output in zip(returned[carried:], outputs):
            known = self._known[value]
            operand = known.operand if known.operand is not None else self._literal(known)
            if operand != output and output.view.count:
                self._copy(operand, output, known.dtype)
        return [self._known[value] for value in returned[:carried]]

    def _copy(self, source: Operand, target: Operand, dtype: DType) -> None:
        """Copies to a row-major part of a buffer."""
        view = simplest(source.view)
        place = reshaped(target.view, view.shape)
        assert place is not None, "the target is row-major"
        program = self._program(copy_function(view, dtype))
        self._step("copy", program, [Operand(source.buffer, view)], (), {0: Operand(target.buffer, place)})

    def _fitted(self, known: _Known, parameter: TensorParameter, callee: str) -> Operand:
        """The operand, or a copy of it where the callee writes to it or wants another axis to be contiguous."""
        operand = known.operand if known.operand is not None else self._literal(known)
        unit = parameter.unit
        if parameter.written:
            self._remarks.append(f"`{callee}` writes to `{parameter.name}`, so it gets a copy")
            return self._copied_with(operand, known.dtype, unit)
        if unit is not None and operand.view.count and operand.view.strides[unit] != 1:
            self._remarks.append(f"`{callee}` wants axis {unit} of `{parameter.name}` contiguous, so it gets a copy")
            return self._copied_with(operand, known.dtype, unit)
        return operand

    def _copied_with(self, operand: Operand, dtype: DType, unit: int | None) -> Operand:
        """A copy with the elements along that axis side by side."""
        rank = len(operand.view.shape)
        if unit is None or unit == rank - 1:
            return self._copied(operand, dtype, "inner")
        order = [*(axis for axis in range(rank) if axis != unit), unit]
        copy = self._copied(Operand(operand.buffer, transposed(operand.view, order)), dtype, "inner")
        back = [order.index(axis) for axis in range(rank)]
        return Operand(copy.buffer, transposed(whole([operand.view.shape[axis] for axis in order]), back))

    def _program(self, function: Function) -> int:
        """The number of the program of a function; functions that differ in their names alone have one program."""
        if function not in self._numbers:
            key: Any = Module([function]).structure(locations=False)[0]
            number, _ = self._functions.setdefault(key[1:], (len(self._functions), function))
            if number not in self._interfaces:
                self._interfaces[number] = interface_of(function)
                self._by_number.append(function)
            self._numbers[function] = number
        return self._numbers[function]

    def _step(
        self,
        name: str,
        program: int,
        operands: Sequence[Operand],
        scalars: Sequence[StepNumber],
        targets: Mapping[int, Operand] | None = None,
        source: str = "",
    ) -> list[Operand]:
        """Adds a step, with new buffers for what it makes, but for those of `targets`, by their number. Gives what it
        returns."""
        interface = self._interfaces[program]
        sizes = bind_sizes(interface, [operand.view.shape for operand in operands])
        made: list[Operand] = []
        for number, tensor in enumerate(interface.new_tensors):
            target = (targets or {}).get(number)
            if target is None:
                target = self._buffer(f"{name}.{tensor.name}", "inner", tensor.dtype, new_shape(tensor, sizes))
            made.append(target)
        units = [tensor.unit for tensor in (*interface.tensors, *interface.new_tensors)]
        tensors = tuple(replace(operand, unit=unit) for operand, unit in zip((*operands, *made), units))
        assert all(_lies_along(tensor.view, tensor.unit) for tensor in tensors), f"{name} reads other places"
        written = [n for n, p in enumerate(interface.tensors) if p.written]
        written += range(len(operands), len(tensors))
        read, wrote = self._traffic(program, tensors)
        ops = self._computed(program)
        self._steps.append(
            Step(name, program, tensors, tuple(written), tuple(scalars), sizes, read, wrote, ops, source)
        )
        return [(operands if r.kind == "parameter" else made)[r.index] for r in interface.results]

    # What is said of steps: once for all that are alike

    def _source(self, op: graph_ops.Call) -> str:
        if op not in self._sources:
            inner = [inner.location for inner in self._module.function(op.callee).walk()]
            self._sources[op] = source_text(op.location, inner)
        return self._sources[op]

    def _computed(self, program: int) -> tuple[str, ...]:
        if program not in self._ops_of:
            self._ops_of[program] = ops_of(self._by_number[program])
        return self._ops_of[program]

    def _traffic(self, program: int, tensors: Sequence[Operand]) -> tuple[int, int]:
        """Bytes read and written; they depend on strides, and on which operands are one."""
        places = [(tensor.buffer, tensor.view) for tensor in tensors]
        key = program, tuple((place[1].shape, place[1].strides, places.index(place)) for place in places)
        if key not in self._bytes:
            self._bytes[key] = step_traffic(self._by_number[program], places)
        return self._bytes[key]

    def _copied(self, operand: Operand, dtype: DType, role: Role, name: str = "copy") -> Operand:
        """A row-major copy, in a new buffer of that role."""
        new = self._buffer(name, role, dtype, operand.view.shape)
        if operand.view.count:
            source = simplest(operand.view)
            program = self._program(copy_function(source, dtype))
            target = Operand(new.buffer, whole(source.shape))
            self._step("copy", program, [Operand(operand.buffer, source)], (), {0: target})
        return new

    # Results

    def _return(self, number: int, value: Value) -> int:
        """The buffer of an output: the one that a call made, if this is all of it, else a copy."""
        known = self._known[value]
        operand = known.operand if known.operand is not None else self._literal(known)
        buffer = self._buffers[operand.buffer]
        name = f"out[{number}]"
        if buffer.role == "inner" and _is_all(operand.view, buffer):
            self._buffers[operand.buffer] = Buffer(name, "output", buffer.dtype, operand.view.shape)
            return operand.buffer
        if not (buffer.role == "output" and _is_all(operand.view, buffer)):
            self._remarks.append(f"{name} is a view of `{buffer.name}`, so it is copied")
        return self._copied(operand, known.dtype, "output", name).buffer


def _element(known: _Known, t: int) -> _Known:
    """Element t of a sequence."""
    return known if known.operand is None else replace(known, operand=_part_at(known.operand, t))


def _part_at(operand: Operand, t: int) -> Operand:
    """What is at coordinate t of axis 0."""
    view = operand.view
    return Operand(operand.buffer, strided_view(view.offset + t * view.strides[0], view.shape[1:], view.strides[1:]))


def _unshaped(value: Value) -> Value:
    """What a value was before it was reshaped."""
    while isinstance(value.op, graph_ops.Reshape):
        value = value.op.source
    return value


def _lies_along(view: StridedView, unit: int | None) -> bool:
    """Whether the elements along that axis lie side by side, if there are two."""
    return unit is None or view.count == 0 or view.shape[unit] == 1 or view.strides[unit] == 1


def _is_all(view: StridedView, buffer: Buffer) -> bool:
    return view.offset == 0 and view.is_contiguous and view.count == whole(buffer.shape).count


def _number(known: _Known) -> StepNumber:
    if known.number is not None:
        return known.number if known.dtype.is_float else int(known.number)
    assert known.operand is not None
    return known.operand


def _tensor(value: Value) -> TensorType:
    assert isinstance(value.type, TensorType), f"%{value.name} is no tensor"
    return value.type
