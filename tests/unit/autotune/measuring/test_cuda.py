"""Searches for GPUs: code is real, made by other processes; a device is played by the reference executor."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gemm import gemm
from tests.support.fakes.fake_driver import fake_driver
from tests.support.fakes.fake_runner import FakeRunner
from tests.support.fakes.tuning_faults import Faulty
from tiledsl.api.calls.plan_sources import existing_plans
from tiledsl.autotune.candidates.cuda_candidates import CudaSpace, cuda_candidates
from tiledsl.autotune.measuring import cuda_workload
from tiledsl.autotune.measuring.cases import Case
from tiledsl.autotune.measuring.child import ChildRunner
from tiledsl.autotune.measuring.cuda_build import BuildPool, CudaBuild, CudaBuildBench, cuda_runner
from tiledsl.autotune.measuring.cuda_workload import CudaBench, CudaWorkload
from tiledsl.autotune.measuring.given import GivenArrays
from tiledsl.autotune.measuring.host import Limits
from tiledsl.autotune.records.database import Database, Writer
from tiledsl.autotune.searching.search import Searches
from tiledsl.autotune.searching.task import Budget, Task
from tiledsl.backend_cuda.driver.timing import device_seconds
from tiledsl.backend_cuda.program import CudaProgram, code_digest
from tiledsl.backend_ref.program import LoadedReference
from tiledsl.ir.text.parser import parse_module
from tiledsl.runtime.programs.plan_source import PlanQuestion, PlansFor
from tiledsl.runtime.programs.stored_interface import interface_to_json
from tiledsl.support.errors import make_error

DEVICE = "NVIDIA H100, 132 multiprocessors"
A: Any = np.random.default_rng(0).standard_normal((64, 32)).astype(np.float16)
B: Any = np.random.default_rng(1).standard_normal((32, 48)).astype(np.float16)
STRIDES = ((32, 1), (48, 1), (48, 1))


@pytest.fixture(scope="module")
def task() -> tuple[CudaProgram, Task]:
    compiled = gemm.compile(A, B, arch="sm_90")
    program = compiled.program
    assert isinstance(program, CudaProgram)
    question = program.question(compiled.sizes_of([A, B]), (16, 16, 16), (16, 16, 16), DEVICE)
    space = CudaSpace(program, question)
    text = compiled.ir(stage="front")
    return program, Task("gemm", question, text, space.plan, partial(cuda_candidates, space), lambda: space.predicted)


def test_a_whole_search_without_a_device(task: tuple[CudaProgram, Task], tmp_path: Path) -> None:
    program, searched = task
    plans = [candidate.plan for candidate in searched.candidates([], 3)]
    table = {searched.pick.plan: 10e-6, **dict.fromkeys(plans, 11e-6), plans[1]: 8e-6}
    measuring = FakeRunner(table)
    build = CudaBuild(program.to_bytes(), searched.question, searched.pick.plan)
    runner = cuda_runner(build, measuring, workers=2)
    with Writer(Database(tmp_path)) as writer:
        outcome = Searches(writer, clock=measuring.clock).run(searched, runner, Budget(60, 3))
    runner.close()
    assert outcome.winner == plans[1]
    assert sorted(measuring.checks) == sorted([searched.pick.plan, *plans]), "all of them compile"
    # the database serves builds for a GPU that is not there
    sizes, plans_of = dict(searched.question.sizes), PlansFor(existing_plans(tmp_path))
    tuned = program.planned(sizes, (16, 16, 16), (16, 16, 16), chained=False, plans=plans_of)
    assert str(tuned.variant.plan) == plans[1]
    less = program.planned(sizes, (16, 8, 16), (16, 16, 16), chained=False, plans=plans_of)
    assert str(less.variant.plan) != plans[1], "other alignments are another question"


def test_what_a_compiler_refuses_is_never_run(task: tuple[CudaProgram, Task]) -> None:
    program, searched = task
    bench = CudaBuildBench(CudaBuild(program.to_bytes(), searched.question, searched.pick.plan))
    bench.prepare()
    good = bench.check(searched.pick.plan)
    taken = program.picked(dict(searched.question.sizes), searched.question.alignment, searched.question.lying)
    assert (good.state, good.code) == ("ok", code_digest(taken))
    wrong = searched.pick.plan.replace("aligned to 16/16/16", "aligned to 16/16")
    assert bench.check(wrong).state == "refused"
    measuring = FakeRunner({})
    runner = cuda_runner(bench.build, measuring, workers=1)
    assert runner.check("nonsense").reason == "`nonsense` is nothing that a plan says"
    assert measuring.checks == []
    runner.close()


def test_the_gate_refuses_code_that_spills_unless_calls_take_it_anyway(
    task: tuple[CudaProgram, Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    program, searched = task
    monkeypatch.setattr("tiledsl.autotune.measuring.cuda_build.refusals", _spills)
    build = CudaBuild(program.to_bytes(), searched.question, searched.pick.plan)
    assert CudaBuildBench(build).check(searched.pick.plan).state == "ok"
    other = CudaBuildBench(replace(build, pick="another plan")).check(searched.pick.plan)
    assert (other.state, other.reason) == ("refused", "it spills")


def _spills(code: object, stack: int) -> list[str]:
    del code, stack
    return ["it spills"]


def test_a_compiler_that_hangs_or_crashes_costs_one_plan() -> None:
    pool = BuildPool(lambda: ChildRunner(Faulty(), Limits(check=0.5)), workers=2)
    pool.ahead(["hangs", "crashes", "good"])
    states = {plan: pool.result(plan).state for plan in ("good", "crashes", "hangs", "fast")}
    assert states == {"good": "ok", "crashes": "crash", "hangs": "timeout", "fast": "ok"}
    pool.close()


@dataclass
class HostDevice:
    """A device whose memory is the host's, and whose launches are the reference executor's.

    `seconds_of`: of a call in a graph; `alone`: of one that is launched by itself."""

    seconds_of: float = 1e-3
    alone: float = 1e-3
    faults: int = 0
    fails: bool = False
    kept: list[Any] = field(default_factory=list[Any])
    asked: list[tuple[int, bool]] = field(default_factory=list[tuple[int, bool]])
    bound: int = 0

    def memory(self, size: int) -> int:
        self.kept.append(np.zeros(size, np.uint8))
        return self.kept[-1].ctypes.data

    def write(self, address: int, data: Any) -> None:
        ctypes.memmove(address, data.ctypes.data, data.nbytes)

    def read(self, address: int, data: Any) -> None:
        ctypes.memmove(data.ctypes.data, address, data.nbytes)

    def bind(self, program: Any, case: Case, question: PlanQuestion) -> Any:
        assert program.program.tuned(program.plans, question) is not None, "there is code for these sizes"
        self.bound += 1
        function = parse_module(gemm.compile(A, B, arch="sm_90").ir(stage="front")).entry
        return LoadedReference(function).bind(case.sizes, [tensor.strides for tensor in case.tensors], 1)

    def run(self, bound: Any, pointers: Sequence[int], numbers: Sequence[float]) -> None:
        if self.fails:
            raise make_error("tuning-nowhere", None)  # as a fault of the device is raised: of this class
        bound(pointers, numbers)
        if self.faults:
            ctypes.memset(pointers[2], 0, 2)

    def seconds(
        self, bound: Any, pointers: Sequence[int], numbers: Sequence[float], calls: int, graph: bool
    ) -> float:  # fmt: skip
        assert len(pointers) == 3
        self.asked.append((calls, graph))
        return self.seconds_of if graph else self.alone


def bench(task: tuple[CudaProgram, Task], device: HostDevice) -> CudaBench:
    program, searched = task
    interface: Any = interface_to_json(gemm.compile(A, B, arch="sm_90").interface)
    work = CudaWorkload(
        program.to_bytes(),
        interface,
        searched.text,
        searched.question,
        STRIDES,
        GivenArrays((A, B)),
        (),
        searched.pick.plan,
    )
    return CudaBench(work, device)


def test_results_come_back_from_the_device_and_are_compared(task: tuple[CudaProgram, Task]) -> None:
    plan = task[1].pick.plan
    work = bench(task, HostDevice())
    good = work.check(plan).and_then(work.confirm(plan))
    assert (good.state, good.reason) == ("ok", "")
    assert good.checked[:3] == ("given", "repeated", "random")
    wrong = bench(task, HostDevice(faults=1)).check(plan)
    assert wrong.state == "wrong"
    assert "`c` differs from the reference in 1 of" in wrong.reason


def test_what_confirms_runs_the_reference_before_plans_come(
    task: tuple[CudaProgram, Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    work = bench(task, HostDevice())
    work.prepare(others=True)
    monkeypatch.setattr(cuda_workload, "run_by_reference", _unwanted)
    assert work.confirm(task[1].plan).state == "ok"


def test_plans_are_made_ready_without_a_reference_and_without_being_timed(
    task: tuple[CudaProgram, Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_workload, "run_by_reference", _unwanted)
    device = HostDevice()
    work = bench(task, device)
    work.ready(())
    in_memory = len(device.kept)
    assert in_memory == 3, "the arguments are there"
    work.ready([task[1].plan])
    assert (device.bound, device.asked) == (1, [])
    work.seconds(task[1].plan)
    assert (device.bound, len(device.kept)) == (1, in_memory)


def _unwanted(*_: object) -> None:
    pytest.fail("the reference is run")


def test_a_device_that_fails_ends_the_process(
    task: tuple[CudaProgram, Task], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        bench(task, HostDevice(fails=True)).check(task[1].pick.plan)
    assert "there is nowhere to keep" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("alone", "in_graphs", "guess", "calls"),
    [(5e-6, 5e-6, 40, 40), (24e-6, 3e-6, 8, 66), (40e-6, 30e-6, 5, 6), (1.0, 1.0, 1, 1), (0.0, 0.0, 200, 200)],
)
def test_samples_are_graphs_whose_length_does_not_depend_on_the_host(
    task: tuple[CudaProgram, Task], alone: float, in_graphs: float, guess: int, calls: int
) -> None:
    device = HostDevice(in_graphs, alone)
    work = bench(task, device)
    assert [work.seconds(task[1].pick.plan) for _ in range(2)] == [in_graphs] * 2
    assert device.asked == [(1, False)] * 3 + [(guess, True)] + [(calls, True)] * 2
    assert device.bound == 1


def test_the_clock_of_the_device() -> None:
    with fake_driver() as driver:
        calls: list[str] = []
        driver.cuEventElapsedTime = lambda start, end: (0, 1.5)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownLambdaType]
        assert device_seconds(0, 0, lambda: calls.append("launch")) == 1.5e-3
        assert calls == ["launch"]
