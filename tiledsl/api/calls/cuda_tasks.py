"""Launches on a GPU as tasks for searches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tiledsl.api.calls.tuning import Prepared
from tiledsl.autotune.candidates.bred_cuda import BredCudaPlans
from tiledsl.autotune.candidates.candidate import Candidate
from tiledsl.autotune.candidates.cuda_candidates import CudaSpace, cuda_candidates
from tiledsl.autotune.candidates.evolve import Breeder
from tiledsl.autotune.measuring.cuda_build import CudaBuild, cuda_runner
from tiledsl.autotune.measuring.cuda_workload import CudaWorkload
from tiledsl.autotune.measuring.given import Given
from tiledsl.autotune.measuring.host import Fleet
from tiledsl.autotune.measuring.runner import Runner
from tiledsl.autotune.measuring.staff import Staff
from tiledsl.autotune.searching.task import Task
from tiledsl.backend_cuda.program import CudaProgram
from tiledsl.runtime.programs.interface import Interface
from tiledsl.runtime.programs.plan_source import PlanQuestion
from tiledsl.runtime.programs.stored_interface import interface_to_json

LEAST_CHANCE = 0.02
"""Of winning, below which a plan is not worth its compilation."""


def cuda_task(
    program: CudaProgram,
    interface: Interface,
    text: str,
    question: PlanQuestion,
    strides: Sequence[tuple[int, ...]],
    given: Callable[[], Given],
    numbers: Sequence[int | float],
    device: int,
    *,
    libraries: bool = False,
) -> Prepared:
    """A launch as a task. `text`: the TILE module as the front end gave it; `given`: gives its arguments, in CPU
    memory, once something is to be measured. `libraries`: whether calls of libraries are plans too; raises
    TileRuntimeError where they are to be, and there is none."""
    space = CudaSpace(program, question)
    calls: Callable[[], Sequence[Candidate]] = tuple
    version = ""
    if libraries:
        from tiledsl.autotune.candidates.library_candidates import checked_library, library_candidates

        version = f"cuBLASLt {checked_library().version}"
        calls = partial(library_candidates, program, question, strides, device)

    def breeder(_: object) -> Breeder:
        return Breeder(BredCudaPlans(space.seconds), least_chance=LEAST_CHANCE)

    task = Task(
        interface.name, question, text, space.plan, partial(cuda_candidates, space, libraries=calls),
        lambda: space.predicted, breeder=breeder, generations=1, libraries=version,
    )  # fmt: skip

    def runner(who: Staff | Fleet) -> Runner:
        data, arguments = program.to_bytes(), given()
        workload = CudaWorkload(
            data, interface_to_json(interface), text, question, tuple(strides), arguments, tuple(numbers), space.plan,
            device,
        )  # fmt: skip
        build = CudaBuild(data, question, space.plan)
        if isinstance(who, Fleet):
            return cuda_runner(build, who.runner(workload))
        crew = who.crew(workload, arguments.nbytes, on_gpu=True)
        return cuda_runner(build, crew, hosts=who.builders)

    return Prepared(task, runner)
