"""How the tensors of a step are aligned, which code for GPUs is chosen by: known when a module is built.

Every buffer begins at a multiple of 16 bytes: the runtime sees to it (an input that does not is copied).
"""

from __future__ import annotations

from tiledsl.ir.lying import lying
from tiledsl.runtime.programs.alignment import lowest_bit, stride_bits
from tiledsl.runtime.programs.schedule import Operand, Schedule, Step


def step_alignment(schedule: Schedule, step: Step) -> tuple[int, ...]:
    """For each tensor, what its address and the strides of its rows are multiples of, in bytes; at most 16."""
    return tuple(_alignment(schedule, tensor) for tensor in step.tensors)


def step_lying(schedule: Schedule, step: Step) -> tuple[int, ...]:
    """For each tensor the number that says how it lies (`ir/lying.py`)."""
    return tuple(_lying(schedule, tensor) for tensor in step.tensors)


def _lying(schedule: Schedule, tensor: Operand) -> int:
    view, item = tensor.view, schedule.buffers[tensor.buffer].dtype.bytes
    return lying(view.shape, view.strides, view.offset * item, item)


def _alignment(schedule: Schedule, tensor: Operand) -> int:
    item = schedule.buffers[tensor.buffer].dtype.bytes
    view = tensor.view
    return lowest_bit(view.offset * item | stride_bits(view.shape, view.strides, item, tensor.unit))
