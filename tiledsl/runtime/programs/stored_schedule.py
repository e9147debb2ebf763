"""Schedules and memory plans as JSON, for saved modules."""

from __future__ import annotations

from typing import Any, TypeAlias

from tiledsl.ir.dtypes import BY_NAME
from tiledsl.ir.strided_views import StridedView
from tiledsl.runtime.programs.memory_plan import MemoryPlan
from tiledsl.runtime.programs.schedule import Buffer, Number, Operand, Schedule, Step

Json: TypeAlias = Any
"""Lists rather than dicts: the order of fields is the order in the classes."""


def schedule_to_json(schedule: Schedule) -> Json:
    return [
        schedule.name,
        [[b.name, b.role, b.dtype.name, b.shape] for b in schedule.buffers],
        schedule.inputs,
        schedule.constants,
        schedule.outputs,
        [_step_to_json(step) for step in schedule.steps],
    ]


def schedule_from_json(stored: Json) -> Schedule:
    """The inverse of `schedule_to_json`."""
    name, buffers, inputs, constants, outputs, steps = stored
    return Schedule(
        name,
        tuple(Buffer(n, role, BY_NAME[dtype], tuple(shape)) for n, role, dtype, shape in buffers),
        tuple(inputs),
        tuple(constants),
        tuple(outputs),
        tuple(map(_step_from_json, steps)),
    )


def memory_to_json(plan: MemoryPlan) -> Json:
    return [list(plan.offsets.items()), plan.bytes, plan.unshared_bytes]


def memory_from_json(stored: Json) -> MemoryPlan:
    """The inverse of `memory_to_json`."""
    offsets, size, unshared = stored
    return MemoryPlan(dict(offsets), size, unshared)


def _step_to_json(step: Step) -> Json:
    return [
        step.name,
        step.program,
        [_operand_to_json(tensor) for tensor in step.tensors],
        step.written,
        [_operand_to_json(number) if isinstance(number, Operand) else number for number in step.numbers],
        dict(step.sizes),
        step.read_bytes,
        step.written_bytes,
        step.ops,
        step.source,
    ]


def _step_from_json(stored: Json) -> Step:
    name, program, tensors, written, numbers, sizes, read, wrote, ops, source = stored
    operands = tuple(map(_operand_from_json, tensors))
    scalars = tuple(map(_number_from_json, numbers))
    return Step(name, program, operands, tuple(written), scalars, sizes, read, wrote, tuple(ops), source)


def _operand_to_json(operand: Operand) -> Json:
    view = operand.view
    return [operand.buffer, view.offset, view.shape, view.strides, operand.unit]


def _operand_from_json(stored: Json) -> Operand:
    buffer, offset, shape, strides, unit = stored
    return Operand(buffer, StridedView(offset, tuple(shape), tuple(strides)), unit)


def _number_from_json(stored: Json) -> Number:
    return _operand_from_json(stored) if isinstance(stored, list) else stored
