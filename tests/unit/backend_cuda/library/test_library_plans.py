"""Plans that call a library: measured, recorded, followed by builds, launched; and left where there is no library."""

from __future__ import annotations

import logging
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.fakes.fake_cuda import FakeTensor, FakeTorch, aligned
from tests.support.fakes.fake_driver import FakeDriver, fake_driver
from tests.support.fakes.fake_library import FakeLibrary, fake_library
from tests.support.fakes.fake_runner import FakeRunner
from tiledsl import tile
from tiledsl.api.graphs.fused import FusedGraph
from tiledsl.api.modules.module import Module
from tiledsl.api.schedules.built_module import Built, compiled_for
from tiledsl.api.schedules.schedule_graph import schedule_graph
from tiledsl.api.schedules.tune_schedule import tasks_of
from tiledsl.autotune.measuring.cuda_build import CudaBuild, CudaBuildBench
from tiledsl.autotune.measuring.cuda_device import CudaDevice
from tiledsl.autotune.measuring.cuda_workload import MOST_CALLS, CudaBench, CudaWorkload
from tiledsl.autotune.measuring.given import DrawnArrays
from tiledsl.autotune.measuring.runner import Checked
from tiledsl.autotune.records.database import Database, Writer
from tiledsl.autotune.searching.search import Searches
from tiledsl.autotune.searching.task import Budget, Task
from tiledsl.backend_cuda.build.stored_variant import plan_from_json, plan_to_json
from tiledsl.backend_cuda.driver.loaded import BoundKernels
from tiledsl.backend_cuda.library.library_kernels import BoundLibrary
from tiledsl.backend_cuda.planned_program import PlannedProgram
from tiledsl.backend_cuda.program import CudaProgram, code_digest
from tiledsl.passes.gpu.plan import parse_plan, why_no_plan
from tiledsl.passes.gpu.plans.describe_plan import plan_words
from tiledsl.runtime.programs import memory_plan
from tiledsl.runtime.programs.cache import disk_cache
from tiledsl.runtime.programs.stored_interface import interface_to_json
from tiledsl.support.errors import TileRuntimeError

M, N, K = 48, 32, 64


def graph() -> tiledsl.Graph:
    """One product of rows with rows."""

    def product(x: Any, w: Any) -> Any:
        return x @ w.T

    return tiledsl.trace(product, tile.spec((M, K), tile.f16), tile.spec((N, K), tile.f16))


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeDriver]:
    """One with a device, and a cache of its own."""
    monkeypatch.setenv("TILEDSL_CACHE_DIR", str(tmp_path / "cache"))
    disk_cache.cache_clear()
    with fake_driver() as driver:
        yield driver
    disk_cache.cache_clear()


def built() -> Built:
    fused = FusedGraph(graph())
    lowered, _ = fused.lowered_before("sm_90", {}, {})
    return compiled_for(schedule_graph(lowered, fused.graph.inputs, fused.graph.constants), "sm_90")


def task(*, libraries: bool = True) -> Task:
    (only,), _ = tasks_of(built(), libraries=libraries)
    return only.prepared.task


def searched(folder: Path, winner: int = 0, *, libraries: bool = True) -> str:
    """Searches where one of the library's plans takes half of the time; gives the plan that won."""
    one = task(libraries=libraries)
    plans = [candidate.plan for candidate in one.candidates([], 6)]
    called = [plan for plan in plans if parse_plan(plan).library is not None]
    table = defaultdict(lambda: 11e-6, {one.pick.plan: 10e-6})
    table.update({plan: (5e-6 if n == winner else 9e-6) for n, plan in enumerate(called)})
    program = built().compiled[0].program
    assert isinstance(program, CudaProgram)
    codes = {plan: code_digest(program.variant([parse_plan(plan)])) for plan in called}
    runner = FakeRunner(table, {plan: Checked("ok", "", 1e-7, ("given",), code) for plan, code in codes.items()})
    with Writer(Database(folder)) as writer:
        return Searches(writer, clock=runner.clock).run(one, runner, Budget(60, 6)).winner


def measured(library: FakeLibrary, plan: str) -> Checked:
    """What becomes of a plan on a device, which the fake driver plays."""
    with fake_library(library):
        bench = a_bench()
        checked = bench.check(plan)
        return checked.and_then(bench.confirm(plan)) if checked.state == "ok" else checked


