"""Ops of a graph as different kernels: results are those of the ops, and each way is timed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tiledsl.api.graphs import grouping_workload
from tiledsl.api.graphs.grouping_workload import (
    GroupingBench,
    GroupingWorkload,
    OnCpu,
    OnGpu,
    calls_of_sample,
    drawn_case,
    run_reference,
    work_of,
)
from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.ir.text.parser import parse_module
from tiledsl.passes.machine import describe_cpu, host
from tiledsl.runtime.programs.plan_source import APART, TOGETHER
from tiledsl.support.errors import TileError

TEXT = """
func @tie(%x: tensor<f32, [16, 24]>, %w: tensor<f32, [24, 8]>) {
  %p = graph.contract(%x, %w) {axes = "m k, k n -> m n", dtype = f32}
  %q = graph.map([%p, %p]) {fn = mul}
  %s = graph.reduce(%q) {axes = [1], fn = add, keepdims = false}
  graph.return([%p, %s])
}
"""
KERNELS = ((TOGETHER, "0 1 2"), (APART, "0 | 1 2"))
WORK = GroupingWorkload(TEXT, "cpu", KERNELS, TOGETHER, describe_cpu(host()))


def test_each_way_has_its_kernels() -> None:
    assert [len(WORK.module(plan).built.schedule.steps) for plan in (TOGETHER, APART)] == [1, 2]


@pytest.mark.parametrize("plan", [TOGETHER, APART])
def test_results_are_compared_with_those_of_the_ops(plan: str) -> None:
    bench = WORK.open()
    bench.prepare()
    bench.prepare(others=True)
    found = bench.check(plan).and_then(bench.confirm(plan))
    assert (found.state, found.reason) == ("ok", "")
    assert found.checked == ("given", "repeated", "random")
    assert found.code


def test_two_ways_have_two_codes() -> None:
    bench = WORK.open()
    assert bench.check(TOGETHER).code != bench.check(APART).code


def test_wrong_results_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = WORK.open()
    runs = bench._put(APART)  # pyright: ignore[reportPrivateUsage]
    right = runs.run

    def wrong(arrays: Sequence[Any]) -> None:
        right(arrays)
        arrays[2][3, 4] += 1

    monkeypatch.setattr(runs, "run", wrong)
    found = bench.check(APART)
    assert found.state == "wrong"
    assert "`result 0` differs from the reference in 1 of 128 elements" in found.reason
    assert bench.check(TOGETHER).state == "ok"


def test_where_the_reference_takes_too_long_the_models_kernels_are_compared_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grouping_workload, "MOST_WORK", 1)
    monkeypatch.setattr(grouping_workload, "execute_graph", _unwanted)
    bench = WORK.open()
    assert bench.check(TOGETHER).state == "ok"
    runs = bench._put(APART)  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(runs, "run", _threes)
    assert bench.check(APART).state == "wrong"


def _threes(arrays: Sequence[Any]) -> None:
    for array in arrays[2:]:
        array.fill(3)


def _unwanted(*_: object) -> None:
    pytest.fail("the reference is run")


def test_what_cannot_be_one_kernel_is_refused() -> None:
    more = [
        '%e = graph.contract(%p, %w) {axes = "m n, k n -> m k", dtype = f32}',
        '%f = graph.contract(%e, %w) {axes = "m k, k n -> m n", dtype = f32}',
        "graph.return([%f, %s])",
    ]
    text = TEXT.replace("graph.return([%p, %s])", "\n".join(more))
    with pytest.raises((AssertionError, TileError)):
        replace(WORK, text=text, kernels=((TOGETHER, "0 1 2 3 4"),)).module(TOGETHER)


def test_samples_are_of_several_calls() -> None:
    times = iter(range(100))
    bench = GroupingBench(WORK, OnCpu(lambda: float(next(times))))
    bench.ready(())
    assert [bench.seconds(plan) for plan in (TOGETHER, APART)] == [1.0, 1.0]
    assert (calls_of_sample(1e-3), calls_of_sample(50e-6), calls_of_sample(0.0)) == (1, 4, 200)


def test_another_machine_refuses() -> None:
    with pytest.raises(ValueError, match="this machine is another one"):
        replace(WORK, device="an abacus").open()


def test_what_goes_in_and_out_is_counted() -> None:
    assert WORK.nbytes == 4 * (16 * 24 + 24 * 8 + 16 * 8 + 16)
    assert work_of(parse_module(TEXT).entry) == 16 * 24 * 8 + 2 * 16 * 8 + 16


def test_integers_are_subscripts_that_are_there() -> None:
    function = parse_module(
        """
