"""Searches for a whole module: each distinct launch of its schedule is a task, however often it is made."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from tiledsl.api.calls.cpu_tasks import cpu_task
from tiledsl.api.calls.tuning import Prepared
from tiledsl.api.schedules.built_module import Built
from tiledsl.autotune.measuring.given import DrawnArrays
from tiledsl.passes.machine import available_cores
from tiledsl.runtime.programs.schedule import Operand, Step
from tiledsl.runtime.programs.step_alignment import step_alignment, step_lying
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import TileError, fail

DEVICE = 0
"""Where modules for GPUs are measured."""


@dataclass(frozen=True)
class Extracted:
    """A task of a module. `launches`: how often a call of the module makes it."""

    prepared: Prepared
    launches: int


def tasks_of(built: Built, *, libraries: bool = False) -> tuple[list[Extracted], list[str]]:
    """The tasks of a module, and why some of its launches are none. One for a GPU is measured on device 0.
    `libraries`: as `TuneRequest` has it. Raises TileError."""
    on_device = built.arch.startswith("sm_")
    if built.arch == "reference" or not built.compiled:
        reason = "nothing is chosen there" if built.compiled else "a saved module has no text of its programs"
        fix = "tune the graph that it was built of, for `cpu` or a GPU"
        fail("tuning-target", caller_location(), kernel=built.schedule.name, arch=built.arch, reason=reason, fix=fix)
    grouped: dict[object, list[Step]] = {}
    for step in built.schedule.steps:
        strides = tuple(tensor.view.strides for tensor in step.tensors)
        lying = (step_alignment(built.schedule, step), step_lying(built.schedule, step)) if on_device else ()
        program = built.functions[step.program]
        grouped.setdefault((program, tuple(step.sizes.items()), strides, lying), []).append(step)
    found: list[Extracted] = []
    left_out: list[str] = []
    with ThreadPoolExecutor(available_cores() if on_device else 1) as pool:  # the model's picks are compiled
        every = list(pool.map(partial(_prepared_or_why, built, libraries), (steps[0] for steps in grouped.values())))
    for prepared, steps in zip(every, grouped.values()):
        if isinstance(prepared, str):
            left_out.append(prepared)
        else:
            found.append(Extracted(prepared, len(steps)))
    return found, left_out


def _prepared_or_why(built: Built, libraries: bool, step: Step) -> Prepared | str:
    try:
        return _prepared(built, libraries, step)
    except TileError as error:
        if error.code != "tuning-target":
            raise
        return error.message


def _prepared(built: Built, libraries: bool, step: Step) -> Prepared:
    function = built.compiled[built.functions[step.program]]
    interface, sizes = function.artifact.interface, dict(step.sizes)
    strides = [tensor.view.strides for tensor in step.tensors]
    numbers = [1 if isinstance(number, Operand) else number for number in step.numbers]
    text, given = function.artifact.stages["front"], DrawnArrays.of(interface, sizes, strides)
    if not built.arch.startswith("sm_"):
        return cpu_task(function.program, interface, text, sizes, strides, given, numbers)
    from tiledsl.api.calls.cuda_tasks import cuda_task  # costs start-up time
    from tiledsl.backend_cuda.driver.devices import describe_device
    from tiledsl.backend_cuda.program import CudaProgram

    program = function.program
    assert isinstance(program, CudaProgram)
    alignment, lying = step_alignment(built.schedule, step), step_lying(built.schedule, step)
    question = program.question(sizes, alignment, lying, describe_device(DEVICE))
    return cuda_task(program, interface, text, question, strides, lambda: given, numbers, DEVICE, libraries=libraries)
