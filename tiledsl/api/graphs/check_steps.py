"""The launches of a compiled model one after the other, each beside the reference executor on the same inputs.

Every buffer is an array in CPU memory. A launch on a device gets copies of those that it touches, and gives them back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tiledsl.api.calls.targets import cuda_services, worker_threads
from tiledsl.api.pages.explain_module import buffer_text
from tiledsl.api.schedules.built_module import Built
from tiledsl.backend_ref.program import LoadedReference
from tiledsl.ir.core import Function
from tiledsl.ir.dtypes import to_numpy
from tiledsl.runtime.arrays.arrays import Array, pointer
from tiledsl.runtime.arrays.compare_arrays import Figures, compare
from tiledsl.runtime.modules.module_on_cpu import number_at
from tiledsl.runtime.programs.program import DeviceProgram, LoadedProgram
from tiledsl.runtime.programs.schedule import Buffer, Operand, Schedule, Step
from tiledsl.runtime.programs.step_alignment import step_alignment, step_lying
from tiledsl.support.progress import Progress

DEVICE = 0
"""Where launches for GPUs run."""

Launch = Callable[[Step, Sequence[Array]], None]
"""Runs a step on buffers in CPU memory."""


@dataclass(frozen=True)
class Compared:
    """A tensor of the model, by what it is called, beside that of the reference."""

    name: str
    type: str
    figures: Figures


class CheckedSteps:
    """A schedule that runs launch by launch, each buffer in memory of its own."""

    def __init__(self, built: Built, functions: Sequence[Function]) -> None:
        """`functions`: what was compiled, as `built.functions` counts it."""
        self._schedule = built.schedule
        self._functions = [functions[number] for number in built.functions]
        loaded = [program.load() for program in built.programs]
        launches = _on_device if built.arch.startswith("sm_") else _on_cpu
        self._launch = launches(self._schedule, loaded)

    def run(self, named: Mapping[str, Array]) -> tuple[tuple[int, Step, Compared] | None, list[Array]]:
        """The first launch at fault, by its number, with what differs; and the results. `named`: arguments and
        weights."""
        schedule = self._schedule
        buffers = [_memory(named.get(b.name) if b.role in ("input", "constant") else None, b) for b in schedule.buffers]
        fault: tuple[int, Step, Compared] | None = None
        progress = Progress(f"checking the launches of {schedule.name}", len(schedule.steps))
        for number, step in enumerate(schedule.steps):
            compared = self._step(step, buffers, looks=fault is None)
            if compared is not None:
                fault = number, step, compared
            progress.step()
        return fault, [buffers[number] for number in schedule.outputs]

    def _step(self, step: Step, buffers: list[Array], *, looks: bool) -> Compared | None:
        """Runs a launch; the first tensor that it makes that is not what the reference makes, if it `looks`."""
        copies: dict[int, Array] = {}
        if looks:
            copies = {tensor.buffer: np.array(buffers[tensor.buffer]) for tensor in step.tensors}
            strides = [tensor.view.strides for tensor in step.tensors]
            reference = LoadedReference(self._functions[step.program]).bind(step.sizes, strides, 1)
            pointers = [pointer(copies[t.buffer]) + _offset(self._schedule, t) for t in step.tensors]
            reference(pointers, _numbers(self._schedule, step, buffers))
        self._launch(step, buffers)
        for place in step.written if looks else ():
            number = step.tensors[place].buffer
            figures = compare(buffers[number], copies[number])
            if figures.wrong:
                buffer = self._schedule.buffers[number]
                return Compared(buffer.name, buffer_text(buffer), figures)
        return None


def _on_cpu(schedule: Schedule, programs: Sequence[Any]) -> Launch:
    def launch(step: Step, buffers: Sequence[Array]) -> None:
        program: LoadedProgram = programs[step.program]
        bound = program.bind(step.sizes, [tensor.view.strides for tensor in step.tensors], worker_threads())
        pointers = [pointer(buffers[t.buffer]) + _offset(schedule, t) for t in step.tensors]
        bound(pointers, _numbers(schedule, step, buffers))

    return launch


def _on_device(schedule: Schedule, programs: Sequence[Any]) -> Launch:
    services = cuda_services()
    stream = services.own_stream(DEVICE)

    def launch(step: Step, buffers: Sequence[Array]) -> None:
        program: DeviceProgram = programs[step.program]
        strides = [tensor.view.strides for tensor in step.tensors]
        alignment, lying = step_alignment(schedule, step), step_lying(schedule, step)
        bound = program.bind_cuda(step.sizes, strides, alignment, DEVICE, lying)
        memory: dict[int, Any] = {}
        for number in dict.fromkeys(tensor.buffer for tensor in step.tensors):
            array = buffers[number]
            memory[number] = services.allocate(max(1, array.nbytes), DEVICE, stream)
            services.copy_to_device(memory[number].address, pointer(array), array.nbytes, DEVICE, stream)
        pointers = [memory[t.buffer].address + _offset(schedule, t) for t in step.tensors]
        bound(pointers, _numbers(schedule, step, buffers), stream)
        for number in dict.fromkeys(step.tensors[place].buffer for place in step.written):
            array = buffers[number]
            services.copy_to_host(pointer(array), memory[number].address, array.nbytes, DEVICE, stream)

    return launch


def _offset(schedule: Schedule, operand: Operand) -> int:
    """Where a tensor begins in its buffer, in bytes."""
    return operand.view.offset * schedule.buffers[operand.buffer].dtype.bytes


def _numbers(schedule: Schedule, step: Step, buffers: Sequence[Array]) -> list[int | float]:
    return [
        number_at(pointer(buffers[n.buffer]) + _offset(schedule, n), schedule.buffers[n.buffer].dtype)
        if isinstance(n, Operand) else n for n in step.numbers
    ]  # fmt: skip


def _memory(given: Array | None, buffer: Buffer) -> Array:
    """A buffer as an array: what is given, or zeros."""
    if given is None:
        return np.zeros(buffer.shape, to_numpy(buffer.dtype))
    return np.array(given, order="C")  # with as many axes: `ascontiguousarray` gives a number one
