"""Code for plans on GPUs, made by several processes at once: no GPU is needed, and a compiler that hangs is ended.

What is made goes to the disk cache, where the process that measures finds it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

from tiledsl.autotune.measuring.child import ChildRunner
from tiledsl.autotune.measuring.host import CannotPrepareError, Limits
from tiledsl.autotune.measuring.runner import Checked, Rounds, Runner
from tiledsl.autotune.sources import PinnedPlan
from tiledsl.backend_cuda.build.compile import PRINTF_STACK_BYTES
from tiledsl.backend_cuda.build.gate import refusals
from tiledsl.backend_cuda.program import CudaProgram, code_digest
from tiledsl.passes.machine import available_cores
from tiledsl.runtime.programs.plan_source import PlanQuestion

BUILD_SECONDS = 30.0
"""After which a compiler is taken to hang."""


@dataclass(frozen=True)
class CudaBuild:
    """A workload that compiles, and runs nothing. `pick`: the plan that calls take anyway, whatever the gate says."""

    program: bytes
    question: PlanQuestion
    pick: str

    def open(self) -> CudaBuildBench:
        return CudaBuildBench(self)


@dataclass
class CudaBuildBench:
    """The program in this process."""

    build: CudaBuild

    @cached_property
    def _program(self) -> CudaProgram:
        return CudaProgram.from_bytes(self.build.program)

    def prepare(self) -> None:
        """Reads the program."""
        assert self._program

    def check(self, plan: str) -> Checked:
        """Compiles the plan."""
        told: list[str] = []
        variant = self._program.tuned(PinnedPlan(plan, told.append), self.build.question)
        if variant is None:
            return Checked("refused", told[0])
        stack = PRINTF_STACK_BYTES if "printf" in variant.source else 0
        refused = [] if plan == self.build.pick else refusals(variant.machine_code, stack)
        if refused:
            return Checked("refused", refused[0], code=code_digest(variant))
        return Checked("ok", code=code_digest(variant))

    def seconds(self, plan: str) -> float:
        raise AssertionError(f"{plan} is compiled, not timed")


class BuildPool:
    """Processes that compile plans, each of which does one at a time."""

    def __init__(self, start: Callable[[], Runner], workers: int | None = None) -> None:
        """`start` starts a process; `workers`: how many there are at most, default: as many as there are cores."""
        self._pool = ThreadPoolExecutor(max(1, workers or available_cores()))
        self._start = start
        self._runners: list[Runner] = []
        self._own = threading.local()
        self._lock = threading.Lock()
        self._results: dict[str, Future[Checked]] = {}

    def ahead(self, plans: Sequence[str]) -> None:
        """Begins to compile plans."""
        for plan in plans:
            self._future(plan)

    def result(self, plan: str) -> Checked:
        """What became of a plan, once it is compiled."""
        return self._future(plan).result()

    def close(self) -> None:
        """Ends all processes; what is not compiled yet is left."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            runners, self._runners = self._runners, []
        for runner in runners:
            runner.close()

    def _future(self, plan: str) -> Future[Checked]:
        with self._lock:
            found = self._results.get(plan)
            if found is None:
                found = self._results[plan] = self._pool.submit(self._build, plan)
        return found

    def _build(self, plan: str) -> Checked:
        runner: Runner | None = getattr(self._own, "runner", None)
        if runner is None:
            runner = self._own.runner = self._start()
            with self._lock:
                self._runners.append(runner)
        try:
            return runner.check(plan)
        except CannotPrepareError as error:
            return Checked("refused", str(error))


class BuiltRunner:
    """A runner whose plans are compiled by a pool before another runner checks and times them."""

    def __init__(self, pool: BuildPool, runner: Runner) -> None:
        self._pool = pool
        self._runner = runner

    def ahead(self, plans: Sequence[str]) -> None:
        self._pool.ahead(plans)

    def check(self, plan: str) -> Checked:
        built = self._pool.result(plan)
        if built.state != "ok":
            return built
        checked = self._runner.check(plan)
        return Checked(checked.state, checked.reason, checked.error, checked.checked, built.code)

    def rounds(self, plans: Sequence[str], count: int) -> Rounds:
        return self._runner.rounds(plans, count)

    def renew(self) -> None:
        self._runner.renew()

    def close(self) -> None:
        self._pool.close()
        self._runner.close()


def cuda_runner(build: CudaBuild, measuring: Runner, workers: int | None = None) -> BuiltRunner:
    """Compiles plans in processes of their own, and has `measuring` run them."""
    limits = Limits(check=BUILD_SECONDS)
    return BuiltRunner(BuildPool(lambda: ChildRunner(build, limits), workers), measuring)
