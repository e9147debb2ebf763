"""Profiles: each launch is timed by itself, beside its floor. Clocks are made up: no test looks at real time."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.fakes.fake_cuda import fake_cuda
from tiledsl import tile
from tiledsl.api.graphs import profile_model, time_launches
from tiledsl.api.graphs.profile_model import profile_call, profile_graph, profile_module
from tiledsl.api.graphs.time_launches import FEWEST, RUNS, Clock, rounds
from tiledsl.api.pages.profile import HEAD, floor_of_bytes
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.passes.machine import host

RANDOM = np.random.default_rng(3)
X = RANDOM.standard_normal((16, 64)).astype(np.float32)
W = RANDOM.standard_normal((64, 64)).astype(np.float32)


def model(x: Any) -> Any:
    for _ in range(3):
        x = tile.softmax(x @ W, axis=-1)
    return x, tile.sum(x, axis=0)


def graph() -> Any:
    return tiledsl.trace(model, tile.spec(("B", 64), tile.f32))


def every(*seconds: float) -> Clock:
    """A clock by which things take these times in turn."""
    turn = itertools.cycle(seconds)

    def clock(run: Callable[[], None]) -> float:
        run()
        return next(turn)

    return clock


def test_a_graph_on_the_cpu() -> None:
    module = tiledsl.fuse(graph()).build("cpu", B=16).modules[0]
    launches = len(module.built.schedule.steps)
    found = profile_graph(graph(), [X], {"B": 16}, "cpu", 0, every(2e-3))
    assert sum(kernel.runs for kernel in found.kernels) == launches
    assert found.seconds == pytest.approx(launches * 2e-3)
    assert all(kernel.samples == FEWEST * kernel.runs for kernel in found.kernels)
    assert all(kernel.floor.seconds > 0 and kernel.floor.predicted for kernel in found.kernels)
    assert sum(kernel.runs * (kernel.floor.multiply_adds or 0) for kernel in found.kernels) == 3 * 16 * 64 * 64
    first, head, *_ = str(found).splitlines()
    assert first == f"model on {host().name}"
    assert head.split() == " ".join(HEAD).split()
    assert "more than 100% means that the machine is faster" in " ".join(str(found).split())


def test_what_takes_most_time_comes_first() -> None:
    launches = len(tiledsl.fuse(graph()).build("cpu", B=16).modules[0].built.schedule.steps)
    times = [1e-3 * (number + 1) for number in range(launches)]
    found = profile_graph(graph(), [X], {"B": 16}, "cpu", 0, every(*times))
    totals = [kernel.total for kernel in found.kernels]
    assert totals == sorted(totals, reverse=True)
    assert sum(totals) == pytest.approx(sum(times))


def test_launches_compute_what_the_module_does() -> None:
    """Each on what the launch before it made, also when all are run again."""
    built = tiledsl.fuse(graph()).build("cpu", B=16)
    module = built.modules[0]
    schedule = module.built.schedule
    named = {name: np.asarray(array) for name, array in module.weights.items()}
    kept: dict[str, Any] = {}
    made = time_launches.empty

    def watched(shape: tuple[int, ...], dtype: Any) -> Any:
        array = made(shape, dtype)
        kept[str(len(kept))] = array
        return array

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time_launches, "empty", watched)
        time_launches.time_launches(module.built, {**named, schedule.buffers[schedule.inputs[0]].name: X}, 0)
    expected = built(X)
    for result in expected:
        assert any(array.shape == result.shape and np.array_equal(array, result) for array in kept.values())


def test_a_saved_module(tmp_path: Any) -> None:
    tiledsl.fuse(graph()).build("cpu", B=16).save(str(tmp_path / "model.tile"))
    module = tiledsl.load(tmp_path / "model.tile")
    found = profile_module(module, [X], 0, every(1e-3))
    assert "floors are those of its bytes alone" in " ".join(str(found).split())
    assert all(kernel.floor.multiply_adds is None for kernel in found.kernels)


def test_a_call_of_a_kernel() -> None:
    @tile.kernel
    def doubled(x: tile.Tensor) -> tile.Tensor:
        y = tile.empty(x.shape[0], x.dtype)
        for n in tile.grid(x.shape[0]):
            y[n] = x[n] * 2
        return y

    x = np.ones(1 << 20, np.float32)
    (audited,) = doubled.audit(x, arch="cpu").kernels
    call: Any = doubled.bind(x)
    found = profile_call("doubled", "here", call, audited.kernel, "cpu", 0, every(3e-3, 1e-3, 2e-3))
    (kernel,) = found.kernels
    assert (kernel.runs, kernel.samples, kernel.seconds) == (1, FEWEST, 2e-3)
    assert kernel.floor.limit == "memory"
    assert kernel.floor.must_bytes == 8 << 20
    assert np.array_equal(call.result, 2 * x)


def test_a_device_runs_each_launch_many_times_in_a_row() -> None:
    asked: list[None] = []

    def clock(run: Callable[[], None]) -> float:
        asked.append(run())
        return RUNS * 1e-5

    with fake_cuda() as fake, pytest.MonkeyPatch.context() as patch:
        patch.setattr(profile_model, "audit_steps", lambda scheduled, arch: [])  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        module = tiledsl.fuse(graph()).build("sm_90", B=16).modules[0]
        launches = len(module.built.schedule.steps)
        found = profile_module(module, [X], 0, clock)
        assert len(fake.runs) == launches * RUNS * (1 + FEWEST)
    assert len(asked) == launches * (1 + FEWEST)
    assert found.seconds == pytest.approx(launches * 1e-5)
    assert "launches are timed in a row, without their start" in " ".join(str(found).split())


def test_floors_of_devices_are_without_the_start_of_a_launch() -> None:
    machine = gpu_machine("sm_90")
    floor = floor_of_bytes(1 << 30, machine)
    assert floor.seconds == (1 << 30) / machine.copied_bytes_per_second
    assert floor.limit == "memory"
    assert floor_of_bytes(0, host()).limit == "launch"


def test_rounds_go_on_until_the_time_is_over() -> None:
    now = [0.0]

    def sample() -> float:
        now[0] += 0.25
        return 0.25

    assert len(rounds([sample, sample], 4.0, lambda: now[0])[0]) == 8
    assert len(rounds([sample], 0.0, lambda: now[0])[0]) == FEWEST
