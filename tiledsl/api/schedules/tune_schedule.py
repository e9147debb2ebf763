"""Searches for a whole module: each distinct launch of its schedule is a task, however often it is made."""

from __future__ import annotations

from dataclasses import dataclass

from tiledsl.api.calls.cpu_tasks import cpu_task
from tiledsl.api.calls.drawn_arguments import drawn_arguments
from tiledsl.api.calls.tuning import Prepared
from tiledsl.api.schedules.built_module import Built
from tiledsl.runtime.programs.schedule import Operand, Step
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import TileError, fail


@dataclass(frozen=True)
class Extracted:
    """A task of a module. `launches`: how often a call of the module makes it."""

    prepared: Prepared
    launches: int


def tasks_of(built: Built) -> tuple[list[Extracted], list[str]]:
    """The tasks of a module that was built for the CPU, and why some of its launches are none. Raises TileError."""
    if built.arch != "cpu" or not built.compiled:
        reason = "its code is for another target" if built.compiled else "a saved module has no text of its programs"
        fix = "tune the graph that it was built of, with arch='cpu'"
        fail("tuning-target", caller_location(), kernel=built.schedule.name, arch=built.arch, reason=reason, fix=fix)
    grouped: dict[object, list[Step]] = {}
    for step in built.schedule.steps:
        strides = tuple(tensor.view.strides for tensor in step.tensors)
        grouped.setdefault((step.program, tuple(step.sizes.items()), strides), []).append(step)
    found: list[Extracted] = []
    left_out: list[str] = []
    for steps in grouped.values():
        prepared = _prepared_or_why(built, steps[0])
        if isinstance(prepared, str):
            left_out.append(prepared)
        else:
            found.append(Extracted(prepared, len(steps)))
    return found, left_out


def _prepared_or_why(built: Built, step: Step) -> Prepared | str:
    try:
        return _prepared(built, step)
    except TileError as error:
        if error.code != "tuning-target":
            raise
        return error.message


def _prepared(built: Built, step: Step) -> Prepared:
    function = built.compiled[built.functions[step.program]]
    interface, sizes = function.artifact.interface, dict(step.sizes)
    strides = [tensor.view.strides for tensor in step.tensors]
    numbers = [1 if isinstance(number, Operand) else number for number in step.numbers]
    arrays = drawn_arguments(interface, sizes)
    return cpu_task(
        built.programs[step.program], interface, function.artifact.stages["front"], sizes, strides, arrays, numbers
    )  # fmt: skip
