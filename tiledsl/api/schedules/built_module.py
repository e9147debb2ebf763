"""A graph built for one architecture: its schedule, the programs of its steps, and the plan of its memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeAlias

from tiledsl.api.calls.plan_sources import plans_of_calls, plans_on
from tiledsl.api.calls.targets import target_of
from tiledsl.api.schedules.graph_programs import CompiledFunction, compile_functions
from tiledsl.api.schedules.schedule_graph import Scheduled
from tiledsl.passes.machine import available_cores
from tiledsl.runtime.programs.memory_plan import MemoryPlan, is_direct, plan_memory
from tiledsl.runtime.programs.plan_source import PlansFor, PlanSource
from tiledsl.runtime.programs.program import HasVariants, PlannedProgram, Program
from tiledsl.runtime.programs.schedule import Operand, Schedule, Step
from tiledsl.runtime.programs.step_alignment import step_alignment, step_lying
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import fail
from tiledsl.support.progress import Progress


@dataclass(frozen=True)
class Built:
    """`programs` are those that `schedule` counts. For a GPU each is code for certain sizes and alignments.

    `compiled` has the functions that were compiled, in a module that was not loaded from a file, and `functions` which
    of them each program is of; `identity` is what the code depends on besides.
    """

    arch: str
    identity: str
    schedule: Schedule
    memory: MemoryPlan
    programs: tuple[Program, ...]
    compiled: tuple[CompiledFunction, ...] = ()
    functions: tuple[int, ...] = ()
    seconds: float = 0.0
    plans: PlanSource | None = None
    """What is asked for plans of launches on the CPU; on a GPU they were planned when it was built."""


Build: TypeAlias = Callable[[Scheduled, str], Built]
"""What compiles all that a schedule runs, for an architecture."""


def build_for(
    scheduled: Scheduled, arch: str, plans: PlanSource | None = None, device: str | None = None
) -> Built:  # fmt: skip
    """Compiles all that a schedule runs. `plans`: asked before the model is; default: what calls ask now. `device`: the
    GPU that it will run on, in words (default: the one at hand). Raises TileError."""
    started = time.perf_counter()
    plans = plans_of_calls() if plans is None else plans
    built = compiled_for(scheduled, arch, plans)
    schedule, programs, functions = built.schedule, built.programs, built.functions
    if any(isinstance(program, HasVariants) for program in programs):
        asked = plans_on(plans, built.arch, device)
        chained = not is_direct(schedule, built.memory)
        schedule, programs, functions = _planned(schedule, programs, chained, asked)
    seconds = time.perf_counter() - started
    return replace(
        built, schedule=schedule, programs=tuple(programs), functions=tuple(functions), seconds=seconds
    )  # fmt: skip


def compiled_for(scheduled: Scheduled, arch: str, plans: PlanSource | None = None) -> Built:
    """The same as far as programs, each for any sizes: on a GPU no plan is chosen yet, as searches want it."""
    started = time.perf_counter()
    target = target_of(arch)
    schedule = scheduled.schedule
    if target.name.startswith("sm_"):
        for step in schedule.steps:
            _check_numbers(schedule, step)
    compiled = compile_functions(scheduled.functions, target)
    programs = tuple(function.program for function in compiled)
    return Built(
        target.name, target.identity(), schedule, plan_memory(schedule), programs, tuple(compiled),
        tuple(range(len(programs))), time.perf_counter() - started, plans,
    )  # fmt: skip


def _planned(
    schedule: Schedule, programs: Sequence[Program], chained: bool, plans: PlansFor | None
) -> tuple[Schedule, list[Program], list[int]]:
    """The schedule with a program of its own for each plan that the sizes and alignments of its steps ask for; these
    programs; and of each the number of the one that it was planned from. `chained`: whether they run in a graph.

    Several are compiled at once: the compiler of CUDA C lets other threads run.
    """
    keys = [
        _Wanted(step.program, tuple(step.sizes.items()), step_alignment(schedule, step), step_lying(schedule, step))
        for step in schedule.steps
    ]
    wanted = list(dict.fromkeys(keys))

    def plan(one: _Wanted) -> PlannedProgram:
        program = programs[one.program]
        assert isinstance(program, HasVariants)
        return program.planned(dict(one.sizes), one.alignment, one.lying, chained=chained, plans=plans)

    with ThreadPoolExecutor(max(1, min(len(wanted), available_cores()))) as pool:
        progress = Progress(f"compiling the plans of {schedule.name}", len(wanted))
        made: dict[_Wanted, PlannedProgram] = {}
        for one, program in zip(wanted, pool.map(plan, wanted)):
            made[one] = program
            progress.step()
    planned: dict[tuple[int, str], PlannedProgram] = {}
    for one, program in made.items():
        planned.setdefault((one.program, program.plan), program)
    numbers = {key: number for number, key in enumerate(planned)}
    steps = [replace(step, program=numbers[key.program, made[key].plan]) for step, key in zip(schedule.steps, keys)]
    return replace(schedule, steps=tuple(steps)), list(planned.values()), [program for program, _ in planned]


@dataclass(frozen=True)
class _Wanted:
    """Code that is to be planned."""

    program: int
    sizes: tuple[tuple[str, int], ...]
    alignment: tuple[int, ...]
    lying: tuple[int, ...]


def _check_numbers(schedule: Schedule, step: Step) -> None:
    """A device cannot hand a number to a launch: what is known there alone has to be a tensor."""
    for number in step.numbers:
        if isinstance(number, Operand):
            fail(
                "module-number", caller_location(),
                kernel=step.name, module=schedule.name, value=schedule.buffers[number.buffer].name,
            )  # fmt: skip