func @tie(%t: tensor<f32, [9, 4]>, %i: tensor<i64, [5]>) {
  %g = graph.gather(%t, %i) {axis = 0}
  graph.return([%g])
}
"""
    ).entry
    case = drawn_case(function)
    assert [array.dtype for array in case.contents] == [np.float32, np.int64]
    assert not case.contents[1].any()
    arrays = [tensor.allocated(None) for tensor in case.tensors]
    assert run_reference(function, case, arrays)
    np.testing.assert_array_equal(arrays[2], np.repeat(case.contents[0][:1], 5, axis=0))


# On a device whose memory is the host's


@dataclass
class HostServices:
    """What a place asks for, of memory of this process. `recorded`: the launches of each graph."""

    recorded: list[int] = field(default_factory=list[int])

    def allocate(self, size: int, device: int, stream: int) -> Any:
        memory = np.zeros(size, np.uint8)
        return SimpleNamespace(address=memory.ctypes.data, memory=memory)

    def copy_to_device(self, address: int, host: int, size: int, device: int, stream: int) -> None:
        ctypes.memmove(address, host, size)

    def copy_to_host(self, host: int, address: int, size: int, device: int, stream: int) -> None:
        ctypes.memmove(host, address, size)

    def record(self, device: int, name: str, location: object, launches: Sequence[Any]) -> Any:
        self.recorded.append(len(launches))

        def launch(stream: int) -> None:
            for bound, pointers, numbers in launches:
                bound(pointers, numbers, stream)

        return SimpleNamespace(launch=launch)


class HostModule:
    """A module of `TEXT` on that device: one launch, or two, of which the first does all."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.built = SimpleNamespace(programs=())
        self.schedule = SimpleNamespace(name="tie", inputs=(0, 1))
        self.plan = SimpleNamespace(bytes=64)

    def on_device(self, number: int, stream: int) -> Any:
        assert (number, stream) == (1, 7)
        return self

    def launches(self, addresses: Sequence[int], arena: int) -> list[Any]:
        assert arena
        return [(_all_of_it, tuple(addresses), ()), *[(_nothing, (), ())] * (self.count - 1)]


def _host_module(work: GroupingWorkload, plan: str) -> HostModule:
    return HostModule(len(dict(work.kernels)[plan].split("|")))


def _nothing(pointers: Sequence[int], numbers: Sequence[float], stream: int) -> None:
    del pointers, numbers, stream


def _all_of_it(pointers: Sequence[int], numbers: Sequence[float], stream: int) -> None:
    function = parse_module(TEXT).entry
    shapes = [(16, 24), (24, 8), (16, 8), (16,)]
    types: Any = [ctypes.c_float * int(np.prod(shape)) for shape in shapes]
    arrays: list[Any] = []
    for kind, at, shape in zip(types, pointers, shapes):
        flat: Any = np.frombuffer(kind.from_address(at), np.float32)
        arrays.append(flat.reshape(shape))
    for array, result in zip(arrays[2:], execute_graph(function, arrays[:2])):
        array[...] = result


def test_modules_run_on_a_device_and_are_timed_as_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    place = OnGpu.__new__(OnGpu)
    services = HostServices()
    place.number, place.stream, place.services = 1, 7, services
    place._memory = {}  # pyright: ignore[reportPrivateUsage]
    timed: list[Callable[[], None]] = []

    def clock(launch: Callable[[], None]) -> float:
        launch()
        timed.append(launch)
        return 20e-6

    place.clock = clock
    monkeypatch.setattr(GroupingWorkload, "module", _host_module)
    bench = GroupingBench(replace(WORK, arch="sm_90", number=1), place)
    assert [bench.check(plan).state for plan in (TOGETHER, APART)] == ["ok", "ok"]
    assert bench.confirm(APART).state == "ok"
    assert abs(bench.seconds(APART) - 2e-6) < 1e-12
    assert services.recorded == [20], "ten calls of two launches"
    bench.seconds(TOGETHER)
    assert services.recorded == [20, 10]
    assert len(timed) == 2 * (3 + 1)
