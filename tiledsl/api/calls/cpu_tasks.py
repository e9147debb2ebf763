"""Launches on the CPU as tasks for searches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NoReturn

from tiledsl.api.calls.targets import worker_threads
from tiledsl.api.calls.tuning import Prepared
from tiledsl.autotune.candidates.cpu_candidates import BredCpuPlans, CpuSpace, cpu_candidates, cpu_samples
from tiledsl.autotune.candidates.evolve import Breeder
from tiledsl.autotune.measuring.cpu_workload import CpuWorkload
from tiledsl.autotune.measuring.given import Given
from tiledsl.autotune.measuring.host import Fleet
from tiledsl.autotune.measuring.runner import Runner
from tiledsl.autotune.measuring.staff import Staff
from tiledsl.autotune.searching.task import Task
from tiledsl.backend_cpu.calls.program import CpuProgram, question_of
from tiledsl.runtime.programs.interface import Interface
from tiledsl.runtime.programs.program import Program
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import fail


def cpu_task(
    program: Program,
    interface: Interface,
    text: str,
    sizes: dict[str, int],
    strides: Sequence[tuple[int, ...]],
    given: Given,
    numbers: Sequence[int | float],
) -> Prepared:
    """A launch on the CPU as a task. `text`: the TILE module as the front end gave it."""
    assert isinstance(program, CpuProgram)
    if not any(program.works):
        refuse_target(interface.name, "cpu", "it has no grid, so there is nothing to choose")
    question = question_of(program, sizes, strides, worker_threads())
    space = CpuSpace(program, question)
    pick = space.pick
    task = Task(
        interface.name,
        question,
        text,
        pick.plan,
        partial(cpu_candidates, space),
        lambda: pick.predicted,
        breeder=lambda trials: Breeder(BredCpuPlans(space), others=cpu_samples(program, trials)),
    )
    workload = CpuWorkload.of(program, interface, text, question, given, tuple(numbers), pick.plan)

    def runner(who: Staff | Fleet) -> Runner:
        if isinstance(who, Fleet):
            return who.runner(workload)
        return who.crew(workload, given.nbytes)

    return Prepared(task, runner)


def refuse_target(kernel: str, arch: str, reason: str) -> NoReturn:
    """Raises the error for what no search is for."""
    fix = "nothing need be done: there is but one way to run it"
    fail("tuning-target", caller_location(), kernel=kernel, arch=arch, reason=reason, fix=fix)
