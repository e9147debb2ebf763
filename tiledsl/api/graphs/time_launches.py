"""How long each launch of a module takes: one after the other, in the order of the module, each by itself.

Every buffer has memory of its own, so that launches may run again and again. On a CPU a launch is timed by the wall; on
a GPU by events around a graph of many runs of it, so that neither its start nor the host counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from tiledsl.api.calls.targets import cuda_services, worker_threads
from tiledsl.api.schedules.built_module import Built
from tiledsl.ir.dtypes import to_numpy
from tiledsl.runtime.arrays.arrays import Array, pointer
from tiledsl.runtime.arrays.output_memory import empty
from tiledsl.runtime.modules.module_on_cpu import number_at
from tiledsl.runtime.programs.plan_source import loaded_program
from tiledsl.runtime.programs.program import DeviceProgram
from tiledsl.runtime.programs.schedule import Operand, Schedule, Step
from tiledsl.runtime.programs.step_alignment import step_alignment, step_lying
from tiledsl.support.location import BUILTIN
from tiledsl.support.progress import Progress

DEVICE = 0
"""The GPU that is timed."""
RUNS = 20
"""Runs of a launch in one sample, on a GPU."""
FEWEST = 5
"""Rounds of all launches that are timed at least."""

Sample = Callable[[], float]
"""Runs a launch, and gives its seconds."""
Clock = Callable[[Callable[[], None]], float]
"""Runs something, and gives the seconds that it took: of a CPU, or of a GPU's stream."""


def wall_clock(run: Callable[[], None]) -> float:
    """Seconds by the wall."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def device_clock(run: Callable[[], None]) -> float:
    """Seconds by the clock of the device, on its own stream."""
    from tiledsl.backend_cuda.driver.timing import device_seconds  # costs start-up time

    return device_seconds(DEVICE, cuda_services().own_stream(DEVICE), run)


def time_launches(
    built: Built, named: Mapping[str, Array], seconds: float, clock: Clock | None = None
) -> list[list[float]]:
    """Samples of each launch, in seconds, taken for about so long. `named`: arguments and weights, in CPU memory.

    What takes long says so on standard error. Raises TileRuntimeError where there is no device, or a launch fails.
    """
    schedule = built.schedule
    prepare = _on_device if built.arch.startswith("sm_") else _on_cpu
    launches = prepare(built, named, clock)
    progress = Progress(f"running the launches of {schedule.name}", len(launches))
    for sample in launches:
        sample()
        progress.step()
    return rounds(launches, seconds)


def rounds(
    launches: Sequence[Sample], seconds: float, now: Callable[[], float] = time.perf_counter
) -> list[list[float]]:
    """Samples of each launch: all of them in turn, again and again, for about so long."""
    samples: list[list[float]] = [[] for _ in launches]
    began, done = now(), 0
    while done < FEWEST or now() - began < seconds:
        for kept, sample in zip(samples, launches):
            kept.append(sample())
        done += 1
    return samples


def _on_cpu(built: Built, named: Mapping[str, Array], clock: Clock | None) -> list[Sample]:
    schedule, measured = built.schedule, clock or wall_clock
    buffers = [_array(buffer.shape, to_numpy(buffer.dtype), named.get(buffer.name)) for buffer in schedule.buffers]
    programs: list[Any] = [loaded_program(program, built.plans) for program in built.programs]

    def prepared(step: Step) -> Sample:
        bound = programs[step.program].bind(step.sizes, [t.view.strides for t in step.tensors], worker_threads())
        pointers = [pointer(buffers[t.buffer]) + _offset(schedule, t) for t in step.tensors]

        def sample() -> float:
            numbers = [
                number_at(pointer(buffers[n.buffer]) + _offset(schedule, n), schedule.buffers[n.buffer].dtype)
                if isinstance(n, Operand) else n for n in step.numbers
            ]  # fmt: skip
            return measured(lambda: bound(pointers, numbers))

        return sample

    return [prepared(step) for step in schedule.steps]


def _on_device(built: Built, named: Mapping[str, Array], clock: Clock | None) -> list[Sample]:
    schedule, measured, services = built.schedule, clock or device_clock, cuda_services()
    stream = services.own_stream(DEVICE)
    memory: list[Any] = []
    for buffer in schedule.buffers:
        array = _array(buffer.shape, to_numpy(buffer.dtype), named.get(buffer.name))
        memory.append(services.allocate(max(1, array.nbytes), DEVICE, stream))
        services.copy_to_device(memory[-1].address, pointer(array), array.nbytes, DEVICE, stream)
    programs: list[Any] = [program.load() for program in built.programs]
    made: dict[object, Sample] = {}

    def prepared(step: Step) -> Sample:
        program: DeviceProgram = programs[step.program]
        strides = tuple(tensor.view.strides for tensor in step.tensors)
        alignment, lying = step_alignment(schedule, step), step_lying(schedule, step)
        pointers = tuple(memory[t.buffer].address + _offset(schedule, t) for t in step.tensors)
        numbers = tuple(n for n in step.numbers if not isinstance(n, Operand))
        key = step.program, tuple(step.sizes.items()), strides, alignment, lying, pointers, numbers
        if key not in made:
            bound = program.bind_cuda(step.sizes, strides, alignment, DEVICE, lying)
            graph = services.record(DEVICE, step.name, BUILTIN, [(bound, pointers, numbers)] * RUNS)
            made[key] = partial(_of_graph, measured, lambda: graph.launch(stream), memory)
        return made[key]

    return [prepared(step) for step in schedule.steps]


def _of_graph(clock: Clock, launch: Callable[[], None], memory: Sequence[object]) -> float:
    """Seconds of one of the runs in a graph. `memory` is what they use: it lives as long as they may be launched."""
    del memory
    return clock(launch) / RUNS


def _array(shape: tuple[int, ...], dtype: Any, given: Array | None) -> Array:
    """What is given, row-major; or zeros, where memory of modules begins: launches are timed as modules run them."""
    if given is not None:
        return np.asarray(given, order="C")
    made = empty(shape, dtype)
    made[...] = 0
    return made


def _offset(schedule: Schedule, operand: Operand) -> int:
    """Where a tensor begins in its buffer, in bytes."""
    return operand.view.offset * schedule.buffers[operand.buffer].dtype.bytes
