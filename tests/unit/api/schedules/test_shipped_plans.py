"""Plans that ship are taken by builds for the device at hand, and by warm builds without a look at any program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tiledsl
from tests.support.fakes.fake_driver import fake_driver
from tests.support.fakes.plan_sources import Fixed
from tiledsl import tile
from tiledsl.api.calls import plan_sources
from tiledsl.api.graphs.fused import BuiltGraph
from tiledsl.autotune.records.database import Database
from tiledsl.autotune.records.record import Ratio, Search
from tiledsl.autotune.records.shipped import file_name
from tiledsl.autotune.records.upkeep import write_file
from tiledsl.autotune.sources import DatabasePlans
from tiledsl.backend_cuda.driver import devices
from tiledsl.backend_cuda.driver.services import CudaServices
from tiledsl.backend_cuda.planned_program import PlannedProgram
from tiledsl.backend_cuda.program import CudaProgram, code_digest
from tiledsl.ir.text import parser
from tiledsl.passes.gpu.plans.choose_plans import ranked_plans
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.runtime.programs import cache
from tiledsl.runtime.programs.plan_source import PlanQuestion
from tiledsl.support.errors import TileRuntimeError, fail

DEVICE = "Fake, 132 multiprocessors"


class AtHand:
    """A machine with these devices of each architecture."""

    def __init__(self, *devices: str) -> None:
        self.devices = devices

    def at_hand(self, arch: str) -> list[str]:
        del arch
        return list(self.devices)


def two_launches(x: Any, w: Any) -> Any:
    return tile.relu(tile.cumsum(x @ w, axis=1)) @ w


def graph() -> tiledsl.Graph:
    return tiledsl.trace(two_launches, tile.spec((64, 64), tile.f16), tile.spec((64, 64), tile.f16))


def first(built: BuiltGraph) -> PlannedProgram:
    (module,) = built.modules
    program = module.built.programs[module.built.schedule.steps[0].program]
    assert isinstance(program, PlannedProgram)
    return program


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[pytest.MonkeyPatch]:
    """One with a device, and with caches of its own."""
    monkeypatch.setenv("TILEDSL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("TILEDSL_TUNING", raising=False)
    monkeypatch.setattr(plan_sources, "shipped_folder", lambda: tmp_path / "shipped")
    monkeypatch.setattr(plan_sources, "cuda_services", lambda: AtHand(DEVICE))
    cache.disk_cache.cache_clear()
    forget(monkeypatch)
    yield monkeypatch
    cache.disk_cache.cache_clear()


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a new process would begin."""
    monkeypatch.setattr(plan_sources, "_known", {})


def winner(tmp_path: Path, code: str | None = None, device: str = DEVICE) -> str:
    """Ships a plan for the first launch that the model does not take, as if it had been measured; gives it."""
    source = Fixed()
    built = BuiltGraph(tiledsl.fuse(graph()), "sm_90", {}, plans=source)
    made = built.module("sm_90", {}).built
    step = made.schedule.steps[0]
    program = made.compiled[made.functions[step.program]].program
    assert isinstance(program, CudaProgram)
    question: PlanQuestion = next(one for one in source.asked if one.program == program.identity)
    sizes = dict(question.sizes)
    ranked = ranked_plans(program.module.entry, gpu_machine("sm_90"), sizes, question.alignment, laid=question.lying)
    picked = str(replace(first(built).variant.plan, chained=False))
    plan = next(one.plan for one in ranked if str(one.plan) != picked)
    digest = code_digest(program.variant([plan])) if code is None else code
    found = Search(
        replace(question, device=device), "s", "two_launches", picked, str(plan), True, 9, 1.0,
        Ratio(0.8, 0.79, 0.81, 200), digest, {}, "2026-01-01",
    )  # fmt: skip
    write_file(tmp_path / "shipped", tmp_path / "shipped" / file_name(device), [found])
    return str(plan)


def unwanted(*_: object) -> None:
    """Takes the place of what must not be called."""
    pytest.fail("it is asked, or read")


def plan_of(built: BuiltGraph) -> str:
    return str(replace(first(built).variant.plan, chained=False))


def test_a_build_takes_what_ships_for_the_device_at_hand(tmp_path: Path) -> None:
    plan = winner(tmp_path)
    built = tiledsl.fuse(graph()).build("sm_90")
    assert plan_of(built) == plan
    assert first(built).origin == f"measured on {DEVICE}, 1.250 times as fast as the model's plan; ships with tiledsl"
    assert "plan is measured on Fake, 132 multiprocessors, 1.250 times" in " ".join(built.explain().split())
    assert first(built).variant.plan.chained, "it is one of several launches"


