"""`kernel.tune` with arrays on a device of a fake driver: plans and code are real, times come from a table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiledsl
from gemm import gemm
from tests.support.fakes.fake_driver import FakeDriver, fake_driver
from tests.support.fakes.fake_library import FakeLibrary, fake_library
from tests.support.fakes.fake_runner import FakeRunner
from tests.support.fakes.table_runner import crews_by
from tiledsl import tile
from tiledsl.api.calls import cuda_tasks
from tiledsl.autotune.measuring.cuda_workload import CudaWorkload
from tiledsl.autotune.measuring.runner import Checked
from tiledsl.autotune.records.database import Database
from tiledsl.support.errors import TileError


class OnDevice:
    """An array of a library that has nothing but the protocol."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.__cuda_array_interface__ = {
            **array.__array_interface__, "stream": 1, "strides": None, "version": 3,
        }  # fmt: skip


class TableRunner(FakeRunner):
    """The plan whose text is shortest is fastest, by far."""

    def __init__(self, workload: CudaWorkload) -> None:
        super().__init__({})
        self.workload = workload

    def check(self, plan: str) -> Checked:
        return replace(super().check(plan), code="")

    def _sample(self, plan: str) -> float:
        self.now += 1e-3
        return len(plan) ** 4 * 1e-12


@pytest.fixture
def driver() -> Any:
    with fake_driver(counts={"gemm": 12}) as fake:
        yield fake


@pytest.fixture
def runners(monkeypatch: pytest.MonkeyPatch) -> list[TableRunner]:
    started: list[TableRunner] = []

    def start(workload: CudaWorkload) -> TableRunner:
        started.append(TableRunner(workload))
        return started[-1]

    def without_builds(build: object, measuring: TableRunner, hosts: object) -> TableRunner:
        del build, hosts
        return measuring

    crews_by(monkeypatch, start)
    monkeypatch.setattr(cuda_tasks, "cuda_runner", without_builds)
    return started


A: Any = np.random.default_rng(0).standard_normal((64, 32)).astype(np.float16)
B: Any = np.random.default_rng(1).standard_normal((32, 48)).astype(np.float16)


def owned(driver: FakeDriver) -> tuple[OnDevice, OnDevice]:
    for array in (A, B):
        driver.own(array)
    return OnDevice(A), OnDevice(B)


def test_the_question_is_that_of_the_call(driver: FakeDriver, runners: list[TableRunner], tmp_path: Path) -> None:
    a, b = owned(driver)
    report = gemm.tune(a, b, database=tmp_path)
    (outcome,) = report.outcomes
    assert outcome.finished
    assert outcome.winner != outcome.pick
    question = runners[0].workload.question
    assert (question.target, dict(question.sizes)) == ("sm_90", {"M": 64, "K": 32, "N": 48})
    assert "multiprocessors" in question.device
    assert len(question.alignment) == 3
    for given, array in zip(runners[0].workload.given.arrays(), (A, B)):
        assert np.array_equal(given, array)
    database = Database(tmp_path)
    database.refresh()
    assert set(database.entries.searches) == {question}
    assert gemm.tune(a, b, database=tmp_path).outcomes[0].known


def test_calls_take_what_was_found(driver: FakeDriver, runners: list[TableRunner], tmp_path: Path) -> None:
    a, b = owned(driver)
    (outcome,) = gemm.tune(a, b, database=tmp_path).outcomes
    with tiledsl.tuned(tmp_path):
        gemm.bind(a, b)
        dispatcher = gemm._current.dispatchers.current()  # pyright: ignore[reportPrivateUsage]
    plans = [getattr(bound.description, "plan", "") for launch in dispatcher.launches for bound in launch.variants]
    assert plans == [outcome.winner]


def test_a_kernel_that_is_one_product_by_a_library(
    driver: FakeDriver, runners: list[TableRunner], tmp_path: Path
) -> None:
    a, b = owned(driver)
    library = FakeLibrary(driver=driver)
    with fake_library(library):
        (outcome,) = gemm.tune(a, b, database=tmp_path, libraries=True).outcomes
        (call, alignment), *_ = library.asked
        assert (call.rows, call.columns, call.sums, call.dtype) == (48, 64, 32, "f16")
        assert all(known >= 2 for known in alignment[:3])
        assert [trial.plan for trial in outcome.trials if trial.plan.startswith("cuBLASLt")]
        (other,) = tiledsl.tune(gemm, a, b, database=tmp_path, libraries=True).outcomes
    assert other.known


def test_a_call_that_cannot_be_made(driver: FakeDriver, tmp_path: Path) -> None:
    a, _ = owned(driver)
    with pytest.raises(TileError, match="size `K` is"):
        gemm.tune(a, a, database=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_graph_for_the_device(driver: FakeDriver, runners: list[TableRunner], tmp_path: Path) -> None:
    def layer(x: Any) -> Any:
        return tile.relu(x @ B)

    graph = tiledsl.trace(layer, tile.spec((64, 32), tile.f16))
    (outcome,) = tiledsl.tune(graph, arch="sm_90", database=tmp_path).outcomes
    assert outcome.winner != outcome.pick
    (workload,) = (runner.workload for runner in runners)
    assert workload.question.target == "sm_90"
    built = tiledsl.fuse(graph).build("sm_90", tuning=tmp_path)
    (kernel,) = built.kernels.values()
    assert kernel.plan.startswith(outcome.winner)
    (untuned,) = tiledsl.fuse(graph).build("sm_90").kernels.values()
    assert untuned.plan.startswith(outcome.pick)


def test_no_device(driver: FakeDriver, tmp_path: Path) -> None:
    driver.devices = 0
    graph = tiledsl.trace(tile.relu, tile.spec((64, 32), tile.f16))
    with pytest.raises(TileError, match="the NVIDIA driver finds no device"):
        tiledsl.tune(graph, arch="sm_90", database=tmp_path)