def a_bench() -> CudaBench:
    """Who checks and times plans."""
    made = built()
    step = made.schedule.steps[0]
    compiled = made.compiled[step.program]
    strides = tuple(tensor.view.strides for tensor in step.tensors)
    interface, one = compiled.artifact.interface, task(libraries=False)
    given = DrawnArrays.of(interface, dict(step.sizes), strides)
    workload = CudaWorkload(
        compiled.program.to_bytes(), interface_to_json(interface), one.text, one.question, strides, given, (),
        one.pick.plan,
    )  # fmt: skip
    return CudaBench(workload, CudaDevice(0))


def module_by(folder: Path) -> Module:
    """As builds make it with what a search has found."""
    made = tiledsl.fuse(graph()).build("sm_90", tuning=folder)
    (module,) = made.modules
    return module


def program_of(module: Module) -> PlannedProgram:
    program = module.built.programs[module.built.schedule.steps[0].program]
    assert isinstance(program, PlannedProgram)
    return program


def tensors() -> tuple[FakeTensor, FakeTensor]:
    random = np.random.default_rng(0)
    x, w = (aligned(random.standard_normal(shape).astype(np.float16)) for shape in ((M, K), (N, K)))
    return FakeTensor(x), FakeTensor(w)


def product(x: FakeTensor, w: FakeTensor) -> Any:
    return x.host.astype(np.float32) @ w.host.astype(np.float32).T


def is_known(folder: Path, one: Task) -> bool:
    database = Database(folder)
    database.refresh()
    with Writer(database) as writer:
        return Searches(writer).known(one) is not None


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", FakeTorch())


@pytest.mark.usefixtures("torch")
def test_from_a_search_to_a_launch(tmp_path: Path, machine: FakeDriver) -> None:
    library = FakeLibrary(driver=machine)
    with fake_library(library):
        plan = searched(tmp_path / "db")
        assert plan.startswith("cuBLASLt 131000 by 42/0/0/0/0/0/0/0 in 1024 bytes, ")
        module = module_by(tmp_path / "db")
        x, w = tensors()
        np.testing.assert_allclose(module(x, w).host, product(x, w), rtol=2e-3, atol=2e-3)
        assert [str(one) for one, _ in library.launches] == [plan.partition(", ")[0]]
        assert "measured on" in str(module.explain())


@pytest.mark.usefixtures("torch")
def test_in_a_graph_of_a_module_tensors_may_move(
    tmp_path: Path, machine: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_plan, "MOST_DIRECT", 0)
    library = FakeLibrary(driver=machine)
    with fake_library(library):
        searched(tmp_path / "db")
        module = module_by(tmp_path / "db")
        kept: list[Any] = []
        for _ in range(4):
            x, w = tensors()
            kept.append(module(x, w))
            np.testing.assert_allclose(kept[-1].host, product(x, w), rtol=2e-3, atol=2e-3)
        assert machine.calls.count("cuGraphInstantiate") == 1
        assert machine.calls.count("cuGraphExecKernelNodeSetParams") == 2


def test_a_call_of_the_library_is_checked_as_every_plan_is() -> None:
    with fake_library(FakeLibrary()):
        plan = task().candidates([], 6)[0].plan
    assert measured(FakeLibrary(), plan).state == "ok"
    assert measured(FakeLibrary(wrong=True), plan).state == "wrong"
    refused = measured(FakeLibrary(refusing="CUBLAS_STATUS_NOT_SUPPORTED"), plan)
    assert (refused.state, refused.reason) == ("refused", "CUBLAS_STATUS_NOT_SUPPORTED")


def test_nothing_is_compiled_of_a_call() -> None:
    one = task(libraries=False)
    program = built().compiled[0].program
    with fake_library(FakeLibrary()):
        plan = task().candidates([], 6)[0].plan
        made = CudaBuildBench(CudaBuild(program.to_bytes(), one.question, one.pick.plan)).check(plan)
    assert isinstance(program, CudaProgram)
    assert made == Checked("ok", code=code_digest(program.variant([parse_plan(plan)])))
    with fake_library(None):
        made = CudaBuildBench(CudaBuild(program.to_bytes(), one.question, one.pick.plan)).check(plan)
    assert (made.state, made.reason) == ("refused", "cuBLASLt is not installed (`pip install tiledsl[library]`)")


