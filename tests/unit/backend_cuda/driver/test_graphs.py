"""CUDA graphs of several programs on a fake driver: what is recorded, and what changes of addresses do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fakes.fake_driver import OWN_STREAM, FakeDriver, Status, fake_driver
from tests.support.fakes.loaded_kernels import FAILURE, PARAMETERS, N, code, loaded, tensor_map
from tiledsl.backend_cuda.driver.call_driver import process
from tiledsl.backend_cuda.driver.devices import device_of
from tiledsl.backend_cuda.driver.graphs import GraphLaunch, LaunchedGraph, own_stream
from tiledsl.backend_cuda.driver.services import CudaServices
from tiledsl.backend_cuda.frame.kernel_code import KernelParameter, ScratchCode
from tiledsl.support.errors import TileError
from tiledsl.support.location import BUILTIN

STRIDES = [(1,), (7,)]


@pytest.fixture
def driver() -> Any:
    with fake_driver(counts={"k": len(PARAMETERS)}) as fake:
        yield fake


def bound(size: int = 3, **fields: Any) -> Any:
    return loaded(code(**fields)).bind({"N": size}, STRIDES, "")


def graph(*launches: GraphLaunch) -> LaunchedGraph:
    return LaunchedGraph(device_of(0), "model", BUILTIN, launches)


def test_a_graph_launches_what_was_recorded(driver: FakeDriver) -> None:
    made = graph(GraphLaunch(bound(3), (0x100, 0x200), (1, 2.5)), GraphLaunch(bound(4), (0x200, 0x300), (2, 2.5)))
    assert not driver.launches
    for stream in (5, 6):
        made.launch(stream)
    assert [(one.stream, one.blocks, one.words[0]) for one in driver.launches] == [
        (5, 3, 0x100), (5, 4, 0x200), (6, 3, 0x100), (6, 4, 0x200),
    ]  # fmt: skip
    assert OWN_STREAM not in {one.stream for one in driver.launches}


def test_addresses_change_from_the_next_launch_on(driver: FakeDriver) -> None:
    made = graph(GraphLaunch(bound(), (0x100, 0x200), (1, 2.5)), GraphLaunch(bound(), (0x200, 0x300), (2, 2.5)))
    made.update(1, (0x900, 0xA00))
    made.launch(0)
    first, second = driver.launches
    assert (first.words[0], first.words[2], first.words[5]) == (0x100, 0x200, 1)
    assert (second.words[0], second.words[2], second.words[5]) == (0x900, 0xA00, 2)
    driver.failing["cuGraphExecKernelNodeSetParams"] = Status.CUDA_ERROR_INVALID_VALUE
    made.update(0, (0x500, 0x600))
    made.launch(0)
    assert [(one.words[0], one.words[2]) for one in driver.launches[2:]] == [(0x500, 0x600), (0x900, 0xA00)]
    assert driver.calls.count("cuGraphInstantiate") == 2


def test_maps_and_scratch_memory_go_with_a_graph(driver: FakeDriver) -> None:
    driver.counts["k"] = 3
    parameters = (KernelParameter("map", 0), KernelParameter("tensor", 0), KernelParameter("tensor", 1))
    kernels = loaded(code(parameters=parameters), maps=[tensor_map()], scratch=[ScratchCode((N,), "f32")])
    made = graph(GraphLaunch(kernels.bind({"N": 8}, [(104, 1)], ""), (0x1000,), ()))
    made.update(0, (0x2000,))
    made.launch(0)
    (launch,) = driver.launches
    assert launch.words[1] == 0x2000
    assert launch.words[0] == 0x2000  # the first word of the fake driver's map is its address
    assert driver.calls.count("cuMemAllocFromPoolAsync") == driver.calls.count("cuMemFreeAsync") == 1


def test_programs_without_a_block_are_no_nodes(driver: FakeDriver) -> None:
    made = graph(GraphLaunch(bound(0), (0x100, 0x200), (1, 2.5)))
    made.update(0, (1, 2))
    made.launch(0)
    assert not driver.launches


def test_failures_are_found_at_the_next_launch(driver: FakeDriver) -> None:
    driver.counts["k"] = len(PARAMETERS) + 1
    program = bound(parameters=(*PARAMETERS, FAILURE))
    made = graph(GraphLaunch(program, (0x100, 0x200), (1, 2.5)))
    made.launch(0)
    assert process().history.suspects()[0].name == "model"
    program.loaded.record.words[0] = 1
    with pytest.raises(TileError) as caught:
        made.launch(0)
    assert caught.value.code == "assertion-failed"
    driver.failing["cuGraphLaunch"] = Status.CUDA_ERROR_ILLEGAL_ADDRESS
    with pytest.raises(TileError) as caught:
        made.launch(0)
    assert caught.value.code == "cuda-fault"


def test_a_launch_that_fails_ends_the_capture(driver: FakeDriver) -> None:
    program = bound()
    driver.failing["cuLaunchKernelEx"] = Status.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
    with pytest.raises(TileError):
        graph(GraphLaunch(program, (0x100, 0x200), (1, 2.5)))
    assert driver.captured is None


def test_events_and_the_own_stream(driver: FakeDriver) -> None:
    services = CudaServices()
    assert services.own_stream(0) == own_stream(device_of(0)) == OWN_STREAM
    assert driver.calls.count("cuStreamCreate") == 1
    event = services.event(0)
    event.mark(3)
    event.before(4)
    del event
    assert [c for c in driver.calls if "Event" in c] == [
        "cuEventCreate", "cuEventRecord", "cuStreamWaitEvent", "cuEventDestroy",
    ]  # fmt: skip
