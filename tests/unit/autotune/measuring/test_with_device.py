"""Processes that begin to work with a device while they import what they need."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.fakes.tuning_faults import Faulty
from tiledsl.autotune.measuring import with_device, worker
from tiledsl.autotune.measuring.child import Children
from tiledsl.autotune.measuring.host import HostRunner, Limits
from tiledsl.autotune.measuring.staff import Staff

SCRIPT = str(Path(with_device.__file__).resolve())


@pytest.mark.parametrize("imports", [(Faulty.__module__,), ("tiledsl.no_such_module",)])
def test_they_do_what_others_do_without_a_device_too(imports: tuple[str, ...]) -> None:
    with Children() as children:
        children.starts = (SCRIPT, "0", worker.__name__, *imports)
        runner = HostRunner(Faulty(), children, Limits(prepare=60, check=5, rounds=5))
        assert runner.check("good").state == "ok"
        assert runner.check("crashes").state == "crash"
        assert runner.check("good").state == "ok"
        runner.close()


def test_the_driver_is_started_beside_what_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, object]] = []
    begun = threading.Event()
    driver, package = ModuleType("cuda.bindings.driver"), ModuleType("cuda")

    def init(flags: int) -> None:
        asked.append(("init", flags))

    def device_of(number: int) -> tuple[int, str]:
        return 0, f"device {number}"

    def retain(device: object) -> None:
        asked.append(("retain", device))
        begun.set()

    def end() -> None:
        asked.append(("main", begun.wait(10)))

    runs = ModuleType("runs")
    driver.__dict__.update(cuInit=init, cuDeviceGet=device_of, cuDevicePrimaryCtxRetain=retain)
    runs.__dict__.update(main=end)
    for name, module in {
        "cuda": package, "cuda.bindings": ModuleType("cuda.bindings"), "cuda.bindings.driver": driver, "runs": runs,
    }.items():  # fmt: skip
        monkeypatch.setitem(sys.modules, name, module)
    with_device.main("3", "runs", [])
    assert asked == [("init", 0), ("retain", "device 3"), ("main", True)]


def test_staff_begins_with_the_device_that_is_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ready", "begin"):
        monkeypatch.setattr(Children, name, _nothing)
    with Staff() as staff:
        staff.begin(2)
        assert list(staff.with_gpu.starts[:3]) == [SCRIPT, "2", worker.__name__]


def _nothing(children: Children, *_: object) -> None:
    del children
