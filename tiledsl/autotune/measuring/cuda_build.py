"""Code for plans on GPUs, made by several processes at once: no GPU is needed, and a compiler that hangs is ended.

What is made goes to the disk cache, where the process that measures finds it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial

from tiledsl.autotune.measuring.child import Child
from tiledsl.autotune.measuring.host import CannotPrepareError, HostRunner, Hosts, Limits, NewHosts
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

    def prepare(self, *, others: bool = False) -> None:
        """Reads the program."""
        del others
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

    def confirm(self, plan: str) -> Checked:
        """As `check`."""
        return self.check(plan)

    def ready(self, plans: Sequence[str]) -> None:
        raise AssertionError(f"{plans} are compiled, not timed")

    def seconds(self, plan: str) -> float:
        raise AssertionError(f"{plan} is compiled, not timed")


class BuildPool:
    """Processes that compile plans, each of which does one at a time."""

    def __init__(self, start: Callable[[], HostRunner], workers: int | None = None) -> None:
        """`start` gives a runner with a process of its own; `workers`: how many there are at most, default: as many as
        there are cores."""
        self._pool = ThreadPoolExecutor(max(1, workers or available_cores()))
        self._start = start
        self._runners: list[HostRunner] = []
        self._busy: set[HostRunner] = set()
        self._own = threading.local()
        self._lock = threading.Lock()
        self._results: dict[str, Future[Checked]] = {}

    def ahead(self, plans: Sequence[str]) -> None:
        """Begins to compile plans."""
        for plan in plans:
            self.future(plan)

    def future(self, plan: str) -> Future[Checked]:
        """Begins to compile a plan; gives what becomes of it."""
        with self._lock:
            found = self._results.get(plan)
            if found is None:
                found = self._results[plan] = self._pool.submit(self._build, plan)
        return found

    def result(self, plan: str) -> Checked:
        """What became of a plan, once it is compiled."""
        return self.future(plan).result()

    def close(self) -> None:
        """Gives the processes back; what is not compiled yet is left, and who is at it is ended."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            for runner in self._busy:
                runner.abandon()
        self._pool.shutdown(wait=True)
        for runner in self._runners:
            runner.close()

    def _build(self, plan: str) -> Checked:
        runner: HostRunner | None = getattr(self._own, "runner", None)
        if runner is None:
            runner = self._own.runner = self._start()
        with self._lock:
            if runner not in self._runners:
                self._runners.append(runner)
            self._busy.add(runner)
        try:
            return runner.check(plan)
        except CannotPrepareError as error:
            return Checked("refused", str(error))
        finally:
            with self._lock:
                self._busy.discard(runner)


class BuiltRunner:
    """A runner whose plans are compiled by a pool before another runner checks and times them."""

    def __init__(self, pool: BuildPool, runner: Runner, clock: Callable[[], float] = time.monotonic) -> None:
        self._pool = pool
        self._runner = runner
        self._clock = clock
        self._checks_ahead = False
        self.waited = 0.0

    def begin(self) -> None:
        """As `Runner.begin`."""
        self._runner.begin()

    def ahead(self, plans: Sequence[str]) -> None:
        """Compiles plans, each of which is checked as soon as it is compiled."""
        self._checks_ahead = True
        for plan in plans:
            self._pool.future(plan).add_done_callback(partial(self._check_ahead, plan))

    def check(self, plan: str) -> Checked:
        started = self._clock()
        built = self._pool.result(plan)
        self.waited += self._clock() - started
        if built.state != "ok":
            return built
        return replace(self._runner.check(plan), code=built.code)

    def confirm(self, plan: str) -> Checked:
        self._checks_ahead = False
        return self._runner.confirm(plan)

    def ready(self, plans: Sequence[str]) -> None:
        self._checks_ahead = False
        self._runner.ready(plans)

    def rounds(self, plans: Sequence[str], count: int) -> Rounds:
        self._checks_ahead = False  # of plans that are late: who is timed is alone
        return self._runner.rounds(plans, count)

    def renew(self) -> None:
        self._runner.renew()

    def close(self) -> None:
        self._runner.close()
        self._pool.close()

    def _check_ahead(self, plan: str, built: Future[Checked]) -> None:
        if self._checks_ahead and not built.cancelled() and built.exception() is None and built.result().state == "ok":
            self._runner.ahead([plan])


def cuda_runner(build: CudaBuild, measuring: Runner, workers: int | None = None, hosts: Hosts | None = None) -> Runner:
    """Compiles plans in processes of `hosts` (default: new ones), and has `measuring` run them."""
    limits, source = Limits(check=BUILD_SECONDS), hosts or NewHosts(Child)
    return BuiltRunner(BuildPool(lambda: HostRunner(build, source, limits), workers), measuring)
