"""Scratch tensors: memory that a launch takes and gives back in the order of its stream."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from tests.support.fakes.fake_driver import FakeDriver, Launch, Status, fake_driver
from tests.support.fakes.loaded_kernels import N, code, loaded
from tiledsl.backend_cuda.driver.loaded import BoundKernels
from tiledsl.backend_cuda.frame.kernel_code import KernelParameter, ScratchCode
from tiledsl.support.errors import TileResourceError, TileRuntimeError

PARAMETERS = (*(KernelParameter("tensor", number) for number in range(3)), KernelParameter("stride", 2, 0))
SCRATCH = (ScratchCode((N, 100), "bf16"), ScratchCode((N * 8, N, 3), "f32"))


@pytest.fixture
def driver() -> Any:
    with fake_driver(counts={"k": len(PARAMETERS)}) as fake:
        yield fake


def bound(size: int = 5) -> BoundKernels:
    return loaded(code(parameters=PARAMETERS), scratch=SCRATCH).bind({"N": size}, [(7,)], "")


def test_kernels_get_it_behind_the_tensors_of_the_call(driver: FakeDriver) -> None:
    found: list[Launch] = []
    driver.effects["k"] = lambda launch: found.append(launch) if launch.words[1] in driver.memory else None
    one = bound()
    one((0x100,), (), 9)
    one.launcher((0x100,), (), 0)
    assert [launch.words for launch in found] == [(0x100, at, at + 1024, 15) for at in (x.words[1] for x in found)]
    assert len(found) == 2
    assert not driver.memory
    assert driver.calls.count("cuMemPoolCreate") == 1


def test_prepared_launches_hold_it(driver: FakeDriver) -> None:
    prepared = bound().prepare((0x100,), (), 9)
    for _ in range(2):
        prepared()
    assert len(driver.memory) == 1
    assert len({launch.words for launch in driver.launches}) == 1
    del prepared
    gc.collect()
    assert not driver.memory


def test_there_is_none_left(driver: FakeDriver) -> None:
    one = bound()
    driver.failing["cuMemAllocFromPoolAsync"] = Status.CUDA_ERROR_OUT_OF_MEMORY
    with pytest.raises(TileResourceError, match="3584 bytes of scratch memory"):
        one((0x100,), (), 0)
    driver.failing["cuMemAllocFromPoolAsync"] = Status.CUDA_ERROR_INVALID_VALUE
    with pytest.raises(TileRuntimeError, match="cuMemAllocFromPoolAsync"):
        one((0x100,), (), 0)


def test_it_is_given_back_where_a_launch_fails(driver: FakeDriver) -> None:
    one = bound()
    driver.failing["cuLaunchKernelEx"] = Status.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
    with pytest.raises(TileResourceError):
        one((0x100,), (), 0)
    assert not driver.memory