def test_samples_of_a_call_are_graphs(machine: FakeDriver) -> None:
    library = FakeLibrary(driver=machine)
    machine.cuEventElapsedTime = lambda start, end: (0, 0.0)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownLambdaType]
    with fake_library(library):
        plan = task().candidates([], 6)[0].plan
        bench = a_bench()
        bench.ready([plan])
        machine.calls.clear()
        bench.seconds(plan)
        launched = machine.calls.count("cuGraphLaunch")
        assert launched == 2, "one for how many calls are a sample, and the sample"
        alone = len(library.launches)
        bench.seconds(plan)
    assert machine.calls.count("cuGraphLaunch") == launched + 1
    assert len(library.launches) - alone == MOST_CALLS, "the fake device takes no time"


def test_no_library_is_tried_unless_it_is_asked_for(tmp_path: Path) -> None:
    library = FakeLibrary()
    with fake_library(library):
        assert not searched(tmp_path / "db", libraries=False).startswith("cuBLASLt")
        assert library.asked == []
        known, asked = task(libraries=False), task()
        assert is_known(tmp_path / "db", known)
        assert not is_known(tmp_path / "db", asked), "that search tried no library"
        assert searched(tmp_path / "db").startswith("cuBLASLt")
        assert is_known(tmp_path / "db", asked)


def test_without_the_library_a_search_says_what_to_install() -> None:
    with fake_library(None), pytest.raises(TileRuntimeError, match=r"pip install tiledsl\[library\]"):
        task()


@pytest.mark.parametrize("there", [None, FakeLibrary(version=120900)])
def test_where_the_library_is_not_or_is_another_the_model_plans(
    tmp_path: Path, there: FakeLibrary | None, caplog: pytest.LogCaptureFixture
) -> None:
    with fake_library(FakeLibrary()):
        searched(tmp_path / "db")
    caplog.set_level(logging.INFO, "tiledsl")
    with fake_library(there):
        program = program_of(module_by(tmp_path / "db"))
    assert program.variant.product is None
    reason = "cuBLASLt is not installed" if there is None else "it is of cuBLASLt 131000, and that is 120900"
    assert reason in program.origin
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


def test_a_saved_program_has_code_for_where_the_library_is_not(tmp_path: Path) -> None:
    library = FakeLibrary()
    with fake_library(library):
        searched(tmp_path / "db")
        program = PlannedProgram.from_bytes(program_of(module_by(tmp_path / "db")).to_bytes())
    assert program.variant.product is not None
    call = {"M": M, "N": N, "K": K}, ((K, 1), (K, 1), (N, 1)), (16, 16, 16), 0
    with fake_library(library):
        assert isinstance(program.load().bind_cuda(*call), BoundLibrary)
    with fake_library(None):
        assert isinstance(program.load().bind_cuda(*call), BoundKernels)


def test_what_is_shown_of_a_call(tmp_path: Path) -> None:
    with fake_library(FakeLibrary()):
        searched(tmp_path / "db")
        module = module_by(tmp_path / "db")
    (kernel,) = module.kernels.values()
    assert kernel.source.startswith("library.matmul cuBLASLt 131000\n  algorithm 42/0/0/0/0/0/0/0, workspace 1024\n")
    assert "graph.contract" in kernel.ir("gpu")
    assert kernel.resources == {}
    assert "tensor 2[m, n] f16 = tensor 0[m, k] * tensor 1[n, k]" in kernel.plan


def test_other_sizes_are_no_plan_for_the_call() -> None:
    with fake_library(FakeLibrary()):
        plan = parse_plan(task().candidates([], 6)[0].plan)
    assert why_no_plan(plan, {"M": M, "N": N + 1, "K": K}, (16, 16, 16)) is not None
    assert parse_plan(str(plan)) == plan
    assert plan_from_json(plan_to_json(plan)) == plan
    assert dict(plan_words(plan, ["x", "w", "out"]))["library"].startswith("cuBLASLt 131000, by the algorithm 42/0")