def test_a_saved_module_says_where_its_plans_are_from(tmp_path: Path) -> None:
    winner(tmp_path)
    built = tiledsl.fuse(graph()).build("sm_90")
    built.save(str(tmp_path / "saved"))
    assert "ships with tiledsl" in " ".join(tiledsl.load(tmp_path / "saved").explain().split())


def test_switched_off(machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plan = winner(tmp_path)
    machine.setenv("TILEDSL_TUNING", "off")
    built = tiledsl.fuse(graph()).build("sm_90")
    assert plan_of(built) != plan
    assert first(built).origin == ""


@pytest.mark.parametrize("here", [(), ("Another, 132 multiprocessors",), (DEVICE, "Another, 132 multiprocessors")])
def test_no_device_or_another_has_no_answer(here: tuple[str, ...], machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plan = winner(tmp_path)
    machine.setattr(plan_sources, "cuda_services", lambda: AtHand(*here))
    assert plan_of(tiledsl.fuse(graph()).build("sm_90")) != plan
    named = tiledsl.fuse(graph()).build("sm_90", device="Fake")
    assert plan_of(named) == plan, "the user knows where it will run"


def test_a_device_that_nobody_has_measured(tmp_path: Path) -> None:
    winner(tmp_path)
    with pytest.raises(TileRuntimeError, match=r"nothing was measured on a device `Fakes`.*\n.*\n?") as raised:
        tiledsl.fuse(graph()).build("sm_90", device="Fakes")
    assert f"`{DEVICE}`" in str(raised.value)


def test_other_code_than_was_measured_is_refused_and_said(tmp_path: Path) -> None:
    """Also in a launch that is one of several, whose own code nobody has measured; and by a warm build."""
    plan = winner(tmp_path, code="0" * 40)
    for _ in range(2):
        built = tiledsl.fuse(graph()).build("sm_90")
        assert plan_of(built) != plan
        said = " ".join(built.explain().split())
        assert "plan is the model's; the plan (" in said
        assert "is not used: its code is another one than that which was measured" in said


def test_a_warm_build_asks_nothing_and_reads_no_program(machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plan = winner(tmp_path)
    tiledsl.fuse(graph()).build("sm_90")
    forget(machine)
    for owner, name in ((parser, "parse_module"), (DatabasePlans, "plan_for"), (Database, "refresh")):
        machine.setattr(owner, name, unwanted)
    assert plan_of(tiledsl.fuse(graph()).build("sm_90")) == plan


def test_another_file_is_asked_anew(machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plan = winner(tmp_path)
    assert plan_of(tiledsl.fuse(graph()).build("sm_90")) == plan
    for file in (tmp_path / "shipped").iterdir():
        file.write_bytes(b"")
    forget(machine)
    assert plan_of(tiledsl.fuse(graph()).build("sm_90")) != plan


def test_questions_of_programs_from_the_disk_read_none(machine: pytest.MonkeyPatch) -> None:
    built = tiledsl.fuse(graph()).build("sm_90")
    (module,) = built.modules
    program = module.built.compiled[0].program
    assert isinstance(program, CudaProgram)
    machine.setattr(parser, "parse_module", unwanted)
    assert CudaProgram.from_bytes(program.to_bytes()).identity == program.identity


def test_devices_at_hand_need_no_context() -> None:
    with fake_driver(devices=2) as driver:
        assert CudaServices().at_hand("sm_90") == ["Fake, 132 multiprocessors"]
        assert CudaServices().at_hand("sm_80") == []
        assert "cuDevicePrimaryCtxRetain" not in driver.calls
    with fake_driver(devices=0):
        assert CudaServices().at_hand("sm_90") == []
    with fake_driver(capability=(7, 5)):
        assert CudaServices().at_hand("sm_90") == [], "code is made for none like it"


def test_without_a_driver_there_is_no_device(machine: pytest.MonkeyPatch) -> None:
    def none() -> Any:
        fail("cuda-no-driver", None, reason="there is none")

    machine.setattr(devices, "device_count", none)
    assert CudaServices().at_hand("sm_90") == []


def test_a_kept_choice_that_cannot_be_read_is_made_anew(machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plan = winner(tmp_path)
    tiledsl.fuse(graph()).build("sm_90")
    plain = cache.DiskCache.get

    def damaged(self: cache.DiskCache, name: str) -> bytes | None:
        found = plain(self, name)
        return b"{}" if found is not None and b'"origin"' in found and b"cubin" not in found else found

    machine.setattr(cache.DiskCache, "get", damaged)
    assert plan_of(tiledsl.fuse(graph()).build("sm_90")) == plan
